package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// fetchWait is fetch.max.wait.ms: how long the broker keeps a fetch that finds
// nothing. Partitions that are resumed meanwhile have to wait for it.
const fetchWait = 500 * time.Millisecond

// thread is the shell of a Streams42 loop: a stream thread with its consumer.
type thread struct {
	m    *member
	w    *world
	loop *loop.Streams42
	act  loop.Act
	from time.Duration // of the loop's first step
	n    int           // N as last seen

	polling bool
	pollEnd time.Duration
	polled  loop.Polled // what this poll has brought so far

	tasks  []task        // by partition
	plan   [][]int       // of the present assignment
	stage  int           // polls that brought records since the assignment
	passAt time.Duration // when the last pass began

	asked    []int // the partitions of the fetch in flight, in order; empty: none
	askedAt  time.Duration
	answerAt time.Duration
	buffer   []chunk // completed fetches, in order

	calling bool
	callEnd time.Duration
	ran     int
	pass    Pass
	passNo  int

	committing bool
	txn        time.Duration // when the open transaction began; 0: none
}

type task struct {
	owned   bool
	ready   bool          // handed over: its partition may be fetched
	paused  bool          // over buffered.records.per.partition
	readyAt time.Duration // restored
	fetchAt time.Duration // its position is known
	pos     int           // next record to process
	fetched int           // next record to fetch
	queued  int           // delivered to the loop, not processed

	buffered bool // a completed fetch of it waits to be polled
}

type chunk struct{ partition, n int }

func newThread(m *member) *thread {
	t := &thread{m: m, w: m.w, loop: loop.NewStreams42(m.w.sc.Settings)}
	m.pollReset = m.w.now
	t.tasks = make([]task, len(m.w.parts))
	return t
}

// wake goes on with what the thread is doing, until it has to wait.
func (t *thread) wake() {
	if t.act.Kind == 0 {
		t.from = t.w.now
		t.next(t.loop.Step(t.w.time(), loop.Started{}))
	}
	for t.m.alive {
		done := false
		switch t.act.Kind {
		case loop.Poll:
			done = t.poll()
		case loop.Process:
			done = t.process()
		case loop.Commit:
			done = t.commit()
		case loop.Fence:
			done = t.fence()
		}
		if !done {
			return
		}
	}
}

// step tells the loop what came of its act.
func (t *thread) step(in loop.In) loop.Act { return t.loop.StepAfter(t.w.now-t.from, in) }

// next begins an act.
func (t *thread) next(act loop.Act) {
	t.act = act
	if n := t.loop.N(); n != t.n {
		t.n = n
		t.w.note(t.m, NewN, n)
		if t.w.sc.Trace {
			t.w.sum.N = append(t.w.sum.N, Change{Moment{t.w.now, t.m.idx}, n})
		}
	}
	switch act.Kind {
	case loop.Poll:
		t.beginPoll()
	case loop.Process:
		t.ran = 0
		if act.Pass != t.passNo {
			t.endPass()
			t.passNo, t.passAt = act.Pass, t.w.now
			t.pass = Pass{Begin: t.w.now, Member: t.m.idx, N: act.Max}
		}
	}
}

func (t *thread) endPass() {
	if t.pass.Records > 0 && t.w.sc.Trace {
		t.w.sum.Passes = append(t.w.sum.Passes, t.pass)
	}
	t.pass = Pass{}
}

func (t *thread) process() bool {
	p := int(t.act.Task.Part)
	k := &t.tasks[p]
	for {
		if t.calling {
			t.calling = false
			t.w.called(t.m, p, k.pos)
			k.pos++
			k.queued--
			t.ran++
			t.pass.Records++
			t.pass.End = t.w.now
			if t.txn == 0 {
				t.txn = t.w.now
			}
		}
		if t.ran == t.act.Max || k.queued == 0 {
			t.next(t.step(loop.Processed{Task: t.act.Task, Records: t.ran, Left: k.queued}))
			return true
		}
		took := t.w.call(t.m, p, k.pos)
		t.calling = true
		if took == Forever {
			return false
		}
		t.callEnd = t.w.now + took + t.w.sc.Costs.Record
		if !t.w.reach(t.callEnd) {
			t.m.schedule(tWake, t.callEnd)
			return false
		}
	}
}

// commit asks the coordinator, unless the client knows already that it is no
// member.
func (t *thread) commit() bool {
	m := t.m
	if m.asks() && !t.committing {
		t.committing = true
		if at := t.w.now + t.w.sc.Costs.Commit; !t.w.reach(at) {
			m.schedule(tWake, at)
			return false
		}
	}
	t.committing = false
	var out loop.Committed
	switch {
	case m.asks() && t.w.coord.accepts(m) && !t.aborted():
		out.Tasks = t.commitAll()
	default:
		out.Failed = true
		t.w.lost()
		t.w.moment(m, &t.w.sum.FailedCount, &t.w.sum.Failed)
		t.w.note(m, CommitFailed, 0)
	}
	t.next(t.step(out))
	return true
}

