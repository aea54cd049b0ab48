package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/journal"
)

// awaitCoordinator waits until groups have a coordinator.
func (c *client) awaitCoordinator() {
	c.t.Helper()
	waitFor(c.t, "a coordinator", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"g"}
		return do[*kmsg.FindCoordinatorResponse](c, req, 4).Coordinators[0].ErrorCode == 0
	})
}

// join makes the client the only member of a group, with an assignment.
func (c *client) join(groupID string, session time.Duration) (memberID string, generation int32) {
	c.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = groupID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(session.Milliseconds())
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	resp := do[*kmsg.JoinGroupResponse](c, req, 3)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("join %s: %s", groupID, errorName(resp.ErrorCode))
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = groupID, resp.Generation, resp.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: resp.MemberID, MemberAssignment: []byte("A")}}
	if r := do[*kmsg.SyncGroupResponse](c, sync, 3); r.ErrorCode != 0 || string(r.MemberAssignment) != "A" {
		c.t.Fatalf("sync %s: %s, assignment %q", groupID, errorName(r.ErrorCode), r.MemberAssignment)
	}
	return resp.MemberID, resp.Generation
}

func (c *client) beat(groupID, memberID string, generation int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = groupID, memberID, generation
	return do[*kmsg.HeartbeatResponse](c, req, 4).ErrorCode
}

// commit commits one offset of topic t, and reads it back.
func (c *client) commit(groupID, memberID string, generation int32, offset int64) int16 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = groupID, memberID, generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return do[*kmsg.OffsetCommitResponse](c, req, 9).Topics[0].Partitions[0].ErrorCode
}

func (c *client) committed(groupIDs ...string) []int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	for _, id := range groupIDs {
		req.Groups = append(req.Groups, kmsg.OffsetFetchRequestGroup{
			Group: id, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}},
		})
	}
	var offsets []int64
	for _, g := range do[*kmsg.OffsetFetchResponse](c, req, 8).Groups {
		if g.ErrorCode != 0 {
			c.t.Fatalf("fetch offsets of %s: %s", g.Group, errorName(g.ErrorCode))
		}
		offsets = append(offsets, g.Topics[0].Partitions[0].Offset)
	}
	return offsets
}

// awaitLoaded waits until every shard has read its log.
func (c *client) awaitLoaded() {
	c.t.Helper()
	waitFor(c.t, "the shards to load", func() bool {
		return do[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), 5).ErrorCode == 0
	})
}

// Groups of many shards in one request: each is answered, in the order in which
// they were named.
func TestGroupsOfManyShards(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	c.awaitCoordinator()
	var ids []string
	var want []int64
	shards := map[int32]bool{}
	for i := range 60 {
		id := fmt.Sprint("group-", i)
		ids, want = append(ids, id), append(want, int64(i))
		shards[group.PartitionFor(id, 50)] = true
		if code := c.commit(id, "", -1, int64(i)); code != 0 {
			t.Fatal(errorName(code))
		}
	}
	if got := c.committed(ids...); !slices.Equal(got, want) {
		t.Errorf("committed %v", got)
	}
	if n := len(b.groups.running()); n != len(shards) || n < 20 {
		t.Errorf("%d shards run for %d partitions in use", n, len(shards))
	}
	list := do[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), 5)
	if len(list.Groups) != len(ids) {
		t.Errorf("%d groups are listed", len(list.Groups))
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = append(slices.Clone(ids), "none"), true
	for i, g := range do[*kmsg.DescribeGroupsResponse](c, describe, 6).Groups {
		switch {
		case i < len(ids) && (g.Group != ids[i] || g.State != "Empty" || g.AuthorizedOperations != 3400):
			t.Errorf("described as number %d: %+v", i, g)
		case i == len(ids) && (g.ErrorCode != kerr.GroupIDNotFound.Code || g.AuthorizedOperations != -1<<31):
			t.Errorf("an absent group: %+v", g)
		}
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = ids
	for i, g := range do[*kmsg.DeleteGroupsResponse](c, remove, 2).Groups {
		if g.Group != ids[i] || g.ErrorCode != 0 {
			t.Errorf("deleted as number %d: %+v", i, g)
		}
	}
	if list = do[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), 5); len(list.Groups) != 0 {
		t.Errorf("groups after the deletion: %+v", list.Groups)
	}
}

// A stable group, its generation and its offsets are there again after a
// restart and after a power cut; its member goes on with a heartbeat.
func TestGroupsSurvive(t *testing.T) {
	for _, how := range []string{"clean", "power cut"} {
		t.Run(how, func(t *testing.T) {
			fs := &journal.MemFS{}
			open := func(c *Config) { c.Dir, c.FS = "data", fs }
			b := startBroker(t, open)
			c := dialClient(t, b)
			c.makeTopic("t", 1, nil)
			c.awaitCoordinator()
			member, generation := c.join("g", time.Minute)
			for i := range int64(50) {
				if code := c.commit("g", member, generation, i); code != 0 {
					t.Fatal(errorName(code))
				}
			}
			if how == "clean" {
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				fs.PowerCut(rand.New(rand.NewPCG(1, 2)))
				b.Close() //nolint:errcheck // its files are gone
				fs.Start()
			}
			b = startBroker(t, open)
			c = dialClient(t, b)
			c.awaitLoaded()
			if got := c.committed("g"); got[0] != 49 {
				t.Errorf("offset %d is committed, want 49", got[0])
			}
			if code := c.beat("g", member, generation); code != 0 {
				t.Errorf("heartbeat after the restart: %s", errorName(code))
			}
			if events := b.Events(); len(events) != 0 {
				t.Errorf("a restart of the broker alone is no rebalance: %v", events)
			}
		})
	}
}

