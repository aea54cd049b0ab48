package group

import (
	"container/heap"
	"flag"
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

var simSeeds = flag.Int("seeds", 0, "how many random worlds each simulation plays; 0: a few; 10,000 before a release")
var simSeed = flag.Int64("seed", -1, "play this one world alone and print what happens")

// TestSimulation plays random worlds: clients that join, work, commit, fall
// silent, die, come back, leave and restart as static members; a log that is
// slow and fails; a coordinator that is killed, or moves. Checkers watch all the time:
//
//   - a partition has at most one owner in a generation,
//   - a committed offset is never older than one that was acknowledged,
//   - every change of a generation has exactly one cause,
//   - when the world calms down the group settles with everybody in it,
//   - the log replayed gives the state that the coordinator had.
func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		simulate(t, uint64(*simSeed), true)
		return
	}
	for seed := range worlds(200) {
		if simulate(t, uint64(seed), false); t.Failed() {
			t.Fatalf("seed %d: go test ./internal/group -run Simulation -seed %d -v", seed, seed)
		}
	}
}

// worlds is how many worlds a simulation plays.
func worlds(few int) int {
	if *simSeeds > 0 {
		return *simSeeds
	}
	return few
}

const simPartitions = 12

// sim is one random world.
type sim struct {
	t       *testing.T
	rng     *rand.Rand
	loud    bool
	now     time.Time
	start   time.Time
	queue   simQueue
	order   uint64
	s       *Shard
	life    int // of the coordinator
	cfg     Config
	durable []Record
	pend    []Output // not yet appended
	flying  []Output
	asked   map[uint64]func(kmsg.Response)
	token   uint64
	bots    []*bot
	calm    bool

	owners  map[int32]map[int32]string // generation -> partition -> member id
	acked   [simPartitions]int64       // the newest offset that was acknowledged
	ackedAt [simPartitions]time.Time   // when that commit had arrived
	events  []cause.Event              // of this life of the coordinator
}

type simEvent struct {
	at    time.Time
	order uint64
	do    func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func simulate(t *testing.T, seed uint64, loud bool) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 42)), loud: loud, now: start, start: start,
		asked: map[uint64]func(kmsg.Response){}, owners: map[int32]map[int32]string{},
		cfg: Config{InitialRebalanceDelay: 3 * time.Second, OffsetsRetention: time.Hour},
	}
	if w.rng.IntN(2) == 0 {
		w.cfg.InitialRebalanceDelay = -1
	}
	w.s = New(w.cfg, rand.New(rand.NewPCG(seed, 1)))
	w.step(Loaded{})
	for i := range 1 + w.rng.IntN(4) {
		b := &bot{w: w, name: fmt.Sprintf("%c", 'a'+i)}
		if w.rng.IntN(3) == 0 {
			b.instance = kmsg.StringPtr("i" + b.name)
		}
		b.cooperative = w.rng.IntN(2) == 0
		w.bots = append(w.bots, b)
		w.after(w.upTo(10*time.Second), b.boot)
	}
	for at := time.Duration(0); at < 3*time.Minute; at += w.upTo(30 * time.Second) {
		w.after(at, w.fault)
	}
	w.after(3*time.Minute, func() { w.calm = true })
	for _, b := range w.bots {
		w.after(3*time.Minute+w.upTo(10*time.Second), b.revive)
	}
	w.run(start.Add(6 * time.Minute))
	w.checkSettled()
	w.checkEvents()
	w.checkReplay()
}

func (w *sim) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) + 1 }

func (w *sim) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, simEvent{w.now.Add(d), w.order, do})
}

func (w *sim) say(format string, args ...any) {
	if w.loud {
		w.t.Logf("%10s %s", w.now.Sub(w.start).Round(time.Millisecond), fmt.Sprintf(format, args...))
	}
}

func (w *sim) run(end time.Time) {
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
		w.now = at
		w.step(Tick{})
	}
}

