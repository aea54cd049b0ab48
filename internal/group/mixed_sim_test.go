package group

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// TestMixedSimulation plays random worlds of clients of all three protocols in
// one group: they join, move on, commit, fall silent, die, leave, come back with
// another protocol, of which streams needs the group to be empty; topics appear,
// grow and go; applications of streams come with older and newer topologies; the
// empty group is deleted; the log is slow and fails; the coordinator is killed, or
// moves: one shard is unloaded and another reads the log. Checkers watch all the
// time:
//
//   - two clients that could both commit never own one partition,
//   - a committed offset is never older than one that was acknowledged,
//   - every change of a generation or an epoch has exactly one cause,
//   - when the world calms down, every partition has its owner and nobody waits,
//   - the log replayed gives the state that the coordinator had, and every answer
//     that it gives.
func TestMixedSimulation(t *testing.T) {
	if *simSeed >= 0 {
		simulateMixed(t, uint64(*simSeed), true)
		return
	}
	for seed := range worlds(40) {
		if simulateMixed(t, uint64(seed), false); t.Failed() {
			t.Fatalf("seed %d: go test ./internal/group -run MixedSimulation -seed %d -v", seed, seed)
		}
	}
}

// mixed is one random world.
type mixed struct {
	t       *testing.T
	rng     *rand.Rand
	loud    bool
	now     time.Time
	start   time.Time
	queue   simQueue
	order   uint64
	s       *Shard
	cfg     Config
	life    int // of the coordinator
	cuts    int // how often all connections broke
	durable []Record
	pend    []Output
	flying  []Output
	asked   map[uint64]func(kmsg.Response)
	token   uint64
	peers   []*peer
	calm    bool
	topics  map[string]int32
	born    map[string]byte // tells topics of one name apart
	version int64
	sent    map[partition]int64
	acked   map[partition]int64
	erasing int // requests to delete the group that are under way
	erased  int // grows when such a request leaves, and when its answer comes
	events  []cause.Event
	bumps   bumps
	streams bool // the fashion: what most clients are
}

func simulateMixed(t *testing.T, seed uint64, loud bool) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &mixed{
		t: t, rng: rand.New(rand.NewPCG(seed, 43)), loud: loud, now: start, start: start,
		asked: map[uint64]func(kmsg.Response){}, topics: map[string]int32{"t": 5, "u": 2}, born: map[string]byte{},
		acked: map[partition]int64{}, sent: map[partition]int64{},
		cfg: Config{InitialRebalanceDelay: -1, OffsetsRetention: time.Hour, ConsumerSession: 10 * time.Second, StreamsSession: 10 * time.Second, StreamsDelay: -1},
	}
	if w.rng.IntN(4) == 0 {
		w.cfg.StreamsDelay = 3 * time.Second
	}
	w.streams = w.rng.IntN(2) == 0
	if w.rng.IntN(3) == 0 {
		w.cfg.Assignors = []string{"range", "uniform"}
	}
	w.cfg.Migration = []string{"bidirectional", "bidirectional", "upgrade", "downgrade"}[w.rng.IntN(4)]
	w.s = New(w.cfg, rand.New(rand.NewPCG(seed, 1)))
	w.step(w.metadata())
	w.step(Loaded{})
	for i := range 1 + w.rng.IntN(4) {
		p := &peer{w: w, name: fmt.Sprintf("%c", 'a'+i), classic: w.rng.IntN(3) == 0, streams: w.streams}
		if w.rng.IntN(3) == 0 {
			p.instance = kmsg.StringPtr("i" + p.name)
		}
		w.peers = append(w.peers, p)
		w.after(w.upTo(10*time.Second), p.boot)
	}
	for at := time.Duration(0); at < 4*time.Minute; at += w.upTo(20 * time.Second) {
		w.after(at, w.fault)
	}
	w.after(4*time.Minute, w.calmDown)
	for _, p := range w.peers {
		w.after(4*time.Minute+w.upTo(10*time.Second), p.boot)
	}
	w.run(start.Add(8 * time.Minute))
	w.checkSettled()
	w.checkEvents()
	w.checkReplay()
}

