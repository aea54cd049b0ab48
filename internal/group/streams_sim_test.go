package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// TestStreamsSimulation plays random worlds of streams threads in one group:
// they join, give tasks up at once or late, commit, fall silent, leave, come
// back under the same id or another; topics grow and go, the number of standbys
// changes, answers get lost, the log is slow and fails, the coordinator is killed,
// or moves. Checkers watch after every step:
//
//   - an active task is with one member, and a process has a task in one role,
//   - two threads that think they run a task can never both commit for it,
//   - every change of an epoch has exactly one cause, which is told once it is durable,
//   - the log replayed gives the state that the coordinator had,
//   - when the world calms down, every task runs once, copies of state are on
//     other processes, and nobody waits.
func TestStreamsSimulation(t *testing.T) {
	if *simSeed >= 0 {
		simulateStreams(t, uint64(*simSeed), true)
		return
	}
	for seed := range worlds(60) {
		if simulateStreams(t, uint64(seed), false); t.Failed() {
			t.Fatalf("seed %d: go test ./internal/group -run StreamsSimulation -seed %d -v", seed, seed)
		}
	}
}

// streamsSim is one random world.
type streamsSim struct {
	t       *testing.T
	rng     *rand.Rand
	loud    bool
	now     time.Time
	s       *Shard
	cfg     Config
	durable []Record
	flight  []Output
	asked   map[uint64]func(kmsg.Response)
	token   uint64
	threads []*thread
	topics  map[string]int
	born    map[string]int
	version int64
	configs map[string]string
	events  []cause.Event
	bumps   bumps
	calm    bool
}

// thread is a well-behaved stream thread.
type thread struct {
	name, id, process string
	starts            int
	up, waiting       bool
	life              int
	epoch             int32
	told              roleTasks // what the coordinator says
	has               roleTasks // what it runs
	news              bool      // what it runs is to be told
}

func simulateStreams(t *testing.T, seed uint64, loud bool) {
	w := &streamsSim{
		t: t, rng: rand.New(rand.NewPCG(seed, 44)), loud: loud, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		asked: map[uint64]func(kmsg.Response){}, topics: map[string]int{"in": 3, "two": 2}, born: map[string]int{},
		cfg: Config{StreamsDelay: -1, StreamsSession: 20 * time.Second, StreamsStandbys: int(seed % 3)},
	}
	if w.rng.IntN(3) == 0 {
		w.cfg.StreamsDelay = 3 * time.Second
	}
	w.s = New(w.cfg, rand.New(rand.NewPCG(seed, 1)))
	w.step(w.metadata())
	w.step(Loaded{})
	for i := range 1 + w.rng.IntN(5) {
		w.threads = append(w.threads, &thread{name: fmt.Sprintf("%c", 'a'+i), process: fmt.Sprintf("p%d", i/2)})
	}
	for range 250 {
		if w.act(); t.Failed() {
			return
		}
	}
	w.settle()
}

func (w *streamsSim) say(format string, args ...any) {
	if w.loud {
		w.t.Logf("%s %s", w.now.Format("04:05.000"), fmt.Sprintf(format, args...))
	}
}

func (w *streamsSim) metadata() Metadata {
	w.version++
	var list []Topic
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		topic := Topic{Name: name, Partitions: int32(w.topics[name])}
		copy(topic.ID[:], fmt.Sprint(name, w.born[name]))
		list = append(list, topic)
	}
	return Metadata{Topics: NewImage(w.version, list), Groups: map[string]map[string]string{"g": w.configs}}
}

func (w *streamsSim) act() {
	th := w.threads[w.rng.IntN(len(w.threads))]
	switch n := w.rng.IntN(100); {
	case n < 50:
		w.beat(th)
	case n < 70:
		w.land(w.rng.IntN(10) == 0)
	case n < 80:
		w.advance(time.Duration(w.rng.Int64N(int64(6 * time.Second))))
	case n < 85:
		th.follow()
	case n < 88:
		w.leave(th)
	case n < 91 && th.up:
		w.say("%s dies", th.name)
		th.up, th.waiting, th.has = false, false, roleTasks{}
		th.life++
	case n < 93:
		w.changeTopics()
	case n < 94:
		w.configs = map[string]string{"streams.num.standby.replicas": fmt.Sprint(w.rng.IntN(3)), "streams.initial.rebalance.delay.ms": "0"}
		w.step(w.metadata())
	case n < 96:
		w.crash()
	}
}

