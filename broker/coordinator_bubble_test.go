//go:build synctests

package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// consumer is a franz-go group consumer in a bubble.
type consumer struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}
}

// bubble is a broker with its network, and what was consumed.
type bubble struct {
	t   *testing.T
	net *memnet.Net
	b   *Broker

	mu   sync.Mutex
	seen map[string]int
}

func newBubble(t *testing.T, properties map[string]string) *bubble {
	n := memnet.New(time.Millisecond)
	b, err := Start(context.Background(), Config{
		Dir: "data", FS: &journal.MemFS{}, Listen: "127.0.0.1:9092", ListenFunc: n.Listen,
		Properties: properties, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bubble{t: t, net: n, b: b, seen: map[string]int{}}
}

func (w *bubble) client(name string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.b.Addr()), kgo.Dialer(w.net.Dialer(name)), kgo.ClientID(name), kgo.DisableClientMetrics(),
	}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
}

// start starts a member of group g that commits what it has seen.
func (w *bubble) start(name string, opts ...kgo.Opt) *consumer {
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{stop: cancel, done: make(chan struct{})}
	c.cl = w.client(name, append([]kgo.Opt{
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.AutoCommitInterval(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	go func() {
		defer close(c.done)
		for {
			fetches := c.cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { w.seen[string(r.Value)]++ })
			w.mu.Unlock()
		}
	}()
	return c
}

// leave ends a member as Close does, with a LeaveGroup.
func (c *consumer) leave() {
	c.stop()
	<-c.done
	c.cl.Close()
}

func (w *bubble) produce(from, to int) {
	cl := w.client("producer", kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	for i := from; i < to; i++ {
		cl.Produce(context.Background(), &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				w.t.Errorf("produce: %v", err)
			}
		})
	}
	if err := cl.Flush(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// complete checks that every record was seen.
func (w *bubble) complete(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		if w.seen[fmt.Sprint(i)] == 0 {
			w.t.Errorf("record %d was never seen", i)
			return
		}
	}
}

// Franz-go consumers through all that may happen to a group, at full durations:
// they start together, one is cut off from the network past its session, comes
// back, and one leaves. Every record is seen, and each change of the generation
// has the cause that it had.
func TestConsumersInBubble(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newBubble(t, map[string]string{"num.partitions": "6"})
		setup := w.client("setup", kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := setup.ProduceSync(context.Background(), &kgo.Record{Key: []byte("0"), Value: []byte("0")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		setup.Close()
		a, b := w.start("a"), w.start("b")
		time.Sleep(20 * time.Second)
		w.produce(1, 300)
		time.Sleep(10 * time.Second)
		w.complete(300)
		settled := len(w.b.Events())
		if settled == 0 {
			t.Fatal("the group has not settled")
		}

		w.net.Cut("b")
		time.Sleep(60 * time.Second)
		w.produce(300, 600)
		time.Sleep(20 * time.Second)
		w.complete(600)
		expired := false
		for _, e := range w.b.Events()[settled:] {
			if e.Cause == cause.SessionClock && e.Trigger.ClientID == "b" && e.Clocks.SessionAge >= 45*time.Second {
				expired = true
			}
		}
		if !expired {
			t.Errorf("no session has ended: %v", w.b.Events())
		}

		w.net.Heal("b")
		time.Sleep(60 * time.Second)
		w.produce(600, 900)
		time.Sleep(10 * time.Second)
		w.complete(900)
		before := w.b.Events()
		b.leave()
		time.Sleep(20 * time.Second)
		after := w.b.Events()[len(before):]
		if len(after) == 0 || after[0].Cause != cause.MemberChange || after[0].Trigger.ClientID != "b" {
			t.Errorf("b has left, told as %v", after)
		}
		a.leave()
		for i, e := range w.b.Events() {
			if e.From != int32(i) || e.To != int32(i)+1 {
				t.Errorf("event %d goes from %d to %d", i, e.From, e.To)
			}
		}
		if err := w.b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A static member restarts within its session: nobody rebalances, and it goes on
// where it was.
func TestStaticRestartInBubble(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newBubble(t, map[string]string{"num.partitions": "4"})
		setup := w.client("setup", kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := setup.ProduceSync(context.Background(), &kgo.Record{Key: []byte("0"), Value: []byte("0")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		setup.Close()
		a, b := w.start("a", kgo.InstanceID("one")), w.start("b", kgo.InstanceID("two"))
		time.Sleep(30 * time.Second)
		settled := len(w.b.Events())
		b.stop()
		<-b.done
		b.cl.Close() // a static member does not leave
		time.Sleep(10 * time.Second)
		b = w.start("b", kgo.InstanceID("two"))
		time.Sleep(30 * time.Second)
		if events := w.b.Events()[settled:]; len(events) != 0 {
			t.Errorf("the restart of a static member was a rebalance: %v", events)
		}
		w.produce(1, 200)
		time.Sleep(10 * time.Second)
		w.complete(200)
		a.leave()
		b.leave()
		if err := w.b.Close(); err != nil {
			t.Error(err)
		}
	})
}
