package rondo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/call"
	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// task is one partition number of one subtopology while this member holds the
// lease on it: its operators, its call windows, and what is unfinished. One
// goroutine, its driver, runs it: a lane under PerCall, the stream thread under
// Streams42. Other goroutines only put work into its mailbox and finish
// records.
type task struct {
	id     loop.TaskID
	host   *thread
	began  time.Time
	box    *mailbox
	ctx    context.Context // ends when the lease does, with the reason as its cause
	cancel context.CancelCauseFunc

	// Of the driver.
	queue    []fetched
	windows  []callRunner
	draining bool
	broken   bool // a handler said Fail: nothing runs any more

	delivery     context.Context // of outputs that are sent now
	deliveryFrom time.Time

	leaving   bool              // of the thread: its intake has stopped, it is handed over
	parts     []*inputPartition // fixed
	queued    atomic.Int64
	fenced    atomic.Bool
	run       atomic.Uint64          // changes whenever user code is entered or left
	current   atomic.Pointer[origin] // the record inside user code; nil when none is
	watched   atomic.Pointer[watch]  // the poll clock's ticket of the record inside, once it is slow
	committed atomic.Bool            // user code asked for a commit

	mu   sync.Mutex // guards the offsets of parts, and done
	done int        // finished since the driver was told
}

// inputPartition is one topic partition of a task.
type inputPartition struct {
	at     member.TopicPartition
	feed   func(*origin) // the typed chain below its source
	intake uint64        // which intake of this partition is ours; 0 until it began

	// Guarded by task.mu.
	offsets   *call.Offsets
	fetched   int64         // next offset to come
	committed int64         // -1 until the first commit of this member
	covered   int64         // records below it
	working   int64         // records begun, worked on, and not finished
	noted     string        // metadata of the last commit
	inherited []call.Strike // that the last commit before this lease told of
	held      []call.Strike // that this lease is about to add
}

// fetched is a run of records of one partition that wait for the task.
type fetched struct {
	part    *inputPartition
	records []*kgo.Record
}

// newTask builds the operators of one task. A panic here is a fault of a
// processor's constructor.
func newTask(host *thread, id loop.TaskID, positions map[member.TopicPartition]member.Offset) (t *task, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("create task %s: %w", id, call.Recovered(v))
		}
	}()
	t = &task{id: id, host: host, began: time.Now(), box: newMailbox()}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	sub := host.app.topology.subs[id.Sub]
	built := map[*node]any{}
	for _, src := range sub.sources {
		at := member.TopicPartition{Topic: src.topic.name, Partition: id.Part}
		position, ours := positions[at]
		if !ours {
			continue
		}
		p := &inputPartition{
			at: at, feed: buildNode(src, t, built).(func(*origin)),
			offsets: call.NewOffsets(position.At), fetched: position.At, committed: -1,
		}
		t.inherit(p, position)
		t.parts = append(t.parts, p)
	}
	return t, nil
}

// buildNode makes an operator and all below it, each once for a task.
func buildNode(n *node, t *task, built map[*node]any) any {
	if f, ok := built[n]; ok {
		return f
	}
	next := make([]any, len(n.children))
	for i, c := range n.children {
		next[i] = buildNode(c, t, built)
	}
	built[n] = n.make(t, next)
	return built[n]
}

func (t *task) context() context.Context { return t.ctx }

func (t *task) requestCommit() {
	if !t.committed.Swap(true) {
		t.host.commitRequested(t)
	}
}

// add queues fetched records.
func (t *task) add(p *inputPartition, records []*kgo.Record) {
	t.mu.Lock()
	p.fetched = records[len(records)-1].Offset + 1
	t.mu.Unlock()
	t.queue = append(t.queue, fetched{p, records})
	t.queued.Add(int64(len(records)))
}

// pop is the next record, nil when there is none.
func (t *task) pop() (*inputPartition, *kgo.Record) {
	if len(t.queue) == 0 {
		return nil, nil
	}
	head := &t.queue[0]
	p, r := head.part, head.records[0]
	head.records[0] = nil
	if head.records = head.records[1:]; len(head.records) == 0 {
		t.queue[0] = fetched{}
		t.queue = t.queue[1:]
	}
	t.queued.Add(-1)
	return p, r
}

// full says that a call window takes no more.
func (t *task) full() bool {
	for _, w := range t.windows {
		if w.full() {
			return true
		}
	}
	return false
}

// calling is how many records are in call windows.
func (t *task) calling() int {
	n := 0
	for _, w := range t.windows {
		n += w.len()
	}
	return n
}

