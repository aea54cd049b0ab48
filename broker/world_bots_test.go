//go:build synctests

package broker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// worldBot is a member of a group, as a goroutine: it joins, beats, commits,
// leaves now and then and comes back.
type worldBot struct {
	w     *world
	kind  string // and the name of its group
	n     int
	c     *caller
	rng   *rand.Rand
	quit  chan struct{}
	ended chan struct{}

	mu         sync.Mutex
	paused     bool
	member     string
	generation int32
	newest     int32 // of all times
	steady     bool  // in the group, and nothing is going on
	owns       map[string][]int32
	heard      map[worldGeneration]bool
	doubt      bool // it has left, or has it not
	full       bool // an answer is missing: all is said again, and all is answered
	committed  int64
	tried      int64
	lastTalk   time.Time
}

const keptTopic = "kept"

func (w *world) startBots() {
	w.await("create "+keptTopic, func() error {
		if w.topics[keptTopic] == nil && w.create(keptTopic, 4, nil) != done {
			return errors.New("not yet")
		}
		return nil
	})
	for _, kind := range []string{"classic", "consumer", "streams", "watcher"} {
		for n := range 2 {
			bot := &worldBot{
				w: w, kind: kind, n: n, c: &caller{w: w, name: fmt.Sprint(kind, n)}, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 1)),
				quit: make(chan struct{}), ended: make(chan struct{}), heard: map[worldGeneration]bool{},
			}
			w.bots = append(w.bots, bot)
			go bot.run()
		}
	}
}

func (w *world) stopBots() {
	for _, bot := range w.bots {
		close(bot.quit)
	}
	for _, bot := range w.bots {
		<-bot.ended
	}
}

func (w *world) pauseBots() {
	for _, bot := range w.bots {
		bot.mu.Lock()
		bot.paused = true
		bot.mu.Unlock()
	}
	time.Sleep(2 * time.Second)
}

func (w *world) resumeBots() {
	for _, bot := range w.bots {
		bot.mu.Lock()
		bot.paused = false
		bot.mu.Unlock()
	}
}

func (bot *worldBot) told() map[worldGeneration]bool {
	bot.mu.Lock()
	defer bot.mu.Unlock()
	return maps.Clone(bot.heard)
}

func (bot *worldBot) run() {
	defer close(bot.ended)
	defer bot.c.hangUp()
	for {
		select {
		case <-bot.quit:
			return
		case <-time.After(time.Duration(500+bot.rng.IntN(500)) * time.Millisecond):
		}
		bot.mu.Lock()
		paused := bot.paused
		bot.mu.Unlock()
		if paused {
			continue
		}
		bot.turn()
	}
}

// turn is one thing that a member does.
func (bot *worldBot) turn() {
	if bot.kind == "watcher" {
		bot.watch()
		return
	}
	if node := bot.w.coordinatorOf(bot.c, bot.kind); node != bot.c.node {
		bot.c.hangUp()
		bot.c.node = node
	}
	switch bot.kind {
	case "classic":
		bot.classic()
	case "consumer":
		bot.consumer()
	default:
		bot.streams()
	}
}

// leaves says whether the bot leaves now.
func (bot *worldBot) leaves() bool { return bot.rng.IntN(40) == 0 && !bot.w.calm.Load() }

// watch waits for records of topics that may come, go and move meanwhile. Whatever
// happens to them, it is answered.
func (bot *worldBot) watch() {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 10_000, 1<<20, 1<<20, -1
	for n := range worldNames {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = fmt.Sprint("t", n)
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = int64(bot.rng.IntN(5)), 1<<20, -1
		rt.Partitions = append(rt.Partitions, rp)
		if bot.rng.IntN(2) == 0 {
			req.Topics = append(req.Topics, rt)
		}
	}
	bot.c.node = bot.rng.IntN(3) // which may not be there
	bot.c.hangUp()
	began := time.Now()
	if _, err := ask[*kmsg.FetchResponse](bot.c, req, 12); err == nil && time.Since(began) > 12*time.Second {
		bot.w.errorf("a fetch of 10 s took %s", time.Since(began))
	}
}

// hears notes a generation that the broker has told.
func (bot *worldBot) hears(generation int32) {
	bot.mu.Lock()
	defer bot.mu.Unlock()
	if bot.w.disk.dead.Load() {
		return
	}
	if generation < bot.newest {
		bot.w.errorf("%s %d hears of generation %d after %d", bot.kind, bot.n, generation, bot.newest)
	}
	bot.newest = generation
	bot.heard[worldGeneration{bot.kind, generation}] = true
}

