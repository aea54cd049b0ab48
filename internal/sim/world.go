package sim

import (
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// epoch is the time that Step sees at the beginning of a run.
var epoch = time.Unix(0, 0).UTC()

// timer is what a scheduled event is for. Each member has one of each kind
// pending at most; scheduling it again replaces it.
type timer int8

const (
	tWake timer = iota // the member's own next step
	tPollClock
	tSession
	tBeat // the next heartbeat that has news
	tJoinAnswer
	tSyncAnswer
	tSyncTimeout
	tStart
	tKill
	tClose
	tFetch  // PerCall: one a lane
	tCall   // PerCall: one a call in flight
	tCommit // PerCall
	tTick   // PerCall
	tRevoke // newer protocols: the rebalance timeout of a member that has to give something up
	tGroup  // of the group: the join is complete, or has timed out
	timers
)

type event struct {
	at   time.Duration
	seq  uint32
	ver  uint32
	who  int32
	lane int32
	arg  int32
	what timer
}

func (a *event) before(b *event) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// world is one run.
type world struct {
	sc     *Scenario
	now    time.Duration
	heap   []event
	seq    uint32
	parts  []partition
	group  group      // one of the two is used
	epochs epochGroup // newer protocols
	coord  anyGroup   // that one
	all    []member
	sum    Summary
	trace  []Event

	struck  map[[2]int]bool // PerCall: records (partition, offset) that have cost a lease
	windows int             // assignments that brought tasks to a stream thread so far
}

// anyGroup is a group as members meet it: the classic one, or one of the
// newer protocols.
type anyGroup interface {
	begin(*world)
	knows(*member) bool   // it is a member
	accepts(*member) bool // a commit of it would be taken
	remove(*member, Why)
	expire(*member) // its session clock has run out
	fire(event)
	epoch() int // of the group: its generation
}

// Run plays a scenario.
func Run(sc Scenario) (Summary, []Event) {
	sc = sc.withDefaults()
	w := newWorld(&sc)
	w.play()
	return w.sum, w.trace
}

func newWorld(sc *Scenario) *world {
	w := &world{sc: sc}
	w.parts = make([]partition, sc.Partitions)
	feed(sc, w.parts)
	w.all = make([]member, len(sc.Members))
	w.coord = &w.group
	if sc.Group != ClassicGroup {
		w.coord = &w.epochs
	}
	w.coord.begin(w)
	for i := range w.all {
		m := &w.all[i]
		m.begin(w, i)
		m.schedule(tStart, sc.Members[i].Start)
	}
	return w
}

// play fires one event after the other until the run is over.
func (w *world) play() {
	for len(w.heap) > 0 {
		ev := w.pop()
		w.now = ev.at
		if ev.what == tGroup {
			w.coord.fire(ev)
			continue
		}
		if w.sc.StopAtLoss && w.sum.FirstLoss > 0 {
			break
		}
		m := &w.all[ev.who]
		if ev.what == tCall || ev.what == tFetch || m.ver[ev.what] == ev.ver {
			m.fire(&ev)
		}
	}
	w.now = w.sc.For
	w.close()
}

func (w *world) close() {
	for i := range w.all {
		w.all[i].end()
	}
	s := &w.sum
	for i := range w.parts {
		p := &w.parts[i]
		s.Committed = append(s.Committed, p.committed)
		for offset, n := range p.done {
			if n > 0 {
				s.Distinct++
			}
			if offset >= p.committed {
				s.NeverCommitted += int(p.begun[offset])
			}
		}
	}
	s.Generation = w.coord.epoch()
}

// time is the present moment as the cores see it.
func (w *world) time() time.Time { return epoch.Add(w.now) }

func (w *world) push(ev event) {
	if ev.at > w.sc.For || ev.at < 0 {
		return
	}
	w.seq++
	ev.seq = w.seq
	w.heap = append(w.heap, ev)
	i := len(w.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !w.heap[i].before(&w.heap[up]) {
			break
		}
		w.heap[i], w.heap[up] = w.heap[up], w.heap[i]
		i = up
	}
}

func (w *world) pop() event {
	top := w.heap[0]
	last := len(w.heap) - 1
	w.heap[0] = w.heap[last]
	w.heap = w.heap[:last]
	i := 0
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if w.heap[c].before(&w.heap[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		w.heap[i], w.heap[least] = w.heap[least], w.heap[i]
		i = least
	}
}

// reach moves the time on to t when nothing else happens before, so that a
// member which works alone does not go through the heap.
func (w *world) reach(t time.Duration) bool {
	if t > w.sc.For || len(w.heap) > 0 && w.heap[0].at <= t {
		return false
	}
	w.now = t
	return true
}

func (w *world) note(m *member, what What, n int) {
	if w.sc.Trace {
		w.trace = append(w.trace, Event{At: w.now, Member: m.idx, What: what, N: n})
	}
}

func (w *world) noteCall(m *member, what What, partition, offset int) {
	if w.sc.Trace {
		w.trace = append(w.trace, Event{At: w.now, Member: m.idx, What: what, Partition: partition, Offset: offset})
	}
}

// moment counts something, and remembers it in a traced run.
func (w *world) moment(m *member, count *int, list *[]Moment) {
	*count++
	if w.sc.Trace {
		*list = append(*list, Moment{w.now, m.idx})
	}
}

// lost remembers when something was lost first.
func (w *world) lost() {
	if w.sum.FirstLoss == 0 {
		w.sum.FirstLoss = w.now
	}
}

// call begins a call and gives its length.
func (w *world) call(m *member, partition, offset int) time.Duration {
	if w.sum.Calls++; w.sum.Calls == w.sc.AtMost {
		w.sc.For = w.now // nothing that takes time happens any more
	}
	attempt := w.parts[partition].began(offset)
	w.noteCall(m, CallBegin, partition, offset)
	return w.sc.Latency(Call{Partition: partition, Offset: offset, Attempt: attempt, At: w.now})
}

func (w *world) called(m *member, partition, offset int) {
	w.sum.Ended++
	w.parts[partition].done[offset]++
	w.noteCall(m, CallEnd, partition, offset)
}

func taskOf(partition int) loop.TaskID { return loop.TaskID{Part: int32(partition)} }
