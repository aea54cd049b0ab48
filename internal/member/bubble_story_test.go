//go:build synctests

package member_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// Two busy members with calls of 100 s, poll clocks of 180 s, a third joins
// (recorded run j5, where Kafka Streams loses a lease for certain): nobody
// loses anything, nobody's commits are refused, the third has its share within
// seconds.
func TestNewcomerWithTwoBusyMembers(t *testing.T) {
	everywhere(t, 6, func(t *testing.T, w *world) {
		poll := func(c *member.Config) { c.MaxPollInterval = 180 * time.Second }
		a, b := w.join("a", poll), w.join("b", poll)
		eventually(t, 30*time.Second, "both own three", func() bool { return len(a.has()) == 3 && len(b.has()) == 3 })
		call := func(x *app) chan error {
			done := make(chan error, 1)
			// The first partition is the one that stays.
			p := x.has()[0]
			ctx, ticket := x.Begin(member.Work{Topic: p.Topic, Partition: p.Partition, Offset: 1, Name: "call"})
			time.AfterFunc(100*time.Second, func() {
				x.End(ticket)
				err := context.Cause(ctx)
				if slices.Contains(x.has(), p) {
					err = x.Commit(context.Background(), map[member.TopicPartition]member.Offset{p: {At: 2, LeaderEpoch: -1}})
				}
				done <- err
			})
			return done
		}
		first := call(a)
		time.Sleep(30 * time.Second)
		second := call(b)
		time.Sleep(10 * time.Second)
		c := w.join("c", poll)
		eventually(t, 10*time.Second, "c owns two", func() bool { return len(c.has()) == 2 })
		holds(t, 6, a, b, c)
		for _, done := range []chan error{first, second} {
			if err := <-done; err != nil {
				t.Errorf("call or its commit: %v", err)
			}
		}
		for _, x := range []*app{a, b, c} {
			if n := len(events[member.Lost](x)) + len(events[member.Evicted](x)); n != 0 {
				t.Errorf("%s lost its lease: %v", x.name, x.log)
			}
			x.leave()
		}
	})
}

// The broker is away for a minute, longer than the session, and comes back with
// its data: everybody says Lost, and everybody has the same partitions again
// in the same generation.
func TestBrokerRestart(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newRondo(t, 4)
		a, b := w.join("a", nil), w.join("b", nil)
		eventually(t, 30*time.Second, "both own two", func() bool { return len(a.has()) == 2 && len(b.has()) == 2 })
		time.Sleep(10 * time.Second)
		generation := a.Clocks().Generation
		had := a.has()
		offsets := map[member.TopicPartition]member.Offset{had[0]: {At: 3, LeaderEpoch: -1}}
		if err := a.Commit(context.Background(), offsets); err != nil {
			t.Fatal(err)
		}
		w.stop()
		eventually(t, time.Minute, "leases are lost", func() bool { return len(a.has())+len(b.has()) == 0 })
		if err := a.Commit(context.Background(), offsets); !errors.Is(err, member.ErrFenced) {
			t.Errorf("commit without a lease: %v", err)
		}
		time.Sleep(15 * time.Second)
		w.start()
		eventually(t, 15*time.Second, "leases are back", func() bool { return slices.Equal(a.has(), had) && len(b.has()) == 2 })
		if g := a.Clocks().Generation; g != generation {
			t.Errorf("generation %d, was %d", g, generation)
		}
		got, err := a.Committed(context.Background(), in(4))
		if err != nil || got[had[0]].At != 3 {
			t.Errorf("committed %v, %v", got, err)
		}
		a.leave()
		b.leave()
	})
}

// busyThread is a stream thread: polls of at most 100 ms, calls of the given
// length between them. It counts its refused commits.
func (a *app) busyThread(call time.Duration, stop <-chan struct{}) (refused func() int, done chan struct{}) {
	done = make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			until := time.Now().Add(100 * time.Millisecond)
			for time.Now().Before(until) {
				ctx, cancel := context.WithDeadline(context.Background(), until)
				a.Poll(ctx)
				cancel()
				if a.Clocks().State == member.Stable && len(a.has()) > 0 && call > 0 {
					break
				}
				time.Sleep(time.Millisecond) // the reader of Events drains meanwhile
			}
			if own := a.has(); len(own) > 0 && call > 0 {
				time.Sleep(call)
				if a.Commit(context.Background(), map[member.TopicPartition]member.Offset{own[0]: {At: 1, LeaderEpoch: -1}}) != nil {
					n++
				}
			}
		}
	}()
	return func() int { return n }, done
}

// A newcomer beside a member that behaves as the Java client (recorded run
// j1b): it waits for the end of the call, and nobody is evicted.
func TestInPollNewcomer(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, w *world) {
		poll := func(c *member.Config) { c.InPoll = true }
		stop := make(chan struct{})
		a := w.join("a", poll)
		refused, doneA := a.busyThread(120*time.Second, stop)
		time.Sleep(45 * time.Second)
		b := w.join("b", poll)
		_, doneB := b.busyThread(0, stop)
		eventually(t, 200*time.Second, "b owns one", func() bool { return len(b.has()) == 1 })
		if wait := time.Since(b.start); wait < 70*time.Second {
			t.Errorf("newcomer was served after %s: in the middle of the call", wait)
		}
		close(stop)
		<-doneA
		<-doneB
		if n := refused() + len(events[member.Lost](a)); n != 0 {
			t.Errorf("%d losses and refusals: %v", n, a.log)
		}
		a.leave()
		b.leave()
	})
}

