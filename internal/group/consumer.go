package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumer is the membership of a group that uses the consumer protocol
// (KIP-848): the coordinator assigns, and members follow one by one.
//
// Three numbers say where it stands. The group's epoch grows with every change
// of members, subscriptions or topics. The target epoch is the group epoch for
// which targets were computed last. Each member has the epoch whose target it
// has come to. What a number or a set is, the log says: every change is a
// record (consumer_write.go), applied at once and taken back when its append
// fails, and the same records make the group again after a restart.
type consumer struct {
	s *Shard
	g *group

	epoch       int32
	hash        int64 // of the topics that the epoch was made for
	targetEpoch int32
	members     map[string]*consumerMember
	static      map[string]*consumerMember // by instance id
	targets     map[string]partitionSet    // by member id
	regexes     map[string]*resolved
	owners      map[TopicID][]*consumerMember // by partition: who has it, or has not given it up
	laggard     *consumerMember               // who the group was found to wait for the last time
	assigned    time.Time                     // when targets were computed last

	seen       int64 // version of the image whose hash is the group's, -1: look again
	regexAlarm alarm // looks expressions up
	regexSeen  int64 // version of the image in which they were looked up
	regexAt    time.Time

	chronicle
}

// consumerMember is one member.
type consumerMember struct {
	id      string
	meta    *memberMeta
	known   bool // meta has been written
	current *currentAssignment

	session  alarm     // its heartbeats
	patience alarm     // gives partitions up within its rebalance timeout
	join     alarm     // classic: joins again when it was told to
	sync     alarm     // classic: asks for its assignment when it has joined
	beat     time.Time // last sign of life
	work     time.Time // last sign of work: a join, a commit, partitions given up
	revoking time.Time // since when it has to give partitions up
}

func newConsumer(s *Shard, g *group) *consumer {
	c := &consumer{
		s: s, g: g, seen: -1, regexSeen: -1,
		members: map[string]*consumerMember{}, static: map[string]*consumerMember{},
		targets: map[string]partitionSet{}, regexes: map[string]*resolved{},
		owners: map[TopicID][]*consumerMember{},
	}
	c.regexAlarm.ring = c.resolve
	return c
}

// member finds a member, or makes one of which nothing is written yet.
func (c *consumer) member(id string) *consumerMember {
	if m := c.members[id]; m != nil {
		return m
	}
	m := &consumerMember{id: id, meta: &memberMeta{}, current: &currentAssignment{}, beat: c.s.now, work: c.s.now}
	m.session.ring = func() { c.expire(m) }
	m.patience.ring = func() { c.loseRevoking(m) }
	m.join.ring = func() { c.loseSilent(m, "was told to join again, and did not within its rebalance timeout") }
	m.sync.ring = func() { c.loseSilent(m, "joined, but did not ask for its assignment within its rebalance timeout") }
	return m
}

func (m *consumerMember) usesClassic() bool { return m.meta.classic != nil }

// sorted lists the members by id.
func (c *consumer) sorted() []*consumerMember {
	list := make([]*consumerMember, 0, len(c.members))
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		list = append(list, c.members[id])
	}
	return list
}

// sessionTimeout is how long a member may be silent: its own word when it uses
// the classic protocol, else the group's config or the broker's.
func (c *consumer) sessionTimeout(m *consumerMember) time.Duration {
	if m.usesClassic() {
		return m.meta.classic.session
	}
	return c.s.groupDuration(c.g.id, "consumer.session.timeout.ms", c.s.cfg.ConsumerSession)
}

func (c *consumer) pace() pace {
	return c.s.pace(c.g.id, "consumer.heartbeat.interval.ms", c.s.cfg.ConsumerHeartbeat, len(c.members))
}

// heartbeatInterval is how soon a member is to come again: soon, while it has
// something to give up or to get, and while others come and go.
func (c *consumer) heartbeatInterval(m *consumerMember) time.Duration {
	p := c.pace()
	if m.current.state != memberStable || c.targetEpoch < c.epoch || c.moves(c.s) {
		return c.s.spread(p, p.hurry)
	}
	return c.s.spread(p, p.calm)
}

// restart gives a member a full session.
func (c *consumer) restart(m *consumerMember) {
	m.beat = c.s.now
	c.s.alarms.set(&m.session, c.s.now.Add(c.sessionTimeout(m)))
}

