package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// groupView is one group as the cluster tells it, whatever its type. Its JSON
// is an object of groups -o json.
type groupView struct {
	ID           string       `json:"group"`
	Type         string       `json:"type,omitempty"`          // Classic, Consumer, Streams, Share
	ProtocolType string       `json:"protocol_type,omitempty"` // consumer, connect ...
	State        string       `json:"state,omitempty"`
	Coordinator  *nodeView    `json:"coordinator,omitempty"`
	Assignor     string       `json:"assignor,omitempty"`
	Epoch        *int32       `json:"epoch,omitempty"` // not of classic groups
	TargetEpoch  *int32       `json:"target_assignment_epoch,omitempty"`
	Topology     *int32       `json:"topology_epoch,omitempty"` // of streams groups
	MemberCount  *int         `json:"member_count,omitempty"`
	Members      []memberView `json:"members,omitempty"`
	Offsets      []offsetView `json:"offsets,omitempty"`
	Last         *eventView   `json:"last_event,omitempty"` // Rondo's broker alone
}

// nodeView is a broker.
type nodeView struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// memberView is one member. Assignment is what it has now, Target what it is
// to have; for streams groups both are the input partitions of its tasks.
type memberView struct {
	ID         string             `json:"member_id"`
	Instance   string             `json:"instance_id,omitempty"`
	Rack       string             `json:"rack,omitempty"`
	Host       string             `json:"host"`
	ClientID   string             `json:"client_id"`
	Epoch      *int32             `json:"epoch,omitempty"`
	Upgraded   *bool              `json:"upgraded,omitempty"` // in a consumer group: speaks the consumer protocol
	ProcessID  string             `json:"process_id,omitempty"`
	Partitions int                `json:"partitions"`
	Assignment map[string][]int32 `json:"assignment,omitempty"`
	Target     map[string][]int32 `json:"target_assignment,omitempty"`
	Tasks      map[string]string  `json:"tasks,omitempty"` // of streams groups: active, standby, warmup
	Clocks     *cause.Clocks      `json:"clocks,omitempty"`
}

// offsetView is one partition of a group. What is not known is null.
type offsetView struct {
	Topic       string `json:"topic"`
	Partition   *int32 `json:"partition"` // null: a member without partitions
	LeaderEpoch *int32 `json:"leader_epoch"`
	Current     *int64 `json:"current_offset"`
	End         *int64 `json:"log_end_offset"`
	Lag         *int64 `json:"lag"`
	MemberID    string `json:"member_id,omitempty"`
	Host        string `json:"host,omitempty"`
	ClientID    string `json:"client_id,omitempty"`

	clocks *cause.Clocks
}

// eventView is an event in the JSON of the history topic.
type eventView struct{ cause.Event }

// MarshalJSON is the record of the event.
func (e eventView) MarshalJSON() ([]byte, error) { return e.Record() }

// owned adds partitions to an assignment.
func owned(to map[string][]int32, topic string, partitions []int32) {
	to[topic] = append(to[topic], partitions...)
	slices.Sort(to[topic])
}

// classicView reads a group of the classic protocol, and of connect and other
// protocols on top of it.
func classicView(g kmsg.DescribeGroupsResponseGroup) groupView {
	v := groupView{ID: g.Group, Type: "Classic", ProtocolType: g.ProtocolType, State: g.State, Assignor: g.Protocol}
	for _, m := range g.Members {
		mv := memberView{ID: m.MemberID, Host: m.ClientHost, ClientID: m.ClientID, Clocks: clocksOf(&m.UnknownTags)}
		if m.InstanceID != nil {
			mv.Instance = *m.InstanceID
		}
		mv.Assignment = classicAssignment(g.ProtocolType, m.MemberAssignment)
		v.addMember(mv)
	}
	return v
}

// classicAssignment reads what a leader sent to a member. It is opaque to the
// broker: what is not a consumer's shows no partitions.
func classicAssignment(protocolType string, raw []byte) map[string][]int32 {
	if protocolType != "consumer" || len(raw) == 0 {
		return nil
	}
	var a kmsg.ConsumerMemberAssignment
	if a.ReadFrom(raw) != nil {
		return nil
	}
	assignment := map[string][]int32{}
	for _, t := range a.Topics {
		owned(assignment, t.Topic, t.Partitions)
	}
	return assignment
}

// consumerView reads a group of the consumer protocol (KIP-848).
func consumerView(g kmsg.ConsumerGroupDescribeResponseGroup) groupView {
	v := groupView{
		ID: g.Group, Type: "Consumer", ProtocolType: "consumer", State: g.State, Assignor: g.AssignorName,
		Epoch: &g.Epoch, TargetEpoch: &g.AssignmentEpoch,
	}
	assignment := func(a kmsg.Assignment) map[string][]int32 {
		out := map[string][]int32{}
		for _, t := range a.TopicPartitions {
			owned(out, t.Topic, t.Partitions)
		}
		return out
	}
	mixed := slices.ContainsFunc(g.Members, func(m kmsg.ConsumerGroupDescribeResponseGroupMember) bool { return m.MemberType == 0 })
	for _, m := range g.Members {
		mv := memberView{
			ID: m.MemberID, Host: m.ClientHost, ClientID: m.ClientID, Epoch: &m.MemberEpoch,
			Assignment: assignment(m.Assignment), Target: assignment(m.TargetAssignment), Clocks: clocksOf(&m.UnknownTags),
		}
		if m.InstanceID != nil {
			mv.Instance = *m.InstanceID
		}
		if m.RackID != nil {
			mv.Rack = *m.RackID
		}
		if upgraded := m.MemberType == 1; mixed {
			mv.Upgraded = &upgraded
		}
		v.addMember(mv)
	}
	return v
}

