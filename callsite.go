package rondo

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/internal/call"
	"github.com/rondo-streams/rondo/internal/member"
)

// callSite is one Call of a topology, with its types.
type callSite[K, V, W any] struct {
	spec *callSpec
	f    func(context.Context, Record[K, V]) (W, error)
	dead Topic[K, V]
}

// callRunner is a callLane whatever its types. The task's driver owns it.
type callRunner interface {
	full() bool
	len() int
	next() (time.Time, bool)
	tick()
	drain()
	abandon()
}

// callLane runs the calls of one task to one service: it carries out what the
// window decides.
type callLane[K, V, W any] struct {
	site   *callSite[K, V, W]
	task   *task
	out    func(Record[K, W])
	window *call.Window
	gate   *call.Gate
	items  map[call.ID]*callItem[K, V, W]
	last   call.ID
	seed   maphash.Seed
	losing bool // the poll clock has fired for a call: nothing leaves any more
}

// callItem is one record in the window.
type callItem[K, V, W any] struct {
	record  Record[K, V]
	value   W
	err     error
	ctx     context.Context // of the whole call; nil until it begins
	cancel  context.CancelCauseFunc
	stop    func() bool // forgets the poll clock's context
	ticket  member.Ticket
	attempt *callAttempt[K, V, W] // the one that is out
}

// callAttempt is one attempt, shared with its goroutine.
type callAttempt[K, V, W any] struct {
	number int
	pass   call.Pass
	cancel context.CancelFunc
	over   atomic.Bool // it came back, or was given up: whichever was first
}

func (s *callSite[K, V, W]) make(t *task, next []any) any {
	l := &callLane[K, V, W]{
		site: s, task: t, out: fan[K, W](next), gate: t.host.app.gates[s.spec.name],
		window: call.NewWindow(s.spec.settings(), rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		items:  map[call.ID]*callItem[K, V, W]{}, seed: maphash.MakeSeed(),
	}
	t.windows = append(t.windows, l)
	return l.offer
}

func (l *callLane[K, V, W]) full() bool              { return l.window.Full() }
func (l *callLane[K, V, W]) len() int                { return l.window.Len() }
func (l *callLane[K, V, W]) next() (time.Time, bool) { return l.window.Next() }
func (l *callLane[K, V, W]) tick()                   { l.step(call.Tick{}) }

// offer takes a record from the operators above.
func (l *callLane[K, V, W]) offer(r Record[K, V]) {
	in := call.Offer{Partition: r.Partition}
	if l.site.spec.policy.Order == ByKey {
		in.Key = hashKey(l.seed, r.Key)
	}
	work := l.work(r)
	limit := max(l.site.spec.policy.Evictions, 1)
	if times := l.task.host.app.strikes.of(r.origin.part.at, r.Offset, work.Name); times >= limit && !l.task.host.app.streams42 {
		in.Limit = l.task.host.app.maxPoll * 8 / 10
		l.task.host.log.Warn("a call will be cut before the poll clock fires, because its record has cost leases before", "work", work.String(), "leases", times, "after", in.Limit)
	}
	r.origin.hold()
	l.last++
	l.items[l.last] = &callItem[K, V, W]{record: r}
	if l.task.draining {
		l.forget(l.last)
		return
	}
	l.step(in)
}

// hashKey hashes what a key prints as, unless it is one of the simple kinds.
// Keys that print alike are taken for one key, which costs time, not order.
func hashKey[K any](seed maphash.Seed, key K) uint64 {
	switch k := any(key).(type) {
	case string:
		return maphash.String(seed, k)
	case []byte:
		return maphash.Bytes(seed, k)
	case int64:
		return maphash.Comparable(seed, k)
	}
	return maphash.String(seed, fmt.Sprint(key))
}

func (l *callLane[K, V, W]) work(r Record[K, V]) member.Work {
	return member.Work{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Name: callWork(l.site.spec.name)}
}

// step tells the window what happened and does what it says. Starts that the
// gate refuses are told at the end, each as a step of its own.
func (l *callLane[K, V, W]) step(in call.In) {
	var room [8]call.Act
	acts := append(room[:0], l.window.Step(time.Now(), in)...)
	for _, a := range acts {
		switch a.Kind {
		case call.Start:
			l.start(a)
		case call.Cut:
			l.cut(a)
		case call.Emit:
			l.emit(a)
		}
	}
}

func (l *callLane[K, V, W]) start(a call.Act) {
	item := l.items[a.ID]
	now := time.Now()
	pass, ok, again := l.gate.Admit(now, l, func() { l.task.box.put(l.tick) })
	if !ok {
		l.step(call.Refused{ID: a.ID, Attempt: a.Attempt, At: again})
		l.settle(a.ID)
		return
	}
	if item.ctx == nil {
		l.begin(item)
	}
	counts := &l.task.host.app.counts
	counts.callsMade.Add(1)
	if a.Attempt > 1 {
		counts.retries.Add(1)
	} else if l.task.host.app.called.again(l.site.spec.name, item.record.origin) {
		counts.repeated.Add(1)
	}
	ctx, cancel := context.WithDeadline(item.ctx, a.Deadline)
	attempt := &callAttempt[K, V, W]{number: a.Attempt, pass: pass, cancel: cancel}
	item.attempt = attempt
	id, record, ticket, stop := a.ID, item.record, item.ticket, item.stop
	last := a.Attempt >= l.window.Settings().Attempts
	go func() {
		value, err := ask(ctx, l.site.f, record)
		inTime := true
		if attempt.over.CompareAndSwap(false, true) && (last || final(err)) {
			// The poll clock stops here, and not when the driver has the time
			// to take the result: it may be inside slow user code.
			stop()
			inTime = l.task.host.end(ticket)
		}
		l.task.box.put(func() { l.came(id, attempt, inTime, value, err) })
	}()
}

// final says that the outcome of an attempt ends the call.
func final(err error) bool {
	f, _ := call.Classify(err)
	return f == call.None || f == call.Fatal || f == call.Crash
}

// ask runs user code and turns its panic into an error.
func ask[K, V, W any](ctx context.Context, f func(context.Context, Record[K, V]) (W, error), r Record[K, V]) (value W, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = call.Recovered(v)
		}
	}()
	return f(ctx, r)
}

