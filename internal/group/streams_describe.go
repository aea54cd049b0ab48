package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answer tells a member where it stands.
func (t *streams) answer(req *kmsg.StreamsGroupHeartbeatRequest, in arrival, before *streamsCurrent, delayed bool) beat {
	m := in.m
	resp := streamsResponse(req)
	resp.MemberID, resp.MemberEpoch = m.id, m.current.epoch
	resp.HeartbeatIntervalMillis = int32(t.heartbeatInterval(m).Milliseconds())
	if req.MemberEpoch == epochJoin || !before.assigned.equal(m.current.assigned) || in.misses(m.current) {
		resp.ActiveTasks = m.current.assigned.active.answered()
		resp.StandbyTasks = m.current.assigned.standby.answered()
		resp.WarmupTasks = m.current.assigned.warmup.answered()
		if m.meta.endpoint != nil {
			t.endpoints++
		}
	}
	if req.EndpointInformationEpoch != t.endpoints {
		resp.PartitionsByUserEndpoint = t.partitionsByEndpoint()
	}
	resp.EndpointInformationEpoch = t.endpoints
	resp.Status = t.statuses(m, delayed)
	b := beat{resp: resp}
	if t.configured.trouble != nil {
		for _, topic := range t.configured.create {
			topic.Group = t.g.id
			b.create = append(b.create, topic)
		}
	}
	return b
}

// misses says whether the member reports other tasks than it has: it has not
// done yet what it was told, or the answer that told it got lost. Kafka 4.2.0
// tells each change once. A member that misses it keeps tasks that are not its
// own any more, or never starts those that are; and clients report everything
// when an answer did not come.
func (in arrival) misses(now *streamsCurrent) bool {
	return in.owned != nil && !in.owned.equal(now.assigned.roleTasks)
}

func (t *streams) statuses(m *streamsMember, delayed bool) []kmsg.StreamsGroupHeartbeatResponseStatus {
	list := []kmsg.StreamsGroupHeartbeatResponseStatus{}
	add := func(code int8, detail string) {
		st := kmsg.NewStreamsGroupHeartbeatResponseStatus()
		st.StatusCode, st.StatusDetail = code, detail
		list = append(list, st)
	}
	if m.meta.topologyEpoch < t.topology.epoch {
		add(statusStaleTopology, refuse(kerr.InvalidRequest, "The member's topology epoch %d is behind the group's topology epoch %d.", m.meta.topologyEpoch, t.topology.epoch).text)
	}
	if delayed {
		add(statusDelayed, "Assignment delayed due to the configured initial rebalance delay.")
	}
	if wrong := t.configured.trouble; wrong != nil {
		add(wrong.status, wrong.text)
	}
	if t.shutdown != "" {
		add(statusShutdown, "Streams group member "+t.shutdown+" encountered a fatal error and requested a shutdown for the entire application.")
	}
	return list
}

// partitionsByEndpoint tells members where to ask for what state.
func (t *streams) partitionsByEndpoint() []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
	list := []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	for _, m := range t.sorted() {
		if m.meta.endpoint == nil || !t.configured.ready() {
			continue
		}
		at := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
		at.UserEndpoint.Host, at.UserEndpoint.Port = m.meta.endpoint.host, m.meta.endpoint.port
		t.eachInput(m.current.assigned.active, func(topic string, parts []int32) {
			p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
			p.Topic, p.Partitions = topic, parts
			at.ActivePartitions = append(at.ActivePartitions, p)
		})
		t.eachInput(m.current.assigned.standby, func(topic string, parts []int32) {
			p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition()
			p.Topic, p.Partitions = topic, parts
			at.StandbyPartitions = append(at.StandbyPartitions, p)
		})
		list = append(list, at)
	}
	return list
}

// eachInput visits the input topics of tasks. A topic with fewer partitions
// than its subtopology has tasks has only its own.
func (t *streams) eachInput(tasks taskSet, visit func(topic string, parts []int32)) {
	for i := range t.topology.subs {
		sub := &t.topology.subs[i]
		parts := tasks[sub.id]
		if len(parts) == 0 {
			continue
		}
		inputs := sub.inputs()
		slices.Sort(inputs)
		for _, topic := range slices.Compact(inputs) {
			have := t.s.topics.byName[topic]
			if have == nil {
				continue
			}
			end, _ := slices.BinarySearch(parts, have.Partitions)
			visit(topic, parts[:end:end])
		}
	}
}