func (w *streamsSim) changeTopics() {
	switch w.rng.IntN(5) {
	case 0:
		delete(w.topics, "in")
	case 1:
		delete(w.topics, "store")
	default:
		if w.topics["in"] == 0 {
			w.born["in"]++
		}
		w.topics["in"] = max(w.topics["in"], 1) + w.rng.IntN(2)
	}
	w.say("topics %v", w.topics)
	w.step(w.metadata())
}

// topology has state that follows a source, and a part that reads the first
// part's repartition topic.
func simTopology() *kmsg.StreamsGroupHeartbeatRequestTopology {
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	one, two := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology(), kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	one.SubtopologyID, one.SourceTopics, one.RepartitionSinkTopics = "0", []string{"in"}, []string{"rep"}
	one.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "store"}}
	two.SubtopologyID, two.SourceTopics = "1", []string{"two"}
	two.RepartitionSourceTopics = []kmsg.TopicInfo{{Topic: "rep"}}
	topology.Subtopologies = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{one, two}
	return &topology
}

func (w *streamsSim) beat(th *thread) {
	if th.waiting {
		return
	}
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", th.epoch, -1
	if !th.up {
		if th.up = true; th.starts == 0 || w.rng.IntN(2) == 0 {
			th.starts++
			th.id = fmt.Sprint(th.name, th.starts)
		}
		th.join()
	}
	req.MemberID, req.MemberEpoch = th.id, th.epoch
	if th.epoch == 0 {
		req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = simTopology(), &th.process, 30_000
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	} else if th.news || w.rng.IntN(4) == 0 {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = th.has.active.answered(), th.has.standby.answered(), []kmsg.TaskIDs{}
	}
	life, lost := th.life, !w.calm && w.rng.IntN(15) == 0
	th.waiting = true
	w.request(th, req, func(r kmsg.Response) {
		if life != th.life {
			return
		}
		if th.waiting = false; lost || r == nil {
			th.news = true // says everything the next time
			return
		}
		th.hear(w, r.(*kmsg.StreamsGroupHeartbeatResponse))
	})
}

func (th *thread) join() {
	th.life++
	th.epoch, th.told, th.has, th.news, th.waiting = 0, roleTasks{}, roleTasks{}, false, false
}

func (th *thread) hear(w *streamsSim, resp *kmsg.StreamsGroupHeartbeatResponse) {
	w.say("%s hears %s, epoch %d, active %v, standby %v", th.id, errorName(resp.ErrorCode), resp.MemberEpoch, resp.ActiveTasks, resp.StandbyTasks)
	switch resp.ErrorCode {
	case 0:
	case kerr.UnknownMemberID.Code, kerr.FencedMemberEpoch.Code, kerr.GroupIDNotFound.Code:
		th.join()
		return
	case kerr.NotCoordinator.Code:
		th.news = true
		return
	case kerr.InvalidRequest.Code: // what it has is not in the topology any more
		th.has, th.news = roleTasks{}, true
		return
	default:
		w.t.Errorf("%s was told %s: %s", th.id, errorName(resp.ErrorCode), text(resp.ErrorMessage))
	}
	th.epoch, th.news = resp.MemberEpoch, false
	if resp.ActiveTasks != nil {
		th.told = roleTasks{requestedTasks(resp.ActiveTasks), requestedTasks(resp.StandbyTasks), taskSet{}}
		if w.calm || w.rng.IntN(3) > 0 {
			th.follow()
		}
	}
}

// follow gives up and takes what the coordinator said.
func (th *thread) follow() {
	if th.up && !th.waiting && !th.has.equal(th.told) {
		th.has, th.news = th.told, true
	}
}