// streamsView reads a group of the streams protocol (KIP-1071).
func streamsView(g kmsg.StreamsGroupDescribeResponseGroup) groupView {
	v := groupView{ID: g.Group, Type: "Streams", ProtocolType: "streams", State: g.State, Epoch: &g.Epoch, TargetEpoch: &g.AssignmentEpoch}
	sources := map[string][]string{} // of each subtopology
	if g.Topology != nil {
		v.Topology = &g.Topology.Epoch
		for _, s := range g.Topology.Subtopologies {
			sources[s.SubtopologyID] = slices.Clone(s.SourceTopics)
			for _, repartition := range s.RepartitionSourceTopics {
				sources[s.SubtopologyID] = append(sources[s.SubtopologyID], repartition.Topic)
			}
		}
	}
	inputs := func(tasks []kmsg.TaskIDs) map[string][]int32 {
		out := map[string][]int32{}
		for _, task := range tasks {
			for _, topic := range sources[task.SubtopologyID] {
				owned(out, topic, task.Partitions)
			}
		}
		return out
	}
	for _, m := range g.Members {
		mv := memberView{
			ID: m.MemberID, Host: m.ClientHost, ClientID: m.ClientID, Epoch: &m.MemberEpoch, ProcessID: m.ProcessID,
			Assignment: inputs(m.Assignment.ActiveTasks), Target: inputs(m.TargetAssignment.ActiveTasks),
			Tasks: map[string]string{}, Clocks: clocksOf(&m.UnknownTags),
		}
		if m.InstanceID != nil {
			mv.Instance = *m.InstanceID
		}
		if m.RackID != nil {
			mv.Rack = *m.RackID
		}
		for role, tasks := range map[string][]kmsg.TaskIDs{"active": m.Assignment.ActiveTasks, "standby": m.Assignment.StandbyTasks, "warmup": m.Assignment.WarmupTasks} {
			if len(tasks) > 0 {
				mv.Tasks[role] = taskList(tasks)
			}
		}
		v.addMember(mv)
	}
	return v
}

// taskList is tasks as people write them: 0_0 0_1 1_0.
func taskList(tasks []kmsg.TaskIDs) string {
	var names []string
	for _, task := range tasks {
		for _, p := range slices.Sorted(slices.Values(task.Partitions)) {
			names = append(names, task.SubtopologyID+"_"+strconv.Itoa(int(p)))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (v *groupView) addMember(m memberView) {
	for _, partitions := range m.Assignment {
		m.Partitions += len(partitions)
	}
	v.Members = append(v.Members, m)
}

// clocksOf reads the tag in which Rondo's broker says, when asked, what the
// clocks of a member show.
func clocksOf(tags *kmsg.Tags) *cause.Clocks {
	var clocks *cause.Clocks
	tags.Each(func(key uint32, value []byte) {
		var c cause.Clocks
		if key == cause.ClocksTag && json.Unmarshal(value, &c) == nil {
			clocks = &c
		}
	})
	return clocks
}

// assignmentText is an assignment as Kafka's tools write it: facts:0,1,2;one:0.
func assignmentText(assignment map[string][]int32) string {
	var topics []string
	for _, topic := range slices.Sorted(maps.Keys(assignment)) {
		numbers := make([]string, len(assignment[topic]))
		for i, p := range assignment[topic] {
			numbers[i] = strconv.Itoa(int(p))
		}
		topics = append(topics, topic+":"+strings.Join(numbers, ","))
	}
	return strings.Join(topics, ";")
}

// addOffsets joins what members have with what the group committed and where
// the logs end, in order of topic and partition; members without partitions
// come last.
func (v *groupView) addOffsets(committed kadm.OffsetResponses, ends kadm.ListedOffsets) {
	rows := map[string]map[int32]offsetView{}
	row := func(topic string, p int32, m memberView) {
		o := offsetView{Topic: topic, Partition: &p, MemberID: m.ID, Host: m.Host, ClientID: m.ClientID, clocks: m.Clocks}
		if c, ok := committed.Lookup(topic, p); ok && c.Err == nil && c.At >= 0 {
			o.Current = &c.At
			if c.LeaderEpoch >= 0 {
				o.LeaderEpoch = &c.LeaderEpoch
			}
		}
		if end, ok := ends.Lookup(topic, p); ok && end.Err == nil && end.Offset >= 0 {
			o.End = &end.Offset
			if o.Current != nil {
				lag := end.Offset - *o.Current
				o.Lag = &lag
			}
		}
		if rows[topic] == nil {
			rows[topic] = map[int32]offsetView{}
		}
		rows[topic][p] = o
	}
	for _, c := range committed.Sorted() {
		row(c.Topic, c.Partition, memberView{})
	}
	for _, m := range v.Members {
		for topic, partitions := range m.Assignment {
			for _, p := range partitions {
				row(topic, p, m)
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(rows)) {
		for _, p := range slices.Sorted(maps.Keys(rows[topic])) {
			v.Offsets = append(v.Offsets, rows[topic][p])
		}
	}
	for _, m := range v.Members {
		if m.Partitions == 0 {
			v.Offsets = append(v.Offsets, offsetView{MemberID: m.ID, Host: m.Host, ClientID: m.ClientID, clocks: m.Clocks})
		}
	}
}

// number shows a number that may be unknown.
func number[T int | int32 | int64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
