//go:build synctests

package member_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// Bubble tests of the shell: real kgo and a real broker at full durations in
// virtual time. Each runs against our broker and against kfake, as a second
// opinion. They assert bounds, never exact traces.

// world is a network with a broker on it.
type world struct {
	t    *testing.T
	net  *memnet.Net
	addr []string
	ours *broker.Broker // nil: kfake
	conf broker.Config
	fake *kfake.Cluster // nil: ours
}

// everywhere runs a story in a bubble of its own on each kind of broker.
func everywhere(t *testing.T, partitions int32, story func(*testing.T, *world)) {
	t.Run("rondo", func(t *testing.T) {
		memnet.Bubble(t, func(t *testing.T) { story(t, newRondo(t, partitions)) })
	})
	t.Run("kfake", func(t *testing.T) {
		memnet.Bubble(t, func(t *testing.T) { story(t, newKfake(t, partitions)) })
	})
}

func newKfake(t *testing.T, partitions int32) *world {
	n := memnet.New(time.Millisecond)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "in"), kfake.ListenFn(n.Listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &world{t: t, net: n, addr: c.ListenAddrs(), fake: c}
}

func newRondo(t *testing.T, partitions int32) *world {
	n := memnet.New(time.Millisecond)
	w := &world{t: t, net: n, conf: broker.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:9092", ListenFunc: n.Listen, Logger: slog.New(slog.DiscardHandler),
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"},
	}}
	w.start()
	t.Cleanup(w.stop)
	cl := w.client("setup")
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "in", partitions, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create topic: %+v, %v", resp, err)
	}
	return w
}

// start and stop run our broker; its data stays.
func (w *world) start() {
	b, err := broker.Start(context.Background(), w.conf)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ours, w.addr = b, []string{b.Addr()}
}

func (w *world) stop() {
	if err := w.ours.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) client(name string) *kgo.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addr...), kgo.Dialer(w.net.Dialer(name)), kgo.DisableClientMetrics())
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
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
			t.Errorf("after %s still not: %s", within, what)
			return
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
	everywhere(t, 4, func(t *testing.T, w *world) {
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
	})
}

// holds checks that the apps own all n partitions, none twice.
func holds(t *testing.T, n int, apps ...*app) {
	t.Helper()
	var all []member.TopicPartition
	for _, a := range apps {
		all = append(all, a.has()...)
	}
	slices.SortFunc(all, func(x, y member.TopicPartition) int { return int(x.Partition - y.Partition) })
	if !slices.Equal(all, in(n)) {
		t.Errorf("owned: %v, want each of %d once", all, n)
	}
}

// A newcomer joins while the only member is 30 s into a call of 120 s: nobody
// loses the lease, commits go on, the newcomer has its share within seconds,
// and the call, whose partition stays, is not disturbed (recorded run j1 is
// what Kafka Streams does there).
func TestNewcomerDuringLongCall(t *testing.T) {
	everywhere(t, 4, func(t *testing.T, w *world) {
		a := w.join("a", nil)
		eventually(t, 10*time.Second, "a owns all", func() bool { return len(a.has()) == 4 })
		ctx, ticket := a.Begin(member.Work{Topic: "in", Partition: 0, Offset: 5, Name: "call model"})
		began := time.Now()
		time.Sleep(30 * time.Second)
		a.drain = 100 * time.Millisecond
		b := w.join("b", nil)
		eventually(t, 10*time.Second, "b owns two", func() bool { return len(b.has()) == 2 })
		t.Logf("newcomer served after %s", time.Since(b.start))
		holds(t, 4, a, b)
		for time.Since(began) < 120*time.Second {
			commit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			if err := a.Commit(commit, map[member.TopicPartition]member.Offset{{Topic: "in", Partition: 1}: {At: 1}}); err != nil {
				t.Errorf("commit %s into the call: %v", time.Since(began), err)
			}
			cancel()
			time.Sleep(time.Second)
		}
		if err := ctx.Err(); err != nil {
			t.Errorf("call was cancelled: %v", context.Cause(ctx))
		}
		a.End(ticket)
		if n := len(events[member.Lost](a)) + len(events[member.Lost](b)); n != 0 {
			t.Errorf("%d losses, want none: %v", n, a.log)
		}
		a.leave()
		b.leave()
	})
}