// set notes what the bot has.
func (bot *worldBot) set(member string, generation int32, steady bool) {
	bot.mu.Lock()
	defer bot.mu.Unlock()
	bot.member, bot.generation, bot.steady = member, generation, steady
	bot.lastTalk = time.Now()
}

// unknown is called when the broker says that it does not know the member.
func (bot *worldBot) forgotten(code int16) {
	bot.w.logf("%s %d is forgotten: %s", bot.kind, bot.n, errorName(code))
	bot.mu.Lock()
	since := time.Since(bot.lastTalk)
	steady := bot.steady && !bot.doubt
	bot.mu.Unlock()
	if steady && since < 6*time.Second && !bot.w.disk.dead.Load() && bot.kind != "classic" {
		bot.w.errorf("%s %d is forgotten %s after it was well: %s", bot.kind, bot.n, since, errorName(code))
	}
}

func (bot *worldBot) classic() {
	if bot.generation <= 0 || !bot.steady {
		bot.join()
		return
	}
	if bot.leaves() {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = bot.kind
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: bot.member}}
		_, err := ask[*kmsg.LeaveGroupResponse](bot.c, req, 4)
		bot.w.logf("classic %d leaves: %v", bot.n, err)
		bot.set("", 0, false)
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = bot.kind, bot.member, bot.generation
	resp, err := ask[*kmsg.HeartbeatResponse](bot.c, req, 4)
	switch {
	case err != nil:
	case resp.ErrorCode == 0:
		bot.set(bot.member, bot.generation, true)
		bot.commit(9)
	case resp.ErrorCode == kerr.RebalanceInProgress.Code:
		bot.set(bot.member, bot.generation, false)
		bot.join()
	case resp.ErrorCode == kerr.UnknownMemberID.Code:
		bot.forgotten(resp.ErrorCode)
		bot.set("", 0, false)
	case resp.ErrorCode == kerr.IllegalGeneration.Code:
		bot.set(bot.member, 0, false)
	}
}

func (bot *worldBot) join() {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.MemberID = bot.kind, "consumer", bot.member
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 45_000, 8_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	resp, err := ask[*kmsg.JoinGroupResponse](bot.c, req, 9)
	if err != nil {
		return
	}
	bot.w.logf("classic %d joins: %s generation %d", bot.n, errorName(resp.ErrorCode), resp.Generation)
	switch resp.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		bot.set(resp.MemberID, 0, false)
		return
	case kerr.UnknownMemberID.Code:
		bot.set("", 0, false)
		return
	default:
		return
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = bot.kind, resp.Generation, resp.MemberID
	if resp.LeaderID == resp.MemberID {
		for _, m := range resp.Members {
			sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("A")})
		}
	}
	synced, err := ask[*kmsg.SyncGroupResponse](bot.c, sync, 3)
	if err != nil {
		bot.set(resp.MemberID, resp.Generation, false)
		return
	}
	bot.w.logf("classic %d syncs: %s", bot.n, errorName(synced.ErrorCode))
	if synced.ErrorCode == kerr.UnknownMemberID.Code {
		bot.set("", 0, false)
		return
	}
	if synced.ErrorCode == 0 {
		bot.hears(resp.Generation) // durable from here on, as in Kafka
	}
	bot.set(resp.MemberID, resp.Generation, synced.ErrorCode == 0)
}

// commit commits an offset of its own partition.
func (bot *worldBot) commit(version int16) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = bot.kind, bot.generation, bot.member
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	bot.mu.Lock()
	bot.tried++
	p.Partition, p.Offset = int32(bot.n), bot.tried
	bot.mu.Unlock()
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: keptTopic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	resp, err := ask[*kmsg.OffsetCommitResponse](bot.c, req, version)
	if err == nil && resp.Topics[0].Partitions[0].ErrorCode == 0 {
		bot.mu.Lock()
		bot.committed = p.Offset
		bot.mu.Unlock()
	}
}

