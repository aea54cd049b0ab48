package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// phase is the state of a classic group.
type phase int8

const (
	empty      phase = iota // no members
	preparing               // members are asked to join again
	completing              // all have joined, the leader owes the assignment
	stable                  // everybody may fetch its assignment
	dead                    // out of the table
)

func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[p]
}

// consumerType is the protocol type of groups whose metadata is Kafka's
// consumer protocol, so that the coordinator may look inside.
const consumerType = "consumer"

// classic is the membership of a group that uses the classic protocol, and of
// one that has no members and only stores offsets.
type classic struct {
	s *Shard
	g *group

	phase        phase
	before       phase // the one before it
	sinceMs      int64 // when this phase began, -1: before timestamps were kept
	protocolType string
	protocol     string // the one voted for, "" before and after
	leader       string // member id
	generation   int32

	members   map[string]*member
	order     []*member // in the order of joining
	static    map[string]*member
	pending   map[string]*pendingMember
	supported map[string]int // members by protocol
	newcomer  bool           // somebody was added during the initial delay

	joinAlarm  alarm // ends the join phase
	syncAlarm  alarm // ends the patience with members that do not sync
	retryAlarm alarm // writes again what could not be written
	holdAlarm  alarm // ends the waiting of the leader's assignment

	held map[string][]byte // that assignment, by member id, nil when there is none

	story *story         // of the rebalance that goes on
	fell  []cause.Member // lost their place just before it began
	last  *cause.Event   // the one before it
	// unwritten: it has just been made, or comes from the consumer protocol, and that
	// may yet be taken back.
	unwritten bool
	untold    []cause.Event // meanwhile
	lost      departed      // who was evicted and has not come back, oldest first
}

// offer is one protocol that a member offers, with its metadata for it.
type offer struct {
	name     string
	metadata []byte
}

// parked is a request whose answer waits.
type parked struct {
	token   uint64
	version int16
	on      bool
}

// member is one member of a classic group.
type member struct {
	id, clientID, host string
	instance           *string // group.instance.id of a static member
	session, rebalance time.Duration
	offers             []offer // in the member's order of preference
	assignment         []byte
	join, sync         parked
	fresh              bool // has never been in a generation
	synced             bool // has asked for the assignment of this generation
	expiry             alarm
	beat               time.Time // last sign of life
	work               time.Time // last sign of work: a join or a commit
	joinedAt           time.Time // of the join that is parked
}

// pendingMember has been given an id and is expected to join with it (KIP-394).
// It is not a member, but the join phase waits for it.
type pendingMember struct {
	clientID, host string
	reason         string // of its first join: the second one only repeats the id
	expiry         alarm
}

func newClassic(s *Shard, g *group) *classic {
	c := &classic{
		s: s, g: g, sinceMs: -1,
		members: map[string]*member{}, static: map[string]*member{},
		pending: map[string]*pendingMember{}, supported: map[string]int{},
	}
	if !s.now.IsZero() {
		c.sinceMs = s.now.UnixMilli()
	}
	c.joinAlarm.ring = c.completeJoin
	c.syncAlarm.ring = c.expireSync
	c.retryAlarm.ring = c.writeEmpty
	c.holdAlarm.ring = c.assign
	return c
}

func (c *classic) enter(p phase) {
	c.before, c.phase, c.sinceMs = c.phase, p, c.s.now.UnixMilli()
}

// enrol makes somebody a member.
func (c *classic) enrol(m *member) {
	if c.leader == "" {
		c.leader = m.id
	}
	m.expiry.ring = func() { c.expireMember(m) }
	c.members[m.id] = m
	c.order = append(c.order, m)
	if m.instance != nil {
		c.static[*m.instance] = m
	}
	c.countOffers(m, 1)
}

func (c *classic) countOffers(m *member, by int) {
	for _, o := range m.offers {
		if c.supported[o.name] += by; c.supported[o.name] == 0 {
			delete(c.supported, o.name)
		}
	}
}

// expel ends a membership. What the member still waits for is answered.
func (c *classic) expel(m *member) {
	c.s.alarms.stop(&m.expiry)
	c.answerJoin(m, c.joinRefusal(m, "", kerr.UnknownMemberID.Code))
	c.answerSync(m, kerr.UnknownMemberID.Code)
	delete(c.members, m.id)
	c.order = slices.DeleteFunc(c.order, func(o *member) bool { return o == m })
	if m.instance != nil && c.static[*m.instance] == m {
		delete(c.static, *m.instance)
	}
	c.countOffers(m, -1)
	if c.leader == m.id {
		c.leader = ""
		if len(c.order) > 0 {
			c.leader = c.order[0].id
		}
	}
}

// dropPending ends the expectation of a member.
func (c *classic) dropPending(id string) {
	if p := c.pending[id]; p != nil {
		c.s.alarms.stop(&p.expiry)
		delete(c.pending, id)
	}
}

// restart gives a member a full session: it has shown a sign of life, or it was
// the coordinator that had kept it waiting.
func (c *classic) restart(m *member) { c.allow(m, m.session) }

func (c *classic) allow(m *member, d time.Duration) {
	m.beat = c.s.now
	c.s.alarms.set(&m.expiry, c.s.now.Add(d))
}