// begin starts the poll clock of the call.
func (l *callLane[K, V, W]) begin(item *callItem[K, V, W]) {
	l.task.host.app.counts.inFlight.Add(1)
	item.record.origin.work()
	lease, ticket := l.task.host.begin(l.work(item.record))
	item.ticket = ticket
	item.ctx, item.cancel = context.WithCancelCause(l.task.ctx)
	cancel := item.cancel
	item.stop = context.AfterFunc(lease, func() { cancel(leaseEnd(context.Cause(lease))) })
}

// settle stops the poll clock when the call has ended, whether or not its
// result may leave yet.
func (l *callLane[K, V, W]) settle(id call.ID) {
	item := l.items[id]
	if item == nil || item.ctx == nil || l.window.Running(id) {
		return
	}
	l.end(item)
}

func (l *callLane[K, V, W]) end(item *callItem[K, V, W]) {
	if item.ctx == nil {
		return
	}
	l.task.host.app.counts.inFlight.Add(-1)
	item.stop()
	if !l.task.host.end(item.ticket) {
		l.losing = true
	}
	item.cancel(context.Canceled)
	item.ctx = nil
}

// came takes what an attempt's goroutine brought back.
func (l *callLane[K, V, W]) came(id call.ID, attempt *callAttempt[K, V, W], inTime bool, value W, err error) {
	item := l.items[id]
	attempt.cancel()
	if item == nil || item.attempt != attempt {
		return // it was cut, or the task lost its lease
	}
	failure, retryAfter := call.Classify(err)
	item.attempt, item.value, item.err = nil, value, err
	if !inTime || failure != call.None && errors.Is(context.Cause(item.ctx), ErrPollClock) {
		l.gate.Done(attempt.pass, time.Now(), call.PollClock, 0)
		l.end(item)
		return
	}
	l.gate.Done(attempt.pass, time.Now(), failure, retryAfter)
	l.step(call.Came{ID: id, Attempt: attempt.number, Failure: failure, RetryAfter: retryAfter})
	l.settle(id)
}