func (bot *worldBot) consumer() {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if bot.member == "" {
		bot.member = fmt.Sprintf("consumer-%d-%d", bot.n, bot.rng.Uint32())
	}
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = bot.kind, bot.member, bot.generation, -1
	leaving := bot.generation > 0 && bot.leaves()
	if leaving {
		req.MemberEpoch, bot.doubt = -1, true
	}
	if bot.generation == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 8_000, []string{keptTopic, "t0"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		bot.owns, bot.doubt = nil, false
	} else {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for id, parts := range bot.owns {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: [16]byte([]byte(id)), Partitions: parts})
		}
	}
	if bot.full && !leaving {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 8_000, []string{keptTopic, "t0"}
	}
	resp, err := ask[*kmsg.ConsumerGroupHeartbeatResponse](bot.c, req, 0)
	if bot.full = err != nil || resp.ErrorCode != 0; err != nil {
		return
	}
	bot.w.logf("consumer %d at %d: %s epoch %d", bot.n, req.MemberEpoch, errorName(resp.ErrorCode), resp.MemberEpoch)
	switch resp.ErrorCode {
	case 0:
	case kerr.UnknownMemberID.Code, kerr.FencedMemberEpoch.Code:
		if !leaving {
			bot.forgotten(resp.ErrorCode)
		}
		bot.set("", 0, false)
		return
	default:
		return
	}
	if leaving {
		bot.set("", 0, false)
		return
	}
	bot.hears(resp.MemberEpoch)
	bot.mu.Lock()
	if resp.Assignment != nil {
		bot.owns = map[string][]int32{}
		for _, t := range resp.Assignment.Topics {
			bot.owns[string(t.TopicID[:])] = t.Partitions
		}
	}
	bot.mu.Unlock()
	bot.set(bot.member, resp.MemberEpoch, true)
	if resp.MemberEpoch == req.MemberEpoch {
		bot.commit(9)
	}
}

func (bot *worldBot) streams() {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	if bot.member == "" {
		bot.member = fmt.Sprintf("streams-%d-%d", bot.n, bot.rng.Uint32())
	}
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = bot.kind, bot.member, bot.generation, -1
	leaving := bot.generation > 0 && bot.leaves()
	if leaving {
		req.MemberEpoch, bot.doubt = -1, true
	}
	if bot.generation == 0 {
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{keptTopic}
		sub.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "streams-counts-changelog"}}
		topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		topology.Subtopologies = append(topology.Subtopologies, sub)
		req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = &topology, kmsg.StringPtr(fmt.Sprint("p", bot.n)), 8_000
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		bot.owns, bot.doubt = nil, false
	} else {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		for sub, parts := range bot.owns {
			req.ActiveTasks = append(req.ActiveTasks, kmsg.TaskIDs{SubtopologyID: sub, Partitions: parts})
		}
	}
	if bot.full && !leaving {
		req.RebalanceTimeoutMillis, req.ProcessID = 8_000, kmsg.StringPtr(fmt.Sprint("p", bot.n))
	}
	resp, err := ask[*kmsg.StreamsGroupHeartbeatResponse](bot.c, req, 0)
	if bot.full = err != nil || resp.ErrorCode != 0; err != nil {
		return
	}
	bot.w.logf("streams %d at %d: %s epoch %d", bot.n, req.MemberEpoch, errorName(resp.ErrorCode), resp.MemberEpoch)
	switch resp.ErrorCode {
	case 0:
	case kerr.UnknownMemberID.Code, kerr.FencedMemberEpoch.Code:
		if !leaving {
			bot.forgotten(resp.ErrorCode)
		}
		bot.set("", 0, false)
		return
	default:
		return
	}
	if leaving {
		bot.set("", 0, false)
		return
	}
	bot.hears(resp.MemberEpoch)
	bot.mu.Lock()
	if resp.ActiveTasks != nil {
		bot.owns = map[string][]int32{}
		for _, t := range resp.ActiveTasks {
			bot.owns[t.SubtopologyID] = t.Partitions
		}
	}
	bot.mu.Unlock()
	bot.set(bot.member, resp.MemberEpoch, true)
}

