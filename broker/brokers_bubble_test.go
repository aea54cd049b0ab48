//go:build synctests

package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// Three brokers in one process, and a group of two members of franz-go: every
// partition of the topic and the group's coordinator move to other brokers,
// three times. The members follow; nobody loses a lease.
func TestMembersFollowLeaders(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		b := startBroker(t, func(c *Config) {
			c.ListenFunc, c.Listen, c.Properties, c.Brokers = n.Listen, "127.0.0.1:9092", nil, 3
		})
		defer b.Close() //nolint:errcheck // the harness looks again
		p := newPair(t, n)
		defer p.close()
		time.Sleep(20 * time.Second)
		if got := p.look(); got != "one 2, two 2" {
			t.Fatalf("before: %s", got)
		}
		rebalances := len(b.Events())
		move := func(topic string, partition, to int32) {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
				Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: []int32{to}}},
			}}
			resp, err := req.RequestWith(t.Context(), p.admin)
			if err != nil {
				t.Fatal(err)
			}
			if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
				t.Fatalf("move %s-%d to %d: %v", topic, partition, to, kerr.ErrorForCode(code))
			}
		}
		for to := int32(1); to <= 3; to++ {
			for i := range int32(4) {
				move("t", i, (to+i)%3+1)
			}
			move(offsetsTopicName, group.PartitionFor("g", 50), to)
			time.Sleep(15 * time.Second)
			if got := p.look(); got != "one 2, two 2" {
				t.Errorf("after move %d: %s", to, got)
			}
		}
		if events := b.Events(); len(events) != rebalances {
			t.Errorf("moves are no rebalances: %v", events[rebalances:])
		}
	})
}
