package group

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkStreamsRebalance brings a group of many threads together while its
// initial delay runs, and takes it to where everybody has its tasks. Reported
// is the time of the core alone, by member.
func BenchmarkStreamsRebalance(b *testing.B) {
	for _, size := range []struct{ members, tasks int }{{100, 1000}, {1000, 10000}} {
		b.Run(fmt.Sprintf("%dx%d", size.members, size.tasks), func(b *testing.B) {
			for b.Loop() {
				s, now := New(Config{}, rand.New(rand.NewPCG(1, 2))), time.Unix(1_800_000_000, 0)
				s.Step(now, Metadata{Topics: image(1, "in", size.tasks)})
				s.Step(now, Loaded{})
				topology := streamsTopology(nil, 0, []string{"0: in"})
				beat := func(i int, epoch int32) {
					req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
					id := fmt.Sprintf("m%04d", i)
					req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", id, epoch, -1
					if epoch == 0 {
						req.RebalanceTimeoutMillis, req.ProcessID, req.Topology = 60_000, &id, &topology
						req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
					}
					if out := s.Step(now, Request{Token: 1, ClientID: "c", Host: "/h", Req: req}); out.Seq != 0 {
						s.Step(now, Appended{Seq: out.Seq})
					}
				}
				for i := range size.members {
					beat(i, 0)
				}
				now = now.Add(3 * time.Second)
				s.Step(now, Appended{Seq: s.Step(now, Tick{}).Seq})
				for i := range size.members {
					beat(i, 1)
				}
				if t, _ := streamsOf(s.groups["g"]); t.state() != "Stable" {
					b.Fatalf("the group is %s", t.state())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size.members), "us/member")
		})
	}
}
