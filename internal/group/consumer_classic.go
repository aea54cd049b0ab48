package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// Members that use the classic protocol in a group of the consumer protocol:
// while a fleet is moved from one to the other, both kinds of clients share a
// group. What such a member is assigned the coordinator decides. It is told to
// join again by REBALANCE_IN_PROGRESS, its join moves it on, and its sync
// fetches what it has.

// joinClassic is a JoinGroup to a group of the consumer protocol.
func (c *consumer) joinClassic(rq Request, req *kmsg.JoinGroupRequest) {
	id, isNew := req.MemberID, req.MemberID == ""
	if isNew {
		id = c.s.shortID()
	}
	said, code := c.checkClassicJoin(id, req)
	if code == kerr.GroupMaxSizeReached.Code {
		c.s.reply(rq.Token, joinError(req, "", code))
		return
	}
	if code != 0 {
		c.s.reply(rq.Token, joinError(req, req.MemberID, code))
		return
	}
	if isNew && req.InstanceID == nil && req.Version >= 4 {
		// Nothing is remembered of it: whoever comes with an id is taken in.
		c.s.reply(rq.Token, joinError(req, id, kerr.MemberIDRequired.Code))
		return
	}
	downgrade := false
	m := c.members[id]
	if req.InstanceID != nil {
		old := c.static[*req.InstanceID]
		switch {
		case old == nil && !isNew:
			c.s.reply(rq.Token, joinError(req, req.MemberID, kerr.UnknownMemberID.Code))
			return
		case old == nil:
		case old.id == id, isNew:
			downgrade = c.mayDowngrade([]*consumerMember{old}, old)
			if m = old; old.id != id {
				m = c.succeed(old, id)
			}
		default:
			c.s.reply(rq.Token, joinError(req, req.MemberID, kerr.FencedInstanceID.Code))
			return
		}
	}
	fresh := m == nil
	if fresh {
		m = c.member(id)
	}
	resubscribed := c.take(m, m.meta.joined(rq, req, said), fresh)
	c.moveClassic(m, said, downgrade, resubscribed)
	c.answerJoin(rq, req, m, downgrade)
}

// checkClassicJoin refuses a join that the group cannot take, and reads what
// the client says in the protocol that it likes best.
func (c *consumer) checkClassicJoin(id string, req *kmsg.JoinGroupRequest) (*kmsg.ConsumerMemberMetadata, int16) {
	if len(c.members) >= c.s.cfg.ConsumerMaxSize && c.members[id] == nil {
		return nil, kerr.GroupMaxSizeReached.Code
	}
	if req.ProtocolType != consumerType || !c.supports(req.Protocols) {
		return nil, kerr.InconsistentGroupProtocol.Code
	}
	var said kmsg.ConsumerMemberMetadata
	if err := said.ReadFrom(req.Protocols[0].Metadata); err != nil {
		return nil, kerr.InconsistentGroupProtocol.Code
	}
	return &said, 0
}

// supports says whether one of the offers is one that every other member of
// the classic protocol has as well: after a downgrade they must agree.
func (c *consumer) supports(offers []kmsg.JoinGroupRequestProtocol) bool {
	return slices.ContainsFunc(offers, func(o kmsg.JoinGroupRequestProtocol) bool {
		for _, m := range c.members {
			if m.usesClassic() && !slices.ContainsFunc(m.meta.classic.offers, func(has offer) bool { return has.name == o.Name }) {
				return false
			}
		}
		return true
	})
}

// joined is what a member says about itself after a JoinGroup.
func (m *memberMeta) joined(rq Request, req *kmsg.JoinGroupRequest, said *kmsg.ConsumerMemberMetadata) *memberMeta {
	now := *m
	now.clientID, now.host, now.regex = rq.ClientID, rq.Host, ""
	if req.InstanceID != nil {
		now.instance = req.InstanceID
	}
	if text(said.Rack) != "" {
		now.rack = said.Rack
	}
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	now.rebalance = session
	if req.Version > 0 && req.RebalanceTimeoutMillis >= 0 {
		now.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	now.topics = slices.Clone(said.Topics)
	slices.Sort(now.topics)
	now.topics = slices.Compact(now.topics)
	now.classic = &classicMeta{session: session, offers: cloneOffers(req.Protocols)}
	return &now
}

// moveClassic moves a member on: its join says what it still has, and one that
// gives everything up before it joins has nothing.
func (c *consumer) moveClassic(m *consumerMember, said *kmsg.ConsumerMemberMetadata, downgrade, resubscribed bool) {
	owned := partitionSet{}
	for _, t := range said.OwnedPartitions {
		if is := c.s.topics.byName[t.Topic]; is != nil {
			owned.add(is.ID, t.Partitions)
		}
	}
	owned.sorted()
	if !downgrade {
		c.retarget()
	}
	if !downgrade || !resubscribed {
		next, fenced := c.reconcile(m, owned, resubscribed)
		if fenced { // of a newer version's record: begin again from what it says it has
			next = c.advance(m, partitionSet{})
		}
		if !next.equal(m.current) {
			if m.current.state == memberUnrevoked && next.state != memberUnrevoked {
				c.gaveUp(m.named(), m.revoking, c.s.now)
				m.work = c.s.now
			}
			c.writeCurrent(m, next)
		}
	}
	m.work = c.s.now
	if downgrade {
		var w *why
		if resubscribed {
			changed := c.whyChanged(m)
			w = &changed
		}
		c.downgrade(nil, w)
	}
}

func (c *consumer) answerJoin(rq Request, req *kmsg.JoinGroupRequest, m *consumerMember, downgrade bool) {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation, resp.MemberID = m.current.epoch, m.id
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerType), kmsg.StringPtr(req.Protocols[0].Name)
	if !downgrade {
		c.s.alarms.stop(&m.join)
		c.restart(m)
		c.s.alarms.set(&m.sync, c.s.now.Add(m.meta.rebalance))
	}
	c.s.after(func(code int16) {
		if code != 0 {
			c.s.reply(rq.Token, joinError(req, "", appendError(code)))
			return
		}
		c.maybeCloseStory()
		c.s.reply(rq.Token, resp)
	})
}