// checkBots waits until every group has come to rest with all of its members,
// and looks at what they have.
func (w *world) checkBots() {
	for _, kind := range []string{"classic", "consumer", "streams"} {
		w.await("group "+kind, func() error {
			owned, generation, first := map[string]int{}, int32(0), true
			for _, bot := range w.bots {
				if bot.kind != kind {
					continue
				}
				bot.mu.Lock()
				steady, at, owns := bot.steady, bot.generation, maps.Clone(bot.owns)
				bot.mu.Unlock()
				if !steady || at <= 0 {
					return fmt.Errorf("member %d is not in it", bot.n)
				}
				if !first && at != generation {
					return fmt.Errorf("generations %d and %d", generation, at)
				}
				first, generation = false, at
				for id, parts := range owns {
					for _, n := range parts {
						owned[fmt.Sprintf("%x-%d", id, n)]++
					}
				}
			}
			return w.complete(kind, owned)
		})
	}
	for _, bot := range w.bots {
		if bot.kind == "streams" || bot.kind == "watcher" {
			continue
		}
		w.await("offset of "+bot.kind, func() error {
			has, err := w.fetchOffsets(bot.kind)
			if err != nil {
				return err
			}
			bot.mu.Lock()
			defer bot.mu.Unlock()
			if at := has[worldOffset{bot.kind, keptTopic, int32(bot.n)}]; at < bot.committed || at > bot.tried {
				w.errorf("%s %d is committed at %d, %d was acknowledged of %d", bot.kind, bot.n, at, bot.committed, bot.tried)
			}
			return nil
		})
	}
}

// complete says whether every partition has one owner.
func (w *world) complete(kind string, owned map[string]int) error {
	want := map[string]bool{}
	switch kind {
	case "consumer":
		for _, name := range []string{keptTopic, "t0"} {
			if t := w.topics[name]; t != nil {
				for n := range t.parts {
					want[fmt.Sprintf("%x-%d", string(t.id[:]), n)] = true
				}
			}
		}
	case "streams":
		for n := range w.topics[keptTopic].parts {
			want[fmt.Sprintf("%x-%d", "0", n)] = true
		}
	}
	for at := range want {
		if owned[at] != 1 {
			return fmt.Errorf("%s has %d owners", at, owned[at])
		}
	}
	if len(owned) != len(want) {
		return fmt.Errorf("%d partitions are owned of %d", len(owned), len(want))
	}
	return nil
}

// describeGroups tells the groups of the bots, one line for each member.
func (w *world) describeGroups() []string {
	var lines []string
	w.await("description of groups", func() error {
		lines = nil
		classic := kmsg.NewPtrDescribeGroupsRequest()
		classic.Groups = []string{"classic"}
		r, err := ask[*kmsg.DescribeGroupsResponse](w.coordinator("classic"), classic, 6)
		if err != nil || r.Groups[0].ErrorCode != 0 {
			return fmt.Errorf("classic: %v %v", r, err)
		}
		lines = append(lines, fmt.Sprintf("classic is %s, %s", r.Groups[0].State, r.Groups[0].Protocol))
		for _, m := range r.Groups[0].Members {
			lines = append(lines, fmt.Sprintf("classic %s of %s has %s", m.MemberID, m.ClientID, m.MemberAssignment))
		}
		consumer := kmsg.NewPtrConsumerGroupDescribeRequest()
		consumer.Groups = []string{"consumer"}
		c, err := ask[*kmsg.ConsumerGroupDescribeResponse](w.coordinator("consumer"), consumer, 1)
		if err != nil || c.Groups[0].ErrorCode != 0 {
			return fmt.Errorf("consumer: %v %v", c, err)
		}
		lines = append(lines, fmt.Sprintf("consumer is %s at %d, %d", c.Groups[0].State, c.Groups[0].Epoch, c.Groups[0].AssignmentEpoch))
		for _, m := range c.Groups[0].Members {
			lines = append(lines, fmt.Sprintf("consumer %s at %d has %s", m.MemberID, m.MemberEpoch, sortedText(m.Assignment)))
		}
		streams := kmsg.NewPtrStreamsGroupDescribeRequest()
		streams.Groups = []string{"streams"}
		s, err := ask[*kmsg.StreamsGroupDescribeResponse](w.coordinator("streams"), streams, 0)
		if err != nil || s.Groups[0].ErrorCode != 0 {
			return fmt.Errorf("streams: %v %v", s, err)
		}
		lines = append(lines, fmt.Sprintf("streams is %s at %d, %d", s.Groups[0].State, s.Groups[0].Epoch, s.Groups[0].AssignmentEpoch))
		for _, m := range s.Groups[0].Members {
			lines = append(lines, fmt.Sprintf("streams %s at %d has %v", m.MemberID, m.MemberEpoch, m.Assignment))
		}
		return nil
	})
	slices.Sort(lines)
	return lines
}

func sortedText(a kmsg.Assignment) string {
	var all []string
	for _, t := range a.TopicPartitions {
		all = append(all, fmt.Sprintf("%x %v", t.TopicID, t.Partitions))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}
