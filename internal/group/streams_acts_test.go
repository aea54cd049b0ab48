package group

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsWorld is what a transcript has for streams groups: the topics of the
// cluster, the configs of group g, and the topology that members bring.
type streamsWorld struct {
	version  int64
	topics   []any // names and numbers of partitions in turns
	configs  map[string]string
	topology kmsg.StreamsGroupHeartbeatRequestTopology
}

// playStreams plays the acts of streams groups, all of group g:
//
//	streams topics in:4           these are the topics
//	streams config NAME=VALUE     configs of the group
//	streams topology epoch=0 "0: in [store] >rep" "1: <rep"
//	                              what members run: source topics, [changelogs],
//	                              >sinks, <repartition sources, ~ copartitioned
//	streams join a process=p rebalance=5m
//	streams beat a owns=0:0,1/1:0 a heartbeat, with active/standby tasks or none
//	streams leave a               a leaves; join, beat and leave take shutdown=y
//	streams describe
//	streams restart               of the coordinator
//
// A member's id is its client's name.
func (w *world) playStreams(a act) {
	switch verb := a.words[0]; verb {
	case "topics":
		w.streams.topics = nil
		for _, word := range a.words[1:] {
			name, n, _ := strings.Cut(word, ":")
			w.streams.topics = append(w.streams.topics, name, number(a.t, n))
		}
		w.tellStreams()
	case "config":
		w.streams.configs = a.set
		w.tellStreams()
	case "topology":
		w.streams.topology = streamsTopology(a.t, int32(a.int("epoch", 0)), a.plain()[1:])
	case "join", "beat", "leave":
		w.playStreamsBeat(a, verb, a.words[1])
	case "describe":
		w.describeStreams()
	case "restart":
		w.draw("--", "the coordinator starts again and reads %d records", len(w.durable))
		w.flight, w.asked = nil, map[uint64]ask{}
		w.s = New(w.cfg, rand.New(rand.NewPCG(3, 4)))
		w.tellStreams()
		w.replay()
		w.step(Loaded{})
	default:
		a.t.Fatalf("unknown act of streams groups: %q", verb)
	}
}

func (w *world) tellStreams() {
	w.streams.version++
	w.step(Metadata{Topics: image(w.streams.version, w.streams.topics...), Groups: map[string]map[string]string{"g": w.streams.configs}})
}

func streamsTopology(t *testing.T, epoch int32, subs []string) kmsg.StreamsGroupHeartbeatRequestTopology {
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	topology.Epoch = epoch
	for _, text := range subs {
		id, parts, found := strings.Cut(text, ":")
		if !found {
			t.Fatalf("subtopology %q has no id", text)
		}
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID = id
		for _, part := range strings.Fields(parts) {
			info := kmsg.NewTopicInfo()
			switch part[0] {
			case '[':
				info.Topic = strings.Trim(part, "[]")
				info.Configs = []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}
				sub.StateChangelogTopics = append(sub.StateChangelogTopics, info)
			case '>':
				sub.RepartitionSinkTopics = append(sub.RepartitionSinkTopics, part[1:])
			case '<':
				name, n, fixed := strings.Cut(part[1:], "*")
				if info.Topic = name; fixed {
					info.NumPartitions = int32(number(t, n))
				}
				sub.RepartitionSourceTopics = append(sub.RepartitionSourceTopics, info)
			case '~':
				g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
				for i := range sub.SourceTopics {
					g.SourceTopics = append(g.SourceTopics, int16(i))
				}
				for i := range sub.RepartitionSourceTopics {
					g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
				}
				sub.CopartitionGroups = append(sub.CopartitionGroups, g)
			default:
				sub.SourceTopics = append(sub.SourceTopics, part)
			}
		}
		topology.Subtopologies = append(topology.Subtopologies, sub)
	}
	return topology
}

func (w *world) playStreamsBeat(a act, verb, name string) {
	c := w.client(name)
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = a.group(), name, int32(a.int("epoch", int(c.generation)))
	req.RebalanceTimeoutMillis, req.ShutdownApplication = -1, a.set["shutdown"] == "y"
	switch verb {
	case "join":
		topology := w.streams.topology
		req.MemberEpoch, req.Topology = 0, &topology
		if _, has := a.set["rebalance"]; has {
			c.rebalance = duration(a.t, a.set["rebalance"])
		}
		req.RebalanceTimeoutMillis = int32(c.rebalance.Milliseconds())
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		process := "p" + name
		if p := a.optional("process"); p != nil {
			process = *p
		}
		req.ProcessID = &process
		if _, has := a.set["endpoint"]; has {
			req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: a.set["endpoint"], Port: 80}
		}
	case "leave":
		req.MemberEpoch = -1
	}
	if owns, has := a.set["owns"]; has {
		active, standby, _ := strings.Cut(owns, "/")
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = taskList(a.t, active), taskList(a.t, standby), []kmsg.TaskIDs{}
	}
	w.request(name, verb, req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.StreamsGroupHeartbeatResponse)
		if resp.ErrorCode != 0 {
			w.draw(name, "%s: %s %s", verb, errorName(resp.ErrorCode), text(resp.ErrorMessage))
			return
		}
		c.id, c.generation = name, resp.MemberEpoch
		if verb == "leave" {
			c.generation = 0
		}
		line := fmt.Sprintf("%s: epoch %d", verb, resp.MemberEpoch)
		if resp.ActiveTasks != nil {
			line += fmt.Sprintf(", active %s standby %s", showTasks(resp.ActiveTasks), showTasks(resp.StandbyTasks))
		}
		for _, st := range resp.Status {
			line += fmt.Sprintf(", status %d %q", st.StatusCode, st.StatusDetail)
		}
		for _, e := range resp.PartitionsByUserEndpoint {
			line += fmt.Sprintf(", at %s %v %v", e.UserEndpoint.Host, e.ActivePartitions, e.StandbyPartitions)
		}
		w.draw(name, "%s", line)
	})
}

