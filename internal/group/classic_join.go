package group

import (
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newMemberTimeout is how long a join of a newcomer may stay parked
// (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS). A client
// that gave up meanwhile would else be a member that never comes back.
const newMemberTimeout = 5 * time.Minute

// joinGroup takes a JoinGroup to the group it names, which a newcomer may make.
func (s *Shard) joinGroup(rq Request, req *kmsg.JoinGroupRequest) {
	refuse := func(code int16) { s.reply(rq.Token, joinError(req, req.MemberID, code)) }
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	if session < s.cfg.MinSession || session > s.cfg.MaxSession {
		refuse(kerr.InvalidSessionTimeout.Code)
		return
	}
	g := s.groups[req.Group]
	if g == nil && req.MemberID != "" {
		refuse(kerr.UnknownMemberID.Code)
		return
	}
	if g == nil {
		s.joinNewGroup(rq, req, s.make(req.Group), nil)
		return
	}
	switch was := g.members.(type) {
	case *classic:
		was.joinGroup(rq, req)
		return
	case *consumer:
		if !was.empty() {
			was.joinClassic(rq, req)
			return
		}
	}
	switch {
	case !g.members.empty():
		refuse(kerr.InconsistentGroupProtocol.Code)
	case req.MemberID != "":
		refuse(kerr.UnknownMemberID.Code)
	default: // an empty group of another kind is replaced
		was := g.members
		s.log(func(int16) {}, was.tombstones()...)
		g.members = newClassic(s, g)
		s.joinNewGroup(rq, req, g, was)
	}
}

// joinNewGroup makes a group for its first member. It is written as an empty
// one, even when the member is refused, and nobody is told anything before
// that is durable: Kafka sends its MEMBER_ID_REQUIRED earlier, with the effect
// that the group may be gone again when the member comes with the id.
func (s *Shard) joinNewGroup(rq Request, req *kmsg.JoinGroupRequest, g *group, was membership) {
	c := g.members.(*classic)
	record := c.record(nil)
	c.unwritten = true
	c.joinGroup(rq, req)
	held := s.out.Replies
	s.out.Replies = nil
	s.log(func(code int16) {
		if code == 0 {
			s.out.Replies = append(s.out.Replies, held...)
			c.written()
			return
		}
		code = appendError(code)
		c.unload(code)
		if was != nil {
			g.members = was
		} else {
			s.remove(g)
		}
		for _, r := range held {
			s.reply(r.Token, joinError(req, "", code))
		}
	}, record)
}

// joinGroup is Kafka's classicGroupJoinToClassicGroup.
func (c *classic) joinGroup(rq Request, req *kmsg.JoinGroupRequest) {
	if !c.accepts(req.MemberID) {
		if m := c.members[req.MemberID]; m != nil {
			// The phase is not completed by this, though all who remain may be
			// waiting: it ends with its timer or the next event, as in Kafka.
			c.casualty(m, 0)
			c.expel(m)
		}
		c.dropPending(req.MemberID)
		c.s.reply(rq.Token, joinError(req, "", kerr.GroupMaxSizeReached.Code))
		return
	}
	if !c.supports(req.ProtocolType, req.Protocols) {
		c.s.reply(rq.Token, joinError(req, req.MemberID, kerr.InconsistentGroupProtocol.Code))
		return
	}
	if req.MemberID == "" {
		c.joinUnknown(rq, req)
		return
	}
	c.joinKnown(rq, req)
}

// accepts says whether group.max.size leaves room. While members come back the
// first to come stay.
func (c *classic) accepts(id string) bool {
	m := c.members[id]
	switch c.phase {
	case preparing:
		return m != nil && m.join.on || c.joined() < c.s.cfg.MaxSize
	case completing, stable:
		return m != nil || len(c.members) < c.s.cfg.MaxSize
	}
	return true
}

// joined counts the members whose join is parked.
func (c *classic) joined() int {
	n := 0
	for _, m := range c.order {
		if m.join.on {
			n++
		}
	}
	return n
}

func (c *classic) joinUnknown(rq Request, req *kmsg.JoinGroupRequest) {
	if req.InstanceID != nil {
		if old := c.static[*req.InstanceID]; old != nil {
			c.replaceStatic(rq, req, old)
			return
		}
		c.addMember(c.s.memberID(*req.InstanceID), rq, req, text(req.Reason))
		return
	}
	id := c.s.memberID(rq.ClientID)
	if req.Version < 4 {
		c.addMember(id, rq, req, text(req.Reason))
		return
	}
	p := &pendingMember{clientID: rq.ClientID, host: rq.Host, reason: text(req.Reason)}
	p.expiry.ring = func() { c.expirePending(id) }
	c.pending[id] = p
	c.s.alarms.set(&p.expiry, c.s.now.Add(time.Duration(req.SessionTimeoutMillis)*time.Millisecond))
	c.s.reply(rq.Token, joinError(req, id, kerr.MemberIDRequired.Code))
}

func (c *classic) expirePending(id string) {
	c.dropPending(id)
	c.maybeCompleteJoin()
}

func (c *classic) joinKnown(rq Request, req *kmsg.JoinGroupRequest) {
	if p := c.pending[req.MemberID]; p != nil {
		if req.InstanceID != nil {
			// A static member never asks for an id first.
			c.s.reply(rq.Token, joinError(req, req.MemberID, kerr.UnknownServerError.Code))
			return
		}
		c.dropPending(req.MemberID)
		reason := p.reason
		if reason == "" {
			reason = text(req.Reason)
		}
		c.addMember(req.MemberID, rq, req, reason)
		return
	}
	if code := c.check(req.MemberID, req.InstanceID); code != 0 {
		c.s.reply(rq.Token, joinError(req, req.MemberID, code))
		return
	}
	m := c.members[req.MemberID]
	same := m.offered(req.Protocols)
	switch {
	case c.phase == preparing,
		c.phase == completing && !same,
		c.phase == stable && (!same || c.leader == m.id):
		c.rejoin(m, rq, req, same)
	case c.phase == completing, c.phase == stable:
		// The answer got lost, or the client rejoins for no reason of its own:
		// it disturbs nobody.
		m.work = c.s.now
		m.join = parked{rq.Token, req.Version, true}
		c.answerJoin(m, c.joinSuccess(m, c.phase == completing))
	default:
		c.s.reply(rq.Token, joinError(req, req.MemberID, kerr.UnknownMemberID.Code))
	}
}

// addMember makes a newcomer a member and parks its join.
func (c *classic) addMember(id string, rq Request, req *kmsg.JoinGroupRequest, reason string) {
	m := &member{id: id, clientID: rq.ClientID, host: rq.Host, instance: req.InstanceID, fresh: true, work: c.s.now}
	m.take(req)
	if len(c.members) == 0 {
		c.protocolType = req.ProtocolType
	}
	if c.phase == preparing && c.before == empty {
		c.newcomer = true
	}
	c.enrol(m)
	c.park(m, rq, req)
	c.allow(m, newMemberTimeout)
	c.rebalance(c.whyJoin(m, reason))
}

// take copies what a join says about its member.
func (m *member) take(req *kmsg.JoinGroupRequest) {
	m.session = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	m.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	if req.Version == 0 || req.RebalanceTimeoutMillis < 0 {
		m.rebalance = m.session
	}
	m.offers = cloneOffers(req.Protocols)
}

// park keeps a join until the phase is complete. An older one of the same
// member, from a connection that is gone, is told to try again.
func (c *classic) park(m *member, rq Request, req *kmsg.JoinGroupRequest) {
	c.answerJoin(m, c.joinRefusal(m, m.id, kerr.RebalanceInProgress.Code))
	m.join = parked{rq.Token, req.Version, true}
	m.joinedAt = c.s.now
}

// rejoin takes a member's new metadata into the next generation.
func (c *classic) rejoin(m *member, rq Request, req *kmsg.JoinGroupRequest, same bool) {
	w := c.whyRejoin(m, req, same)
	c.countOffers(m, -1)
	m.take(req)
	c.countOffers(m, 1)
	m.work = c.s.now
	c.park(m, rq, req)
	c.rebalance(w)
}

// joinSuccess is the answer that a member gets for the current generation.
func (c *classic) joinSuccess(m *member, withMembers bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = m.join.version
	resp.Generation = c.generation
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(c.protocolType), kmsg.StringPtr(c.protocol)
	resp.LeaderID, resp.MemberID = c.leader, m.id
	if withMembers && c.leader == m.id {
		resp.Members = c.memberList()
	}
	return resp
}

// memberList is what the leader computes an assignment from.
func (c *classic) memberList() []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, len(c.order))
	for i, m := range c.order {
		list[i] = kmsg.NewJoinGroupResponseMember()
		list[i].MemberID, list[i].InstanceID, list[i].ProtocolMetadata = m.id, m.instance, m.metadata(c.protocol)
	}
	return list
}

func (c *classic) answerJoin(m *member, resp *kmsg.JoinGroupResponse) {
	if m.join.on {
		c.s.reply(m.join.token, resp)
		m.join = parked{}
	}
}

// joinRefusal is the answer that ends a parked join without success.
func (c *classic) joinRefusal(m *member, id string, code int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = m.join.version
	resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, id
	return resp
}

func joinError(req *kmsg.JoinGroupRequest, id string, code int16) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, id
	return resp
}

// shortID makes a member id as Kafka does for members of consumer groups: a
// random UUID in base64.
func (s *Shard) shortID() string {
	return base64.RawURLEncoding.EncodeToString(s.uuid())
}

// memberID makes a member id as Kafka does: the client id, or the instance id
// of a static member, and a random UUID.
func (s *Shard) memberID(prefix string) string {
	h := hex.EncodeToString(s.uuid())
	return prefix + "-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (s *Shard) uuid() []byte {
	u := make([]byte, 16)
	for i := range u {
		u[i] = byte(s.rng.Uint32())
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}