func (w *mixed) metadata() Metadata {
	w.version++
	var list []Topic
	for name, n := range w.topics {
		list = append(list, Topic{Name: name, ID: TopicID{name[0], w.born[name]}, Partitions: n})
	}
	return Metadata{Topics: NewImage(w.version, list)}
}

func (w *mixed) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) + 1 }

func (w *mixed) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, simEvent{w.now.Add(d), w.order, do})
}

func (w *mixed) say(format string, args ...any) {
	if w.loud {
		w.t.Logf("%10s %s", w.now.Sub(w.start).Round(time.Millisecond), fmt.Sprintf(format, args...))
	}
}

func (w *mixed) run(end time.Time) {
	for !w.t.Failed() {
		at, ticking := w.s.Next()
		if len(w.queue) > 0 && (!ticking || !w.queue[0].at.After(at)) {
			e := heap.Pop(&w.queue).(simEvent)
			if e.at.After(end) {
				return
			}
			w.now = e.at
			e.do()
			continue
		}
		if !ticking || at.After(end) {
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		w.step(Tick{})
	}
}

func (w *mixed) step(in Input) {
	out := w.s.Step(w.now, in)
	for _, r := range out.Replies {
		answer := w.asked[r.Token]
		if answer == nil {
			w.t.Errorf("token %d was answered twice", r.Token)
			continue
		}
		delete(w.asked, r.Token)
		cuts := w.cuts
		w.after(w.upTo(20*time.Millisecond), func() {
			if cuts != w.cuts {
				answer(nil)
				return
			}
			answer(r.Resp)
		})
	}
	for _, e := range out.Events {
		w.say("event %s", e)
		w.events = append(w.events, e)
	}
	if out.Seq != 0 {
		w.pend = append(w.pend, out)
		w.append()
	}
	w.makeTopics(out.Topics)
	w.checkShape()
}

// append sends everything that is pending as one batch, as the shell does.
func (w *mixed) append() {
	if len(w.flying) > 0 || len(w.pend) == 0 {
		return
	}
	w.flying, w.pend = w.pend, nil
	life, fails, takes := w.life, !w.calm && w.rng.IntN(15) == 0, w.upTo(15*time.Millisecond)
	if w.rng.IntN(20) == 0 {
		takes = w.upTo(3 * time.Second)
	}
	w.after(takes, func() {
		if life != w.life {
			return
		}
		flight := w.flying
		w.flying = nil
		if fails {
			w.say("append fails")
			w.pend = nil
			w.step(Appended{Seq: flight[0].Seq, Code: kerr.KafkaStorageError.Code})
		} else {
			for _, o := range flight {
				w.durable = append(w.durable, o.Records...)
				w.bumps.landed(w.t, o)
			}
			w.step(Appended{Seq: flight[len(flight)-1].Seq})
		}
		w.append()
	})
}

// fault makes something happen to somebody.
func (w *mixed) fault() {
	if w.calm {
		return
	}
	p := w.peers[w.rng.IntN(len(w.peers))]
	switch w.rng.IntN(12) {
	case 0:
		p.die()
		w.after(w.upTo(time.Minute), p.boot)
	case 1, 2:
		p.leave()
		w.after(w.upTo(20*time.Second), p.boot)
	case 3:
		w.say("%s is paused", p.name)
		p.pausedUntil = w.now.Add(w.upTo(50 * time.Second))
	case 4:
		p.both = !p.both
		p.changed = true
		if p.streams { // another version of the application
			p.leave()
			w.after(w.upTo(5*time.Second), p.boot)
		}
	case 5:
		if w.topics["u"] == 0 {
			w.born["u"]++
		}
		w.topics["u"] = min(w.topics["u"]+2, 8)
		w.say("topic u has %d partitions", w.topics["u"])
		w.step(w.metadata())
		w.tellClassic()
	case 6:
		w.say("topic u is deleted")
		delete(w.topics, "u")
		w.step(w.metadata())
		w.step(TopicsDeleted{Topics: []string{"u"}})
		w.tellClassic()
	case 7: // comes back with the other protocol
		p.leave()
		p.classic = !p.classic
		w.after(w.upTo(5*time.Second), p.boot)
	case 8:
		switch w.rng.IntN(4) {
		case 0:
			w.crash()
		case 1:
			w.move()
		}
	case 9: // somebody has the wrong client
		p.leave()
		p.streams = !p.streams
		w.after(w.upTo(5*time.Second), p.boot)
	case 10:
		w.changeFashion()
	case 11:
		w.erase()
	}
}

// tellClassic lets the clients of the classic protocol see new metadata: there
// it is they who notice.
func (w *mixed) tellClassic() {
	for _, p := range w.peers {
		p.changed = p.changed || p.classic
	}
}

// crash kills the coordinator, and starts it again from its log. What was being
// written may be there or not; nobody has heard of it.
func (w *mixed) crash() {
	w.say("the coordinator is killed")
	w.cuts++
	w.bumps.check(w.t, w.events, 1)
	asked := w.asked
	w.asked = map[uint64]func(kmsg.Response){}
	w.begin(w.rng.IntN(2) == 0)
	tokens := make([]uint64, 0, len(asked))
	for token := range asked {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	for _, token := range tokens { // their connections break
		w.after(w.upTo(100*time.Millisecond), func() { asked[token](nil) })
	}
}

// move lets another coordinator take over: everybody is told, what is being
// written still lands, and then the log is read.
func (w *mixed) move() {
	w.say("the coordinator moves")
	w.step(Unload{})
	if len(w.asked) > 0 {
		w.t.Errorf("%d requests are parked with a coordinator that is unloaded", len(w.asked))
	}
	if at, ticks := w.s.Next(); ticks {
		w.t.Errorf("a coordinator that is unloaded wakes up at %s", at)
	}
	w.bumps.check(w.t, w.events, 0)
	w.begin(w.rng.IntN(10) > 0)
}

// begin is a new life of the coordinator.
func (w *mixed) begin(lands bool) {
	w.checkEvents()
	if lands {
		for _, o := range w.flying {
			w.durable = append(w.durable, o.Records...)
		}
	}
	w.life++
	life := w.life
	w.flying, w.pend, w.events, w.bumps = nil, nil, nil, nil
	w.s = w.replayed()
	w.after(w.upTo(300*time.Millisecond), func() {
		if life == w.life {
			w.step(Loaded{})
		}
	})
}

func (w *mixed) replayed() *Shard {
	s := New(w.cfg, rand.New(rand.NewPCG(uint64(w.life), 7)))
	s.Step(w.now, w.metadata())
	for _, r := range w.durable {
		if err := s.Apply(r); err != nil {
			w.t.Errorf("replay: %v", err)
		}
	}
	return s
}

// checkShape: the parts of a consumer group agree with each other.
func (w *mixed) checkShape() {
	if w.s.phase != running {
		return
	}
	if t, ok := streamsOf(w.s.groups["g"]); ok {
		checkStreams(w.t, t)
	}
	c, ok := consumerOf(w.s.groups["g"])
	if !ok {
		return
	}
	owned := 0
	for id, m := range c.members {
		if m.id != id || !m.known || m.session.place == 0 {
			w.t.Errorf("member %s is not as it should be: id %s, known %v, session %d", id, m.id, m.known, m.session.place)
		}
		if i := m.meta.instance; i != nil && c.static[*i] != m {
			w.t.Errorf("instance %s is not %s", *i, m.id)
		}
		if (m.current.state == memberUnrevoked) != (m.patience.place > 0) {
			w.t.Errorf("member %s in state %d, patience %d", m.id, m.current.state, m.patience.place)
		}
		for _, set := range []partitionSet{m.current.assigned, m.current.revoking} {
			owned += set.size()
			for topic, list := range set {
				for _, n := range list {
					if c.owners[topic][n] != m {
						w.t.Errorf("%s has %x-%d, but does not own it", m.id, topic[:2], n)
					}
				}
			}
		}
		if m.current.epoch > c.targetEpoch {
			w.t.Errorf("%s is at epoch %d, the target at %d", m.id, m.current.epoch, c.targetEpoch)
		}
	}
	for _, of := range c.owners {
		for _, m := range of {
			if m != nil {
				owned--
			}
		}
	}
	if owned != 0 {
		w.t.Errorf("%d partitions more are with members than have an owner", owned)
	}
	for id := range c.targets {
		if c.members[id] == nil {
			w.t.Errorf("%s has a target and is no member", id)
		}
	}
}

// checkEvents: the events of one life of the coordinator are one chain. An
// epoch is told when it is durable, a classic generation when it is complete,
// so two may be told in the other order.
func (w *mixed) checkEvents() {
	slices.SortStableFunc(w.events, func(a, b cause.Event) int { return a.At.Compare(b.At) })
	for i, e := range w.events {
		first := e.Protocol == "streams" && e.From == 0 && e.To == 2
		if e.To != e.From+1 && !first || e.Cause < cause.SessionClock || e.Cause > cause.PartitionChange {
			w.t.Errorf("an event that is none: %v", e)
		}
		if i == 0 || e.From == 0 {
			continue
		}
		if before := w.events[i-1]; e.From != before.To {
			w.t.Errorf("event from %d follows one to %d", e.From, w.events[i-1].To)
		}
	}
}

func (w *mixed) checkSettled() {
	g := w.s.groups["g"]
	if w.t.Failed() || g == nil {
		return
	}
	if g.members.state() != "Stable" || (g.members.kind() == "streams") != w.streams {
		w.t.Errorf("the group has not settled: it is %s, %s", g.members.kind(), g.members.state())
	}
	w.bumps.check(w.t, w.events, 0)
	readsU := slices.ContainsFunc(w.peers, func(p *peer) bool { return p.epoch > 0 && p.both })
	if t, ok := streamsOf(g); ok {
		readsU = t.topology.epoch == 1
	}
	read := map[partition]string{}
	for _, p := range w.peers {
		if p.epoch <= 0 && (p.classic || p.streams || w.cfg.Migration != "downgrade") {
			w.t.Errorf("%s is not in the group", p.name)
		}
		for tp := range p.positions {
			if other := read[tp]; other != "" {
				w.t.Errorf("%s and %s both read %s-%d", p.name, other, tp.topic, tp.index)
			}
			read[tp] = p.name
		}
	}
	for _, topic := range []string{"t", "u"} {
		wanted := readsU || topic == "t" && slices.ContainsFunc(w.peers, func(p *peer) bool { return p.epoch > 0 })
		for n := range w.topics[topic] {
			if tp := (partition{topic, n}); wanted != (read[tp] != "") {
				w.t.Errorf("%s-%d is wanted: %v, read by %q", topic, n, wanted, read[tp])
			}
		}
	}
}

func (w *mixed) checkReplay() {
	if w.t.Failed() {
		return
	}
	if live, again := snapshot(w.s), snapshot(w.replayed()); live != again {
		w.t.Errorf("the log gives another state:\nlive\n%s\nreplayed\n%s", live, again)
	}
}

// checkOwner: nobody else who could commit has a partition that a client is
// about to read.
func (w *mixed) checkOwner(p *peer, tp partition) {
	for _, o := range w.peers {
		if _, has := o.positions[tp]; !has || o == p || !o.up {
			continue
		}
		if w.mayCommit(o, tp) {
			w.t.Errorf("%s-%d goes to %s while %s could commit it", tp.topic, tp.index, p.name, o.name)
		}
	}
}
