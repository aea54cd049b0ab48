package group

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// crowd is a shard with one stable group of n members.
func crowd(b testing.TB, n int) (*Shard, []string) {
	s := New(Config{InitialRebalanceDelay: time.Second}, rand.New(rand.NewPCG(1, 1)))
	now := time.Unix(1_800_000_000, 0)
	s.Step(now, Loaded{})
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 3, "g", 45_000, 300_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 100)}}
	var ids []string
	for i := range n {
		out := s.Step(now, Request{Token: uint64(i), ClientID: "c", Host: "/h", Req: req})
		if out.Seq != 0 {
			s.Step(now, Appended{Seq: out.Seq})
		}
	}
	c := s.groups["g"].members.(*classic)
	for c.phase == preparing {
		now, _ = s.Next()
		s.Step(now, Tick{})
	}
	for _, m := range c.order {
		ids = append(ids, m.id)
	}
	if len(ids) != n {
		b.Fatalf("%d members of %d, %s", len(ids), n, c.phase)
	}
	return s, ids
}

// A heartbeat must cost the same in a crowd.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, ids := crowd(b, n)
			req := kmsg.NewPtrHeartbeatRequest()
			req.Version, req.Group, req.Generation = 4, "g", 1
			now := s.now
			b.ReportAllocs()
			for i := range b.N {
				req.MemberID = ids[i%n]
				s.Step(now, Request{Token: 1, Req: req})
			}
		})
	}
}

// A commit of ten partitions, with the way back from the log.
func BenchmarkCommit(b *testing.B) {
	s := New(Config{}, rand.New(rand.NewPCG(1, 1)))
	now := time.Unix(1_800_000_000, 0)
	s.Step(now, Loaded{})
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, "g", -1
	t := kmsg.OffsetCommitRequestTopic{Topic: "topic"}
	for i := range int32(10) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Metadata = i, kmsg.StringPtr("")
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	b.ReportAllocs()
	for range b.N {
		out := s.Step(now, Request{Token: 1, Req: req})
		s.Step(now, Appended{Seq: out.Seq})
	}
}
