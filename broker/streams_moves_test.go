package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
)

// stream is a stream thread that talks to one broker of several at a time.
type stream struct {
	t      *testing.T
	nodes  map[int32]*client
	id     string
	epoch  int32
	active map[string][]int32
	owns   map[string][]int32 // what it runs; nil: as told
}

// beat sends a heartbeat to a broker, with everything that the thread has.
func (s *stream) beat(node int32) int16 {
	s.t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", s.id, s.epoch, -1
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	if s.epoch == 0 {
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{"t"}
		sub.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "g-counts-changelog"}}
		topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		topology.Subtopologies = append(topology.Subtopologies, sub)
		req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = &topology, &s.id, 60_000
	} else {
		has := s.active
		if s.owns != nil {
			has = s.owns
		}
		for sub, parts := range has {
			req.ActiveTasks = append(req.ActiveTasks, kmsg.TaskIDs{SubtopologyID: sub, Partitions: parts})
		}
	}
	resp := do[*kmsg.StreamsGroupHeartbeatResponse](s.nodes[node], req, 0)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	s.epoch = resp.MemberEpoch
	if resp.ActiveTasks != nil {
		s.active = map[string][]int32{}
		for _, ids := range resp.ActiveTasks {
			s.active[ids.SubtopologyID] = ids.Partitions
		}
	}
	return 0
}

// describeStreams is the group's and its members' part of the description of group
// g: state, epochs, what they have and are to have.
func describeStreams(c *client) (text string, code int16) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{"g"}
	g := do[*kmsg.StreamsGroupDescribeResponse](c, req, 0).Groups[0]
	return fmt.Sprintf("%s %d %d %+v", g.State, g.Epoch, g.AssignmentEpoch, g.Members), g.ErrorCode
}

// movable is a streams group whose coordinator moves between three brokers.
type movable struct {
	t       *testing.T
	b       *Broker
	nodes   map[int32]*client
	index   int32 // of the partition that the group lives in
	at      int32 // who leads it
	threads []*stream
}

func newMovable(t *testing.T) *movable {
	b := startBroker(t, threeBrokers, func(c *Config) { c.Properties["group.streams.initial.rebalance.delay.ms"] = "0" })
	m := &movable{t: t, b: b, nodes: map[int32]*client{}, index: group.PartitionFor("g", 50)}
	for id := int32(1); id <= 3; id++ {
		m.nodes[id] = dialNode(t, b, id)
	}
	m.nodes[1].makeTopic("t", 4, nil)
	m.nodes[1].awaitCoordinator()
	leaders, _ := m.nodes[1].leaders(offsetsTopicName)
	m.at = leaders[m.index]
	m.threads = []*stream{{t: t, nodes: m.nodes, id: "one"}, {t: t, nodes: m.nodes, id: "two"}}
	return m
}

func (m *movable) tasks() (n int) {
	for _, s := range m.threads {
		n += len(s.active["0"])
	}
	return n
}

// round is a heartbeat of everybody.
func (m *movable) round() {
	m.t.Helper()
	for _, s := range m.threads {
		if code := s.beat(m.at); code != 0 {
			m.t.Fatalf("heartbeat of %s: %s", s.id, errorName(code))
		}
	}
}

// commit commits for the first partition, by whoever has its task.
func (m *movable) commit(offset int64) {
	m.t.Helper()
	for _, s := range m.threads {
		if slices.Contains(s.active["0"], 0) {
			if code := m.nodes[m.at].commit("g", s.id, s.epoch, offset); code != 0 {
				m.t.Error(errorName(code))
			}
			return
		}
	}
	m.t.Error("nobody has the first task")
}