// A call that never returns is cut at max.poll.interval.ms and named; the
// partitions go to the other member, and the evicted one rejoins at once.
func TestPollClockCutsHungCall(t *testing.T) {
	everywhere(t, 4, func(t *testing.T, w *world) {
		a, b := w.join("a", nil), w.join("b", nil)
		eventually(t, 30*time.Second, "both own two", func() bool { return len(a.has()) == 2 && len(b.has()) == 2 })
		mine := a.has()[0]
		work := member.Work{Topic: "in", Partition: mine.Partition, Offset: 41, Name: "call model"}
		ctx, ticket := a.Begin(work)
		_, other := a.Begin(member.Work{Topic: "in", Partition: mine.Partition, Offset: 42, Name: "call model"})
		a.End(other)
		began := time.Now()
		<-ctx.Done()
		if age := time.Since(began); age != 5*time.Minute {
			t.Errorf("cut after %s, want 5m", age)
		}
		var clock *member.PollClockError
		if !errors.As(context.Cause(ctx), &clock) || clock.Work != work {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		eventually(t, 10*time.Second, "eviction and rejoin", func() bool {
			return len(events[member.Evicted](a)) == 1 && len(a.has()) == 2 && len(b.has()) == 2
		})
		if e := events[member.Evicted](a)[0]; e.Work != work || e.Times != 1 {
			t.Errorf("evicted: %+v", e)
		}
		a.End(ticket) // late, and harmless
		holds(t, 4, a, b)
		a.leave()
		b.leave()
	})
}

// The link of one member is cut: it says Lost when its session has run out by
// its own account, never later than the coordinator gives the partitions away;
// healed, it comes back.
func TestCutLinkLosesSession(t *testing.T) {
	everywhere(t, 4, func(t *testing.T, w *world) {
		a, b := w.join("a", nil), w.join("b", nil)
		eventually(t, 30*time.Second, "both own two", func() bool { return len(a.has()) == 2 && len(b.has()) == 2 })
		time.Sleep(time.Minute)
		w.net.Cut("a")
		cut := time.Now()
		eventually(t, time.Minute, "a lost its lease", func() bool { return len(a.has()) == 0 })
		lost := time.Since(cut)
		if !errors.Is(events[member.Lost](a)[0].Cause, member.ErrSessionClock) || lost < 41*time.Second || lost > 46*time.Second {
			t.Errorf("lost after %s because %v", lost, events[member.Lost](a)[0].Cause)
		}
		eventually(t, time.Minute, "b owns all", func() bool { return len(b.has()) == 4 })
		if taken := time.Since(cut); taken < lost-200*time.Millisecond {
			t.Errorf("b owned all after %s, a let go only after %s", taken, lost)
		}
		w.net.Heal("a")
		eventually(t, time.Minute, "a is back", func() bool { return len(a.has()) == 2 })
		holds(t, 4, a, b)
		a.leave()
		b.leave()
	})
}

// Under the eager protocol everything is revoked before each join.
func TestEager(t *testing.T) {
	everywhere(t, 4, func(t *testing.T, w *world) {
		eager := func(c *member.Config) { c.Eager = true }
		a := w.join("a", eager)
		eventually(t, 10*time.Second, "a owns all", func() bool { return len(a.has()) == 4 })
		a.drain = 2 * time.Second
		b := w.join("b", eager)
		eventually(t, 20*time.Second, "both own two", func() bool { return len(a.has()) == 2 && len(b.has()) == 2 })
		holds(t, 4, a, b)
		if r := events[member.Revoke](a); len(r) != 1 || len(r[0].Partitions) != 4 {
			t.Errorf("revocations: %+v", r)
		}
		a.leave()
		b.leave()
	})
}

// A static member that restarts within its session moves nothing.
func TestStaticRestart(t *testing.T) {
	everywhere(t, 4, func(t *testing.T, w *world) {
		static := func(id string) func(*member.Config) {
			return func(c *member.Config) { c.InstanceID = id }
		}
		a, b := w.join("a", static("a")), w.join("b", static("b"))
		eventually(t, 30*time.Second, "both own two", func() bool { return len(a.has()) == 2 && len(b.has()) == 2 })
		before, generations := b.has(), len(events[member.Assigned](a))
		b.leave()
		time.Sleep(20 * time.Second)
		b = w.join("b2", static("b"))
		eventually(t, 10*time.Second, "b has its share again", func() bool { return slices.Equal(b.has(), before) })
		time.Sleep(time.Minute)
		holds(t, 4, a, b)
		// kfake has no SkipAssignment (KIP-814) and rebalances.
		if n := len(events[member.Assigned](a)); n != generations && w.ours != nil {
			t.Errorf("a saw %d generations, want %d: %s", n, generations, a.log)
		}
		a.leave()
		b.leave()
	})
}