// Requests that come while a large log is read are put off, not lost and not
// answered wrongly.
func TestRequestsWhileLoading(t *testing.T) {
	fs := &journal.MemFS{}
	open := func(c *Config) { c.Dir, c.FS = "data", fs }
	b := startBroker(t, open)
	c := dialClient(t, b)
	c.makeTopic("t", 1000, nil)
	c.awaitCoordinator()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "g", -1
	topic := kmsg.OffsetCommitRequestTopic{Topic: "t"}
	for i := range int32(1000) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Metadata = i, kmsg.StringPtr(strings.Repeat("x", 200))
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for i := range int64(40) {
		req.Topics[0].Partitions[0].Offset = i
		if r := do[*kmsg.OffsetCommitResponse](c, req, 9); r.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatal(errorName(r.Topics[0].Partitions[0].ErrorCode))
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, open)
	c = dialClient(t, b)
	var codes []string
	waitFor(t, "the offset", func() bool {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
		g := do[*kmsg.OffsetFetchResponse](c, fetch, 8).Groups[0]
		if codes = append(codes, errorName(g.ErrorCode)); g.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
			return false
		}
		if g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != 39 {
			t.Fatalf("after %v: %+v", codes, g)
		}
		return true
	})
}

// A full disk: commits are refused, the offset that was acknowledged stays, and
// the member keeps its place, for its clocks have nothing to do with the disk.
func TestGroupOnFullDisk(t *testing.T) {
	fs := &journal.MemFS{}
	b := startBroker(t, func(c *Config) {
		c.Dir, c.FS, c.Logger = "data", fs, slog.New(slog.DiscardHandler)
	})
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	c.awaitCoordinator()
	member, generation := c.join("g", time.Minute)
	if code := c.commit("g", member, generation, 5); code != 0 {
		t.Fatal(errorName(code))
	}
	used := 0
	for _, size := range fs.Files() {
		used += size
	}
	fs.SetLimit(int64(used))
	last, code := int64(5), int16(0)
	for code == 0 && last < 10_000 { // what the journal has written ahead still takes some
		if code = c.commit("g", member, generation, last+1); code == 0 {
			last++
		}
	}
	if code != kerr.NotCoordinator.Code {
		t.Errorf("commit %d on a full disk: %s", last+1, errorName(code))
	}
	if got := c.committed("g"); got[0] != last {
		t.Errorf("offset %d is committed, want %d", got[0], last)
	}
	if code := c.beat("g", member, generation); code != 0 {
		t.Errorf("heartbeat on a full disk: %s", errorName(code))
	}
	fs.SetLimit(0)
	waitFor(t, "the broker to go on", func() bool { return c.commit("g", member, generation, last+2) == 0 })
	if got := c.committed("g"); got[0] != last+2 {
		t.Errorf("offset %d is committed, want %d", got[0], last+2)
	}
}

// Should the core panic, whoever waits is told, and the shard goes on from its
// log with everything that was promised.
func TestCoordinatorPanics(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	c.awaitCoordinator()
	member, generation := c.join("g", time.Minute)
	if code := c.commit("g", member, generation, 5); code != 0 {
		t.Fatal(errorName(code))
	}
	told := make(chan kmsg.Response, 1)
	rq := &request{conn: &conn{node: b.nodes[0]}}
	s, _ := b.groups.shard(rq, "g")
	s.ask(rq, kmsg.NewPtrMetadataRequest(), func(r kmsg.Response) { told <- r }) // not one of its APIs
	select {
	case <-told:
	case <-time.After(patience):
		t.Fatal("nobody was told")
	}
	c.awaitLoaded()
	if code := c.beat("g", member, generation); code != 0 {
		t.Errorf("heartbeat afterwards: %s", errorName(code))
	}
	if got := c.committed("g"); got[0] != 5 {
		t.Errorf("offset %d is committed, want 5", got[0])
	}
}

// Every rebalance leaves a line in the log, a count and an event.
func TestRebalanceIsTold(t *testing.T) {
	var mu sync.Mutex
	var told []cause.Event
	var lines bytes.Buffer
	b := startBroker(t, func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&lines, nil))
		c.OnEvent = func(e cause.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}
	})
	c := dialClient(t, b)
	c.awaitCoordinator()
	c.join("g", 50*time.Millisecond)
	waitFor(t, "the session to end", func() bool { return len(b.Events()) == 2 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || told[0].Cause != cause.MemberChange || told[1].Cause != cause.SessionClock || told[1].From != 1 || told[1].To != 2 {
		t.Fatalf("told %v", told)
	}
	if clocks := told[1].Clocks; clocks.SessionLimit != 50*time.Millisecond || clocks.SessionAge < clocks.SessionLimit {
		t.Errorf("clocks %v", clocks)
	}
	if n := b.Rebalances(); n[cause.MemberChange] != 1 || n[cause.SessionClock] != 1 || n[cause.PollClock] != 0 {
		t.Errorf("counted %v", n)
	}
	for _, want := range []string{`"cause":"session_clock"`, `"trigger":"` + told[1].Trigger.ID, `"clocks":"` + told[1].Clocks.String(), `client=test host=/127.0.0.1`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, lines.String())
		}
	}
}
