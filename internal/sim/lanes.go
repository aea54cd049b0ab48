package sim

import (
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// lanes is the shell of a PerCall loop: a Rondo member, whose group work goes
// on in the background.
type lanes struct {
	m    *member
	w    *world
	loop *loop.PerCall
	lane []lane     // by partition
	todo []loop.Act // acts to execute, in order

	draining int // lanes that a revocation waits for
	tickAt   time.Duration
	saved    []int // what the commit in flight covers, by partition
}

type lane struct {
	on       bool
	draining bool
	paused   bool
	fetching bool
	turn     uint32        // which life of the lane this is: what an earlier one began is void
	fetchAt  time.Duration // its position is known
	fetched  int           // next record to fetch
	next     int           // next record to begin
	prefix   int           // all records before this one are finished
	ahead    []int         // finished beyond the prefix, in order
	flying   []flight
}

// flight is a call that has not ended.
type flight struct {
	offset int
	began  time.Duration
	limit  time.Duration // it is cut after this; 0: never
}

func newLanes(m *member) *lanes {
	l := &lanes{m: m, w: m.w, loop: loop.NewPerCall(m.w.sc.Settings), tickAt: -1}
	l.lane = make([]lane, len(m.w.parts))
	l.saved = make([]int, len(m.w.parts))
	return l
}

func (l *lanes) join() { l.m.sendJoin() }

func (l *lanes) fire(ev *event) {
	switch ev.what {
	case tFetch:
		if l.lane[ev.lane].turn == ev.ver {
			l.fetched(int(ev.lane))
		}
	case tCall:
		if l.lane[ev.lane].turn == ev.ver {
			l.called(int(ev.lane), int(ev.arg))
		}
	case tCommit:
		l.committed()
	case tTick:
		l.tickAt = -1
		l.run(l.loop.Step(l.w.time(), loop.Tick{}))
	}
}

// step tells the loop something and executes what it asks for.
func (l *lanes) step(in loop.In) {
	l.run(l.loop.Step(l.w.time(), in))
}

// run executes acts, and those that their reports give.
func (l *lanes) run(acts []loop.Act) {
	l.todo = append(l.todo, acts...)
	for len(l.todo) > 0 {
		act := l.todo[0]
		l.todo = slices.Delete(l.todo, 0, 1)
		p := int(act.Task.Part)
		switch act.Kind {
		case loop.Burst:
			l.todo = append(l.todo, l.loop.Step(l.w.time(), l.burst(p))...)
		case loop.Commit:
			l.beginCommit()
		case loop.Pause:
			l.lane[p].paused = true
		case loop.Resume:
			l.lane[p].paused = false
			l.fetch(p)
		case loop.Release:
			if act.Abandon {
				l.w.sum.Abandoned++
			}
			l.release(p)
		case loop.Stop:
			l.m.stopped(true)
			return
		}
	}
	if at, ok := l.loop.Next(); ok {
		if t := max(at.Sub(epoch), l.w.now); t != l.tickAt {
			l.tickAt = t
			l.m.schedule(tTick, t)
		}
	}
}

func (l *lanes) assign(gone, given []int) {
	var fresh []int
	for _, p := range given {
		k := &l.lane[p]
		if k.draining {
			// It comes back before it was let go: let it go first.
			l.m.owned = minus(l.m.owned, []int{p})
			continue
		}
		from := l.w.parts[p].committed
		*k = lane{on: true, turn: k.turn + 1, fetchAt: l.w.now + l.w.sc.Costs.Settle, fetched: from, next: from, prefix: from}
		fresh = append(fresh, p)
	}
	if len(fresh) > 0 {
		l.step(loop.Assigned{Tasks: ids(fresh)})
		for _, p := range fresh {
			l.fetch(p)
		}
	}
	if len(gone) > 0 {
		for _, p := range gone {
			l.lane[p].draining = true
		}
		l.draining += len(gone)
		l.step(loop.Revoking{Tasks: ids(gone), Budget: l.w.sc.Drain})
		return
	}
	if l.m.wanted && l.m.alive {
		l.m.rejoin()
	}
}

// appendDraining adds the partitions that are still being let go to what the
// member says it owns.
func (l *lanes) appendDraining(claims []int) []int {
	for p := range l.lane {
		if l.lane[p].draining && !slices.Contains(claims, p) {
			claims = append(claims, p)
		}
	}
	return claims
}

// release lets a lane go. When it was the last that a revocation waited for,
// the member joins again, so that others can have what it gave up.
func (l *lanes) release(p int) {
	k := &l.lane[p]
	l.cut(k, p)
	was := k.draining
	*k = lane{turn: k.turn + 1}
	if was {
		l.draining--
		if l.draining == 0 && l.m.alive && !l.m.closing {
			l.m.rejoin()
		}
	}
}

// cut ends the calls in flight of a lane without a result.
func (l *lanes) cut(k *lane, p int) {
	for _, f := range k.flying {
		l.w.sum.CutCalls++
		l.w.noteCall(l.m, CallCut, p, f.offset)
	}
	k.flying = k.flying[:0]
}

// lose throws away everything: the member is not in the group any more.
func (l *lanes) lose() {
	var all []int
	for p := range l.lane {
		k := &l.lane[p]
		if k.on {
			all = append(all, p)
			l.cut(k, p)
			*k = lane{turn: k.turn + 1}
		}
	}
	l.draining = 0
	l.m.owned = l.m.owned[:0]
	l.m.lost = false
	l.w.note(l.m, Fence, 1)
	if len(all) > 0 {
		l.w.moment(l.m, &l.w.sum.LostCount, &l.w.sum.Lost)
		l.step(loop.Lost{Tasks: ids(all)})
	}
}

func (l *lanes) stop() {
	for p := range l.lane {
		l.lane[p].draining = l.lane[p].on
	}
	l.step(loop.Stopping{Budget: l.w.sc.Drain})
}

// fetch asks for more records of a lane, unless that is under way or pointless.
func (l *lanes) fetch(p int) {
	k, log := &l.lane[p], &l.w.parts[p]
	if !k.on || k.paused || k.fetching || k.draining {
		return
	}
	at := max(l.w.now, k.fetchAt)
	if log.endAt(l.w.now) <= k.fetched {
		next := log.nextAfter(l.w.now)
		if next == Forever {
			return
		}
		at = max(at, next)
	}
	k.fetching = true
	l.w.push(event{at: at + l.w.sc.Costs.RoundTrip, ver: k.turn, who: int32(l.m.idx), lane: int32(p), what: tFetch})
}

func (l *lanes) fetched(p int) {
	k := &l.lane[p]
	k.fetching = false
	n := min(l.w.parts[p].endAt(l.w.now)-k.fetched, l.w.sc.Settings.MaxPollRecords)
	k.fetched += n
	turn := k.turn
	l.run(l.loop.Step(l.w.time(), loop.Fetched{Task: taskOf(p), N: n}))
	if k.turn == turn {
		l.fetch(p)
	}
}

// burst begins calls until the queue is empty or enough of them are in flight.
// Beginning a call takes no time.
func (l *lanes) burst(p int) loop.BurstEnded {
	k := &l.lane[p]
	out := loop.BurstEnded{Task: taskOf(p)}
	for k.next < k.fetched && len(k.flying) < l.w.sc.Parallel && !k.draining {
		offset := k.next
		k.next++
		out.Ran++
		took := l.w.call(l.m, p, offset)
		limit := l.limit(p, offset)
		if limit > 0 {
			took = min(took, limit)
		}
		if took == 0 {
			l.w.called(l.m, p, offset)
			k.finish(offset)
			out.Finished++
			continue
		}
		k.flying = append(k.flying, flight{offset, l.w.now, limit})
		if took != Forever {
			l.w.push(event{at: l.w.now + took, ver: k.turn, who: int32(l.m.idx), lane: int32(p), arg: int32(offset), what: tCall})
		}
		if took >= l.w.sc.Settings.MaxPollInterval {
			l.watch()
		}
	}
	out.Blocked = len(k.flying) >= l.w.sc.Parallel
	return out
}

// limit is when a call is cut: after its time-out, and before the poll clock
// when its record has cost a lease before (docs/decisions/008).
func (l *lanes) limit(p, offset int) time.Duration {
	limit := l.w.sc.CallTimeout
	if len(l.w.struck) > 0 && l.w.struck[[2]int{p, offset}] {
		if early := l.w.sc.Settings.MaxPollInterval * 8 / 10; limit == 0 || early < limit {
			limit = early
		}
	}
	return limit
}

// strike remembers the records whose calls have just cost the lease.
func (l *lanes) strike() {
	for p := range l.lane {
		for _, f := range l.lane[p].flying {
			if l.w.now-f.began >= l.w.sc.Settings.MaxPollInterval {
				if l.w.struck == nil {
					l.w.struck = map[[2]int]bool{}
				}
				l.w.struck[[2]int{p, f.offset}] = true
			}
		}
	}
}

// watch sets the poll clock: the age of the oldest call.
func (l *lanes) watch() {
	oldest := Forever
	for p := range l.lane {
		for _, f := range l.lane[p].flying {
			oldest = min(oldest, f.began)
		}
	}
	if oldest == Forever {
		l.m.cancel(tPollClock)
		return
	}
	l.m.pollReset = oldest
	l.m.schedule(tPollClock, oldest+l.w.sc.Settings.MaxPollInterval)
}

func (l *lanes) called(p, offset int) {
	k := &l.lane[p]
	i := slices.IndexFunc(k.flying, func(f flight) bool { return f.offset == offset })
	f := k.flying[i]
	k.flying = slices.Delete(k.flying, i, i+1)
	if f.limit > 0 && l.w.now-f.began >= f.limit {
		l.w.sum.CutCalls++ // the record is set aside, with the reason
		l.w.noteCall(l.m, CallCut, p, offset)
	} else {
		l.w.called(l.m, p, offset)
	}
	if l.w.now-f.began >= l.w.sc.Settings.MaxPollInterval {
		l.watch()
	}
	k.finish(offset)
	l.run(l.loop.Step(l.w.time(), loop.Finished{Task: taskOf(p), N: 1}))
}

// finish moves the prefix over what is finished without a gap.
func (k *lane) finish(offset int) {
	i, _ := slices.BinarySearch(k.ahead, offset)
	k.ahead = slices.Insert(k.ahead, i, offset)
	n := 0
	for n < len(k.ahead) && k.ahead[n] == k.prefix {
		k.prefix++
		n++
	}
	k.ahead = slices.Delete(k.ahead, 0, n)
}

func (l *lanes) beginCommit() {
	for p := range l.lane {
		l.saved[p] = -1
		if l.lane[p].on {
			l.saved[p] = l.lane[p].prefix
		}
	}
	l.m.schedule(tCommit, l.w.now+l.w.sc.Costs.Commit)
}

func (l *lanes) committed() {
	m, w := l.m, l.w
	if m.generation == 0 || !w.group.seats[m.idx].known {
		w.lost()
		w.moment(m, &w.sum.FailedCount, &w.sum.Failed)
		w.note(m, CommitFailed, 0)
		l.step(loop.CommitDone{Err: true})
		return
	}
	n := 0
	for p, to := range l.saved {
		if l.lane[p].on && to > w.parts[p].committed {
			w.parts[p].committed = to
			n++
		}
	}
	if n > 0 {
		w.moment(m, &w.sum.CommitCount, &w.sum.Commits)
		w.note(m, CommitOK, n)
	}
	l.run(l.loop.Step(l.w.time(), loop.CommitDone{}))
}

func (l *lanes) end() {}
