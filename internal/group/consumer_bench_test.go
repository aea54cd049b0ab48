package group

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// caller is a member that comes when it is told to, and at once when it has
// something to report, as clients do.
type caller struct {
	id    string
	epoch int32
	owns  []kmsg.ConsumerGroupHeartbeatRequestTopic
	tell  bool
	at    time.Time
}

type callers []*caller

func (c callers) Len() int           { return len(c) }
func (c callers) Less(i, j int) bool { return c[i].at.Before(c[j].at) }
func (c callers) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *callers) Push(x any)        { *c = append(*c, x.(*caller)) }
func (c *callers) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// call is one heartbeat of a member, 50 us after the one before it.
func (c *caller) call(b *testing.B, s *Shard) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", c.id, c.epoch
	switch {
	case c.epoch == 0:
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 300_000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	case c.tell:
		req.Topics = c.owns
	}
	out := s.Step(c.at, Request{Token: 1, ClientID: "c", Host: "/h", Req: req})
	if out.Seq != 0 {
		out = s.Step(c.at, Appended{Seq: out.Seq})
	}
	resp := out.Replies[0].Resp.(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		b.Fatalf("%s: %s", c.id, errorName(resp.ErrorCode))
	}
	c.epoch, c.tell = resp.MemberEpoch, resp.Assignment != nil
	if c.tell {
		c.owns = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range resp.Assignment.Topics {
			c.owns = append(c.owns, kmsg.ConsumerGroupHeartbeatRequestTopic(t))
		}
		return
	}
	c.at = c.at.Add(time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond)
}

// gather has members call until the group is stable, and says when that was
// and how many heartbeats it took.
func gather(b *testing.B, s *Shard, all *callers, from time.Time) (took time.Duration, beats int) {
	for now := from; beats < all.Len() || s.groups["g"].members.state() != "Stable"; beats++ {
		next := (*all)[0]
		if now = now.Add(50 * time.Microsecond); next.at.Before(now) {
			next.at = now // the coordinator hears one at a time
		}
		now = next.at
		took = now.Sub(from)
		next.call(b, s)
		heap.Fix(all, 0)
	}
	if c, _ := consumerOf(s.groups["g"]); len(c.members) != all.Len() {
		b.Fatalf("%d members of %d", len(c.members), all.Len())
	}
	return took, beats
}

// BenchmarkConsumerRebalance: members of the consumer protocol that all start
// at once, and then one more. Reported are the time of the core alone, by
// member; how long it would take on a clock; and how many heartbeats a member.
func BenchmarkConsumerRebalance(b *testing.B) {
	for _, size := range []struct{ members, partitions int }{{100, 1000}, {1000, 10000}} {
		for _, set := range []time.Duration{0, 5 * time.Second} {
			b.Run(fmt.Sprintf("%dx%d/interval=%s", size.members, size.partitions, set), func(b *testing.B) {
				var form, join time.Duration
				beats := 0
				for b.Loop() {
					s, now := New(Config{ConsumerHeartbeat: set}, rand.New(rand.NewPCG(1, 2))), time.Unix(1_800_000_000, 0)
					s.Step(now, Metadata{Topics: image(1, "t", size.partitions)})
					s.Step(now, Loaded{})
					all := &callers{}
					for i := range size.members {
						*all = append(*all, &caller{id: fmt.Sprintf("m%04d", i), at: now})
					}
					form, beats = gather(b, s, all, now)
					now = now.Add(form + 10*time.Second)
					for (*all)[0].at.Before(now) {
						(*all)[0].call(b, s)
						heap.Fix(all, 0)
					}
					heap.Push(all, &caller{id: "newcomer", at: now})
					join, _ = gather(b, s, all, now)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size.members), "us/member")
				b.ReportMetric(form.Seconds(), "s-to-form")
				b.ReportMetric(join.Seconds(), "s-to-join")
				b.ReportMetric(float64(beats)/float64(size.members), "beats/member")
			})
		}
	}
}

// BenchmarkConsumerHeartbeat: a heartbeat with nothing new must cost the same
// in a crowd.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, now := New(Config{}, rand.New(rand.NewPCG(1, 2))), time.Unix(1_800_000_000, 0)
			s.Step(now, Metadata{Topics: image(1, "t", n)})
			s.Step(now, Loaded{})
			all := &callers{}
			for i := range n {
				*all = append(*all, &caller{id: fmt.Sprintf("m%04d", i), at: now})
			}
			gather(b, s, all, now)
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Version, req.Group = 1, "g"
			now = s.now
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := (*all)[i%n]
				req.MemberID, req.MemberEpoch = c.id, c.epoch
				s.Step(now, Request{Token: 1, ClientID: "c", Host: "/h", Req: req})
			}
		})
	}
}

// BenchmarkAssignor is the grid of Kafka's ConsumerAssignorBenchmark: what a
// change costs that comes upon a balanced assignment.
func BenchmarkAssignor(b *testing.B) {
	for _, name := range []string{"uniform", "range"} {
		for _, size := range []struct{ members, topics, partitions int }{{100, 10, 1000}, {1000, 10, 10_000}, {1000, 100, 10_000}, {5000, 100, 50_000}} {
			for _, topics := range []string{"equal", "nested", "disjoint"} {
				for _, event := range []string{"full", "stable", "join-one", "join-many", "leave-one", "leave-many", "partitions-added"} {
					b.Run(fmt.Sprintf("%s/members=%d/topics=%d/partitions=%d/%s/%s", name, size.members, size.topics, size.partitions, topics, event), func(b *testing.B) {
						a, _ := assignorNamed(name)
						members := scene(a, size.members, size.topics, size.partitions, topics, event)
						b.ReportAllocs()
						for b.Loop() {
							a.assign(members)
						}
					})
				}
			}
		}
	}
}

// scene is members just after an event.
func scene(a assignor, n, topics, partitions int, subscriptions, event string) []assignee {
	all := make([]*Topic, topics)
	for i := range all {
		all[i] = topic(fmt.Sprintf("topic-%03d", i), int32(partitions/topics))
	}
	members := readers(n, all...)
	for i := range members {
		members[i].id = fmt.Sprintf("m%05d", i)
		switch subscriptions {
		case "nested": // every half of the members reads half as much as the one before
			half := topics
			for j := i; j%2 == 1 && half > 1; j /= 2 {
				half /= 2
			}
			members[i].topics = all[:half]
		case "disjoint":
			members[i].topics = all[i%topics : i%topics+1]
		}
	}
	if event == "full" {
		return members
	}
	many, last := n/10, n
	switch event {
	case "join-one":
		last = n - 1
	case "join-many":
		last = n - many
	}
	for i, p := range a.assign(members[:last]) {
		members[i].had = p
	}
	switch event {
	case "leave-one":
		members = slices.Delete(members, n/2, n/2+1)
	case "leave-many":
		members = slices.Delete(members, n/2, n/2+many)
	case "partitions-added":
		for _, t := range all {
			t.Partitions += t.Partitions / 10
		}
	}
	return members
}