// rebalanceTimeout is the longest that any member may need to come back.
func (c *classic) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range c.order {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// check says whether a request comes from a member. An instance id belongs to
// the member id that came last; an older process with the same instance id is
// fenced.
func (c *classic) check(id string, instance *string) int16 {
	if instance != nil {
		switch m := c.static[*instance]; {
		case m == nil:
			return kerr.UnknownMemberID.Code
		case m.id != id:
			return kerr.FencedInstanceID.Code
		}
	}
	if c.members[id] == nil {
		return kerr.UnknownMemberID.Code
	}
	return 0
}

// supports says whether somebody with these offers can be a member: the same
// type, and one protocol at least that everybody has.
func (c *classic) supports(protocolType string, offers []kmsg.JoinGroupRequestProtocol) bool {
	if c.phase == empty {
		return protocolType != "" && len(offers) > 0
	}
	return protocolType == c.protocolType && slices.ContainsFunc(offers, func(o kmsg.JoinGroupRequestProtocol) bool {
		return c.supported[o.Name] == len(c.members)
	})
}

// vote chooses the protocol of a generation: of those that all support, each
// member votes for the one that it likes best. Kafka leaves a tie to the order
// of a hash map; here the one that was voted for first wins.
func (c *classic) vote() string {
	votes := map[string]int{}
	best := ""
	var ballot []string
	for _, m := range c.order {
		i := slices.IndexFunc(m.offers, func(o offer) bool { return c.supported[o.name] == len(c.members) })
		if i < 0 {
			continue
		}
		name := m.offers[i].name
		if votes[name]++; votes[name] == 1 {
			ballot = append(ballot, name)
		}
	}
	for _, name := range ballot {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// metadata is what the member said about itself for a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, o := range m.offers {
		if o.name == protocol {
			return o.metadata
		}
	}
	return nil
}

// offered says whether the member offers the same, byte for byte.
func (m *member) offered(offers []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.offers, offers, func(a offer, b kmsg.JoinGroupRequestProtocol) bool {
		return a.name == b.Name && bytes.Equal(a.metadata, b.Metadata)
	})
}

func cloneOffers(offers []kmsg.JoinGroupRequestProtocol) []offer {
	own := make([]offer, len(offers))
	for i, o := range offers {
		own[i] = offer{o.Name, bytes.Clone(o.Metadata)}
	}
	return own
}

// What the shard asks of every membership.

func (c *classic) kind() string         { return "classic" }
func (c *classic) state() string        { return c.phase.String() }
func (c *classic) protocolName() string { return c.protocolType }
func (c *classic) empty() bool          { return c.phase == empty || c.phase == dead }

func (c *classic) tombstones() []Record { return []Record{{Key: classicKey(c.g.id)}} }

func (c *classic) checkCommit(k commitCheck) int16 {
	if k.generation < 0 && c.phase == empty {
		return 0 // a client that assigns partitions by itself
	}
	if k.generation >= 0 || k.member != "" || k.instance != nil {
		if code := c.check(k.member, k.instance); code != 0 {
			return code
		}
		if k.generation != c.generation {
			return kerr.IllegalGeneration.Code
		}
	} else if !k.txn && c.phase != empty {
		return kerr.UnknownMemberID.Code
	}
	if !k.txn && c.phase == completing {
		return kerr.RebalanceInProgress.Code
	}
	if m := c.members[k.member]; m != nil {
		m.work = c.s.now
		if !k.txn && (c.phase == stable || c.phase == preparing) {
			c.restart(m)
		}
	}
	return 0
}

func (c *classic) offsetsInUse() bool {
	return c.phase != empty && c.protocolType != consumerType
}

func (c *classic) expiry() (int64, bool) {
	switch {
	case c.phase == empty && len(c.pending) > 0:
		return 0, false // somebody is about to join
	case c.protocolType == "":
		return 0, true
	case c.phase == empty:
		return c.sinceMs, true
	case c.phase == stable && c.protocolType == consumerType:
		return 0, c.subscription() != nil
	}
	return 0, false
}

// checkFetch lets everybody: the classic protocol has no epochs of members.
func (c *classic) checkFetch(*string, int32) int16 { return 0 }

func (c *classic) describe(int16) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group, d.State, d.ProtocolType = c.g.id, c.state(), c.protocolType
	if c.phase == stable {
		d.Protocol = c.protocol
	}
	for _, m := range c.order {
		row := kmsg.NewDescribeGroupsResponseGroupMember()
		row.MemberID, row.InstanceID, row.ClientID, row.ClientHost = m.id, m.instance, m.clientID, m.host
		row.MemberAssignment, row.UnknownTags = m.assignment, clocksTag(c.clocks(m))
		if c.phase == stable {
			row.ProtocolMetadata = m.metadata(c.protocol)
		}
		d.Members = append(d.Members, row)
	}
	return d
}

// loaded wakes the group up: members are given a full session, since the
// coordinator does not know how long it was away.
func (c *classic) loaded() {
	for _, m := range c.order {
		m.work = c.s.now
		c.restart(m)
	}
	if len(c.members) > c.s.cfg.MaxSize {
		c.prepare(c.whyTooLarge())
	}
}

func (c *classic) unload(code int16) {
	for _, m := range c.order {
		c.s.alarms.stop(&m.expiry)
		c.answerJoin(m, c.joinRefusal(m, m.id, code))
		c.answerSync(m, code)
	}
	for id := range c.pending {
		c.dropPending(id)
	}
	c.s.alarms.stop(&c.joinAlarm)
	c.s.alarms.stop(&c.syncAlarm)
	c.s.alarms.stop(&c.retryAlarm)
	c.drop()
	if c.phase == completing {
		c.story = nil // its generation is not written: the next coordinator makes it again
	}
	c.closeStory()
	c.phase = dead
}
