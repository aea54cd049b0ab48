package group

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InternalTopic is a topic that a streams group needs and that is not there.
type InternalTopic struct {
	Group             string // that needs it
	Name              string
	Partitions        int32
	ReplicationFactor int16 // -1: the broker's default
	Configs           map[string]string
}

// streams is the membership of a group that uses the streams protocol
// (KIP-1071). It moves as a consumer group does (consumer.go), with three
// differences: what is assigned are tasks of a topology that the first member
// brings; a task has roles, and a process may hold it in one role only; and
// nothing is assigned until the topics that the topology needs are there.
type streams struct {
	s *Shard
	g *group

	epoch       int32
	hash        int64  // of the topics that the epoch was made for
	validated   int32  // epoch of the topology that could run on them, -1: none
	standbys    string // num.standby.replicas of the epoch, "" before the first
	targetEpoch int32
	topology    *topology
	members     map[string]*streamsMember
	targets     map[string]roleTasks // by member id

	holds      holdings    // of all members
	configured *configured // the topology on the topics of the last look
	seen       int64       // version of the image of the last look, -1: look again
	delay      alarm       // the initial delay, while it is set nothing is assigned
	shutdown   string      // member that asked everybody to shut down
	endpoints  int32       // epoch of the endpoints' partitions

	chronicle
}

// streamsMember is one member.
type streamsMember struct {
	id      string
	meta    *streamsMeta
	current *streamsCurrent

	session  alarm     // its heartbeats
	patience alarm     // gives tasks up within its rebalance timeout
	beat     time.Time // last sign of life
	work     time.Time // last sign of work: a join, a commit, tasks given up
	revoking time.Time // since when it has to give tasks up
}

// streamsMeta is what a member has said about itself. It is replaced as a
// whole and never changed.
type streamsMeta struct {
	instance, rack *string
	clientID, host string
	rebalance      time.Duration // -1 ms: never said
	topologyEpoch  int32
	process        string
	endpoint       *endpoint
	tags           []config // sorted by key
}

// endpoint is where a member answers questions about its state.
type endpoint struct {
	host string
	port uint16
}

// blankStreams is what a member is before anything is known of it.
func blankStreams() (*streamsMeta, *streamsCurrent) {
	return &streamsMeta{rebalance: -time.Millisecond}, &streamsCurrent{state: memberStable}
}

func newStreams(s *Shard, g *group) *streams {
	t := &streams{
		s: s, g: g, seen: -1, validated: -1,
		members: map[string]*streamsMember{}, targets: map[string]roleTasks{}, holds: newHoldings(),
	}
	t.delay.ring = t.endDelay
	return t
}

// member finds a member, or makes one of which nothing is written yet.
func (t *streams) member(id string) *streamsMember {
	if m := t.members[id]; m != nil {
		return m
	}
	m := &streamsMember{id: id, beat: t.s.now, work: t.s.now}
	m.meta, m.current = blankStreams()
	m.session.ring = func() { t.expire(m) }
	m.patience.ring = func() { t.loseRevoking(m) }
	return m
}

// sorted lists the members by id.
func (t *streams) sorted() []*streamsMember {
	list := make([]*streamsMember, 0, len(t.members))
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		list = append(list, t.members[id])
	}
	return list
}

func (t *streams) sessionTimeout() time.Duration {
	return t.s.groupDuration(t.g.id, "streams.session.timeout.ms", t.s.cfg.StreamsSession)
}

// heartbeatInterval is how soon a member is to come again: soon, while it has
// something to give up or to get, and while others come and go; and when the
// initial delay is over. Who waits for topics may wait for long.
func (t *streams) heartbeatInterval(m *streamsMember) time.Duration {
	p := t.s.pace(t.g.id, "streams.heartbeat.interval.ms", t.s.cfg.StreamsHeartbeat, len(t.members))
	switch {
	case !p.set && t.delay.place > 0:
		return t.s.spread(p, min(max(t.delay.at.Sub(t.s.now), p.hurry), p.calm))
	case m.current.state != memberStable || t.moves(t.s):
		return t.s.spread(p, p.hurry)
	}
	return t.s.spread(p, p.calm)
}

