package group

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsHeartbeat is the one request of the streams protocol: it joins, stays,
// moves on and leaves.
func (s *Shard) streamsHeartbeat(rq Request, req *kmsg.StreamsGroupHeartbeatRequest) {
	err := checkStreamsHeartbeat(req)
	var b beat
	if err == nil {
		if req.MemberEpoch < 0 {
			b.resp, err = s.streamsLeave(req)
		} else {
			b, err = s.streamsBeat(rq, req)
		}
	}
	if err != nil {
		s.reply(rq.Token, streamsError(req, err))
		return
	}
	s.after(func(code int16) {
		if code != 0 {
			s.reply(rq.Token, streamsError(req, &refused{code: appendError(code)}))
			return
		}
		if t, ok := streamsOf(s.groups[req.Group]); ok {
			t.maybeCloseStory()
		}
		s.out.Topics = append(s.out.Topics, b.create...)
		s.reply(rq.Token, b.resp)
	})
}

// beat is the answer to a heartbeat, with the topics that it wants made.
type beat struct {
	resp   *kmsg.StreamsGroupHeartbeatResponse
	create []InternalTopic
}

// streamsResponse is an answer in which nothing is said. No status is an empty
// list: null is not what Kafka sends.
func streamsResponse(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	return resp
}

func streamsError(req *kmsg.StreamsGroupHeartbeatRequest, err *refused) *kmsg.StreamsGroupHeartbeatResponse {
	resp := streamsResponse(req)
	resp.ErrorCode = err.code
	if err.text != "" {
		resp.ErrorMessage = &err.text
	}
	return resp
}

// streamsOf is the group's membership, if it uses the streams protocol.
func streamsOf(g *group) (*streams, bool) {
	if g == nil {
		return nil, false
	}
	t, ok := g.members.(*streams)
	return t, ok
}

// checkStreamsHeartbeat refuses what no client should send, in Kafka's order
// (GroupCoordinatorService.streamsGroupHeartbeat): first what 4.2 does not
// support yet, then what makes no sense.
func checkStreamsHeartbeat(req *kmsg.StreamsGroupHeartbeatRequest) *refused {
	blank := func(p *string) bool { return p != nil && strings.TrimSpace(*p) == "" }
	switch {
	case req.InstanceID != nil:
		return refuse(kerr.InvalidRequest, "Static membership is not yet supported.")
	case req.TaskOffsets != nil:
		return refuse(kerr.InvalidRequest, "TaskOffsets are not supported yet.")
	case req.TaskEndOffsets != nil:
		return refuse(kerr.InvalidRequest, "TaskEndOffsets are not supported yet.")
	case len(req.WarmupTasks) > 0:
		return refuse(kerr.InvalidRequest, "WarmupTasks are not supported yet.")
	case req.Topology != nil && slices.ContainsFunc(req.Topology.Subtopologies, readsByPattern):
		return refuse(kerr.InvalidRequest, "Regular expressions for source topics are not supported yet.")
	case strings.TrimSpace(req.MemberID) == "":
		return refuse(kerr.InvalidRequest, "MemberId can't be empty.")
	case strings.TrimSpace(req.Group) == "":
		return refuse(kerr.InvalidRequest, "GroupId can't be empty.")
	case blank(req.RackID):
		return refuse(kerr.InvalidRequest, "RackId can't be empty.")
	case req.MemberEpoch == epochLeaveStatic:
		return refuse(kerr.InvalidRequest, "InstanceId can't be null.")
	case req.MemberEpoch < epochLeaveStatic:
		return refuse(kerr.InvalidRequest, "MemberEpoch is %d, but must be greater than or equal to -2.", req.MemberEpoch)
	}
	if req.MemberEpoch == epochJoin {
		return checkStreamsJoin(req)
	}
	none, all := true, true
	for _, list := range [][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
		none, all = none && list == nil, all && list != nil
	}
	switch {
	case !none && !all:
		return refuse(kerr.InvalidRequest, "If one task-type is non-null, all must be non-null.")
	case req.Topology != nil:
		return refuse(kerr.InvalidRequest, "Topology can only be provided when (re-)joining.")
	}
	return nil
}

func readsByPattern(sub kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) bool {
	return len(sub.SourceTopicRegex) > 0
}

