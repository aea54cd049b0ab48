package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who asks the wrong broker is told the right one, and who waits there for records
// is told at once when the partition moves (KIP-951).
func TestHintsAtLeaders(t *testing.T) {
	b := startBroker(t, threeBrokers, func(c *Config) { c.Properties["broker.rack"] = "r1" })
	one := dialNode(t, b, 1)
	id := one.makeTopic("t", 1, nil)
	if code := one.reassign("t", 0, 1); code != 0 {
		t.Fatal(errorName(code))
	}
	_, epochs := one.leaders("t")
	two := dialNode(t, b, 2)
	want := b.node(1)

	for _, version := range []int16{9, 10, 12, 13} {
		req := produceRequest("t", 0, batchWith("x"))
		req.Topics[0].TopicID = id
		resp := do[*kmsg.ProduceResponse](two, req, version)
		p := resp.Topics[0].Partitions[0]
		switch {
		case p.ErrorCode != kerr.NotLeaderForPartition.Code:
			t.Errorf("produce v%d: %s", version, errorName(p.ErrorCode))
		case version < 10:
			if len(resp.Brokers) != 0 {
				t.Errorf("produce v%d: %+v", version, resp.Brokers)
			}
		case p.CurrentLeader.LeaderID != 1 || p.CurrentLeader.LeaderEpoch != epochs[0] || len(resp.Brokers) != 1 ||
			resp.Brokers[0].NodeID != 1 || resp.Brokers[0].Host != want.host || resp.Brokers[0].Port != want.port || *resp.Brokers[0].Rack != "r1":
			t.Errorf("produce v%d: %+v, %+v", version, p.CurrentLeader, resp.Brokers)
		}
	}
	fetch := func(epoch int32, wait time.Duration) *kmsg.FetchRequest {
		req := fetchRequest("t", 0, 0, wait)
		req.Topics[0].TopicID, req.Topics[0].Partitions[0].CurrentLeaderEpoch = id, epoch
		return req
	}
	hinted := func(resp *kmsg.FetchResponse, code int16, leader, epoch int32) {
		t.Helper()
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != code || p.CurrentLeader.LeaderID != leader || p.CurrentLeader.LeaderEpoch != epoch ||
			len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != leader || resp.Brokers[0].Port != b.node(leader).port || *resp.Brokers[0].Rack != "r1" {
			t.Errorf("%s, leader %+v, %+v", errorName(p.ErrorCode), p.CurrentLeader, resp.Brokers)
		}
	}
	for _, version := range []int16{16, 17} {
		hinted(do[*kmsg.FetchResponse](two, fetch(-1, 0), version), kerr.NotLeaderForPartition.Code, 1, epochs[0])
	}
	if resp := do[*kmsg.FetchResponse](two, fetch(-1, 0), 15); len(resp.Brokers) != 0 || resp.Topics[0].Partitions[0].CurrentLeader.LeaderID != -1 {
		t.Errorf("fetch v15: %+v", resp)
	}

	began := time.Now()
	believing, other := fetch(epochs[0], time.Minute), fetch(-1, time.Minute)
	believing.Version, other.Version = 16, 16
	three := dialNode(t, b, 1)
	first, second := one.send(believing), three.send(other)
	time.Sleep(20 * time.Millisecond) // so that they wait
	if code := two.reassign("t", 0, 3); code != 0 {
		t.Fatal(errorName(code))
	}
	answer, err := one.receive(believing, first)
	if err != nil {
		t.Fatal(err)
	}
	hinted(answer.(*kmsg.FetchResponse), kerr.FencedLeaderEpoch.Code, 3, epochs[0]+1)
	if answer, err = three.receive(other, second); err != nil {
		t.Fatal(err)
	}
	hinted(answer.(*kmsg.FetchResponse), kerr.NotLeaderForPartition.Code, 3, epochs[0]+1)
	if waited := time.Since(began); waited > 30*time.Second {
		t.Errorf("a fetch that waits heard of the move after %s", waited)
	}
}
