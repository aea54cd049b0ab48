//go:build synctests

package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// Bubble tests of the shell: real kgo, a broker that is not ours (kfake, as a
// second opinion), full durations in virtual time. They assert bounds, never
// exact traces.

// world is a network with a broker on it.
type world struct {
	t    *testing.T
	net  *memnet.Net
	addr []string
}

func newWorld(t *testing.T, partitions int32) *world {
	n := memnet.New(time.Millisecond)
	c, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.SeedTopics(partitions, "in"), kfake.ListenFn(n.Listen), kfake.SleepOutOfOrder(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {})
	w := &world{t: t, net: n, addr: c.ListenAddrs()}
	t.Cleanup(c.Close)
	return w
}

// app is a small application around a member: it does what it is told about
// its lease and writes it down.
type app struct {
	*member.Member
	name  string
	start time.Time
	drain time.Duration // how long a revocation takes
	quit  chan struct{}

	mu    sync.Mutex
	owned []member.TopicPartition
	log   []string
	seen  []member.Event
}

func (w *world) join(name string, change func(*member.Config)) *app {
	w.t.Helper()
	cfg := member.Config{Bootstrap: w.addr, Dial: w.net.Dialer(name), Group: "g", ClientID: name, Topics: []string{"in"}}
	if change != nil {
		change(&cfg)
	}
	m, err := member.Start(context.Background(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &app{Member: m, name: name, start: time.Now(), quit: make(chan struct{})}
	go a.run()
	return a
}

func (a *app) run() {
	defer close(a.quit)
	for e := range a.Events() {
		a.mu.Lock()
		a.seen = append(a.seen, e)
		a.log = append(a.log, fmt.Sprintf("%s %T %+v", time.Since(a.start), e, e))
		switch e := e.(type) {
		case member.Assigned:
			a.owned = slices.Clone(e.Owned)
		case member.Revoke:
			time.AfterFunc(a.drain, func() {
				a.mu.Lock()
				a.owned = slices.DeleteFunc(a.owned, func(p member.TopicPartition) bool { return slices.Contains(e.Partitions, p) })
				a.mu.Unlock()
				e.Done()
			})
		case member.Lost:
			a.owned = slices.DeleteFunc(a.owned, func(p member.TopicPartition) bool { return slices.Contains(e.Partitions, p) })
		}
		a.mu.Unlock()
	}
}

func (a *app) has() []member.TopicPartition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.owned)
}

// events counts the events of one type.
func events[E member.Event](a *app) (out []E) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.seen {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

func (a *app) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a.Close(ctx, "")
	<-a.quit
}

// eventually waits, in virtual time, until f holds.
func eventually(t *testing.T, within time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !f(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", within, what)
		}
	}
}

func in(n int) (out []member.TopicPartition) {
	for i := range n {
		out = append(out, member.TopicPartition{Topic: "in", Partition: int32(i)})
	}
	return out
}

// A member joins, commits, reads its commits back and leaves.
func TestJoinCommitLeave(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 4)
		a := w.join("a", nil)
		eventually(t, 10*time.Second, "a owns all", func() bool { return len(a.has()) == 4 })
		ctx := context.Background()
		want := map[member.TopicPartition]member.Offset{
			{Topic: "in", Partition: 1}: {At: 7, LeaderEpoch: -1, Metadata: "m"},
		}
		if err := a.Commit(ctx, want); err != nil {
			t.Fatal(err)
		}
		got, err := a.Committed(ctx, in(4))
		if err != nil {
			t.Fatal(err)
		}
		if o := got[member.TopicPartition{Topic: "in", Partition: 1}]; len(got) != 1 || o.At != 7 || o.Metadata != "m" {
			t.Errorf("committed: %v", got)
		}
		time.Sleep(10 * time.Minute)
		if n := len(events[member.Assigned](a)); n != 1 {
			t.Errorf("%d generations in ten quiet minutes, want 1", n)
		}
		c := a.Clocks()
		if c.State != member.Stable || c.SessionLeft < 41*time.Second || c.SessionLeft > 45*time.Second || c.PollLeft != 5*time.Minute {
			t.Errorf("clocks: %+v", c)
		}
		a.leave()
		if err := a.Commit(ctx, want); !errors.Is(err, member.ErrFenced) {
			t.Errorf("commit after leaving: %v", err)
		}
		synctest.Wait()
	})
}
