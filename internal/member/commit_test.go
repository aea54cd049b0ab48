//go:build synctests

package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// refuse makes the broker answer the next commit with a code.
func (w *world) refuse(code int16) {
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// Every answer to a commit: what is tried again, what ends the lease, and what
// is the caller's to mend.
func TestCommitAnswers(t *testing.T) {
	for _, c := range []struct {
		code   *kerr.Error
		err    error // nil: succeeds in the end
		lost   bool
		fatal  bool
		inPoll bool
	}{
		{code: kerr.NotCoordinator},
		{code: kerr.CoordinatorLoadInProgress},
		{code: kerr.UnknownServerError},
		{code: kerr.RebalanceInProgress},
		{code: kerr.RebalanceInProgress, inPoll: true, err: member.ErrRebalancing},
		{code: kerr.IllegalGeneration, err: member.ErrFenced, lost: true},
		{code: kerr.UnknownMemberID, err: member.ErrFenced, lost: true},
		{code: kerr.FencedInstanceID, err: member.ErrFenced, lost: true, fatal: true},
		{code: kerr.UnknownTopicOrPartition, err: kerr.UnknownTopicOrPartition},
		{code: kerr.OffsetMetadataTooLarge, err: kerr.OffsetMetadataTooLarge},
		{code: kerr.GroupAuthorizationFailed, err: kerr.GroupAuthorizationFailed},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			memnet.Bubble(t, func(t *testing.T) {
				w := newKfake(t, 1)
				a := w.join("a", func(cfg *member.Config) { cfg.InPoll = c.inPoll })
				stop := make(chan struct{})
				_, done := a.busyThread(0, stop)
				eventually(t, 10*time.Second, "a owns all", func() bool { return len(a.has()) == 1 })
				close(stop)
				<-done
				w.refuse(c.code.Code)
				err := a.Commit(context.Background(), map[member.TopicPartition]member.Offset{{Topic: "in", Partition: 0}: {At: 4, LeaderEpoch: -1}})
				if c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("commit: %v, want %v", err, c.err)
				}
				time.Sleep(time.Second)
				if lost := len(events[member.Lost](a)) > 0; lost != c.lost {
					t.Errorf("lost: %v", a.log)
				}
				if fatal := len(events[member.Fatal](a)) > 0; fatal != c.fatal {
					t.Errorf("fatal: %v", a.log)
				}
				a.leave()
			})
		})
	}
}

// A pending transaction is waited for (RequireStable, KIP-447); a group that may
// not be read is not.
func TestCommittedAnswers(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newKfake(t, 1)
		a := w.join("a", nil)
		eventually(t, 10*time.Second, "a owns all", func() bool { return len(a.has()) == 1 })
		code := kerr.UnstableOffsetCommit.Code
		asked := 0
		w.fake.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.fake.KeepControl()
			asked++
			req := r.(*kmsg.OffsetFetchRequest)
			if !req.RequireStable || len(req.Groups) != 1 || asked == 4 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group = req.Groups[0].Group
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = "in"
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.ErrorCode = code
			rt.Partitions = append(rt.Partitions, rp)
			g.Topics = append(g.Topics, rt)
			resp.Groups = append(resp.Groups, g)
			return resp, nil, true
		})
		got, err := a.Committed(context.Background(), in(1))
		if err != nil || len(got) != 0 || asked != 4 {
			t.Errorf("committed %v, %v after %d requests", got, err, asked)
		}
		code = kerr.TopicAuthorizationFailed.Code
		if _, err := a.Committed(context.Background(), in(1)); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("unauthorised: %v", err)
		}
		code = kerr.UnstableOffsetCommit.Code
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := a.Committed(ctx, in(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("for ever unstable: %v", err)
		}
		if got, err := a.Committed(context.Background(), nil); err != nil || len(got) != 0 {
			t.Errorf("nothing asked: %v, %v", got, err)
		}
		a.Rejoin("test")
		eventually(t, 5*time.Second, "a second generation", func() bool { return len(events[member.Assigned](a)) == 2 })
		a.leave()
	})
}

// Settings that cannot work are refused by their names.
func TestConfigErrors(t *testing.T) {
	good := func() member.Config {
		return member.Config{Bootstrap: []string{"127.0.0.1:1"}, Group: "g", Topics: []string{"in"}}
	}
	for name, spoil := range map[string]func(*member.Config){
		"bootstrap.servers":     func(c *member.Config) { c.Bootstrap = nil },
		"group.id":              func(c *member.Config) { c.Group = "" },
		"topics":                func(c *member.Config) { c.Topics = nil },
		"heartbeat.interval.ms": func(c *member.Config) { c.HeartbeatInterval = time.Minute },
		"max.poll.interval.ms":  func(c *member.Config) { c.MaxPollInterval = -1 },
		"metadata.max.age.ms":   func(c *member.Config) { c.MetadataMaxAge = -1 },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := member.Start(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An address where nobody answers is no mistake of the settings: the
	// member keeps trying until it is closed.
	memnet.Bubble(t, func(t *testing.T) {
		cfg := good()
		cfg.Dial = memnet.New(time.Millisecond).Dialer("a")
		m, err := member.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if s := m.Clocks().State; s != member.Joining {
			t.Errorf("state %s", s)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Close(ctx, "")
		if _, open := <-m.Events(); open {
			t.Error("events go on after Close")
		}
	})
}