// cut gives an attempt up that did not come back when its context ended.
func (l *callLane[K, V, W]) cut(a call.Act) {
	item := l.items[a.ID]
	attempt := item.attempt
	if attempt == nil {
		return
	}
	attempt.cancel()
	if !attempt.over.CompareAndSwap(false, true) {
		l.end(item) // it came back at this moment; another attempt starts a clock of its own
	}
	item.attempt = nil
	item.err = fmt.Errorf("attempt %d of call %s did not return when its context ended, and was given up: %w", a.Attempt, l.site.spec.name, context.DeadlineExceeded)
	l.gate.Done(attempt.pass, time.Now(), call.Late, 0)
	l.task.host.app.counts.abandoned.Add(1)
	l.settle(a.ID)
}

// emit lets a record go on, or its failure. When the poll clock has fired, the
// lease is going, although the news of it may take a moment to come: what left
// the task in between would leave it again at the next owner.
func (l *callLane[K, V, W]) emit(a call.Act) {
	item := l.items[a.ID]
	delete(l.items, a.ID)
	l.end(item)
	o := item.record.origin
	if l.losing || l.task.fenced.Load() || l.task.broken {
		return
	}
	if a.Failure == call.None {
		l.task.guard(o, func(*origin) { l.out(WithValue(item.record, item.value)) })
		return
	}
	l.gate.Failed()
	l.task.host.app.counts.callsFailed.Add(1)
	l.task.guard(o, func(o *origin) { l.failed(item, a) })
}

// failed does with a record whose call failed for good what the topology says.
func (l *callLane[K, V, W]) failed(item *callItem[K, V, W], a call.Act) {
	spec, o := l.site.spec, item.record.origin
	err := item.err
	if err == nil {
		err = errors.New("no attempt was answered")
	}
	if times := l.task.host.app.strikes.of(o.part.at, o.offset(), callWork(spec.name)); a.Failure == call.PollClock && times > 0 {
		err = fmt.Errorf("%w (it has cost %s, and was cut before it cost another one)", err, leases(times))
	}
	switch spec.onFailure {
	case failureDead:
		dead := deadHeaders(o, err, a.Failure.String(), spec.name, a.Attempt)
		emit(l.task, item.record, l.site.dead.Name, l.site.dead.Key, l.site.dead.Value, dead)
	case failureSkip:
		l.task.skipped(o, fmt.Errorf("call %s failed after %d attempts (%s): %w", spec.name, a.Attempt, a.Failure, err), a.Failure.String())
	default:
		o.hold() // so that the guard's release does not finish it
		l.task.fail(o.fault("call "+spec.name, fmt.Errorf("failed after %d attempts (%s): %w", a.Attempt, a.Failure, err), "say FailuresTo or SkipFailures to go on after it"))
	}
}

// drain forgets records whose call has not begun.
func (l *callLane[K, V, W]) drain() {
	l.step(call.Drain{})
	for id := range l.items {
		if !l.window.Has(id) {
			l.forget(id)
		}
	}
}

func (l *callLane[K, V, W]) forget(id call.ID) {
	item := l.items[id]
	delete(l.items, id)
	l.drop(item)
	item.record.origin.forget()
}

// drop cancels what is out for a record.
func (l *callLane[K, V, W]) drop(item *callItem[K, V, W]) {
	if a := item.attempt; a != nil {
		item.attempt = nil
		a.cancel()
		l.gate.Drop(a.pass)
	}
	l.end(item)
}

// abandon cancels everything: the lease is gone.
func (l *callLane[K, V, W]) abandon() {
	for id, item := range l.items {
		delete(l.items, id)
		l.drop(item)
	}
}
