package loop

import (
	"fmt"
	"slices"
	"time"
)

// commitRetry is how long PerCall waits after a commit that failed before it
// tries again, unless the commit interval is shorter.
const commitRetry = time.Second

// PerCall gives every task a lane of its own: lanes run beside each other, so
// a round is one call long, and a lane runs for at most Settings.Burst before
// it reports. Nothing is carried over from a faster day.
//
// A lane goes through its life like this:
//
//	Assigned --> idle <--> burst (records begin, calls may stay in flight)
//	               |
//	   Revoking, Stopping: no new bursts, queue dropped
//	               |
//	               v
//	           draining -- all finished --> commit --> Release
//	               |
//	               +------ budget gone ---> commit what is finished --> Release, abandon
type PerCall struct {
	set   Settings
	lanes []lane // in task order
	acts  []Act  // buffer for Step

	lastCommit time.Time
	retryAt    time.Time // after a failed commit; zero otherwise
	committing bool
	stopping   bool
	stopped    bool

	seen LaneReading // the counters
}

type lane struct {
	id       TaskID
	queued   int // fetched, not begun
	inFlight int // begun by an earlier burst, not finished
	early    int // Finished reports that came before the BurstEnded of their records

	bursting bool
	blocked  bool
	paused   bool

	dirty  bool // finished something that no commit has taken up
	inside bool // the commit in flight covers something of it

	draining bool
	deadline time.Time
	expired  bool // the budget is gone
	wasted   bool // something was finished after that, and will not be committed
}

// LaneReading is what can be seen of a PerCall at a moment.
type LaneReading struct {
	Lanes      int       // lanes that are there
	Draining   int       // lanes that are being handed over
	Bursting   int       // lanes that run records now
	Paused     int       // lanes that are not fetched
	Queued     int       // records fetched and not begun
	InFlight   int       // records begun whose calls are not finished
	LastCommit time.Time // when the last commit succeeded; zero: never
	Committing bool      // a commit is in flight

	Bursts    int // bursts that ended
	Finished  int // records
	Commits   int // commits that succeeded
	Failures  int // commits that failed
	Released  int // lanes handed over drained
	Abandoned int // lanes handed over with work thrown away
}

// NewPerCall starts without lanes.
func NewPerCall(set Settings) *PerCall { return &PerCall{set: set.WithDefaults()} }

// Reading shows the state and the counters.
func (p *PerCall) Reading() LaneReading {
	r := p.seen
	r.Lanes, r.LastCommit, r.Committing = len(p.lanes), p.lastCommit, p.committing
	for i := range p.lanes {
		l := &p.lanes[i]
		r.Queued += l.queued
		r.InFlight += l.inFlight
		r.Draining += one(l.draining)
		r.Bursting += one(l.bursting)
		r.Paused += one(l.paused)
	}
	return r
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Step takes one thing that happened and returns the acts to start now, in
// order. It panics on an input of the other policy, and on a report that
// contradicts what was given out.
func (p *PerCall) Step(now time.Time, in In) []Act {
	p.acts = p.acts[:0]
	switch in := in.(type) {
	case Assigned:
		p.assign(in.Tasks)
	case Fetched:
		p.fetched(now, &in)
	case BurstEnded:
		p.burstEnded(now, &in)
	case Finished:
		p.finished(now, &in)
	case Revoking:
		for i := range p.lanes {
			if slices.Contains(in.Tasks, p.lanes[i].id) {
				p.lanes[i].drain(now.Add(in.Budget))
			}
		}
		p.settle(now)
	case Stopping:
		p.stop(now, in.Budget)
	case Lost:
		p.lanes = slices.DeleteFunc(p.lanes, func(l lane) bool { return slices.Contains(in.Tasks, l.id) })
		p.settle(now)
	case CommitDone:
		p.commitDone(now, in.Err)
	case Tick:
		p.settle(now)
	default:
		panic("loop: PerCall does not take " + nameOf(in))
	}
	p.maybeCommit(now)
	return p.acts
}

// Next is when a Tick is due: a commit, or the end of a drain budget. It is
// false when only a report can change anything.
func (p *PerCall) Next() (time.Time, bool) {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.draining && !l.expired {
			sooner(l.deadline)
		}
		if l.dirty && !p.committing {
			sooner(p.commitDue(l))
		}
	}
	return next, !next.IsZero()
}

func (p *PerCall) find(id TaskID) *lane {
	if len(p.lanes) == 1 && p.lanes[0].id == id {
		return &p.lanes[0]
	}
	i, found := slices.BinarySearchFunc(p.lanes, id, func(l lane, id TaskID) int { return l.id.Compare(id) })
	if !found {
		return nil
	}
	return &p.lanes[i]
}

func (p *PerCall) assign(ids []TaskID) {
	for _, id := range ids {
		i, found := slices.BinarySearchFunc(p.lanes, id, func(l lane, id TaskID) int { return l.id.Compare(id) })
		if found {
			panic(fmt.Sprintf("loop: task %s was assigned twice", id))
		}
		if p.stopping {
			p.acts = append(p.acts, Act{Kind: Release, Task: id})
			p.seen.Released++
			continue
		}
		p.lanes = slices.Insert(p.lanes, i, lane{id: id})
	}
}

func (p *PerCall) fetched(now time.Time, in *Fetched) {
	l := p.find(in.Task)
	if l == nil || l.draining {
		return
	}
	l.queued += in.N
	if !l.paused && l.queued > p.set.BufferedRecords {
		l.paused = true
		p.acts = append(p.acts, Act{Kind: Pause, Task: l.id})
	}
	p.burst(now, l)
}