func checkStreamsJoin(req *kmsg.StreamsGroupHeartbeatRequest) *refused {
	filled := func(list []kmsg.TaskIDs) bool { return list == nil || len(list) > 0 }
	switch {
	case req.RebalanceTimeoutMillis == -1:
		return refuse(kerr.InvalidRequest, "RebalanceTimeoutMs must be provided in first request.")
	case filled(req.ActiveTasks):
		return refuse(kerr.InvalidRequest, "ActiveTasks must be empty when (re-)joining.")
	case filled(req.StandbyTasks):
		return refuse(kerr.InvalidRequest, "StandbyTasks must be empty when (re-)joining.")
	case filled(req.WarmupTasks):
		return refuse(kerr.InvalidRequest, "WarmupTasks must be empty when (re-)joining.")
	case req.Topology == nil:
		return refuse(kerr.InvalidRequest, "Topology must be non-null when (re-)joining.")
	}
	for _, sub := range req.Topology.Subtopologies {
		for _, topic := range sub.StateChangelogTopics {
			if topic.NumPartitions != 0 {
				return refuse(kerr.StreamsInvalidTopology, "Changelog topic %s must have an undefined partition count, but it is set to %d.", topic.Topic, topic.NumPartitions)
			}
		}
	}
	return nil
}

// arrival is a heartbeat that may be taken: everything that could refuse it has
// been looked at, and nothing has been changed.
type arrival struct {
	t        *streams
	m        *streamsMember
	meta     *streamsMeta
	topology *topology
	look     look
	owned    *roleTasks
	fresh    bool // the group is not a streams group yet
}

// streamsBeat joins or moves on.
func (s *Shard) streamsBeat(rq Request, req *kmsg.StreamsGroupHeartbeatRequest) (beat, *refused) {
	in, err := s.arrive(rq, req)
	if err != nil {
		return beat{}, err
	}
	t, m := in.t, in.m
	if in.fresh {
		s.adopt(t)
	}
	before := m.current
	t.take(in)
	delayed := t.retarget()
	targetEpoch, target := t.targetEpoch, t.targets[m.id]
	if delayed {
		targetEpoch, target = max(1, t.targetEpoch), roleTasks{}
	}
	if next := t.reconcile(m, in.owned, targetEpoch, target); !next.equal(m.current) {
		if m.current.state == memberUnrevoked && next.state != memberUnrevoked {
			t.gaveUp(m.named(), m.revoking, t.s.now)
			m.work = t.s.now
		}
		t.writeCurrent(m, next)
	}
	if req.MemberEpoch == epochJoin {
		m.work = s.now
	}
	t.restart(m)
	if req.ShutdownApplication && t.shutdown == "" {
		t.shutdown = m.id
	}
	return t.answer(req, in, before, delayed), nil
}

// arrive looks at everything that can refuse a heartbeat, in Kafka's order.
func (s *Shard) arrive(rq Request, req *kmsg.StreamsGroupHeartbeatRequest) (in arrival, err *refused) {
	if in.t, in.fresh, err = s.streamsFor(req); err != nil {
		return in, err
	}
	t := in.t
	if in.m = t.members[req.MemberID]; in.m == nil {
		if req.MemberEpoch != epochJoin {
			return in, t.unknown(req.MemberID)
		}
		in.m = t.member(req.MemberID)
	}
	in.owned = ownedTasks(req)
	if err = in.m.checkEpoch(req.MemberEpoch, in.owned); err != nil {
		return in, err
	}
	if in.m.current.state == memberUnknown && (in.owned == nil || !in.owned.empty()) {
		return in, refuse(kerr.FencedMemberEpoch, "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.")
	}
	in.meta = in.m.meta.updated(rq, req)
	if in.topology, err = t.agree(req.Topology); err != nil {
		return in, err
	}
	if in.look, err = t.lookAt(in.topology); err != nil {
		return in, err
	}
	if in.look.configured.ready() {
		for _, list := range [][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
			if err = in.look.configured.checkTasks(list); err != nil {
				return in, err
			}
		}
	}
	return in, nil
}

