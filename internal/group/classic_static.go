package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replaceStatic lets a static member that has restarted take its old place
// under a new member id (KIP-345). When the group is stable, and would vote for
// the same protocol, nobody else notices.
func (c *classic) replaceStatic(rq Request, req *kmsg.JoinGroupRequest, old *member) {
	oldLeader := c.leader
	id := c.s.memberID(*req.InstanceID)
	m := c.succeed(old, id)
	c.restart(m)
	c.countOffers(m, -1)
	m.take(req)
	c.countOffers(m, 1)
	m.work = c.s.now
	c.park(m, rq, req)
	switch {
	case c.phase == stable && c.vote() == c.protocol:
		c.writeSuccessor(old, m, oldLeader)
	case c.phase == stable:
		c.prepare(c.whyReplaced(m, text(req.Reason)))
	case c.phase == completing:
		// The leader may be computing with the old id at this moment.
		c.prepare(c.whyReplaced(m, text(req.Reason)))
	default:
		c.maybeCompleteJoin()
	}
}

// succeed puts a new member into the place of an old one. What the old process
// still waits for tells it that it is fenced. Like Kafka, it keeps the client
// id and host of the old one.
func (c *classic) succeed(old *member, id string) *member {
	c.answerJoin(old, c.joinRefusal(old, old.id, kerr.FencedInstanceID.Code))
	c.answerSync(old, kerr.FencedInstanceID.Code)
	c.s.alarms.stop(&old.expiry)
	m := *old
	m.id, m.expiry, m.fresh = id, alarm{}, false
	c.install(old, &m)
	return &m
}

// install swaps two members that are one to the group.
func (c *classic) install(old, m *member) {
	m.expiry.ring = func() { c.expireMember(m) }
	delete(c.members, old.id)
	c.members[m.id] = m
	c.static[*m.instance] = m
	for i := range c.order {
		if c.order[i] == old {
			c.order[i] = m
		}
	}
	if c.leader == old.id {
		c.leader = m.id
	}
}

// writeSuccessor makes the new id durable and answers then. From v9 the leader
// is told the members and that it need not compute an assignment (KIP-814);
// before that it is told its old id as the leader's, so that it takes itself
// for a follower.
func (c *classic) writeSuccessor(old, m *member, oldLeader string) {
	generation, version := c.generation, m.join.version
	c.s.log(func(code int16) {
		if c.members[m.id] != m || c.generation != generation {
			return // gone again, or in a later generation, and answered
		}
		if code != 0 {
			c.answerJoin(m, c.joinRefusal(m, "", appendError(code)))
			c.s.alarms.stop(&m.expiry)
			c.countOffers(m, -1)
			c.install(m, old)
			c.countOffers(old, 1)
			c.restart(old)
			c.maybeCompleteJoin()
			return
		}
		if c.phase != stable {
			return // its join is parked in the rebalance that has begun meanwhile
		}
		resp := c.joinSuccess(m, version >= 9)
		if version >= 9 {
			resp.SkipAssignment = c.leader == m.id
		} else {
			resp.LeaderID = oldLeader
		}
		c.answerJoin(m, resp)
	}, c.record(nil))
}