// next is when a call window wants a tick.
func (t *task) next() (at time.Time, ok bool) {
	for _, w := range t.windows {
		if d, due := w.next(); due && (!ok || d.Before(at)) {
			at, ok = d, true
		}
	}
	return at, ok
}

// tick gives the windows the time.
func (t *task) tick() {
	for _, w := range t.windows {
		w.tick()
	}
}

// one runs the next record through the operators. It answers false when there
// is none.
func (t *task) one() bool {
	p, r := t.pop()
	if r == nil {
		return false
	}
	o := &origin{task: t, part: p, record: r}
	o.hold()
	t.mu.Lock()
	p.offsets.Begin(r.Offset, r.LeaderEpoch)
	t.mu.Unlock()
	t.host.app.counts.recordsIn.Add(1)
	if times := t.host.app.strikes.of(p.at, r.Offset, t.userWork()); times > 0 {
		t.struckOut(o, times)
		return true
	}
	t.guard(o, p.feed)
	return true
}

// guard runs user code on behalf of a record and releases one hold of it. A
// panic, or the error of a processor, goes to the processing handler.
func (t *task) guard(o *origin, f func(*origin)) {
	outer := t.current.Load() // a result may leave a call in the middle of another record
	t.current.Store(o)
	t.run.Add(1)
	defer func() {
		v := recover()
		t.run.Add(1)
		t.current.Store(outer)
		if w := t.watched.Swap(nil); w != nil {
			t.host.unwatch(w)
		}
		switch v := v.(type) {
		case nil:
			o.release()
		case processFailure:
			t.processingFailed(o, v.err, "processing")
		default:
			t.processingFailed(o, call.Recovered(v), "processing")
		}
	}()
	f(o)
}

// finished is told, from any goroutine, that nothing of a record is open.
func (t *task) finished(o *origin) {
	t.mu.Lock()
	ended := !o.forgotten.Load() && o.part.offsets.End(o.offset())
	if ended && o.worked.Load() {
		o.part.working--
	}
	t.done++
	first := t.done == 1
	t.mu.Unlock()
	if ended {
		t.host.app.counts.finished.Add(1)
	}
	if first {
		t.host.recordsFinished(t)
	}
}

// takeDone answers how many records were finished since it was asked last.
func (t *task) takeDone() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.done
	t.done = 0
	return n
}

// drain stops intake: queued records are dropped, calls that have not begun are
// forgotten. The driver calls it.
func (t *task) drain() {
	if t.draining {
		return
	}
	t.draining = true
	t.queue = nil
	t.queued.Store(0)
	for _, w := range t.windows {
		w.drain()
	}
}

// fence ends the task, from any goroutine: nothing that its user code or its
// calls do from now on leaves it. What was worked on and is not covered by a
// commit is counted; the next owner runs it again.
func (t *task) fence(reason error) {
	if t.fenced.Swap(true) {
		return
	}
	t.cancel(reason)
	lost := int64(0)
	t.mu.Lock()
	for _, p := range t.parts {
		_, ahead := p.offsets.Close()
		lost += p.working + int64(ahead) + p.offsets.Passed() - p.covered
	}
	t.mu.Unlock()
	t.host.app.counts.thrownAway.Add(lost)
	if lost > 0 {
		t.host.log.Warn("work thrown away", "task", t.id.String(), "records", lost, "reason", reason)
	}
	t.box.put(t.abandon)
}

// abandon cancels the calls in flight. The driver calls it.
func (t *task) abandon() {
	t.queue = nil
	t.queued.Store(0)
	for _, w := range t.windows {
		w.abandon()
	}
}

// fail stops the task and reports why: a handler said Fail.
func (t *task) fail(err error) {
	if t.broken || t.fenced.Load() {
		return
	}
	t.broken = true
	t.host.taskFailed(t, err)
}

// leaseEnd is the cause of contexts of a task whose lease ended.
func leaseEnd(reason error) error {
	var clock *member.PollClockError
	if errors.As(reason, &clock) {
		return pollClockEnd{reason}
	}
	return fmt.Errorf("%w: %w", ErrLeaseLost, reason)
}

// pollClockEnd reads as its reason, which names the clock already.
type pollClockEnd struct{ reason error }

func (e pollClockEnd) Error() string        { return e.reason.Error() }
func (e pollClockEnd) Unwrap() error        { return e.reason }
func (e pollClockEnd) Is(target error) bool { return target == ErrPollClock }