// abortEvery is transaction.abort.timed.out.transaction.cleanup.interval.ms.
const abortEvery = 10 * time.Second

// aborted tells whether the transaction coordinator has ended the open
// transaction: at the first of its looks that finds it too old.
func (t *thread) aborted() bool {
	timeout := t.w.sc.Transaction
	if timeout == 0 || t.txn == 0 {
		return false
	}
	look := (t.txn + timeout + abortEvery - 1) / abortEvery * abortEvery
	return look <= t.w.now
}

// commitAll commits what every task has finished.
func (t *thread) commitAll() int {
	n := 0
	t.txn = 0
	for p := range t.tasks {
		k := &t.tasks[p]
		if k.owned && k.pos > t.w.parts[p].committed {
			t.w.parts[p].committed = k.pos
			n++
		}
	}
	if n > 0 {
		t.w.moment(t.m, &t.w.sum.CommitCount, &t.w.sum.Commits)
		t.w.note(t.m, CommitOK, n)
	}
	return n
}

func (t *thread) fence() bool {
	m := t.m
	t.w.moment(m, &t.w.sum.FenceCount, &t.w.sum.Fenced)
	t.w.note(m, Fence, 0)
	t.drop(nil)
	m.owned = m.owned[:0]
	if m.generation > 0 {
		t.w.coord.remove(m, Left) // unsubscribe leaves a group that it is in
		m.forget()
	}
	m.lost, m.wanted = false, true
	t.next(t.step(loop.Fenced{}))
	return true
}

// drop forgets the tasks of some partitions, or of all, with their records.
func (t *thread) drop(partitions []int) {
	all := partitions == nil
	if all {
		t.txn = 0
	}
	gone := func(p int) bool { return all || slices.Contains(partitions, p) }
	for p := range t.tasks {
		if gone(p) {
			t.tasks[p] = task{}
		}
	}
	t.buffer = slices.DeleteFunc(t.buffer, func(c chunk) bool { return gone(c.partition) })
	t.asked = slices.DeleteFunc(t.asked, gone)
}

// lose is onPartitionsLost, inside a poll.
func (t *thread) lose() {
	m := t.m
	if !m.lost {
		return
	}
	m.lost = false
	m.owned = m.owned[:0]
	t.polled = loop.Polled{Lost: true}
	t.w.moment(m, &t.w.sum.LostCount, &t.w.sum.Lost)
	t.w.note(m, Fence, 1)
	t.drop(nil)
}

// assign is onPartitionsRevoked and onPartitionsAssigned, inside a poll. A
// revocation commits the work of all tasks.
func (t *thread) assign(gone, given []int) {
	if len(gone) > 0 {
		t.commitAll()
		t.drop(gone)
		t.polled.Revoked = append(t.polled.Revoked, ids(gone)...)
		t.unreport(gone)
	}
	t.polled.Complete = true
	if len(given) == 0 {
		return
	}
	t.plan, t.stage = nil, 0
	settle := t.w.sc.Costs.Settle
	if t.w.windows < len(t.w.sc.HandOvers) {
		h := &t.w.sc.HandOvers[t.w.windows]
		t.plan, settle = h.Ready, cmp.Or(h.Settle, settle)
	}
	t.w.windows++
	for _, p := range given {
		k := &t.tasks[p]
		*k = task{owned: true, readyAt: t.w.now, fetchAt: t.w.now + settle}
		if p < len(t.w.sc.Restore) {
			k.readyAt += t.w.sc.Restore[p]
		}
		k.pos = t.w.parts[p].committed
		k.fetched = k.pos
		t.polled.Assigned = append(t.polled.Assigned, taskOf(p))
	}
}

// unreport takes tasks back that were given and revoked within one poll.
func (t *thread) unreport(gone []int) {
	is := func(id loop.TaskID) bool { return slices.Contains(gone, int(id.Part)) }
	t.polled.Assigned = slices.DeleteFunc(t.polled.Assigned, is)
	t.polled.HandedOver = slices.DeleteFunc(t.polled.HandedOver, is)
}

// handOver drains the state updater: what was restored at a time, as far as
// the plan of the scenario lets it.
func (t *thread) handOver(by time.Duration) {
	for p := range t.tasks {
		k := &t.tasks[p]
		if !k.owned || k.ready || k.readyAt > by {
			continue
		}
		allowed := t.stage >= len(t.plan)
		for s := 0; !allowed && s <= t.stage; s++ {
			allowed = slices.Contains(t.plan[s], p)
		}
		if allowed {
			k.ready = true
			k.fetchAt = max(k.fetchAt, t.w.now)
			t.polled.HandedOver = append(t.polled.HandedOver, taskOf(p))
		}
	}
}

func (t *thread) end() {
	t.endPass()
	t.w.sum.NAtEnd = append(t.w.sum.NAtEnd, t.loop.N())
	r := t.loop.Reading()
	t.w.sum.Blocked += r.Blocked
}