// burst gives the lane the next stretch of time, if it can use one.
func (p *PerCall) burst(now time.Time, l *lane) {
	if l.bursting || l.blocked || l.draining || l.queued == 0 {
		return
	}
	l.bursting = true
	p.acts = append(p.acts, Act{Kind: Burst, Task: l.id, Until: now.Add(p.set.Burst)})
}

func (p *PerCall) burstEnded(now time.Time, in *BurstEnded) {
	l := p.find(in.Task)
	if l == nil {
		return
	}
	if !l.bursting || in.Ran < 0 || in.Finished < 0 {
		panic(fmt.Sprintf("loop: task %s reports a burst that was not given", in.Task))
	}
	l.bursting = false
	p.seen.Bursts++
	if !l.draining {
		l.queued -= in.Ran
	}
	l.inFlight += in.Ran - l.early
	l.early = 0
	p.done(l, in.Finished)
	if l.queued < 0 || l.inFlight < 0 {
		panic(fmt.Sprintf("loop: task %s ran %d and finished %d, more than it had", in.Task, in.Ran, in.Finished))
	}
	l.blocked = in.Blocked && l.inFlight > 0
	if l.paused && l.queued <= p.set.BufferedRecords/2 && !l.draining {
		l.paused = false
		p.acts = append(p.acts, Act{Kind: Resume, Task: l.id})
	}
	p.burst(now, l)
	if l.draining {
		p.settle(now)
	}
}

func (p *PerCall) finished(now time.Time, in *Finished) {
	l := p.find(in.Task)
	if l == nil {
		return
	}
	if over := in.N - l.inFlight; over > 0 {
		// A call can end before the burst that began it: the shell reports
		// the burst when it is over.
		if !l.bursting {
			panic(fmt.Sprintf("loop: task %s finished %d records, %d more than it had in flight", in.Task, in.N, over))
		}
		l.early += over
		in.N -= over
		p.mark(l, over)
	}
	p.done(l, in.N)
	l.blocked = false
	p.burst(now, l)
	if l.draining {
		p.settle(now)
	}
}

func (p *PerCall) done(l *lane, n int) {
	l.inFlight -= n
	p.mark(l, n)
}

// mark counts finished records. What a lane finishes after its budget is gone
// is thrown away by its release.
func (p *PerCall) mark(l *lane, n int) {
	switch {
	case n > 0 && l.expired:
		l.wasted = true
	case n > 0:
		l.dirty = true
		p.seen.Finished += n
	}
}

func (l *lane) drain(deadline time.Time) {
	if l.draining && l.deadline.Before(deadline) {
		return
	}
	l.draining, l.deadline = true, deadline
	l.queued = 0
}

// drained tells whether nothing of the lane runs any more.
func (l *lane) drained() bool { return !l.bursting && l.inFlight == 0 }

func (p *PerCall) stop(now time.Time, budget time.Duration) {
	p.stopping = true
	for i := range p.lanes {
		p.lanes[i].drain(now.Add(budget))
	}
	p.settle(now)
}

// settle releases the lanes that may go.
func (p *PerCall) settle(now time.Time) {
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.draining && !l.expired && !now.Before(l.deadline) {
			l.expired = true
		}
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(l lane) bool {
		if !l.draining || l.dirty || l.inside || !l.drained() && !l.expired {
			return false
		}
		p.release(l.id, l.wasted || !l.drained())
		return true
	})
	if p.stopping && !p.stopped && len(p.lanes) == 0 {
		p.stopped = true
		p.acts = append(p.acts, Act{Kind: Stop})
	}
}

func (p *PerCall) release(id TaskID, abandon bool) {
	if abandon {
		p.seen.Abandoned++
	} else {
		p.seen.Released++
	}
	p.acts = append(p.acts, Act{Kind: Release, Task: id, Abandon: abandon})
}

// commitDue is when the finished work of the lane should be committed: at the
// commit interval, or at once when the lane waits for it to be released.
func (p *PerCall) commitDue(l *lane) time.Time {
	switch {
	case l.expired:
		return time.Time{}
	case l.draining && l.drained():
		return p.retryAt
	}
	due := p.lastCommit.Add(p.set.CommitInterval)
	if due.Before(p.retryAt) {
		return p.retryAt
	}
	return due
}

func (p *PerCall) maybeCommit(now time.Time) {
	if p.committing {
		return
	}
	due := false
	for i := range p.lanes {
		l := &p.lanes[i]
		due = due || l.dirty && !now.Before(p.commitDue(l))
	}
	if !due {
		return
	}
	for i := range p.lanes {
		l := &p.lanes[i]
		l.inside = l.inside || l.dirty
		l.dirty = false
	}
	p.committing = true
	p.acts = append(p.acts, Act{Kind: Commit})
}

func (p *PerCall) commitDone(now time.Time, failed bool) {
	if !p.committing {
		panic("loop: PerCall got CommitDone without a commit in flight")
	}
	p.committing = false
	if failed {
		p.seen.Failures++
		p.retryAt = now.Add(min(commitRetry, p.set.CommitInterval))
	} else {
		p.seen.Commits++
		p.lastCommit, p.retryAt = now, time.Time{}
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(l lane) bool {
		if failed && l.inside && l.expired {
			p.release(l.id, true) // its last commit failed: nothing can be kept
			return true
		}
		return false
	})
	for i := range p.lanes {
		l := &p.lanes[i]
		l.dirty = l.dirty || failed && l.inside
		l.inside = false
	}
	p.settle(now)
}