// classicMember finds the sender of a classic request.
func (c *consumer) classicMember(id string, instance *string) (*consumerMember, int16) {
	m := c.members[id]
	if instance != nil {
		switch m = c.static[*instance]; {
		case m == nil:
			return nil, kerr.UnknownMemberID.Code
		case m.id != id:
			return nil, kerr.FencedInstanceID.Code
		}
	}
	if m == nil || !m.usesClassic() {
		return nil, kerr.UnknownMemberID.Code
	}
	return m, 0
}

// syncClassic tells a member what it has.
func (c *consumer) syncClassic(rq Request, req *kmsg.SyncGroupRequest) {
	m, code := c.classicMember(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
	case req.Generation != m.current.epoch:
		code = kerr.IllegalGeneration.Code
	case req.ProtocolType != nil && *req.ProtocolType != consumerType, req.Protocol != nil && *req.Protocol != m.meta.classic.offers[0].name:
		code = kerr.InconsistentGroupProtocol.Code
	case c.epoch > m.current.epoch && m.current.state != memberUnrevoked:
		c.awaitJoin(m)
		code = kerr.RebalanceInProgress.Code
	}
	if code != 0 {
		c.s.reply(rq.Token, syncError(req, code))
		return
	}
	c.s.alarms.stop(&m.sync)
	c.restart(m)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerType), kmsg.StringPtr(m.meta.classic.offers[0].name)
	resp.MemberAssignment = c.classicAssignment(m, m.current.assigned)
	c.s.after(func(code int16) {
		if code != 0 {
			c.s.reply(rq.Token, syncError(req, appendError(code)))
			return
		}
		c.s.reply(rq.Token, resp)
	})
}

// classicAssignment is a set in the form that clients of the classic protocol
// read, in the version that the member speaks.
func (c *consumer) classicAssignment(m *consumerMember, p partitionSet) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	var said kmsg.ConsumerMemberMetadata
	if said.ReadFrom(m.meta.classic.offers[0].metadata) == nil {
		a.Version = said.Version
	}
	for id, list := range p {
		if name := c.s.topics.name(id); name != "" {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: list})
		}
	}
	slices.SortFunc(a.Topics, func(x, y kmsg.ConsumerMemberAssignmentTopic) int { return cmp.Compare(x.Topic, y.Topic) })
	return a.AppendTo(nil)
}

// beatClassic is a sign of life, and tells the member to join again when that
// would bring it further.
func (c *consumer) beatClassic(req *kmsg.HeartbeatRequest) int16 {
	m, code := c.classicMember(req.MemberID, req.InstanceID)
	if code != 0 {
		return code
	}
	if req.Generation != m.current.epoch {
		return kerr.IllegalGeneration.Code
	}
	c.restart(m)
	if m.current.epoch < c.epoch || m.current.state == memberUnrevoked || m.current.state == memberUnreleased && !c.waits(m) {
		c.awaitJoin(m)
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// waits says whether others still have partitions of a member's target.
func (c *consumer) waits(m *consumerMember) bool {
	for id, list := range c.targets[m.id] {
		for _, n := range list {
			if !m.current.assigned.has(id, n) && c.ownedByOther(m, id, n) {
				return true
			}
		}
	}
	return false
}

// awaitJoin gives a member that was told to join again its rebalance timeout
// for that.
func (c *consumer) awaitJoin(m *consumerMember) {
	if m.join.place == 0 {
		c.s.alarms.set(&m.join, c.s.now.Add(m.meta.rebalance))
	}
}

// leaveClassic removes all who may go, with one new epoch.
func (c *consumer) leaveClassic(leavers []kmsg.LeaveGroupRequestMember, codes []int16) {
	var gone []*consumerMember
	var first why
	for i, l := range leavers {
		m, code := c.classicLeaver(l)
		if code == 0 && slices.Contains(gone, m) {
			code = kerr.UnknownMemberID.Code
		}
		if codes[i] = code; code != 0 {
			continue
		}
		w := c.blame(m, cause.MemberChange, cause.Stated, text(l.Reason))
		if meaningOf(text(l.Reason)) == pollExpired {
			w.cause = cause.PollClock
			c.depart(c.s, m.named(), cause.PollClock)
		}
		if len(gone) == 0 {
			first = w
		}
		gone = append(gone, m)
	}
	if len(gone) > 0 {
		c.fence(gone, first)
	}
}

// classicLeaver finds the member that an entry means. An administrator may name
// a static one by its instance id alone, whatever protocol it uses.
func (c *consumer) classicLeaver(l kmsg.LeaveGroupRequestMember) (*consumerMember, int16) {
	if l.InstanceID == nil {
		return c.classicMember(l.MemberID, nil)
	}
	m := c.static[*l.InstanceID]
	switch {
	case m == nil:
		return nil, kerr.UnknownMemberID.Code
	case l.MemberID != "" && m.id != l.MemberID:
		return nil, kerr.FencedInstanceID.Code
	}
	return m, 0
}