// taskList reads "0:0,1;1:2".
func taskList(t *testing.T, s string) []kmsg.TaskIDs {
	list := []kmsg.TaskIDs{}
	for _, part := range strings.Split(s, ";") {
		if part == "" {
			continue
		}
		ids := kmsg.NewTaskIDs()
		sub, parts, _ := strings.Cut(part, ":")
		ids.SubtopologyID = sub
		for _, p := range strings.Split(parts, ",") {
			ids.Partitions = append(ids.Partitions, int32(number(t, p)))
		}
		list = append(list, ids)
	}
	return list
}

func showTasks(list []kmsg.TaskIDs) string {
	var parts []string
	for _, ids := range list {
		for _, p := range ids.Partitions {
			parts = append(parts, ids.SubtopologyID+"_"+strconv.Itoa(int(p)))
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func (w *world) describeStreams() {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{"g"}
	w.request("", "describe", req, func(kr kmsg.Response) {
		for _, g := range kr.(*kmsg.StreamsGroupDescribeResponse).Groups {
			if g.ErrorCode != 0 {
				w.draw("", "describe: %s %s", errorName(g.ErrorCode), text(g.ErrorMessage))
				return
			}
			line := fmt.Sprintf("group %s is %s, epoch %d, target epoch %d", g.Group, g.State, g.Epoch, g.AssignmentEpoch)
			for _, m := range g.Members {
				line += fmt.Sprintf("; %s at %d has %s %s, is to have %s %s", m.MemberID, m.MemberEpoch,
					showTasks(m.Assignment.ActiveTasks), showTasks(m.Assignment.StandbyTasks),
					showTasks(m.TargetAssignment.ActiveTasks), showTasks(m.TargetAssignment.StandbyTasks))
			}
			w.draw("", "%s", line)
		}
	})
}

// streamsRecord is a record of a streams group as a transcript shows it, "" for
// others.
func streamsRecord(r Record) string {
	kind := int16(r.Key[0])<<8 | int16(r.Key[1])
	what := map[int16]string{
		keyStreamsGroup: "epoch", keyStreamsMember: "member", keyStreamsTargetEpoch: "target epoch",
		keyStreamsTarget: "target", keyStreamsCurrent: "current", keyStreamsTopology: "topology",
	}[kind]
	if what == "" {
		return ""
	}
	var id, member string
	if readKey(r.Key, &id, &member) == nil {
		what += " of " + member
	}
	if r.Value == nil {
		return fmt.Sprintf("streams %s %s = tombstone", id, what)
	}
	return fmt.Sprintf("streams %s %s = %s", id, what, streamsValue(kind, r.Value))
}

func streamsValue(kind int16, value []byte) string {
	show := func(v any, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(v)
	}
	switch kind {
	case keyStreamsGroup:
		v, err := decodeStreamsEpoch(value)
		return show(fmt.Sprintf("%d, topology %d validated, standbys %s", v.epoch, v.validated, v.standbys), err)
	case keyStreamsMember:
		m, err := decodeStreamsMeta(value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("client %s, process %s, topology %d, rebalance %s", m.clientID, m.process, m.topologyEpoch, m.rebalance)
	case keyStreamsTargetEpoch:
		v, err := decodeTargetEpoch(value)
		return show(v, err)
	case keyStreamsTarget:
		v, err := decodeStreamsTarget(value)
		return show(v, err)
	case keyStreamsCurrent:
		c, err := decodeStreamsCurrent(value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("at %d after %d, state %d, has %v, gives up %v", c.epoch, c.previous, c.writtenState(), c.assigned, c.revoking.roleTasks)
	}
	t, err := decodeTopology(value)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("epoch %d, %v", t.epoch, t.subs)
}

// String shows the tasks of all roles.
func (r roleTasks) String() string {
	return showTasks(r.active.answered()) + " " + showTasks(r.standby.answered())
}

// String shows active tasks with the epochs in which the member got them.
func (h heldTasks) String() string {
	var parts []string
	for _, ids := range h.active.answered() {
		for _, p := range ids.Partitions {
			parts = append(parts, fmt.Sprintf("%s_%d@%d", ids.SubtopologyID, p, h.since[taskID{ids.SubtopologyID, p}]))
		}
	}
	return "[" + strings.Join(parts, " ") + "] " + showTasks(h.standby.answered())
}