// move moves the coordinator, and holds what the new one says against what the old
// one said.
func (m *movable) move() {
	m.t.Helper()
	before, _ := describeStreams(m.nodes[m.at])
	events := len(m.b.Events())
	to := m.at%3 + 1
	if code := m.nodes[1].reassign(offsetsTopicName, m.index, to); code != 0 {
		m.t.Fatal(errorName(code))
	}
	for _, s := range m.threads {
		if code := s.beat(m.at); code != kerr.NotCoordinator.Code {
			m.t.Errorf("the old coordinator answers a heartbeat: %s", errorName(code))
		}
	}
	if code := m.nodes[m.at].commit("g", "one", m.threads[0].epoch, 1); code != kerr.NotCoordinator.Code {
		m.t.Errorf("the old coordinator takes a commit: %s", errorName(code))
	}
	m.at = to
	after := ""
	waitFor(m.t, "the new coordinator", func() bool {
		text, code := describeStreams(m.nodes[m.at])
		after = text
		return code == 0
	})
	if after != before {
		m.t.Errorf("before the move\n%s\nafter it\n%s", before, after)
	}
	// The story of an epoch that goes on is told to its end by who is unloaded.
	if n := len(m.b.Events()); n > events+1 {
		m.t.Errorf("rebalances came with the move: %v", m.b.Events()[events:])
	}
}

// The coordinator of a streams group moves, at rest and while tasks change hands:
// the old one says NOT_COORDINATOR to everything, the new one has members, epochs,
// tasks and offsets, and nothing of it is a rebalance.
func TestStreamsGroupMoves(t *testing.T) {
	m := newMovable(t)
	one, two := m.threads[0], m.threads[1]
	waitFor(t, "tasks", func() bool { m.round(); return m.tasks() == 4 && len(one.active["0"]) == 2 })
	for offset := int64(5); offset < 8; offset++ {
		m.commit(offset)
		epochs := []int32{one.epoch, two.epoch}
		m.move()
		if got := m.nodes[m.at].committed("g"); got[0] != offset {
			t.Errorf("offset %d is committed, want %d", got[0], offset)
		}
		m.round()
		if now := []int32{one.epoch, two.epoch}; !slices.Equal(now, epochs) || m.tasks() != 4 {
			t.Errorf("after a move the members are at %v with %d tasks, before at %v", now, m.tasks(), epochs)
		}
	}

	// While somebody owes a task: it still owes it to the new coordinator.
	one.owns, two.owns = one.active, two.active
	zero := &stream{t: t, nodes: m.nodes, id: "zero"}
	m.threads = append(m.threads, zero)
	waitFor(t, "a task to be called back", func() bool { m.round(); return len(one.active["0"])+len(two.active["0"]) == 3 })
	m.move()
	m.round()
	if m.tasks() != 3 {
		t.Errorf("%d tasks run while one is owed", m.tasks())
	}
	one.owns, two.owns = nil, nil
	waitFor(t, "the task to be given to the third", func() bool { m.round(); return m.tasks() == 4 && len(zero.active["0"]) == 1 })
	m.commit(9)
}

// A topology may ask for no more partitions than a CreateTopics request.
func TestStreamsTopicTooLarge(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Properties["group.streams.initial.rebalance.delay.ms"] = "0" })
	c := dialClient(t, b)
	c.awaitCoordinator()
	c.makeTopic("t", 1, nil)
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.ProcessID, req.RebalanceTimeoutMillis = "g", "m", kmsg.StringPtr("p"), 60_000
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	subs := make([]kmsg.StreamsGroupHeartbeatRequestTopologySubtopology, 2)
	subs[0].SubtopologyID, subs[0].SourceTopics, subs[0].RepartitionSinkTopics = "0", []string{"t"}, []string{"r"}
	subs[1].SubtopologyID, subs[1].RepartitionSourceTopics = "1", []kmsg.TopicInfo{{Topic: "r", NumPartitions: 1 << 30}}
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: subs}
	resp := do[*kmsg.StreamsGroupHeartbeatResponse](c, req, 0)
	req.Topology, req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = nil, nil, nil, nil
	req.RebalanceTimeoutMillis = -1
	waitFor(t, "the reason", func() bool {
		req.MemberEpoch = resp.MemberEpoch
		resp = do[*kmsg.StreamsGroupHeartbeatResponse](c, req, 0)
		return strings.Contains(statusText(resp), "Creation failed: r (Excessively large number of partitions per request.)")
	})
	if b.catalog().topic("r") != nil {
		t.Error("the topic was made")
	}
}
