package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors of Commit.
var (
	// ErrFenced says that the lease under which the records were read is gone:
	// another member may own the partitions. The work must not be committed.
	ErrFenced = errors.New("lease is gone: the partitions may have another owner")
	// ErrRebalancing says that the group was between two generations for as
	// long as the caller was willing to wait. The lease may still be held; try
	// again.
	ErrRebalancing = errors.New("group is rebalancing")
)

// commitBackoff is retry.backoff.ms.
const commitBackoff = 100 * time.Millisecond

// Commit commits offsets (the next offset to read) under the current
// generation. It is allowed whenever the lease is held, also during a
// rebalance. Between the end of a join and its sync the coordinator refuses
// commits: then Commit waits, until ctx ends (ErrRebalancing). ErrFenced: the
// lease is gone, or never covered one of the partitions. InPoll members do not
// wait: from a join until Poll has applied the assignment they get
// ErrRebalancing at once, as Kafka Streams does.
func (m *Member) Commit(ctx context.Context, offsets map[TopicPartition]Offset) error {
	var last error
	for {
		now := m.current()
		if !now.Held {
			return m.commitError(ErrFenced, last)
		}
		for p := range offsets {
			if _, ok := slices.BinarySearchFunc(now.Owned, p, comparePartitions); !ok {
				return m.commitError(fmt.Errorf("%s: %w", p, ErrFenced), last)
			}
		}
		if now.Unsettled {
			return m.commitError(ErrRebalancing, last)
		}
		if len(offsets) == 0 {
			return nil
		}
		if now.State != Syncing {
			again, err := m.commitOnce(ctx, now, offsets)
			if !again {
				return m.commitError(err, nil)
			}
			last = err
		} else {
			last = kerr.RebalanceInProgress
		}
		if err := m.awaitChange(ctx, now, last); err != nil {
			return m.commitError(err, last)
		}
	}
}

func (m *Member) commitError(err, last error) error {
	switch {
	case err == nil:
		return nil
	case last != nil && !errors.Is(err, last):
		return fmt.Errorf("commit offsets of group %q: %w (last answer: %v)", m.cfg.Group, err, last)
	}
	return fmt.Errorf("commit offsets of group %q: %w", m.cfg.Group, err)
}

// awaitChange waits until it is worth trying again.
func (m *Member) awaitChange(ctx context.Context, now snapshot, last error) error {
	var retry <-chan time.Time
	if now.State != Syncing {
		t := time.NewTimer(commitBackoff)
		defer t.Stop()
		retry = t.C
	}
	select {
	case <-now.changed:
		if retry != nil && !rebalanceAnswer(last) {
			// A change of state does not bring a coordinator back.
			select {
			case <-retry:
			case <-ctx.Done():
			}
		}
		return nil
	case <-retry:
		return nil
	case <-m.ended:
		return ErrFenced
	case <-ctx.Done():
		if rebalanceAnswer(last) {
			return fmt.Errorf("%w (%w)", ErrRebalancing, context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
}

func rebalanceAnswer(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration)
}

// commitOnce sends one OffsetCommit. again says that the same commit may
// succeed later.
func (m *Member) commitOnce(ctx context.Context, now snapshot, offsets map[TopicPartition]Offset) (again bool, err error) {
	resp, err := commitRequest(m.cfg.Group, now.Membership, offsets).RequestWith(ctx, m.client)
	if err != nil {
		return ctx.Err() == nil && m.ctx.Err() == nil, err
	}
	code, at := worstCode(resp)
	if code == 0 {
		return false, nil
	}
	err = fmt.Errorf("%s: %w", at, kerr.ErrorForCode(code))
	refused := Refused{Code: code, MemberID: now.MemberID, Generation: now.Generation}
	switch {
	case errors.Is(err, kerr.RebalanceInProgress):
		m.post(refused)
		if m.cfg.InPoll {
			return false, fmt.Errorf("%w: %w", ErrRebalancing, err)
		}
		return true, err
	case errors.Is(err, kerr.IllegalGeneration):
		// The generation may have moved on between our reading it and the
		// coordinator's: as long as the partitions stay ours, what we commit is
		// still true, and goes out under the new one.
		if s := m.current(); s.Held && (s.Generation != now.Generation || s.State == Joining || s.State == Syncing) {
			return true, err
		}
		m.post(refused)
		return false, fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
		m.post(refused)
		return false, fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return false, fmt.Errorf("%w: the topic was deleted, or this principal may not see it", err)
	}
	return retriable(err), err
}

func commitRequest(group string, ms Membership, offsets map[TopicPartition]Offset) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	req.Generation = ms.Generation
	req.MemberID = ms.MemberID
	if ms.InstanceID != "" {
		req.InstanceID = kmsg.StringPtr(ms.InstanceID)
	}
	parts := make([]TopicPartition, 0, len(offsets))
	for p := range offsets {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, comparePartitions)
	for _, p := range parts {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		o := kmsg.NewOffsetCommitRequestTopicPartition()
		o.Partition = p.Partition
		o.Offset = offsets[p].At
		o.LeaderEpoch = offsets[p].LeaderEpoch
		o.Metadata = kmsg.StringPtr(offsets[p].Metadata)
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, o)
	}
	return req
}

// worstCode is the first error of an answer; errors of the group are the same
// for all partitions.
func worstCode(resp *kmsg.OffsetCommitResponse) (int16, TopicPartition) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return p.ErrorCode, TopicPartition{t.Topic, p.Partition}
			}
		}
	}
	return 0, TopicPartition{}
}

// Committed reads the committed offsets of partitions, waiting for pending
// transactions (RequireStable, KIP-447). Partitions without a commit are
// absent.
func (m *Member) Committed(ctx context.Context, parts []TopicPartition) (map[TopicPartition]Offset, error) {
	for {
		out, err := m.committedOnce(ctx, parts)
		if err == nil {
			return out, nil
		}
		var answer *kerr.Error
		if errors.As(err, &answer) && !retriable(answer) {
			return nil, fmt.Errorf("fetch offsets of group %q: %w", m.cfg.Group, err)
		}
		t := time.NewTimer(commitBackoff)
		select {
		case <-t.C:
		case <-m.ended:
			t.Stop()
			return nil, fmt.Errorf("fetch offsets of group %q: %w", m.cfg.Group, errStopped)
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("fetch offsets of group %q: %w (last answer: %v)", m.cfg.Group, context.Cause(ctx), err)
		}
	}
}

func (m *Member) committedOnce(ctx context.Context, parts []TopicPartition) (map[TopicPartition]Offset, error) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = m.cfg.Group
	for _, p := range sorted(parts) {
		if n := len(g.Topics); n == 0 || g.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic = p.Topic
			g.Topics = append(g.Topics, t)
		}
		t := &g.Topics[len(g.Topics)-1]
		t.Partitions = append(t.Partitions, p.Partition)
	}
	out := map[TopicPartition]Offset{}
	if len(g.Topics) == 0 {
		return out, nil // no topics at all would mean every topic
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				tp := TopicPartition{t.Topic, p.Partition}
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("%s: %w", tp, err)
				}
				if p.Offset < 0 {
					continue
				}
				o := Offset{At: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				out[tp] = o
			}
		}
	}
	return out, nil
}
