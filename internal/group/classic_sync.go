package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncGroup hands out assignments. The leader's call brings them, is written,
// and releases all others when that is durable.
func (s *Shard) syncGroup(rq Request, req *kmsg.SyncGroupRequest) {
	code := int16(0)
	g := s.groups[req.Group]
	c, _ := membershipOf(g)
	modern, _ := consumerOf(g)
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		code = kerr.InconsistentGroupProtocol.Code // KIP-559: both are mandatory
	case modern != nil:
		modern.syncClassic(rq, req)
		return
	case c == nil:
		code = kerr.UnknownMemberID.Code
	default:
		code = c.checkSync(req)
	}
	if code != 0 {
		s.reply(rq.Token, syncError(req, code))
		return
	}
	c.sync(rq, req)
}

// membershipOf is the group's classic membership, if it has one.
func membershipOf(g *group) (*classic, bool) {
	if g == nil {
		return nil, false
	}
	c, ok := g.members.(*classic)
	return c, ok
}

func (c *classic) checkSync(req *kmsg.SyncGroupRequest) int16 {
	if code := c.check(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	differs := func(said *string, is string) bool { return said != nil && *said != is }
	switch {
	case req.Generation != c.generation:
		return kerr.IllegalGeneration.Code
	case differs(req.ProtocolType, c.protocolType), differs(req.Protocol, c.protocol):
		return kerr.InconsistentGroupProtocol.Code
	case c.phase == preparing:
		return kerr.RebalanceInProgress.Code
	case c.phase == empty:
		return kerr.UnknownMemberID.Code
	}
	return 0
}

func (c *classic) sync(rq Request, req *kmsg.SyncGroupRequest) {
	m := c.members[req.MemberID]
	c.answerSync(m, kerr.RebalanceInProgress.Code) // of a connection that is gone
	m.sync = parked{rq.Token, req.Version, true}
	m.synced = true
	all := c.allSynced()
	if all {
		c.s.alarms.stop(&c.syncAlarm)
	}
	if c.phase == stable {
		c.answerSync(m, 0)
		c.restart(m)
		return
	}
	if c.leader == m.id {
		c.hold(req)
	}
	if c.held != nil && (all || len(c.members) < crowded) {
		c.assign()
	}
}

func (c *classic) allSynced() bool {
	return !slices.ContainsFunc(c.order, func(m *member) bool { return !m.synced })
}

const (
	// crowded is from how many members on the leader waits for the others.
	crowded = 100
	// holdShare is how long it waits for one of them, holdMost for all.
	holdShare = 200 * time.Microsecond
	holdMost  = 500 * time.Millisecond
)

// hold keeps what the leader has computed, in a crowd until everybody has asked
// for what it gets, but not for long. Otherwise the first who gets its own, and
// joins again to give up what it has lost, ends the phase for those whose request
// is still on its way: they are sent back and have learned nothing, and what they
// were to give up takes one more round. Kafka does not wait; nobody can tell.
func (c *classic) hold(req *kmsg.SyncGroupRequest) {
	c.held = make(map[string][]byte, len(c.members))
	for _, a := range req.GroupAssignment {
		c.held[a.MemberID] = bytes.Clone(a.MemberAssignment)
	}
	if len(c.members) >= crowded {
		c.s.alarms.set(&c.holdAlarm, c.s.now.Add(min(time.Duration(len(c.members))*holdShare, holdMost)))
	}
}

// drop forgets what was held.
func (c *classic) drop() {
	c.held = nil
	c.s.alarms.stop(&c.holdAlarm)
}

// assign writes what the leader has computed. A member that it forgot gets the
// empty assignment.
func (c *classic) assign() {
	assignments := c.held
	c.drop()
	generation, leader := c.generation, c.members[c.leader]
	c.s.log(func(code int16) {
		if c.phase != completing || c.generation != generation {
			return // another rebalance has come in between
		}
		if code != 0 {
			c.releaseSyncs(appendError(code))
			c.prepare(c.whyNotStored(leader))
			return
		}
		for _, m := range c.order {
			m.assignment = assignments[m.id]
		}
		c.enter(stable)
		for _, m := range c.order {
			if m.sync.on {
				c.answerSync(m, 0)
				c.restart(m)
			}
		}
		c.closeStory()
	}, c.record(assignments))
	c.tellBegun()
}

// releaseSyncs ends the parked syncs of a generation that will not come to its
// assignment.
func (c *classic) releaseSyncs(code int16) {
	for _, m := range c.order {
		m.assignment = nil
		if m.sync.on {
			c.answerSync(m, code)
			c.restart(m)
		}
	}
}

func (c *classic) answerSync(m *member, code int16) {
	if !m.sync.on {
		return
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ErrorCode = m.sync.version, code
	if code == 0 {
		resp.ProtocolType, resp.Protocol = kmsg.StringPtr(c.protocolType), kmsg.StringPtr(c.protocol)
		resp.MemberAssignment = m.assignment
	}
	c.s.reply(m.sync.token, resp)
	m.sync = parked{}
}

func syncError(req *kmsg.SyncGroupRequest, code int16) *kmsg.SyncGroupResponse {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode = code
	return resp
}

// heartbeat is a sign of life.
func (s *Shard) heartbeat(rq Request, req *kmsg.HeartbeatRequest) {
	code := kerr.UnknownMemberID.Code
	g := s.groups[req.Group]
	if c, ok := membershipOf(g); ok {
		code = c.heartbeat(req)
	} else if c, ok := consumerOf(g); ok {
		code = c.beatClassic(req)
	}
	s.reply(rq.Token, heartbeatResponse(req, code))
}

func (c *classic) heartbeat(req *kmsg.HeartbeatRequest) int16 {
	if code := c.check(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	if req.Generation != c.generation {
		return kerr.IllegalGeneration.Code
	}
	c.restart(c.members[req.MemberID])
	if c.phase == preparing {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

func heartbeatResponse(req *kmsg.HeartbeatRequest, code int16) *kmsg.HeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = code
	return resp
}
