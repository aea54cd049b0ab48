package group

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The member epochs that mean something else than a number.
const (
	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2 // a static member goes and will be back
)

// refused is an error for a member, with the text that clients log.
type refused struct {
	code int16
	text string
}

func refuse(e *kerr.Error, format string, args ...any) *refused {
	return &refused{e.Code, fmt.Sprintf(format, args...)}
}

// consumerHeartbeat is the one request of the consumer protocol: it joins,
// stays, moves on and leaves.
func (s *Shard) consumerHeartbeat(rq Request, req *kmsg.ConsumerGroupHeartbeatRequest) {
	err := s.checkHeartbeat(req)
	var resp *kmsg.ConsumerGroupHeartbeatResponse
	if err == nil {
		if req.MemberEpoch < 0 {
			resp, err = s.consumerLeave(req)
		} else {
			resp, err = s.consumerBeat(rq, req)
		}
	}
	if err != nil {
		s.reply(rq.Token, consumerError(req, err))
		return
	}
	s.after(func(code int16) {
		if code != 0 {
			s.reply(rq.Token, consumerError(req, &refused{code: appendError(code)}))
			return
		}
		if c, ok := consumerOf(s.groups[req.Group]); ok {
			c.maybeCloseStory()
		}
		s.reply(rq.Token, resp)
	})
}

func consumerError(req *kmsg.ConsumerGroupHeartbeatRequest, err *refused) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.ErrorCode = err.code
	if err.text != "" {
		resp.ErrorMessage = &err.text
	}
	return resp
}

// consumerOf is the group's membership, if it uses the consumer protocol.
func consumerOf(g *group) (*consumer, bool) {
	if g == nil {
		return nil, false
	}
	c, ok := g.members.(*consumer)
	return c, ok
}

// checkHeartbeat refuses what no client should send
// (GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid).
func (s *Shard) checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) *refused {
	invalid := func(text string) *refused { return &refused{kerr.InvalidRequest.Code, text} }
	blank := func(p *string) bool { return p != nil && strings.TrimSpace(*p) == "" }
	switch {
	case strings.TrimSpace(req.Group) == "":
		return invalid("GroupId can't be empty.")
	case blank(req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case blank(req.RackID):
		return invalid("RackId can't be empty.")
	case strings.TrimSpace(req.MemberID) == "" && (req.Version >= 1 || req.MemberEpoch != epochJoin):
		return invalid("MemberId can't be empty.")
	case req.MemberEpoch < epochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	case req.MemberEpoch == epochLeaveStatic && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	}
	if req.MemberEpoch == epochJoin {
		switch {
		case req.RebalanceTimeoutMillis < 0:
			return invalid("RebalanceTimeoutMs must be provided in first request.")
		case req.Topics == nil || len(req.Topics) > 0:
			return invalid("TopicPartitions must be empty when (re-)joining.")
		case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
			return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
		}
	}
	if a := req.ServerAssignor; a != nil && !slices.Contains(s.cfg.Assignors, *a) {
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.", *a, strings.Join(s.cfg.Assignors, ", "))
	}
	if r := text(req.SubscribedTopicRegex); r != "" {
		if _, err := compile(r); err != nil {
			why := err.Error()
			if syn, ok := err.(*syntax.Error); ok {
				why = string(syn.Code)
			}
			return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", r, why)
		}
	}
	return nil
}

// consumerBeat joins or moves on.
func (s *Shard) consumerBeat(rq Request, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, *refused) {
	c, err := s.consumerFor(req)
	if err != nil {
		return nil, err
	}
	id := req.MemberID
	if id == "" {
		id = s.shortID()
	}
	m, err := c.comer(id, req)
	if err != nil {
		return nil, err
	}
	before := m.current
	isNew := c.members[id] == nil
	meta := m.meta.updated(rq, req)
	force := c.take(m, meta, isNew)
	c.retarget()
	next, fenced := c.reconcile(m, ownedSet(req.Topics), force)
	if fenced {
		return nil, refuse(kerr.FencedMemberEpoch, "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
	}
	if !next.equal(m.current) {
		if m.current.state == memberUnrevoked && next.state != memberUnrevoked {
			c.gaveUp(m.named(), m.revoking, c.s.now)
			m.work = c.s.now
		}
		c.writeCurrent(m, next)
	}
	if req.MemberEpoch == epochJoin {
		m.work = s.now
	}
	c.restart(m)

	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.MemberID, resp.MemberEpoch = &id, m.current.epoch
	resp.HeartbeatIntervalMillis = int32(c.heartbeatInterval(m) / time.Millisecond)
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == epochJoin || full || !before.assigned.equal(m.current.assigned) {
		resp.Assignment = heartbeatAssignment(m.current.assigned)
	}
	return resp, nil
}

// consumerFor finds the group of a heartbeat, which a joining member may make,
// or make out of a group of the classic protocol.
func (s *Shard) consumerFor(req *kmsg.ConsumerGroupHeartbeatRequest) (*consumer, *refused) {
	g := s.groups[req.Group]
	joins := req.MemberEpoch == epochJoin
	if g == nil {
		if !joins {
			return nil, refuse(kerr.GroupIDNotFound, "Consumer group %s not found.", req.Group)
		}
		g = s.makeSimple(req.Group)
		s.become(g, newConsumer(s, g))
	}
	c, ok := g.members.(*consumer)
	if !ok {
		if !joins {
			return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
		}
		var err *refused
		if c, err = s.convert(g); err != nil {
			return nil, err
		}
	}
	if len(c.members) >= s.cfg.ConsumerMaxSize && c.members[req.MemberID] == nil {
		return nil, refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", s.cfg.ConsumerMaxSize)
	}
	return c, nil
}

// comer finds the member that a heartbeat is from, or makes a new one of it,
// which is not written yet. A static member's new process takes the place of
// the old one, once that has gone.
func (c *consumer) comer(id string, req *kmsg.ConsumerGroupHeartbeatRequest) (*consumerMember, *refused) {
	if req.InstanceID == nil {
		m := c.members[id]
		if m == nil && req.MemberEpoch != epochJoin {
			return nil, c.unknown(id)
		}
		if m == nil {
			return c.member(id), nil
		}
		return m, m.checkEpoch(req.MemberEpoch, ownedSet(req.Topics))
	}
	old := c.static[*req.InstanceID]
	switch {
	case req.MemberEpoch != epochJoin:
		m, err := c.staticMember(id, *req.InstanceID)
		if err != nil {
			return nil, err
		}
		return m, m.checkEpoch(req.MemberEpoch, ownedSet(req.Topics))
	case old == nil:
		return c.member(id), nil
	case old.id == id:
		return old, nil
	case !old.usesClassic() && old.current.epoch != epochLeaveStatic:
		return nil, refuse(kerr.UnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, *req.InstanceID, old.id)
	}
	return c.succeed(old, id), nil
}

func (c *consumer) unknown(id string) *refused {
	return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, c.g.id)
}

// staticMember finds a member by its instance id, which must be its own.
func (c *consumer) staticMember(id, instance string) (*consumerMember, *refused) {
	switch m := c.static[instance]; {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	case m.id != id:
		return nil, refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, instance, m.id)
	default:
		return m, nil
	}
}

