package sim

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file is a consumer of the classic protocol (ConsumerCoordinator and
// AbstractCoordinator of Kafka 4.2.0).

// rejoin joins again: with the eager protocol everything is given up before.
func (c *consumer) rejoin(reason string) {
	if c.joining {
		return
	}
	if c.set.Protocol == Range {
		c.revoke(c.owned)
	}
	c.join(reason)
}

func (c *consumer) join(reason string) {
	c.joining = true
	c.beats++
	rq := kmsg.NewPtrJoinGroupRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID = 9, "g", c.id, c.instance()
	rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis = int32(c.w.s.Session.Milliseconds()), int32(c.w.s.MaxPoll.Milliseconds())
	rq.ProtocolType = "consumer"
	if reason != "" {
		rq.Reason = &reason
	}
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = 2, c.subscription(), c.generation
	if c.set.Protocol == Cooperative {
		c.w.byTopic(c.owned, func(topic int, list []int32) {
			meta.OwnedPartitions = append(meta.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topicNames()[topic], Partitions: list})
		})
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = c.offer(), meta.AppendTo(nil)
	rq.Protocols = []kmsg.JoinGroupRequestProtocol{p}
	c.send(rq, func(resp kmsg.Response) { c.joined(resp.(*kmsg.JoinGroupResponse)) })
}

// offer is the name of the assignor.
func (c *consumer) offer() string {
	if c.set.Protocol == Cooperative {
		return "cooperative-sticky"
	}
	return "range"
}

// subscription is what the client knows to subscribe to.
func (c *consumer) subscription() []string {
	names := topicNames()
	if c.seen[1] > 0 {
		return names[:]
	}
	return names[:1]
}

func (c *consumer) joined(r *kmsg.JoinGroupResponse) {
	switch r.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		c.id = r.MemberID
		c.join("need to re-join with the given member-id")
		return
	case kerr.FencedInstanceID.Code:
		c.fatal()
		return
	default:
		c.id = ""
		c.lose()
		c.join("")
		return
	}
	c.id, c.generation = r.MemberID, r.Generation
	c.leads = r.LeaderID == r.MemberID
	c.beats++
	c.beatLater(c.beats)
	rq := kmsg.NewPtrSyncGroupRequest()
	rq.Version, rq.Group, rq.Generation, rq.MemberID, rq.InstanceID = 5, "g", r.Generation, r.MemberID, c.instance()
	rq.ProtocolType, rq.Protocol = kmsg.StringPtr("consumer"), r.Protocol
	if c.leads && !r.SkipAssignment {
		c.seen = c.w.count // the leader asks before it assigns
		rq.GroupAssignment = c.place(r.Members)
	}
	if c.leads {
		c.placed = c.seen
	}
	c.send(rq, func(resp kmsg.Response) { c.synced(resp.(*kmsg.SyncGroupResponse)) })
}

func (c *consumer) synced(r *kmsg.SyncGroupResponse) {
	c.joining = false
	switch r.ErrorCode {
	case 0:
	case kerr.FencedInstanceID.Code:
		c.fatal()
		return
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code:
		c.id = ""
		c.lose()
		c.join("")
		return
	default: // another rebalance has begun
		c.rejoin("")
		return
	}
	var a kmsg.ConsumerMemberAssignment
	var given []int
	if len(r.MemberAssignment) > 0 && a.ReadFrom(r.MemberAssignment) == nil {
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				given = append(given, c.w.number(t.Topic, p))
			}
		}
	}
	slices.Sort(given)
	gone := minus(c.owned, given)
	c.revoke(gone)
	c.own(given)
	if len(gone) > 0 {
		c.join("need to revoke partitions and re-join")
	}
}

// beatLater sends a heartbeat when it is due, unless the series has ended.
func (c *consumer) beatLater(series int) {
	life := c.life
	c.w.after(c.w.s.Heartbeat, func() {
		if c.alive && c.life == life && c.beats == series {
			c.beat(series)
			c.beatLater(series)
		}
	})
}