func (c *consumer) stopAlarms(m *consumerMember) {
	for _, a := range []*alarm{&m.session, &m.patience, &m.join, &m.sync} {
		c.s.alarms.stop(a)
	}
}

// subscribedNames lists the topics that a member reads, sorted: those it names,
// and those that its expression has matched.
func (c *consumer) subscribedNames(meta *memberMeta) []string {
	r := c.regexes[meta.regex]
	if meta.regex == "" || r == nil || len(r.topics) == 0 {
		return meta.topics
	}
	all := slices.Concat(meta.topics, r.topics)
	slices.Sort(all)
	return slices.Compact(all)
}

// names lists the topics that anybody reads, sorted.
func (c *consumer) names() []string {
	seen := map[string]bool{}
	regexes := map[string]bool{}
	for _, m := range c.members {
		for _, t := range m.meta.topics {
			seen[t] = true
		}
		if r := m.meta.regex; r != "" && !regexes[r] && c.regexes[r] != nil {
			regexes[r] = true
			for _, t := range c.regexes[r].topics {
				seen[t] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// What the shard asks of every membership.

func (c *consumer) kind() string         { return "consumer" }
func (c *consumer) protocolName() string { return consumerType }
func (c *consumer) empty() bool          { return len(c.members) == 0 }

func (c *consumer) state() string {
	switch {
	case len(c.members) == 0:
		return "Empty"
	case c.epoch > c.targetEpoch:
		return "Assigning"
	}
	if l := c.laggard; l != nil && c.members[l.id] == l && c.lags(l) {
		return "Reconciling"
	}
	for _, m := range c.members {
		if c.lags(m) {
			c.laggard = m
			return "Reconciling"
		}
	}
	return "Stable"
}

// lags says whether a member has not come to its target.
func (c *consumer) lags(m *consumerMember) bool {
	return m.current.state != memberStable || m.current.epoch != c.targetEpoch
}

func (c *consumer) subscription() []string { return c.names() }
func (c *consumer) offsetsInUse() bool     { return false }
func (c *consumer) expiry() (int64, bool)  { return 0, true }

// checkCommit lets a member commit under its own epoch and no other.
func (c *consumer) checkCommit(k commitCheck) int16 {
	if k.generation < 0 && (len(c.members) == 0 || k.txn && k.member == "" && k.instance == nil) {
		return 0
	}
	m := c.members[k.member]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case !m.usesClassic() && !k.txn && k.version < 9:
		return kerr.UnsupportedVersion.Code // the client does not know STALE_MEMBER_EPOCH
	case k.generation != m.current.epoch && (m.usesClassic() || k.txn):
		return kerr.IllegalGeneration.Code
	case k.generation != m.current.epoch:
		return kerr.StaleMemberEpoch.Code
	}
	m.work = c.s.now
	return 0
}

// checkFetch refuses offsets to a member that is not what it thinks.
func (c *consumer) checkFetch(member *string, epoch int32) int16 {
	if member == nil && epoch < 0 {
		return 0
	}
	m := c.members[text(member)]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case m.current.epoch != epoch && m.usesClassic():
		return kerr.IllegalGeneration.Code
	case m.current.epoch != epoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

// describe answers the classic DescribeGroups, which is not for this kind of
// group.
func (c *consumer) describe(version int16) kmsg.DescribeGroupsResponseGroup {
	return notClassic(c.g.id, version)
}

// notClassic is what DescribeGroups says of a group of another kind (KIP-1043).
func notClassic(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group, d.State = id, "Dead"
	if version >= 6 {
		d.ErrorCode = kerr.GroupIDNotFound.Code
		d.ErrorMessage = kmsg.StringPtr("Group " + id + " is not a classic group.")
	}
	return d
}

// loaded wakes the group up: every member gets a full session, and those that
// owe partitions their full rebalance timeout.
func (c *consumer) loaded() {
	for _, m := range c.sorted() {
		if !m.known { // of a log that lost the beginning of its story
			c.setCurrent(m, &currentAssignment{})
			c.drop(m)
			continue
		}
		m.work = c.s.now
		c.restart(m)
		c.armPatience(m)
	}
	c.topicsChanged()
}

func (c *consumer) unload(int16) {
	for _, m := range c.members {
		c.stopAlarms(m)
	}
	c.s.alarms.stop(&c.regexAlarm)
	c.end(c.s)
}
