package call

import (
	"math/rand/v2"
	"time"
)

// Window is the calls of one task to one service. It is a value for one
// goroutine.
type Window struct {
	set     Settings
	rnd     *rand.Rand
	last    ID
	entries map[ID]*entry
	chains  map[uint64]*chain // by partition or by key; none when unordered
	ready   queue             // records that may make their first attempt, in order
	begun   int               // records whose call has begun and not ended: what Parallel bounds
	hold    time.Time
	drained bool
	alarms  alarms
	acts    []Act
	spare   *entry
}

type state int8

const (
	waiting state = iota // for its turn
	running              // an attempt is out
	pausing              // between attempts, or refused
	ended                // done, waits for the ones before it
)

type entry struct {
	id       ID
	order    uint64 // key of its chain
	state    state
	failure  Failure
	attempt  int
	first    time.Time // when its first attempt started
	limit    time.Duration
	deadline time.Time // running: of the attempt; pausing: when it is over
	seq      uint32    // which alarm is the valid one
	inChain  *entry    // the next one of the same partition or key
	inQueue  *entry    // the next one that is ready; also the list of spare ones
}

type chain struct{ head, tail *entry }

// NewWindow makes an empty window. rnd shortens pauses.
func NewWindow(set Settings, rnd *rand.Rand) *Window {
	return &Window{set: set.WithDefaults(), rnd: rnd, entries: map[ID]*entry{}, chains: map[uint64]*chain{}}
}

// Len is how many records are in the window.
func (w *Window) Len() int { return len(w.entries) }

// InFlight is how many calls have begun and not ended.
func (w *Window) InFlight() int { return w.begun }

// Has says that a record is in the window.
func (w *Window) Has(id ID) bool { return w.entries[id] != nil }

// Running says that the call of a record has begun and not ended.
func (w *Window) Running(id ID) bool {
	e := w.entries[id]
	return e != nil && e.hasBegun() && e.state != ended
}

// Full says that no further record should be offered now.
func (w *Window) Full() bool { return len(w.entries) >= w.set.Buffer || w.ready.len > w.set.Parallel }

// Settings answers the settings with defaults filled.
func (w *Window) Settings() Settings { return w.set }

// Step takes one thing that happened. The acts are valid until the next Step.
func (w *Window) Step(now time.Time, in In) []Act {
	w.acts = w.acts[:0]
	switch in := in.(type) {
	case Offer:
		w.offer(in)
	case Came:
		if e := w.entries[in.ID]; e != nil && e.state == running && e.attempt == in.Attempt {
			w.outcome(now, e, in.Failure, in.RetryAfter)
		}
	case Refused:
		if e := w.entries[in.ID]; e != nil && e.state == running && e.attempt == in.Attempt {
			w.refused(now, e, in.At)
		}
	case Hold:
		if in.Until.After(w.hold) {
			w.hold = in.Until
		}
	case Drain:
		w.drain()
	case Tick:
	}
	w.due(now)
	w.start(now)
	return w.acts
}

// Next is when a Tick is due.
func (w *Window) Next() (time.Time, bool) {
	at, ok := w.alarms.first(w.entries)
	if w.ready.len > 0 && w.begun < w.set.Parallel && !w.drained {
		if !ok || w.hold.Before(at) {
			return w.hold, true
		}
	}
	return at, ok
}

func (w *Window) offer(in Offer) {
	w.last++
	e := w.spare
	if e == nil {
		e = &entry{}
	} else {
		w.spare = e.inQueue
	}
	*e = entry{id: w.last, limit: in.Limit, seq: e.seq}
	if w.drained {
		w.free(e)
		return
	}
	w.entries[e.id] = e
	switch w.set.Order {
	case ByPartition:
		e.order = uint64(uint32(in.Partition))
	case ByKey:
		e.order = in.Key
	case Unordered:
		w.ready.push(e)
		return
	}
	c := w.chains[e.order]
	if c == nil {
		c = &chain{}
		w.chains[e.order] = c
	}
	if c.head == nil {
		c.head = e
	} else {
		c.tail.inChain = e
	}
	c.tail = e
	if w.set.Order == ByPartition || c.head == e {
		w.ready.push(e)
	}
}

func (w *Window) start(now time.Time) {
	if w.drained || now.Before(w.hold) {
		return
	}
	for w.begun < w.set.Parallel {
		e := w.ready.pop()
		if e == nil {
			return
		}
		w.begun++
		w.attempt(now, e)
	}
}

