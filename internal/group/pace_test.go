package group

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The interval grows with the members of the whole broker, and only where
// nobody has set it.
func TestInterval(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct {
		name          string
		cfg           Config
		here, others  int
		atLeast, most time.Duration
	}{
		{"one member", Config{}, 1, 0, 450 * ms, 500 * ms},
		{"a thousand in the group", Config{}, 1000, 0, 540 * ms, 600 * ms},
		{"a thousand elsewhere", Config{}, 1, 1000, 540 * ms, 601 * ms},
		{"ten thousand", Config{}, 1, 10_000, 4500 * ms, 5000 * ms},
		{"set", Config{ConsumerHeartbeat: 7 * time.Second}, 1, 10_000, 7 * time.Second, 7 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, now := New(test.cfg, rand.New(rand.NewPCG(1, 2))), time.Unix(1_800_000_000, 0)
			s.Step(now, Metadata{Topics: image(1, "t", 10)})
			s.Step(now, Loaded{})
			beat := func(i int, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
				req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
				req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", fmt.Sprintf("m%d", i), epoch
				if epoch == 0 {
					req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 1000, []string{"t"}
					req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				}
				out := s.Step(now, Request{Token: 1, Elsewhere: test.others, Req: req})
				if out.Seq != 0 {
					out = s.Step(now, Appended{Seq: out.Seq})
				}
				return out.Replies[0].Resp.(*kmsg.ConsumerGroupHeartbeatResponse)
			}
			epochs := make([]int32, test.here)
			for range 4 { // join, be told, report, be calm
				for i := range epochs {
					epochs[i] = beat(i, epochs[i]).MemberEpoch
				}
				now = now.Add(2 * time.Second)
			}
			c, _ := consumerOf(s.groups["g"])
			for i := range epochs { // the first one had everything, and reports that it has not
				m := c.members[fmt.Sprintf("m%d", i)]
				req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
				req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", m.id, m.current.epoch
				req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				for id, list := range m.current.assigned {
					req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: list})
				}
				s.Step(now, Appended{Seq: s.Step(now, Request{Token: 1, Elsewhere: test.others, Req: req}).Seq})
			}
			for i := range epochs {
				epochs[i] = beat(i, c.members[fmt.Sprintf("m%d", i)].current.epoch).MemberEpoch
			}
			if got := c.state(); got != "Stable" {
				t.Fatalf("the group is %s", got)
			}
			for i := range epochs {
				got := time.Duration(beat(i, epochs[i]).HeartbeatIntervalMillis) * ms
				if got < test.atLeast || got > test.most {
					t.Fatalf("m%d is to come again after %s, want %s to %s", i, got, test.atLeast, test.most)
				}
			}
		})
	}
}
