//go:build synctests

package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/memnet"
)

// asked counts the requests of a client by their key.
type asked chan int16

func (a asked) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	select {
	case a <- key:
	default:
	}
}

// A producer of franz-go whose partition moves goes to its new leader because the
// old one names it: without asking for metadata, and within moments.
func TestProducerFollowsHints(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		b := startBroker(t, func(c *Config) {
			c.ListenFunc, c.Listen, c.Properties, c.Brokers = n.Listen, "127.0.0.1:9092", nil, 3
		})
		defer b.Close() //nolint:errcheck // the harness looks again
		p := newPair(t, n)
		defer p.close()
		keys := make(asked, 1000)
		cl := p.client("producer", kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.WithHooks(keys))
		defer cl.Close()
		produce := func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: 0, Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		produce()
		for to := int32(1); to <= 3; to++ {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
				Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: []int32{to}}},
			}}
			if _, err := req.RequestWith(t.Context(), p.admin); err != nil {
				t.Fatal(err)
			}
			for len(keys) > 0 {
				<-keys
			}
			began := time.Now()
			produce()
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("the move to broker %d took the producer %s", to, took)
			}
			for len(keys) > 0 {
				if key := <-keys; key == (&kmsg.MetadataRequest{}).Key() {
					t.Error("the producer asked for metadata")
				}
			}
		}
	})
}