// streamsDescribe answers StreamsGroupDescribe about one group each.
func (s *Shard) streamsDescribe(rq Request, req *kmsg.StreamsGroupDescribeRequest) {
	resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
	for _, id := range req.Groups {
		row := kmsg.NewStreamsGroupDescribeResponseGroup()
		row.Group = id
		g := s.readable(id)
		t, ok := streamsOf(g)
		switch {
		case ok:
			t.fill(&row)
		case g == nil:
			row.ErrorCode, row.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" not found.")
		default:
			row.ErrorCode, row.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" is not a streams group.")
		}
		resp.Groups = append(resp.Groups, row)
	}
	s.reply(rq.Token, resp)
}

func (t *streams) fill(row *kmsg.StreamsGroupDescribeResponseGroup) {
	row.State, row.Epoch, row.AssignmentEpoch = t.state(), t.epoch, t.targetEpoch
	if t.topology != nil {
		row.Topology = t.describeTopology()
	}
	assignment := func(r roleTasks) kmsg.StreamsAssignment {
		a := kmsg.NewStreamsAssignment()
		a.ActiveTasks, a.StandbyTasks, a.WarmupTasks = r.active.answered(), r.standby.answered(), r.warmup.answered()
		return a
	}
	for _, m := range t.sorted() {
		d := kmsg.NewStreamsGroupDescribeResponseGroupMember()
		d.MemberID, d.MemberEpoch, d.InstanceID, d.RackID = m.id, m.current.epoch, m.meta.instance, m.meta.rack
		d.ClientID, d.ClientHost, d.TopologyEpoch, d.ProcessID = m.meta.clientID, m.meta.host, m.meta.topologyEpoch, m.meta.process
		if e := m.meta.endpoint; e != nil {
			at := kmsg.NewStreamsGroupDescribeResponseGroupMemberUserEndpoint()
			at.Host, at.Port = e.host, e.port
			d.UserEndpoint = &at
		}
		for _, tag := range m.meta.tags {
			kv := kmsg.NewStreamsGroupDescribeResponseGroupMemberClientTag()
			kv.Key, kv.Value = tag.key, tag.value
			d.ClientTags = append(d.ClientTags, kv)
		}
		d.Assignment, d.TargetAssignment = assignment(m.current.assigned.roleTasks), assignment(t.targets[m.id])
		d.UnknownTags = clocksTag(t.clocks(m))
		row.Members = append(row.Members, d)
	}
}

// describeTopology shows the topology as it runs, with the numbers of
// partitions that were decided, or, while it cannot run, as it was brought.
func (t *streams) describeTopology() *kmsg.StreamsGroupDescribeResponseGroupTopology {
	out := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	out.Epoch = t.topology.epoch
	runs := t.configured != nil && t.configured.ready()
	infos := func(list []internalTopic) []kmsg.TopicInfo {
		topics := make([]kmsg.TopicInfo, 0, len(list))
		for _, topic := range list {
			info := kmsg.NewTopicInfo()
			info.Topic, info.NumPartitions, info.ReplicationFactor = topic.name, topic.partitions, topic.replication
			if runs {
				info.NumPartitions = t.configured.counts[topic.name]
			}
			for _, c := range topic.configs {
				kv := kmsg.NewTopicInfoConfig()
				kv.Key, kv.Value = c.key, c.value
				info.Configs = append(info.Configs, kv)
			}
			topics = append(topics, info)
		}
		return topics
	}
	for i := range t.topology.subs {
		sub := &t.topology.subs[i]
		d := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		d.SubtopologyID, d.SourceTopics, d.RepartitionSinkTopics = sub.id, sub.sources, sub.sinks
		d.StateChangelogTopics, d.RepartitionSourceTopics = infos(sub.changelogs), infos(sub.repartitionSources)
		out.Subtopologies = append(out.Subtopologies, d)
	}
	return &out
}
