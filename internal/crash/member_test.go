package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A reader is a group's only member: it joins once, reads, commits, and
// remembers what it was told about its commits. Its membership is its own, for
// kgo's leaves a group as soon as it cannot reach it: this member goes on with
// its id and generation through every restart, and is refused only by a broker
// that has forgotten it.
type reader struct {
	client     *kgo.Client
	topicID    [16]byte
	group      string
	id         string
	generation int32

	mu        sync.Mutex
	tried     map[int32]int64
	committed map[int32]int64
}

// session is so long that no restart of the broker may cost the member its
// place: whatever does is a loss of what was acknowledged.
const session = 10 * time.Minute

func newReader(t *testing.T, addr string, topicID [16]byte) *reader {
	t.Helper()
	return &reader{
		topicID: topicID, group: group, tried: map[int32]int64{}, committed: map[int32]int64{},
		client: client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond)),
	}
}

// persist repeats f while the broker is away or loading.
func persist(ctx context.Context, f func() error) error {
	for {
		err := f()
		var refused *kerr.Error
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) && !refused.Retriable {
			return err
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// join becomes the group's first member and leader, and gives itself an
// assignment.
func (r *reader) join(ctx context.Context) error {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = r.group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(session.Milliseconds())
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	err := persist(ctx, func() error {
		resp, err := join.RequestWith(ctx, r.client)
		if err != nil {
			return err
		}
		if join.MemberID = resp.MemberID; resp.ErrorCode == kerr.MemberIDRequired.Code {
			return errors.New("again, with the member id")
		}
		r.id, r.generation = resp.MemberID, resp.Generation
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("join group %s: %w", r.group, err)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = r.group, r.id, r.generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: r.id, MemberAssignment: []byte("all of it")}}
	return persist(ctx, func() error {
		resp, err := sync.RequestWith(ctx, r.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// run reads and commits until ctx ends.
func (r *reader) run(ctx context.Context, l *ledger) {
	for ctx.Err() == nil {
		next := map[int32]int64{}
		r.client.PollRecords(ctx, 2000).EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				next[p.Partition] = p.Records[n-1].Offset + 1
			}
		})
		if len(next) == 0 {
			continue
		}
		r.mu.Lock()
		maps.Copy(r.tried, next)
		r.mu.Unlock()
		if err := r.commit(ctx, next); err != nil {
			if ctx.Err() == nil {
				l.problemf("group %s: generation %d, commit %v: %v", r.group, r.generation, next, err)
			}
			return
		}
		r.mu.Lock()
		maps.Copy(r.committed, next)
		r.mu.Unlock()
	}
}

// commit says which offsets were read, as often as it takes.
func (r *reader) commit(ctx context.Context, next map[int32]int64) error {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, r.topicID
	for partition, offset := range next {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = r.group, r.id, r.generation
	req.Topics = append(req.Topics, t)
	return persist(ctx, func() error {
		resp, err := req.RequestWith(ctx, r.client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// held says that the member still has its place, after all.
func (r *reader) held(ctx context.Context, t *testing.T) {
	t.Helper()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = r.group, r.id, r.generation
	err := persist(ctx, func() error {
		resp, err := beat.RequestWith(ctx, r.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		t.Errorf("group %s: heartbeat of generation %d: %v", r.group, r.generation, err)
	}
}

// check compares what the broker has with what the member was told before.
// Both are taken in that order, for the member goes on meanwhile.
func (r *reader) check(ctx context.Context, t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	r.held(ctx, t)
	r.mu.Lock()
	acknowledged := maps.Clone(r.committed)
	r.mu.Unlock()
	has, err := admin.FetchOffsets(ctx, r.group)
	if err != nil {
		t.Errorf("offsets of group %s: %v", r.group, err)
		return
	}
	for partition, offset := range acknowledged {
		got, ok := has.Lookup(topic, partition)
		r.mu.Lock()
		tried := r.tried[partition]
		r.mu.Unlock()
		switch {
		case !ok:
			t.Errorf("group %s, partition %d: the commit of %d was acknowledged and is gone", r.group, partition, offset)
		case got.At < offset:
			t.Errorf("group %s, partition %d: the commit of %d was acknowledged, %d is there", r.group, partition, offset, got.At)
		case got.At > tried:
			t.Errorf("group %s, partition %d: %d is committed, nobody committed more than %d", r.group, partition, got.At, tried)
		}
	}
}