// initialDelay is how long the first member of a group waits for others. As in
// Kafka 4.2.0 a group with any config of its own does not see the broker's.
func (t *streams) initialDelay() time.Duration {
	otherwise := t.s.cfg.StreamsDelay
	if len(t.s.configs[t.g.id]) > 0 {
		otherwise = streamsDelayDefault
	}
	ms, err := strconv.ParseInt(t.s.configs[t.g.id]["streams.initial.rebalance.delay.ms"], 10, 64)
	if err != nil || ms < 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

// streamsDelayDefault is Kafka's default of streams.initial.rebalance.delay.ms.
const streamsDelayDefault = 3 * time.Second

// replicas is how many copies of state the group wants, as it is written.
func (t *streams) replicas() string {
	if own := t.s.configs[t.g.id]["streams.num.standby.replicas"]; own != "" {
		return own
	}
	return strconv.Itoa(t.s.cfg.StreamsStandbys)
}

// restart gives a member a full session.
func (t *streams) restart(m *streamsMember) {
	m.beat = t.s.now
	t.s.alarms.set(&m.session, t.s.now.Add(t.sessionTimeout()))
}

func (t *streams) stopAlarms(m *streamsMember) {
	t.s.alarms.stop(&m.session)
	t.s.alarms.stop(&m.patience)
}

// reconciled says whether a member has come to its target.
func (t *streams) reconciled(m *streamsMember) bool {
	return m.current.state == memberStable && m.current.epoch == t.targetEpoch
}

// What the shard asks of every membership.

func (t *streams) kind() string         { return "streams" }
func (t *streams) protocolName() string { return "streams" }
func (t *streams) empty() bool          { return len(t.members) == 0 }

func (t *streams) state() string {
	switch {
	case len(t.members) == 0:
		return "Empty"
	case t.topology == nil || t.topology.epoch != t.validated:
		return "NotReady"
	case t.epoch > t.targetEpoch:
		return "Assigning"
	}
	for _, m := range t.members {
		if !t.reconciled(m) {
			return "Reconciling"
		}
	}
	return "Stable"
}

func (t *streams) subscription() []string {
	if t.topology == nil || len(t.members) == 0 {
		return nil
	}
	var names []string
	for i := range t.topology.subs {
		names = append(names, t.topology.subs[i].inputs()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *streams) offsetsInUse() bool    { return false }
func (t *streams) expiry() (int64, bool) { return 0, true }

// checkCommit lets a member commit under its own epoch. An older epoch is a
// matter of the partition (checkPartitions): it is good for tasks that the
// member has had since then.
func (t *streams) checkCommit(k commitCheck) int16 {
	if k.generation < 0 && (len(t.members) == 0 || k.txn && k.generation == -1 && k.member == "" && k.instance == nil) {
		return 0
	}
	m := t.members[k.member]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case !k.txn && k.version < 9:
		return kerr.UnsupportedVersion.Code // the client does not know STALE_MEMBER_EPOCH
	case k.generation > m.current.epoch:
		return staleEpoch(k)
	}
	m.work = t.s.now
	return 0
}

// checkPartitions finishes the check of a commit. With an older epoch every
// partition must belong to an active task that the member has, or has not
// given up yet, and got in that epoch or before. With the present epoch it must not
// belong to a task that somebody else has: a member may have been told of a task,
// not have heard that it is to give it up, and report that it has none.
func (t *streams) checkPartitions(k commitCheck, topics []commitTopic) int16 {
	m := t.members[k.member]
	if m == nil || t.topology == nil {
		return 0
	}
	present := k.generation == m.current.epoch
	for _, topic := range topics {
		sub, ok := t.topology.sourceOf(topic.name)
		switch {
		case !ok && present:
			continue
		case !ok:
			return staleEpoch(k)
		}
		for _, p := range topic.partitions {
			id := taskID{sub, p.index}
			since, has := m.current.assigned.since[id]
			if !has {
				since, has = m.current.revoking.since[id]
			}
			if present && !has && t.holds.active[id] > 0 || !present && (!has || k.generation < since) {
				return staleEpoch(k)
			}
		}
	}
	return 0
}

func staleEpoch(k commitCheck) int16 {
	if k.txn {
		return kerr.IllegalGeneration.Code
	}
	return kerr.StaleMemberEpoch.Code
}

// checkFetch refuses offsets to a member that is not what it thinks.
func (t *streams) checkFetch(member *string, epoch int32) int16 {
	if member == nil && epoch < 0 {
		return 0
	}
	m := t.members[text(member)]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case m.current.epoch != epoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

// describe answers the classic DescribeGroups, which is not for this kind of
// group.
func (t *streams) describe(version int16) kmsg.DescribeGroupsResponseGroup {
	return notClassic(t.g.id, version)
}

// loaded wakes the group up: every member gets a full session, and those that
// owe tasks their full rebalance timeout.
func (t *streams) loaded() {
	for _, m := range t.sorted() {
		m.work = t.s.now
		t.restart(m)
		t.armPatience(m)
	}
}

func (t *streams) unload(int16) {
	for _, m := range t.members {
		t.stopAlarms(m)
	}
	t.s.alarms.stop(&t.delay)
	t.end(t.s)
}