// The poll clock of the Java client: the thread is not interrupted, the member
// leaves, and the thread learns of it at its commit and at its next poll.
func TestInPollEviction(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newRondo(t, 1)
		a := w.join("a", func(c *member.Config) { c.InPoll, c.MaxPollInterval = true, 30*time.Second })
		stop := make(chan struct{})
		refused, done := a.busyThread(36*time.Second, stop)
		time.Sleep(100 * time.Second)
		close(stop)
		<-done
		if n := len(events[member.Evicted](a)); n < 2 || refused() < 2 {
			t.Errorf("%d evictions, %d refused commits in 100 s of calls of 36 s: %v", n, refused(), a.log)
		}
		a.leave()
	})
}

// leader is a hand-made member that leads the group and takes its time.
type leader struct {
	w  *world
	id string
}

func (l *leader) join(ctx context.Context, send func(context.Context, kmsg.Request) (kmsg.Response, error)) *kmsg.JoinGroupResponse {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = "g", l.id, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 45000, 300000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = member.Sticky{}.Name()
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{"in"}
		p.Metadata = meta.AppendTo(nil)
		req.Protocols = append(req.Protocols, p)
		r, err := send(ctx, req)
		if err != nil {
			l.w.t.Error(err)
			return nil
		}
		resp := r.(*kmsg.JoinGroupResponse)
		l.id = resp.MemberID
		if resp.ErrorCode == 0 {
			return resp
		}
	}
}

func (l *leader) sync(ctx context.Context, send func(context.Context, kmsg.Request) (kmsg.Response, error), join *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", l.id, join.Generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr(member.Sticky{}.Name())
	for _, m := range join.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = m.MemberID
		if m.MemberID != l.id {
			as := kmsg.NewConsumerMemberAssignment()
			as.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "in", Partitions: []int32{1}}}
			a.MemberAssignment = as.AppendTo(nil)
		}
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := send(ctx, req)
	if err != nil || resp.(*kmsg.SyncGroupResponse).ErrorCode != 0 {
		l.w.t.Errorf("sync of the leader: %+v, %v", resp, err)
	}
}

// Between the end of a join and the leader's sync the coordinator refuses
// commits. The member waits that out, as long as its caller does.
func TestCommitWaitsForSync(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, w *world) {
		cl := w.client("leader")
		defer cl.Close()
		send := func(ctx context.Context, r kmsg.Request) (kmsg.Response, error) { return cl.Request(ctx, r) }
		ctx := context.Background()
		l := &leader{w: w}
		l.sync(ctx, send, l.join(ctx, send))
		a := w.join("a", nil)
		time.Sleep(time.Second) // a waits for the leader
		l.sync(ctx, send, l.join(ctx, send))
		eventually(t, 10*time.Second, "a owns one", func() bool { return len(a.has()) == 1 })
		joined := l.join(ctx, send) // the leader opens a rebalance, and then it dawdles
		time.Sleep(time.Second)
		if s := a.Clocks().State; s != member.Syncing {
			t.Fatalf("a is %s", s)
		}
		offsets := map[member.TopicPartition]member.Offset{{Topic: "in", Partition: 1}: {At: 5, LeaderEpoch: -1}}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := a.Commit(short, offsets); !errors.Is(err, member.ErrRebalancing) {
			t.Errorf("commit of an impatient caller: %v", err)
		}
		time.AfterFunc(10*time.Second, func() { l.sync(ctx, send, joined) })
		began := time.Now()
		if err := a.Commit(ctx, offsets); err != nil {
			t.Errorf("commit of a patient caller: %v", err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("commit took %s, the leader took 10s", took)
		}
		a.leave()
	})
}

// Members come and go for twenty minutes over a network that loses them now and
// then. Whoever has a partition when it is quiet has it alone.
func TestChurn(t *testing.T) {
	everywhere(t, 12, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(7, 7))
		var apps []*app
		for i := range 60 {
			switch {
			case len(apps) < 2 || len(apps) < 6 && rng.IntN(3) == 0:
				a := w.join(fmt.Sprintf("m%d", i), nil)
				a.mu.Lock()
				a.drain = time.Duration(rng.IntN(5)) * time.Second
				a.mu.Unlock()
				apps = append(apps, a)
			case rng.IntN(3) == 0:
				k := rng.IntN(len(apps))
				apps[k].leave()
				apps = slices.Delete(apps, k, k+1)
			case rng.IntN(2) == 0:
				w.net.Cut(apps[rng.IntN(len(apps))].name)
			default:
				for _, a := range apps {
					w.net.Heal(a.name)
				}
			}
			time.Sleep(time.Duration(rng.IntN(40)) * time.Second)
		}
		for _, a := range apps {
			w.net.Heal(a.name)
		}
		time.Sleep(3 * time.Minute)
		holds(t, 12, apps...)
		for _, a := range apps {
			a.leave()
		}
	})
}
