package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/journal"
)

// streamsHeartbeat is a heartbeat of the one member of group g: at epoch 0 with
// a topology that counts records of topic t in a store with these configs.
func (c *client) streamsHeartbeat(epoch int32, configs ...kmsg.TopicInfoConfig) *kmsg.StreamsGroupHeartbeatResponse {
	c.t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", "m", epoch, -1
	if epoch == 0 {
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{"t"}
		sub.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "g-counts-changelog", Configs: configs}}
		topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		topology.Subtopologies = append(topology.Subtopologies, sub)
		req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = &topology, kmsg.StringPtr("p"), 60_000
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	resp := do[*kmsg.StreamsGroupHeartbeatResponse](c, req, 0)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("heartbeat at epoch %d: %s", epoch, errorName(resp.ErrorCode))
	}
	return resp
}

func statusText(resp *kmsg.StreamsGroupHeartbeatResponse) string {
	var texts []string
	for _, st := range resp.Status {
		texts = append(texts, st.StatusDetail)
	}
	return strings.Join(texts, "; ")
}

// The broker makes the topics that a topology needs; the tasks come with a later
// heartbeat, and all of it is there after a restart.
func TestStreamsTopics(t *testing.T) {
	fs := &journal.MemFS{}
	onDisk := func(c *Config) {
		c.Dir, c.FS = "data", fs
		c.Properties["group.streams.initial.rebalance.delay.ms"] = "0"
	}
	b := startBroker(t, onDisk)
	c := dialClient(t, b)
	c.awaitCoordinator()
	c.makeTopic("t", 3, nil)
	resp := c.streamsHeartbeat(0, kmsg.TopicInfoConfig{Key: "cleanup.policy", Value: "compact"})
	if got := statusText(resp); got != "Internal topics are missing: g-counts-changelog" {
		t.Errorf("the first answer says %q", got)
	}
	waitFor(t, "tasks", func() bool {
		resp = c.streamsHeartbeat(resp.MemberEpoch)
		return len(resp.ActiveTasks) == 1 && len(resp.ActiveTasks[0].Partitions) == 3
	})
	topic := b.catalog().topic("g-counts-changelog")
	if topic == nil || len(topic.partitions) != 3 || topic.configs["cleanup.policy"] != "compact" {
		t.Fatalf("the changelog is %+v", topic)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c = dialClient(t, startBroker(t, onDisk))
	c.awaitCoordinator()
	c.awaitLoaded()
	if again := c.streamsHeartbeat(resp.MemberEpoch); again.MemberEpoch != resp.MemberEpoch || again.ActiveTasks != nil || len(again.Status) > 0 {
		t.Errorf("after a restart the member hears epoch %d, %v, %q", again.MemberEpoch, again.ActiveTasks, statusText(again))
	}
}

// A topic that cannot be made: members are told why.
func TestStreamsTopicRefused(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Properties["group.streams.initial.rebalance.delay.ms"] = "0" })
	c := dialClient(t, b)
	c.awaitCoordinator()
	c.makeTopic("t", 1, nil)
	resp := c.streamsHeartbeat(0, kmsg.TopicInfoConfig{Key: "cleanup.policy", Value: "sideways"})
	waitFor(t, "the reason", func() bool {
		resp = c.streamsHeartbeat(resp.MemberEpoch)
		return strings.Contains(statusText(resp), "Creation failed: g-counts-changelog (") && strings.Contains(statusText(resp), "sideways")
	})
}