func (c *consumer) beat(series int) {
	if c.w.s.Loss > 0 && c.w.now >= c.w.s.LossFrom && c.w.rng.Float64() < c.w.s.Loss {
		return // somebody else has answered it
	}
	rq := kmsg.NewPtrHeartbeatRequest()
	rq.Version, rq.Group, rq.Generation, rq.MemberID, rq.InstanceID = 4, "g", c.generation, c.id, c.instance()
	c.send(rq, func(resp kmsg.Response) {
		if c.beats != series {
			return
		}
		switch errorOf(resp) {
		case 0:
		case kerr.RebalanceInProgress.Code:
			if !c.joining {
				c.rejoin("")
			}
		case kerr.FencedInstanceID.Code:
			c.fatal()
		default:
			c.id = ""
			c.lose()
			c.join("")
		}
	})
}

// candidate is a member as the leader sees it.
type candidate struct {
	id    string
	by    string // instance id, or member id: the order of assignors
	owned []int
	takes map[int]bool // topics
}

// place is the assignment of a leader.
func (c *consumer) place(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	var list []candidate
	for _, m := range members {
		k := candidate{id: m.MemberID, by: m.MemberID, takes: map[int]bool{}}
		if m.InstanceID != nil {
			k.by = *m.InstanceID
		}
		var meta kmsg.ConsumerMemberMetadata
		if meta.ReadFrom(m.ProtocolMetadata) == nil {
			for _, o := range meta.OwnedPartitions {
				for _, p := range o.Partitions {
					k.owned = append(k.owned, c.w.number(o.Topic, p))
				}
			}
			for t, name := range topicNames() {
				k.takes[t] = slices.Contains(meta.Topics, name)
			}
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.by, b.by) })
	parts := c.placeRange(list)
	if c.set.Protocol == Cooperative {
		parts = c.placeSticky(list)
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for i, k := range list {
		a := kmsg.NewConsumerMemberAssignment()
		c.w.byTopic(parts[i], func(topic int, list []int32) {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topicNames()[topic], Partitions: list})
		})
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: k.id, MemberAssignment: a.AppendTo(nil)})
	}
	return out
}

// placeRange is RangeAssignor: of each topic a stretch for each member.
func (c *consumer) placeRange(list []candidate) [][]int {
	out := make([][]int, len(list))
	for t, n := range c.seen {
		var takers []int
		for i, k := range list {
			if k.takes[t] {
				takers = append(takers, i)
			}
		}
		next := int32(0)
		for j, i := range takers {
			share := n / len(takers)
			if j < n%len(takers) {
				share++
			}
			for range share {
				out[i] = append(out[i], c.w.number(topicNames()[t], next))
				next++
			}
		}
	}
	return out
}

// placeSticky is CooperativeStickyAssignor for members with one subscription:
// as few moves as balance allows, and what has an owner is only taken away.
func (c *consumer) placeSticky(list []candidate) [][]int {
	var all []int
	for t, n := range c.seen {
		for p := range n {
			all = append(all, c.w.number(topicNames()[t], int32(p)))
		}
	}
	owner := map[int]int{}
	for i, k := range list {
		for _, n := range k.owned {
			owner[n] = i
		}
	}
	room := make([]int, len(list))
	byClaims := make([]int, len(list))
	for i := range byClaims {
		byClaims[i] = i
	}
	slices.SortStableFunc(byClaims, func(a, b int) int { return len(list[b].owned) - len(list[a].owned) })
	for j, i := range byClaims {
		room[i] = len(all) / len(list)
		if j < len(all)%len(list) {
			room[i]++
		}
	}
	out := make([][]int, len(list))
	var free []int
	for _, n := range all {
		if i, ok := owner[n]; ok {
			if room[i] > 0 {
				out[i] = append(out[i], n)
				room[i]--
			}
			// One that is to move is given to nobody in this generation; its
			// place at the heir stays empty until the next.
			continue
		}
		free = append(free, n)
	}
	for _, n := range free {
		for i := range room {
			if room[i] > 0 {
				out[i] = append(out[i], n)
				room[i]--
				break
			}
		}
	}
	return out
}