// attempt starts the next attempt of a record. The first one begins its
// budget.
func (w *Window) attempt(now time.Time, e *entry) {
	e.attempt++
	if e.attempt == 1 {
		e.first = now
	}
	e.state = running
	e.deadline = now.Add(w.set.Timeout)
	if end := e.first.Add(w.budget(e)); end.Before(e.deadline) {
		e.deadline = end
	}
	w.alarms.set(e, e.deadline.Add(Grace), w.entries)
	w.acts = append(w.acts, Act{Kind: Start, ID: e.id, Attempt: e.attempt, Deadline: e.deadline})
}

// budget is never longer than Worst, so that a long Retry-After does not make
// what the topology printed untrue.
func (w *Window) budget(e *entry) time.Duration {
	worst := w.set.Worst()
	if e.limit > 0 {
		return min(e.limit, worst)
	}
	return worst
}

// refused takes a Start back. A record that made no attempt yet has not begun
// its budget.
func (w *Window) refused(now time.Time, e *entry, at time.Time) {
	e.attempt--
	e.state = pausing
	if at.Before(now) {
		at = now
	}
	e.deadline = at
	if e.attempt > 0 && !at.Before(e.first.Add(w.budget(e))) {
		w.end(e, w.exhausted(e, Budget))
		return
	}
	w.alarms.set(e, at, w.entries)
}

func (w *Window) outcome(now time.Time, e *entry, f Failure, retryAfter time.Duration) {
	end := e.first.Add(w.budget(e))
	switch {
	case f == None || f == Fatal || f == Crash || f == PollClock:
		w.end(e, f)
	case e.attempt >= w.set.Attempts:
		w.end(e, w.exhausted(e, f))
	default:
		pause := w.set.Pause(e.attempt + 1)
		if fifth := int64(pause) / 5; fifth > 0 {
			pause -= time.Duration(w.rnd.Int64N(fifth + 1))
		}
		again := now.Add(max(pause, retryAfter))
		if !again.Before(end) {
			w.end(e, w.exhausted(e, Budget))
			return
		}
		e.state, e.deadline = pausing, again
		w.alarms.set(e, again, w.entries)
	}
}

// exhausted is the failure of a record that gets no further attempt: when its
// budget was cut short for the sake of the lease, that is the reason.
func (w *Window) exhausted(e *entry, f Failure) Failure {
	if e.limit > 0 && e.limit < w.set.Worst() && (f == Late || f == Budget) {
		return PollClock
	}
	return f
}

// due carries out the alarms that have come: pauses end, and attempts that did
// not come back are cut.
func (w *Window) due(now time.Time) {
	for {
		e := w.alarms.pop(now, w.entries)
		switch {
		case e == nil:
			return
		case e.state == pausing:
			w.attempt(now, e)
		case e.state == running:
			w.acts = append(w.acts, Act{Kind: Cut, ID: e.id, Attempt: e.attempt})
			w.outcome(now, e, Late, 0)
		}
	}
}

// end finishes the call of a record and lets out what may leave now.
func (w *Window) end(e *entry, f Failure) {
	e.state, e.failure = ended, f
	e.seq++
	w.begun--
	if w.set.Order == Unordered {
		w.emit(e)
		return
	}
	c := w.chains[e.order]
	for c.head != nil && c.head.state == ended {
		head := c.head
		c.head = head.inChain
		w.emit(head)
	}
	switch {
	case c.head == nil:
		delete(w.chains, e.order)
	case w.set.Order == ByKey && c.head.state == waiting:
		w.ready.push(c.head)
	}
}

func (w *Window) emit(e *entry) {
	w.acts = append(w.acts, Act{Kind: Emit, ID: e.id, Attempt: e.attempt, Failure: e.failure})
	w.free(e)
}

func (w *Window) free(e *entry) {
	delete(w.entries, e.id)
	e.inChain, e.inQueue = nil, w.spare
	e.seq++
	w.spare = e
}

// drain forgets every record that waits for its first attempt. With an order,
// it also forgets what comes after such a record in its partition or key: its
// result would overtake one that the next owner has yet to make.
func (w *Window) drain() {
	w.drained = true
	w.ready = queue{}
	for key, c := range w.chains {
		at := &c.head
		c.tail = nil
		for *at != nil && (*at).hasBegun() {
			c.tail, at = *at, &(*at).inChain
		}
		for e := *at; e != nil; {
			next := e.inChain
			w.forget(e)
			e = next
		}
		*at = nil
		if c.head == nil {
			delete(w.chains, key)
		}
	}
	for _, e := range w.entries {
		if !e.hasBegun() {
			w.forget(e)
		}
	}
}

func (e *entry) hasBegun() bool { return e.state != waiting && e.attempt > 0 }

func (w *Window) forget(e *entry) {
	switch e.state {
	case running:
		w.acts = append(w.acts, Act{Kind: Cut, ID: e.id, Attempt: e.attempt})
		w.begun--
	case pausing:
		w.begun--
	}
	w.free(e)
}