func (w *streamsSim) leave(th *thread) {
	if !th.up || th.waiting || th.epoch == 0 {
		return
	}
	w.say("%s leaves", th.id)
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", th.id, -1, -1
	th.up, th.has = false, roleTasks{}
	th.life++
	w.request(th, req, func(kmsg.Response) {})
}

func (w *streamsSim) request(th *thread, req *kmsg.StreamsGroupHeartbeatRequest, then func(kmsg.Response)) {
	w.say("%s asks at epoch %d, owns %v %v", req.MemberID, req.MemberEpoch, req.ActiveTasks, req.StandbyTasks)
	w.token++
	w.asked[w.token] = then
	w.step(Request{Token: w.token, ClientID: th.name, Host: "/10.0.0.1", Req: req})
}

func (w *streamsSim) step(in Input) {
	out := w.s.Step(w.now, in)
	for _, r := range out.Replies {
		then := w.asked[r.Token]
		if then == nil {
			w.t.Errorf("token %d was answered twice", r.Token)
			continue
		}
		delete(w.asked, r.Token)
		then(r.Resp)
	}
	for _, e := range out.Events {
		w.say("event %s", e)
		w.events = append(w.events, e)
	}
	for _, topic := range out.Topics {
		if w.topics[topic.Name] == 0 {
			w.topics[topic.Name] = int(topic.Partitions)
			w.born[topic.Name]++
		}
	}
	if len(out.Topics) > 0 {
		w.step(w.metadata())
	}
	if out.Seq != 0 {
		w.flight = append(w.flight, out)
	}
	w.check()
}

// land ends the append under way, with everything in it.
func (w *streamsSim) land(fails bool) {
	flight := w.flight
	w.flight = nil
	switch {
	case len(flight) == 0:
	case fails:
		w.say("append fails")
		w.step(Appended{Seq: flight[0].Seq, Code: kerr.KafkaStorageError.Code})
	default:
		w.write(flight)
		w.step(Appended{Seq: flight[len(flight)-1].Seq})
		w.checkReplay()
	}
}

func (w *streamsSim) write(flight []Output) {
	for _, out := range flight {
		w.durable = append(w.durable, out.Records...)
		w.bumps.landed(w.t, out)
	}
}

func (w *streamsSim) advance(d time.Duration) {
	end := w.now.Add(d)
	for at, ok := w.s.Next(); ok && !at.After(end); at, ok = w.s.Next() {
		w.now = at
		w.step(Tick{})
	}
	w.now = end
}

func (w *streamsSim) replayed() *Shard {
	s := New(w.cfg, rand.New(rand.NewPCG(9, 7)))
	s.Step(w.now, w.metadata())
	for _, r := range w.durable {
		if err := s.Apply(r); err != nil {
			w.t.Errorf("replay: %v", err)
		}
	}
	return s
}

// crash kills the coordinator, or lets another one take over. What was being
// written may be there or not; nobody has heard of it.
func (w *streamsSim) crash() {
	open := 1
	if w.rng.IntN(2) == 0 {
		w.say("the coordinator moves")
		w.step(Unload{})
		if len(w.asked) > 0 {
			w.t.Errorf("%d requests are parked with a coordinator that is unloaded", len(w.asked))
		}
		open = 0
	} else {
		w.say("the coordinator is killed")
	}
	w.checkEvents()
	w.bumps.check(w.t, w.events, open)
	if w.rng.IntN(2) == 0 {
		w.write(w.flight)
	}
	asked := w.asked
	w.asked, w.flight, w.events, w.bumps = map[uint64]func(kmsg.Response){}, nil, nil, nil
	w.s = w.replayed()
	w.step(Loaded{})
	for _, token := range slices.Sorted(maps.Keys(asked)) {
		asked[token](nil)
	}
}

func (w *streamsSim) checkReplay() {
	s := w.replayed()
	s.Step(w.now, Loaded{})
	if a, b := snapshot(w.s), snapshot(s); a != b && len(w.flight) == 0 {
		w.t.Errorf("replayed it is different:\n%s\n%s", a, b)
	}
}