// streamsFor finds the group of a heartbeat. A joining member may make it, or
// take the place of an empty group of another kind, whose offsets stay.
func (s *Shard) streamsFor(req *kmsg.StreamsGroupHeartbeatRequest) (t *streams, fresh bool, err *refused) {
	g := s.groups[req.Group]
	t, ok := streamsOf(g)
	if req.MemberEpoch != epochJoin {
		switch {
		case g == nil:
			return nil, false, refuse(kerr.GroupIDNotFound, "Streams group %s not found.", req.Group)
		case !ok:
			return nil, false, refuse(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
		}
		return t, false, nil
	}
	switch {
	case g == nil:
		t, fresh = newStreams(s, &group{id: req.Group}), true
	case !ok && !g.members.empty():
		return nil, false, refuse(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
	case !ok:
		t, fresh = newStreams(s, g), true
	}
	if len(t.members) >= s.cfg.StreamsMaxSize {
		return nil, false, refuse(kerr.GroupMaxSizeReached, "The streams group has reached its maximum capacity of %d members.", s.cfg.StreamsMaxSize)
	}
	return t, fresh, nil
}

// adopt puts a new membership into the table. Of the one that it replaces, which
// is empty, nothing stays in the log; the group's offsets do.
func (s *Shard) adopt(t *streams) {
	g, old := t.g, t.g.members
	g.members = t
	if s.groups[g.id] != g {
		s.groups[g.id] = g
		s.log(func(code int16) {
			if code != 0 && g.members.empty() && g.offsets.none() {
				s.remove(g)
			}
		})
		return
	}
	c, wasClassic := old.(*classic)
	if wasClassic {
		c.retire()
	}
	s.log(func(code int16) {
		if code == 0 {
			return
		}
		if g.members = old; wasClassic {
			c.revive()
		}
	}, old.tombstones()...)
}

func (t *streams) unknown(id string) *refused {
	return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, t.g.id)
}

// checkEpoch accepts the member's epoch, and the one before when its answer got
// lost: then the member has nothing but what it may have.
func (m *streamsMember) checkEpoch(epoch int32, owned *roleTasks) *refused {
	const text = "The streams group member has a %s member epoch (%d) than the one known by the group coordinator (%d). " +
		"The member must abandon all its partitions and rejoin."
	known := m.current
	switch {
	case epoch == epochJoin || epoch == known.epoch:
		return nil
	case epoch > known.epoch:
		return refuse(kerr.FencedMemberEpoch, text, "greater", epoch, known.epoch)
	case epoch != known.previous || owned == nil || !owned.within(known.assigned.roleTasks):
		return refuse(kerr.FencedMemberEpoch, text, "smaller", epoch, known.epoch)
	}
	return nil
}

// updated is what a member says about itself after a heartbeat. What the
// heartbeat leaves out stays.
func (m *streamsMeta) updated(rq Request, req *kmsg.StreamsGroupHeartbeatRequest) *streamsMeta {
	now := *m
	now.clientID, now.host = rq.ClientID, rq.Host
	if req.RackID != nil {
		now.rack = req.RackID
	}
	if req.RebalanceTimeoutMillis != -1 {
		now.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	if req.Topology != nil {
		now.topologyEpoch = req.Topology.Epoch
	}
	if req.ProcessID != nil {
		now.process = *req.ProcessID
	}
	if e := req.UserEndpoint; e != nil {
		now.endpoint = &endpoint{e.Host, e.Port}
	}
	if req.ClientTags != nil {
		now.tags = make([]config, 0, len(req.ClientTags))
		for _, tag := range req.ClientTags {
			now.tags = append(now.tags, config{tag.Key, tag.Value})
		}
		slices.SortStableFunc(now.tags, func(a, b config) int { return cmp.Compare(a.key, b.key) })
	}
	return &now
}

func (m *streamsMeta) equal(o *streamsMeta) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return same(m.instance, o.instance) && same(m.rack, o.rack) && m.clientID == o.clientID && m.host == o.host &&
		m.rebalance == o.rebalance && m.topologyEpoch == o.topologyEpoch && m.process == o.process &&
		(m.endpoint == o.endpoint || m.endpoint != nil && o.endpoint != nil && *m.endpoint == *o.endpoint) &&
		slices.Equal(m.tags, o.tags)
}

// agree finds the topology that a heartbeat speaks of. The first member brings
// it; later ones bring the same, or an older one, and then learn that theirs is
// stale.
func (t *streams) agree(req *kmsg.StreamsGroupHeartbeatRequestTopology) (*topology, *refused) {
	if req == nil {
		if t.topology == nil {
			return nil, &refused{code: kerr.UnknownServerError.Code}
		}
		return t.topology, nil
	}
	brought, ok := topologyOf(req)
	switch {
	case !ok:
		return nil, &refused{code: kerr.UnknownServerError.Code}
	case t.topology == nil:
		return brought, nil
	case t.topology.epoch > brought.epoch, t.topology.equal(brought):
		return t.topology, nil
	}
	return nil, refuse(kerr.InvalidRequest, "Topology updates are not supported yet.")
}

// look is what the topics of the cluster make of a topology.
type look struct {
	configured *configured
	hash       int64
	version    int64
}

// lookAt looks at the topics again when there are newer ones.
func (t *streams) lookAt(topology *topology) (look, *refused) {
	if t.configured != nil && t.topology != nil && t.seen == t.s.topics.version {
		return look{t.configured, t.hash, t.seen}, nil
	}
	l := look{hash: t.s.topics.hash(topology.required()), version: t.s.topics.version}
	if t.configured != nil && t.topology != nil && l.hash == t.hash {
		l.configured = t.configured
		return l, nil
	}
	var err *refused
	l.configured, err = configure(t.s.topics, topology)
	return l, err
}

// take writes what a heartbeat has changed about a member and about the
// topology, and the group's next epoch when that concerns the others.
func (t *streams) take(in arrival) {
	m, wasEmpty, isNew := in.m, len(t.members) == 0, t.members[in.m.id] == nil
	changed := isNew || !m.meta.equal(in.meta)
	if changed {
		t.writeMeta(m, in.meta)
	}
	if t.topology == nil {
		t.writeTopology(in.topology)
	}
	t.configured, t.seen = in.look.configured, in.look.version
	validated := int32(-1)
	if t.configured.ready() {
		validated = t.topology.epoch
	}
	standbys := t.replicas()
	switch {
	case isNew:
		t.bump(in.look.hash, validated, standbys, t.whyJoin(t.s, m.named(), t.clocks(m)))
	case changed:
		t.bump(in.look.hash, validated, standbys, t.whyChanged(m))
	case in.look.hash != t.hash || validated != t.validated:
		t.bump(in.look.hash, validated, standbys, t.whyTopics())
	case standbys != t.standbys:
		t.bump(in.look.hash, validated, standbys, t.whyStandbys(standbys))
	default:
		return
	}
	if delay := t.initialDelay(); wasEmpty && delay > 0 && t.delay.place == 0 {
		t.s.alarms.set(&t.delay, t.s.now.Add(delay))
	}
}

// bump begins a new epoch. A group begins with the second one: the first is
// what members have while the initial delay runs.
func (t *streams) bump(hash int64, validated int32, standbys string, w why) {
	from := t.epoch
	t.writeEpoch(streamsEpoch{max(t.epoch+1, 2), hash, validated, standbys})
	t.openStory(from, w)
}

// retarget computes targets for a new epoch, unless the initial delay runs.
func (t *streams) retarget() (delayed bool) {
	if t.epoch <= t.targetEpoch {
		return false
	}
	if t.delay.place > 0 {
		return true
	}
	t.assign()
	return false
}

// endDelay computes the first targets, for whoever has come by now.
func (t *streams) endDelay() {
	if t.s.groups[t.g.id] != t.g || t.g.members != t || len(t.members) == 0 || t.configured == nil || t.epoch <= t.targetEpoch {
		return
	}
	t.assign()
}

// assign writes the targets that change, and then that they are those of the
// epoch. While the topology cannot run they are empty.
func (t *streams) assign() {
	members := t.sorted()
	targets := map[string]roleTasks{}
	if t.configured.ready() {
		specs := make([]streamsSpec, len(members))
		for i, m := range members {
			specs[i] = streamsSpec{m.id, m.meta.process, t.targets[m.id]}
		}
		targets = assignTasks(specs, t.configured, replicaCount(t.standbys))
	}
	for _, m := range members {
		if old, had := t.targets[m.id]; !had || !old.equal(targets[m.id]) {
			t.writeTarget(m.id, targets[m.id])
		}
	}
	t.writeTargetEpoch(t.epoch)
}