func (w *sim) step(in Input) {
	out := w.s.Step(w.now, in)
	for _, r := range out.Replies {
		answer := w.asked[r.Token]
		if answer == nil {
			w.t.Errorf("token %d was answered twice", r.Token)
			continue
		}
		delete(w.asked, r.Token)
		life := w.life
		w.after(w.upTo(20*time.Millisecond), func() {
			if life != w.life {
				answer(nil) // the connection broke with the answer in it
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
	w.checkShape()
}

// checkShape: the parts of a group agree with each other.
func (w *sim) checkShape() {
	g := w.s.groups["g"]
	if g == nil {
		return
	}
	c := g.members.(*classic)
	if w.s.phase != running {
		return
	}
	if len(c.members) != len(c.order) || (c.phase == empty) != (len(c.members) == 0) && c.phase != preparing {
		w.t.Errorf("%s with %d members, %d in order", c.phase, len(c.members), len(c.order))
	}
	if len(c.members) > 0 && c.members[c.leader] == nil {
		w.t.Errorf("the leader %q is not a member", c.leader)
	}
	offered := map[string]int{}
	for _, m := range c.order {
		if c.members[m.id] != m || m.instance != nil && c.static[*m.instance] != m {
			w.t.Errorf("member %s is not where it should be", m.id)
		}
		if m.expiry.place == 0 && !m.join.on && !m.sync.on {
			w.t.Errorf("nothing ends the session of %s", m.id)
		}
		for _, o := range m.offers {
			offered[o.name]++
		}
	}
	if !maps.Equal(offered, c.supported) {
		w.t.Errorf("supported protocols %v, counted %v", offered, c.supported)
	}
	if (c.story != nil) != (c.phase == preparing || c.phase == completing) {
		w.t.Errorf("%s with a story: %v", c.phase, c.story != nil)
	}
}

// append sends everything that is pending as one batch, as the shell does.
func (w *sim) append() {
	if len(w.flying) > 0 || len(w.pend) == 0 {
		return
	}
	w.flying, w.pend = w.pend, nil
	life, fails := w.life, !w.calm && w.rng.IntN(12) == 0
	takes := w.upTo(15 * time.Millisecond)
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
			}
			w.step(Appended{Seq: flight[len(flight)-1].Seq})
		}
		w.append()
	})
}

// request sends a request and says when it will arrive.
func (w *sim) request(b *bot, req kmsg.Request, answer func(kmsg.Response)) time.Time {
	return w.send(b, req, false, answer)
}

// send sends a request. One that is brief does not outlive the coordinator that it
// was sent to.
func (w *sim) send(b *bot, req kmsg.Request, brief bool, answer func(kmsg.Response)) time.Time {
	life, to := b.life, w.life
	lost := !w.calm && w.rng.IntN(60) == 0
	// One connection: requests arrive in the order in which they were sent.
	arrives := w.now.Add(w.upTo(20 * time.Millisecond))
	if arrives.Before(b.arrives) {
		arrives = b.arrives
	}
	b.arrives = arrives
	w.after(arrives.Sub(w.now), func() {
		if brief && to != w.life {
			return
		}
		w.token++
		token := w.token
		w.asked[token] = func(resp kmsg.Response) {
			if life == b.life && !lost {
				answer(resp)
			}
		}
		w.step(Request{Token: token, ClientID: b.name, Host: "/10.0.0.1", Req: req})
		if lost {
			w.after(5*time.Second, func() {
				if life == b.life {
					b.stranded()
				}
			})
		}
	})
	return arrives
}

// fault makes something happen to somebody.
func (w *sim) fault() {
	if w.calm {
		return
	}
	b := w.bots[w.rng.IntN(len(w.bots))]
	switch w.rng.IntN(8) {
	case 0:
		b.die()
		w.after(w.upTo(time.Minute), b.revive)
	case 1:
		b.leave("the consumer is being closed")
		w.after(w.upTo(20*time.Second), b.revive)
	case 2:
		b.leave("consumer poll timeout has expired.")
		w.after(w.upTo(20*time.Second), b.revive)
	case 3:
		w.say("%s is paused", b.name)
		b.pausedUntil = w.now.Add(w.upTo(40 * time.Second))
	case 4:
		b.rejoin("cached metadata has changed from (version1) to (version2)")
	case 5:
		b.topics++
		b.rejoin("")
	case 6:
		if b.instance != nil { // the process restarts at once
			b.die()
			w.after(w.upTo(time.Second), b.revive)
		}
	case 7:
		if w.rng.IntN(3) == 0 {
			w.crash()
		}
	}
}