// check holds the members against each other.
func (w *streamsSim) check() {
	t, ok := streamsOf(w.s.groups["g"])
	if !ok {
		return
	}
	if w.s.phase == running {
		checkStreams(w.t, t)
	}
	w.checkCommits(t)
}

// checkCommits: of the threads that think they run a task only one may commit.
func (w *streamsSim) checkCommits(t *streams) {
	who := map[taskID]string{}
	for _, th := range w.threads {
		if !th.up || th.epoch <= 0 || t.members[th.id] == nil {
			continue
		}
		work := t.members[th.id].work
		for id := range th.has.active.all {
			topic := map[string]string{"0": "in", "1": "two"}[id.sub]
			k := commitCheck{member: th.id, generation: th.epoch, version: 9}
			code := t.checkCommit(k)
			if code == 0 {
				code = t.checkPartitions(k, []commitTopic{{name: topic, partitions: []commitPartition{{index: id.part}}}})
			}
			if code != 0 {
				continue
			}
			if other := who[id]; other != "" && t.members[other] != nil {
				w.t.Errorf("both %s and %s may commit for task %v", other, th.id, id)
			}
			who[id] = th.id
		}
		t.members[th.id].work = work
	}
}

// checkEvents: every epoch of this life of the coordinator but the newest, which
// may still be going on, has one event, in order and without a gap.
func (w *streamsSim) checkEvents() {
	for i, e := range w.events {
		if e.To != e.From+1 && e.From != 0 {
			w.t.Errorf("event of one change goes from %d to %d", e.From, e.To)
		}
		if i > 0 && e.From != w.events[i-1].To && e.From != 0 {
			w.t.Errorf("event from %d follows one to %d", e.From, w.events[i-1].To)
		}
		if e.Cause < cause.SessionClock || e.Cause > cause.PartitionChange {
			w.t.Errorf("event without a cause: %v", e)
		}
	}
}

// settle lets the world calm down.
func (w *streamsSim) settle() {
	w.calm = true
	w.land(false)
	w.topics["in"], w.topics["two"] = max(w.topics["in"], 3), 2
	delete(w.topics, "store")
	delete(w.topics, "rep")
	w.step(w.metadata())
	for range 40 {
		for _, th := range w.threads {
			th.follow()
			w.beat(th)
			w.land(false)
		}
		w.advance(time.Second)
		w.land(false)
	}
	t, ok := streamsOf(w.s.groups["g"])
	if !ok || t.state() != "Stable" || len(t.members) != len(w.threads) {
		w.t.Errorf("the group has not settled:\n%s", snapshot(w.s))
		return
	}
	if t.story != nil {
		w.t.Error("the story of the last epoch has no end")
	}
	if n := len(w.events); n > 0 && w.events[n-1].To != t.epoch {
		w.t.Errorf("the group is at epoch %d, the last event says %d", t.epoch, w.events[n-1].To)
	}
	w.checkEvents()
	w.bumps.check(w.t, w.events, 0)
	w.checkPlaces(t)
}

// checkPlaces: every task runs once, with its copies elsewhere.
func (w *streamsSim) checkPlaces(t *streams) {
	runs, copies := map[taskID]string{}, map[taskID]map[string]bool{}
	processes := map[string]bool{}
	for _, th := range w.threads {
		processes[th.process] = true
		for id := range th.has.active.all {
			runs[id] = th.process
		}
		for id := range th.has.standby.all {
			if copies[id] == nil {
				copies[id] = map[string]bool{}
			}
			copies[id][th.process] = true
		}
	}
	want := 0
	for sub, n := range t.configured.tasks {
		want += int(n)
		for part := range n {
			id := taskID{sub, part}
			if runs[id] == "" || copies[id][runs[id]] {
				w.t.Errorf("task %v runs in %q, with copies in %v", id, runs[id], copies[id])
			}
			if need := min(replicaCount(t.standbys), len(processes)-1); sub == "0" && len(copies[id]) != need {
				w.t.Errorf("task %v has %d copies, not %d", id, len(copies[id]), need)
			}
		}
	}
	if len(runs) != want {
		w.t.Errorf("%d tasks run of %d", len(runs), want)
	}
}