// checkEpoch accepts the member's epoch, and the one before when its answer got
// lost: then the member has nothing but what it may have.
func (m *consumerMember) checkEpoch(epoch int32, owned partitionSet) *refused {
	const text = "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). " +
		"The member must abandon all its partitions and rejoin."
	known := m.current
	switch {
	case epoch == epochJoin || epoch == known.epoch:
		return nil
	case epoch > known.epoch:
		return refuse(kerr.FencedMemberEpoch, text, "greater", epoch, known.epoch)
	case epoch != known.previous || owned == nil || !owned.within(known.assigned):
		return refuse(kerr.FencedMemberEpoch, text, "smaller", epoch, known.epoch)
	}
	return nil
}

// updated is what a member says about itself after a heartbeat. What the
// heartbeat leaves out stays.
func (m *memberMeta) updated(rq Request, req *kmsg.ConsumerGroupHeartbeatRequest) *memberMeta {
	now := *m
	now.clientID, now.host, now.classic = rq.ClientID, rq.Host, nil
	if req.InstanceID != nil {
		now.instance = req.InstanceID
	}
	if req.RackID != nil {
		now.rack = req.RackID
	}
	if req.RebalanceTimeoutMillis != -1 {
		now.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	if req.ServerAssignor != nil {
		now.assignor = req.ServerAssignor
	}
	if req.SubscribedTopicNames != nil {
		now.topics = slices.Clone(req.SubscribedTopicNames)
		slices.Sort(now.topics)
		now.topics = slices.Compact(now.topics)
	}
	if req.SubscribedTopicRegex != nil {
		now.regex = *req.SubscribedTopicRegex
	}
	return &now
}

// take writes what has changed about a member, and the group's next epoch when
// that concerns the others: a subscription, or the topics since the last look.
// It says whether the member's own subscription has changed.
func (c *consumer) take(m *consumerMember, meta *memberMeta, isNew bool) (resubscribed bool) {
	old := m.meta
	if isNew || !old.equal(meta) {
		c.writeMeta(m, meta)
	}
	names := !slices.Equal(old.topics, meta.topics)
	bump := names || c.epoch == 0
	if old.regex != meta.regex {
		c.maybeEraseRegex(old.regex)
		if meta.regex == "" || c.regexes[meta.regex] != nil {
			bump = true
		}
		c.resolveSoon()
	}
	switch {
	case bump && isNew:
		c.bump(c.whyJoin(c.s, m.named(), c.clocks(m)))
	case bump:
		c.bump(c.whyChanged(m))
	default:
		c.lookAtTopics()
	}
	return names || old.regex != meta.regex
}

// lookAtTopics begins a new epoch when the topics that the group reads have
// changed since the last look.
func (c *consumer) lookAtTopics() {
	if c.seen == c.s.topics.version {
		return
	}
	c.seen = c.s.topics.version
	if c.s.topics.hash(c.names()) != c.hash {
		c.bump(c.whyTopics())
	}
}

// bump begins a new epoch.
func (c *consumer) bump(w why) {
	c.seen = c.s.topics.version
	c.writeEpoch(c.epoch+1, c.s.topics.hash(c.names()))
	c.openStory(w)
}

func (m *memberMeta) equal(o *memberMeta) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return same(m.instance, o.instance) && same(m.rack, o.rack) && m.clientID == o.clientID && m.host == o.host &&
		slices.Equal(m.topics, o.topics) && m.regex == o.regex && m.rebalance == o.rebalance &&
		same(m.assignor, o.assignor) && m.classic.equal(o.classic)
}

func (c *classicMeta) equal(o *classicMeta) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.session == o.session && slices.EqualFunc(c.offers, o.offers, func(a, b offer) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
}

// ownedSet is what a member says it owns, nil when it says nothing.
func ownedSet(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) partitionSet {
	if topics == nil {
		return nil
	}
	p := partitionSet{}
	for _, t := range topics {
		p.add(t.TopicID, t.Partitions)
	}
	return p.sorted()
}

func heartbeatAssignment(p partitionSet) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	for _, id := range p.sortedTopics() {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, p[id]
		a.Topics = append(a.Topics, t)
	}
	return &a
}