// crash kills the coordinator, or lets another one take over, which begins from the
// log. What was being written may be there or not; nobody has heard of it.
func (w *sim) crash() {
	if w.rng.IntN(2) == 0 {
		w.say("the coordinator moves")
		w.step(Unload{})
		if len(w.asked) > 0 {
			w.t.Errorf("%d requests are parked with a coordinator that is unloaded", len(w.asked))
		}
	} else {
		w.say("the coordinator is killed")
	}
	if w.rng.IntN(2) == 0 {
		for _, o := range w.flying {
			w.durable = append(w.durable, o.Records...)
		}
	}
	w.checkEvents()
	w.life++
	asked := w.asked
	w.asked, w.flying, w.pend, w.events = map[uint64]func(kmsg.Response){}, nil, nil, nil
	w.s = w.replayed()
	w.step(Loaded{})
	tokens := make([]uint64, 0, len(asked))
	for token := range asked {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	for _, token := range tokens { // their connections break
		w.after(w.upTo(100*time.Millisecond), func() { asked[token](nil) })
	}
}

func (w *sim) replayed() *Shard {
	s := New(w.cfg, rand.New(rand.NewPCG(uint64(w.life), 7)))
	for _, r := range w.durable {
		if err := s.Apply(r); err != nil {
			w.t.Errorf("replay: %v", err)
		}
	}
	return s
}

func (w *sim) checkOwner(generation int32, p int32, id string) {
	of := w.owners[generation]
	if of == nil {
		of = map[int32]string{}
		w.owners[generation] = of
	}
	if has, taken := of[p]; taken && has != id {
		if b := w.botOf(id); b == nil || b.instance == nil { // a static member passes it on to its successor
			w.t.Errorf("partition %d has two owners in generation %d: %s and %s", p, generation, has, id)
		}
	}
	of[p] = id
}

func (w *sim) botOf(id string) *bot {
	for _, b := range w.bots {
		if b.id == id {
			return b
		}
	}
	return nil
}

// checkEvents: every generation that a client has seen in this life of the
// coordinator has one event, in order and without a gap.
func (w *sim) checkEvents() {
	if len(w.s.groups) == 0 {
		return
	}
	for i, e := range w.events {
		if e.To != e.From+1 {
			w.t.Errorf("event of one change goes from %d to %d", e.From, e.To)
		}
		if i > 0 && e.From != w.events[i-1].To && e.From != 0 {
			w.t.Errorf("event from %d follows one to %d", e.From, w.events[i-1].To)
		}
		if e.Cause < cause.SessionClock || e.Cause > cause.PartitionChange {
			w.t.Errorf("event without a cause: %v", e)
		}
	}
	if g := w.s.groups["g"]; g != nil {
		c := g.members.(*classic)
		if (c.phase == stable || c.phase == empty) && len(w.events) > 0 && w.events[len(w.events)-1].To != c.generation {
			w.t.Errorf("the group is %s in generation %d, the last event says %d", c.phase, c.generation, w.events[len(w.events)-1].To)
		}
	}
}

func (w *sim) checkSettled() {
	if w.t.Failed() {
		return
	}
	g := w.s.groups["g"]
	if g == nil {
		w.t.Error("the group is gone")
		return
	}
	c := g.members.(*classic)
	if c.phase != stable || len(c.members) != len(w.bots) || len(c.pending) != 0 {
		w.t.Errorf("the group has not settled: %s, generation %d, %d members of %d, %d pending", c.phase, c.generation, len(c.members), len(w.bots), len(c.pending))
	}
	owned := 0
	for _, b := range w.bots {
		if b.gen != c.generation {
			w.t.Errorf("%s is in generation %d, the group in %d", b.name, b.gen, c.generation)
		}
		owned += len(b.positions)
	}
	if owned != simPartitions {
		w.t.Errorf("%d of %d partitions have an owner", owned, simPartitions)
	}
}

func (w *sim) checkReplay() {
	if w.t.Failed() {
		return
	}
	if live, again := snapshot(w.s), snapshot(w.replayed()); live != again {
		w.t.Errorf("the log gives another state:\nlive\n%s\nreplayed\n%s", live, again)
	}
}
