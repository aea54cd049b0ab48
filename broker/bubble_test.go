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

// With Kafka's own delays and time-outs, in virtual time: two members of a
// group share four partitions; one is cut off from the network; when its
// session of 45 s is over the other has all four, and the broker says why.
func TestCutOffMember(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		b := bubbleBroker(t, n)
		defer b.Close() //nolint:errcheck // the harness looks again
		kgoOn := func(name string, opts ...kgo.Opt) *kgo.Client {
			cl, err := kgo.NewClient(append([]kgo.Opt{
				kgo.SeedBrokers("127.0.0.1:9092"), kgo.ClientID(name), kgo.Dialer(n.Dialer(name)), kgo.ProducerBatchCompression(kgo.NoCompression()),
			}, opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			return cl
		}
		admin := kgoOn("admin", kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer admin.Close()
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 4, ReplicationFactor: 1}}
		if _, err := create.RequestWith(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		seen := map[string]map[int32]bool{"one": {}, "two": {}} // partitions that gave records since the last look
		var running sync.WaitGroup
		for name := range seen {
			cl := kgoOn(name, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()))
			running.Go(func() {
				for ctx.Err() == nil {
					cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
						mu.Lock()
						seen[name][r.Partition] = true
						mu.Unlock()
					})
				}
				cl.Close()
			})
		}
		look := func() string {
			mu.Lock()
			clear(seen["one"])
			clear(seen["two"])
			mu.Unlock()
			for i := range 4 {
				if err := admin.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: int32(i), Value: []byte("x")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprintf("one %d, two %d", len(seen["one"]), len(seen["two"]))
		}
		time.Sleep(20 * time.Second)
		if got := look(); got != "one 2, two 2" {
			t.Errorf("both there: %s", got)
		}
		n.Cut("two")
		time.Sleep(40 * time.Second)
		if got := look(); got != "one 2, two 0" {
			t.Errorf("cut off for 40 s: %s", got)
		}
		time.Sleep(15 * time.Second)
		if got := look(); got != "one 4, two 0" {
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
		stop()
		running.Wait()
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
