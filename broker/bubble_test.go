//go:build synctests

package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/memnet"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bubbleBroker starts a broker on a network in memory.
func bubbleBroker(t *testing.T, n *memnet.Net) *Broker {
	return startBroker(t, func(c *Config) {
		c.ListenFunc, c.Listen, c.Properties = n.Listen, "127.0.0.1:9092", nil
	})
}

// pair is a group of two members, one and two, that share topic t with four
// partitions.
type pair struct {
	t       *testing.T
	net     *memnet.Net
	admin   *kgo.Client
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	seen map[string]map[int32]bool // partitions that gave records since the last look
}

func newPair(t *testing.T, n *memnet.Net) *pair {
	p := &pair{t: t, net: n, seen: map[string]map[int32]bool{"one": {}, "two": {}}}
	p.admin = p.client("admin", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 4, ReplicationFactor: 1}}
	if _, err := create.RequestWith(t.Context(), p.admin); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	for _, name := range []string{"one", "two"} {
		cl := p.client(name, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()))
		p.running.Go(func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					p.mu.Lock()
					p.seen[name][r.Partition] = true
					p.mu.Unlock()
				})
			}
			cl.Close()
		})
	}
	return p
}

func (p *pair) client(name string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("127.0.0.1:9092"), kgo.ClientID(name), kgo.Dialer(p.net.Dialer(name)), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return cl
}

// look sends a record to each partition and tells how many of them each member
// consumes within a second.
func (p *pair) look() string {
	p.mu.Lock()
	clear(p.seen["one"])
	clear(p.seen["two"])
	p.mu.Unlock()
	for i := range 4 {
		if err := p.admin.ProduceSync(p.t.Context(), &kgo.Record{Topic: "t", Partition: int32(i), Value: []byte("x")}).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("one %d, two %d", len(p.seen["one"]), len(p.seen["two"]))
}

func (p *pair) close() {
	p.stop()
	p.running.Wait()
	p.admin.Close()
}

// With Kafka's own delays and time-outs, in virtual time: two members of a
// group share four partitions; one is cut off from the network; when its
// session of 45 s is over the other has all four, and the broker says why.
func TestCutOffMember(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		b := bubbleBroker(t, n)
		defer b.Close() //nolint:errcheck // the harness looks again
		p := newPair(t, n)
		defer p.close()
		time.Sleep(20 * time.Second)
		if got := p.look(); got != "one 2, two 2" {
			t.Errorf("both there: %s", got)
		}
		n.Cut("two")
		time.Sleep(40 * time.Second)
		if got := p.look(); got != "one 2, two 0" {
			t.Errorf("cut off for 40 s: %s", got)
		}
		time.Sleep(15 * time.Second)
		if got := p.look(); got != "one 4, two 0" {
			t.Errorf("cut off for 56 s: %s", got)
		}
		found := false
		for _, e := range b.Events() {
			found = found || e.Cause == cause.SessionClock && e.Trigger.ClientID == "two"
		}
		if !found || b.Stats().Rebalances[cause.SessionClock] != 1 {
			t.Errorf("rebalances by cause %v, events %v", b.Stats().Rebalances, b.Events())
		}
		n.Heal("two")
	})
}

// A connection without a request is closed after connections.max.idle.ms, ten
// minutes; one with a request that is parked for longer is not.
func TestIdleForTenMinutes(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		b := bubbleBroker(t, n)
		defer b.Close() //nolint:errcheck // the harness looks again
		dial := func() *client {
			nc, err := n.Dialer("c")(t.Context(), "tcp", "127.0.0.1:9092")
			if err != nil {
				t.Fatal(err)
			}
			return &client{t: t, nc: nc}
		}
		idle, parked := dial(), dial()
		parked.makeTopic("t", 1, nil)
		long := fetchRequest("t", 0, 0, time.Hour)
		long.SetVersion(12)
		id := parked.send(long)
		time.Sleep(9 * time.Minute)
		if n := b.Stats().Connections; n != 2 {
			t.Errorf("%d connections after 9 minutes", n)
		}
		time.Sleep(3 * time.Minute)
		if n := b.Stats().Connections; n != 1 {
			t.Errorf("%d connections after 12 minutes", n)
		}
		idle.nc.Close() //nolint:errcheck // the broker has hung up
		time.Sleep(49 * time.Minute)
		resp, err := parked.receive(long, id)
		if err != nil || len(values(t, resp.(*kmsg.FetchResponse))) != 0 {
			t.Errorf("long poll of an hour: %v", err)
		}
		parked.nc.Close() //nolint:errcheck // done
	})
}
