package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// consumerLeave lets a member go: for good, or, a static one, for a while, in
// which its partitions stay where they are.
func (s *Shard) consumerLeave(req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, *refused) {
	g := s.groups[req.Group]
	c, ok := consumerOf(g)
	switch {
	case g == nil:
		return nil, refuse(kerr.GroupIDNotFound, "Group %s not found.", req.Group)
	case !ok:
		return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
	}
	m := c.members[req.MemberID]
	if req.InstanceID != nil {
		var err *refused
		if m, err = c.staticMember(req.MemberID, *req.InstanceID); err != nil {
			return nil, err
		}
	}
	if m == nil {
		return nil, c.unknown(req.MemberID)
	}
	if req.MemberEpoch == epochLeaveStatic {
		away := *m.current
		away.epoch, away.revoking = epochLeaveStatic, nil
		c.writeCurrent(m, &away)
	} else {
		w := c.whyLeave(m)
		c.depart(c.s, m.named(), cause.MemberChange)
		c.fence([]*consumerMember{m}, w)
	}
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.MemberID, resp.MemberEpoch = &req.MemberID, req.MemberEpoch
	return resp, nil
}

// fence removes members and begins one new epoch. When only members of the
// classic protocol are left, the group goes back to it.
func (c *consumer) fence(gone []*consumerMember, w why) {
	if c.mayDowngrade(gone) {
		c.downgrade(gone, &w)
		return
	}
	regexes := []string{}
	for _, m := range gone {
		c.eraseMember(m)
		regexes = append(regexes, m.meta.regex)
	}
	slices.Sort(regexes)
	for _, r := range slices.Compact(regexes) {
		c.maybeEraseRegex(r)
	}
	c.bump(w)
	c.s.log(func(code int16) {
		if code == 0 {
			c.maybeCloseStory()
		}
	})
}

// expire is the end of a member's session.
func (c *consumer) expire(m *consumerMember) {
	w := c.whySilent(m)
	c.depart(c.s, m.named(), cause.SessionClock)
	c.fence([]*consumerMember{m}, w)
}

// loseRevoking is the end of the patience with a member that has to give
// partitions up.
func (c *consumer) loseRevoking(m *consumerMember) {
	c.held(m.named())
	w := c.blame(m, cause.PollClock, cause.Stated, "did not give up partitions within its rebalance timeout")
	c.depart(c.s, m.named(), cause.PollClock)
	c.fence([]*consumerMember{m}, w)
}

// loseSilent is the end of the patience with a member of the classic protocol.
func (c *consumer) loseSilent(m *consumerMember, rule string) {
	c.held(m.named())
	w := c.blame(m, cause.PollClock, cause.Stated, rule)
	c.depart(c.s, m.named(), cause.PollClock)
	c.fence([]*consumerMember{m}, w)
}

// succeed puts a static member's new process into the place of the old one,
// with everything that it had.
func (c *consumer) succeed(old *consumerMember, id string) *consumerMember {
	meta, had, target := old.meta, *old.current, c.targets[old.id]
	c.eraseMember(old)
	m := c.member(id)
	m.work = old.work
	c.writeMeta(m, meta)
	c.writeTarget(id, target)
	had.epoch, had.previous = epochJoin, epochJoin
	c.writeCurrent(m, &had)
	return m
}
