package broker

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/journal"
)

// dialNode connects to one of several brokers.
func dialNode(t testing.TB, b *Broker, id int32) *client {
	t.Helper()
	nc, err := net.Dial("tcp", b.Addrs()[id-b.config.NodeID])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() }) //nolint:errcheck // the test is over
	return &client{t: t, nc: nc}
}

// leaders asks a broker for the leaders and leader epochs of a topic.
func (c *client) leaders(topic string) (leaders, epochs []int32) {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	for _, p := range do[*kmsg.MetadataResponse](c, req, 12).Topics[0].Partitions {
		leaders, epochs = append(leaders, p.Leader), append(epochs, p.LeaderEpoch)
	}
	return leaders, epochs
}

// reassign gives a partition other replicas.
func (c *client) reassign(topic string, partition int32, replicas ...int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}},
	}}
	return do[*kmsg.AlterPartitionAssignmentsResponse](c, req, 0).Topics[0].Partitions[0].ErrorCode
}

func threeBrokers(c *Config) { c.Brokers = 3 }

// The partitions of a topic have leaders on all brokers. Who asks the wrong one
// is told so; elections and reassignments move leaders, and raise their epochs;
// all of that is there again after a restart.
func TestBrokersShareOneStore(t *testing.T) {
	fs := &journal.MemFS{}
	open := func(c *Config) { c.Dir, c.FS, c.Brokers = "data", fs, 3 }
	b := startBroker(t, open)
	one, two := dialNode(t, b, 1), dialNode(t, b, 2)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{
		{Partition: 0, Replicas: []int32{1, 2}}, {Partition: 1, Replicas: []int32{2, 3}}, {Partition: 2, Replicas: []int32{3, 1}},
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = append(create.Topics, topic)
	if r := do[*kmsg.CreateTopicsResponse](one, create, 7).Topics[0]; r.ErrorCode != 0 || r.ReplicationFactor != 2 {
		t.Fatalf("create: %s, replication %d", errorName(r.ErrorCode), r.ReplicationFactor)
	}
	if leaders, _ := two.leaders("t"); !slices.Equal(leaders, []int32{1, 2, 3}) {
		t.Fatalf("leaders %v", leaders)
	}
	produce := func(c *client, partition int32) int16 {
		return do[*kmsg.ProduceResponse](c, produceRequest("t", partition, batchWith("x")), 9).Topics[0].Partitions[0].ErrorCode
	}
	fetch := func(c *client, partition int32) int16 {
		return do[*kmsg.FetchResponse](c, fetchRequest("t", partition, 0, 0), 12).Topics[0].Partitions[0].ErrorCode
	}
	wrong := kerr.NotLeaderForPartition.Code
	for i, got := range []int16{produce(one, 0), produce(two, 0), produce(two, 1), fetch(one, 0), fetch(two, 0)} {
		if want := []int16{0, wrong, 0, 0, wrong}[i]; got != want {
			t.Errorf("step %d: %s, want %s", i, errorName(got), errorName(want))
		}
	}
	if code := one.reassign("t", 0, 3); code != 0 {
		t.Fatal(errorName(code))
	}
	if code := one.reassign("t", 1, 4); code != kerr.InvalidReplicaAssignment.Code {
		t.Errorf("a broker that is not there: %s", errorName(code))
	}
	if code := one.reassign("t", 2, 1, 3); code != 0 {
		t.Fatal(errorName(code))
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{1, 2}}}
	result := do[*kmsg.ElectLeadersResponse](one, elect, 2).Topics[0].Partitions
	if result[0].ErrorCode != kerr.ElectionNotNeeded.Code || result[1].ErrorCode != 0 {
		t.Errorf("elections: %s, %s", errorName(result[0].ErrorCode), errorName(result[1].ErrorCode))
	}
	leaders, epochs := two.leaders("t")
	if !slices.Equal(leaders, []int32{3, 2, 1}) || !slices.Equal(epochs, []int32{1, 0, 2}) {
		t.Errorf("after the moves: leaders %v, epochs %v", leaders, epochs)
	}
	if got := fetch(one, 0); got != wrong {
		t.Errorf("the old leader: %s", errorName(got))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, open)
	leaders, epochs = dialNode(t, b, 3).leaders("t")
	if !slices.Equal(leaders, []int32{3, 2, 1}) || !slices.Equal(epochs, []int32{3, 2, 4}) {
		t.Errorf("after a restart: leaders %v, epochs %v", leaders, epochs)
	}
	if got := values(t, do[*kmsg.FetchResponse](dialNode(t, b, 3), fetchRequest("t", 0, 0, 0), 12)); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the record after all moves: %v", got)
	}
}

// The coordinator of a group moves: whoever is parked with it is told
// NOT_COORDINATOR, the new one has members, generation and offsets, and nothing
// of it is a rebalance.
func TestCoordinatorMoves(t *testing.T) {
	b := startBroker(t, threeBrokers)
	first := dialNode(t, b, 1)
	first.makeTopic("t", 1, nil)
	first.awaitCoordinator()
	index := group.PartitionFor("g", 50)
	leaders, _ := first.leaders(offsetsTopicName)
	from := leaders[index]
	to := from%3 + 1
	old, next := dialNode(t, b, from), dialNode(t, b, to)
	member, generation := old.join("g", time.Minute)
	if code := old.commit("g", member, generation, 5); code != 0 {
		t.Fatal(errorName(code))
	}
	if code := next.beat("g", member, generation); code != kerr.NotCoordinator.Code {
		t.Errorf("a broker that is not the coordinator: %s", errorName(code))
	}
	events := len(b.Events())
	// A second member's join waits for the first, which does not come.
	parked := dialNode(t, b, from)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 60_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	join.SetVersion(3)
	id := parked.send(join)
	waitFor(t, "the join to hold the group up", func() bool {
		return old.beat("g", member, generation) == kerr.RebalanceInProgress.Code
	})
	if code := first.reassign(offsetsTopicName, index, to); code != 0 {
		t.Fatal(errorName(code))
	}
	resp, err := parked.receive(join, id)
	if err != nil || resp.(*kmsg.JoinGroupResponse).ErrorCode != kerr.NotCoordinator.Code {
		t.Fatalf("the parked join: %v %v", resp, err)
	}
	if code := old.beat("g", member, generation); code != kerr.NotCoordinator.Code {
		t.Errorf("the old coordinator: %s", errorName(code))
	}
	waitFor(t, "the new coordinator", func() bool { return next.beat("g", member, generation) == 0 })
	if got := next.committed("g"); got[0] != 5 {
		t.Errorf("offset %d is committed, want 5", got[0])
	}
	if code := next.commit("g", member, generation, 6); code != 0 {
		t.Errorf("a commit to the new coordinator: %s", errorName(code))
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	if c := do[*kmsg.FindCoordinatorResponse](old, find, 4).Coordinators[0]; c.NodeID != to {
		t.Errorf("the coordinator is said to be %d, not %d", c.NodeID, to)
	}
	if n := len(do[*kmsg.ListGroupsResponse](old, kmsg.NewPtrListGroupsRequest(), 5).Groups); n != 0 {
		t.Errorf("the old coordinator lists %d groups", n)
	}
	if n := len(b.Events()); n != events {
		t.Errorf("%d rebalances came with the move: %v", n-events, b.Events()[events:])
	}
}
