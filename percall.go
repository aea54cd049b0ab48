package rondo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// runPerCall is the thread's goroutine under PerCall: it tells the loop what
// happens and does what the loop says, and it never waits for anything but the
// next event.
func (th *thread) runPerCall(stop <-chan struct{}) {
	th.core = loop.NewPerCall(th.app.loopSettings())
	polling := make(chan struct{})
	go func() {
		defer close(polling)
		th.intake.poll(th.ctx)
	}()
	events := th.member.Events()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for !th.stopped {
		th.setTimer(timer, last)
		select {
		case ev, open := <-events:
			if !open {
				events = nil
				th.memberEnded()
				continue
			}
			th.event(ev)
		case b := <-th.intake.out:
			th.fetched(b)
		case <-th.box.signal:
			th.box.run()
		case <-stop:
			stop = nil
			th.stop()
		case <-timer.C:
			last = time.Now()
			th.watchUserCode()
			th.noteHeld()
			th.step(loop.Tick{})
		}
	}
	reason := "the application is being closed"
	if th.err != nil {
		reason = "a stream thread failed"
		th.lastWords()
	}
	th.close(reason)
	<-polling
}

// lastWords commits what a failing thread has finished: outputs that are on
// their way may arrive first.
func (th *thread) lastWords() {
	ctx, cancel := context.WithTimeout(th.ctx, max(th.app.config.duration("drain.timeout.ms"), time.Second))
	defer cancel()
	for _, t := range th.snapshot() {
		t.leave()
	}
	if err := th.app.producer.Flush(ctx); err != nil {
		th.log.Warn("flush before the thread ends", "error", err)
	}
	if _, err := th.commitNow(ctx); err != nil {
		th.log.Warn("commit before the thread ends", "error", err)
	}
}

// setTimer sets the timer to the loop's next deadline, or to the next look at
// user code.
func (th *thread) setTimer(timer *time.Timer, last time.Time) {
	at, due := th.core.Next()
	if len(th.lanes) > 0 {
		if look := last.Add(th.app.watchEvery); !due || look.Before(at) {
			at, due = look, true
		}
	}
	if due {
		timer.Reset(time.Until(at))
	} else {
		timer.Stop()
	}
}

// step tells the loop what happened and does what it says.
func (th *thread) step(in loop.In) {
	for _, a := range slices.Clone(th.core.Step(time.Now(), in)) {
		switch a.Kind {
		case loop.Burst:
			th.lanes[a.Task].burst(a.Until)
		case loop.Commit:
			th.commit()
		case loop.Pause:
			for _, p := range th.lanes[a.Task].task.parts {
				th.intake.pause(p.at)
			}
		case loop.Resume:
			for _, p := range th.lanes[a.Task].task.parts {
				th.intake.resume(p.at)
			}
		case loop.Release:
			th.release(a.Task, a.Abandon)
		case loop.Stop:
			th.stopped = true
		default:
			panic(fmt.Sprintf("rondo: PerCall asked for %s", a))
		}
	}
}

func (th *thread) event(ev member.Event) {
	switch ev := ev.(type) {
	case member.Assigned:
		th.app.counts.rebalances.Add(1)
		th.assigned(ev)
	case member.Revoke:
		th.revoked(ev)
	case member.Lost:
		th.keep = time.Time{}
		th.lost(ev)
		th.losePartitions(ev.Partitions, ev.Cause)
	case member.Evicted:
		th.evicted(ev)
	case member.Fatal:
		th.fatal(fmt.Errorf("thread %s: %w", th.name, ev.Err))
	}
}

// fatal ends the thread with an error that no handler was asked about.
func (th *thread) fatal(err error) {
	if th.err == nil {
		th.err = err
	}
	th.stop()
}

// memberEnded: the member has said its last word.
func (th *thread) memberEnded() {
	if !th.stopping {
		th.fatal(fmt.Errorf("thread %s: its member ended", th.name))
	}
	th.stopped = true
}

// stop begins to drain everything.
func (th *thread) stop() {
	if th.stopping {
		return
	}
	th.stopping = true
	for id, s := range th.starting {
		s.cancel()
		delete(th.starting, id)
	}
	for _, l := range th.lanes {
		th.stopIntake(l)
	}
	th.step(loop.Stopping{Budget: th.app.config.duration("drain.timeout.ms")})
}

// assigned asks for the positions of new tasks, beside everything else.
func (th *thread) assigned(ev member.Assigned) {
	for id, parts := range th.byTask(ev.Partitions) {
		if th.stopping || th.starting[id] != nil || th.lanes[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(th.ctx)
		s := &start{parts: parts, cancel: cancel}
		th.starting[id] = s
		go th.findPositions(ctx, id, s)
	}
}

// findPositions tries until it succeeds, the lease is gone, or the answer is
// final.
func (th *thread) findPositions(ctx context.Context, id loop.TaskID, s *start) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		positions, err := th.positions(attempt, s.parts)
		cancel()
		final := err != nil && th.app.config.text("auto.offset.reset") == "none" && !errors.Is(err, context.DeadlineExceeded)
		if err == nil || final || ctx.Err() != nil || errors.Is(err, member.ErrFenced) {
			th.box.put(func() { th.started(id, s, positions, err) })
			return
		}
		th.log.Warn("positions are not known yet", "task", id.String(), "error", err, "retry", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// started makes the lane of a task whose positions are known.
func (th *thread) started(id loop.TaskID, s *start, positions map[member.TopicPartition]member.Offset, err error) {
	if th.starting[id] != s {
		return // revoked or lost meanwhile
	}
	delete(th.starting, id)
	s.cancel()
	switch {
	case errors.Is(err, member.ErrFenced):
		return // Lost follows
	case err != nil:
		th.fatal(fmt.Errorf("thread %s: task %s: %w", th.name, id, err))
		return
	}
	t, err := newTask(th, id, positions)
	if err != nil {
		th.fatal(err)
		return
	}
	l := newLane(t)
	th.lanes[id] = l
	th.setTask(t)
	th.drivers.Go(l.drive)
	th.step(loop.Assigned{Tasks: []loop.TaskID{id}})
	for _, p := range t.parts {
		p.intake = th.intake.add(p.at, positions[p.at].At)
	}
	th.log.Info("task started", "task", id.String(), "positions", said(positions))
}

// fetched hands a batch to its lane, unless it was fetched for an earlier one.
func (th *thread) fetched(b batch) {
	id := loop.TaskID{Sub: th.app.subOf[b.at.Topic], Part: b.at.Partition}
	l := th.lanes[id]
	if l == nil {
		return
	}
	i := slices.IndexFunc(l.task.parts, func(p *inputPartition) bool { return p.at == b.at && p.intake == b.number })
	if i < 0 {
		return
	}
	p := l.task.parts[i]
	if b.err != nil {
		th.fetchFailed(l, p, b.err)
		return
	}
	t, records := l.task, b.records
	t.box.put(func() {
		if !t.draining {
			t.add(p, records)
		}
	})
	th.step(loop.Fetched{Task: id, N: len(records)})
}

// fetchFailed resets a position that is gone, and ends the thread for errors
// that stay. Others pass by themselves.
func (th *thread) fetchFailed(l *lane, p *inputPartition, err error) {
	switch {
	case outOfRange(err):
		th.log.Warn("position is gone", "partition", p.at.String(), "error", err, "auto.offset.reset", th.app.config.text("auto.offset.reset"))
		th.intake.remove(p.at)
		p.intake = 0
		go th.findReset(l, p)
	case fatalFetch(err):
		th.fatal(fmt.Errorf("thread %s: fetch %s: %w", th.name, p.at, err))
	default:
		th.log.Warn("fetch", "partition", p.at.String(), "error", err)
	}
}

func (th *thread) findReset(l *lane, p *inputPartition) {
	ctx, cancel := context.WithTimeout(l.task.ctx, 30*time.Second)
	defer cancel()
	begin, err := th.intake.reset(ctx, th.app.config.text("auto.offset.reset"), []member.TopicPartition{p.at})
	th.box.put(func() {
		if th.lanes[l.task.id] != l {
			return
		}
		if err != nil {
			th.fatal(fmt.Errorf("thread %s: reset %s: %w", th.name, p.at, err))
			return
		}
		p.intake = th.intake.add(p.at, begin[p.at])
	})
}

// revoked drains the tasks of partitions that are asked back.
func (th *thread) revoked(ev member.Revoke) {
	r := &revoke{tasks: map[loop.TaskID]bool{}, done: ev.Done}
	for id := range th.byTask(ev.Partitions) {
		if s := th.starting[id]; s != nil {
			s.cancel()
			delete(th.starting, id)
		}
		if l := th.lanes[id]; l != nil {
			r.tasks[id] = true
			th.stopIntake(l)
		} else if t := th.task(id); t != nil {
			th.releaseTask(t, true) // failed before
		}
	}
	if len(r.tasks) == 0 {
		r.done()
		return
	}
	th.revokes = append(th.revokes, r)
	th.log.Info("handing over", "tasks", len(r.tasks), "drain.timeout.ms", th.app.config.duration("drain.timeout.ms").Milliseconds())
	th.step(loop.Revoking{Tasks: slices.Collect(maps.Keys(r.tasks)), Budget: th.app.config.duration("drain.timeout.ms")})
}

func (th *thread) task(id loop.TaskID) *task {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.tasks[id]
}

// stopIntake fetches no more for a lane, and lets it drain.
func (th *thread) stopIntake(l *lane) {
	for _, p := range l.task.parts {
		th.intake.remove(p.at)
		p.intake = 0
	}
	l.drain()
	l.task.leave()
}

// release carries out the loop's Release, and answers the revoke that waited
// for it.
func (th *thread) release(id loop.TaskID, abandon bool) {
	l := th.lanes[id]
	if l == nil {
		return // assigned while the thread was stopping
	}
	delete(th.lanes, id)
	th.releaseTask(l.task, abandon)
	l.stop()
	for _, r := range th.revokes {
		if r.tasks[id] {
			delete(r.tasks, id)
			if len(r.tasks) == 0 {
				r.done()
			}
		}
	}
	th.revokes = slices.DeleteFunc(th.revokes, func(r *revoke) bool { return len(r.tasks) == 0 })
}

func (th *thread) releaseTask(t *task, abandon bool) {
	th.dropTask(t.id)
	why := errors.New("its partitions moved to another member")
	if th.stopping {
		why = errors.New("the thread is stopping")
	}
	if abandon {
		why = fmt.Errorf("%w, and drain.timeout.ms was over", why)
	}
	t.fence(leaseEnd(why))
}

// losePartitions ends tasks that belong to somebody else already.
func (th *thread) losePartitions(parts []member.TopicPartition, reason error) {
	if reason == nil {
		reason = member.ErrFenced
	}
	var ids []loop.TaskID
	for id := range th.byTask(parts) {
		if s := th.starting[id]; s != nil {
			s.cancel()
			delete(th.starting, id)
		}
		if t := th.task(id); t != nil {
			th.dropTask(id)
			t.fence(leaseEnd(reason))
		}
		l := th.lanes[id]
		if l == nil {
			continue
		}
		for _, p := range l.task.parts {
			th.intake.remove(p.at)
		}
		delete(th.lanes, id)
		l.stop()
		ids = append(ids, id)
	}
	for _, r := range th.revokes {
		maps.DeleteFunc(r.tasks, func(id loop.TaskID, _ bool) bool { return slices.Contains(ids, id) })
		if len(r.tasks) == 0 {
			r.done()
		}
	}
	th.revokes = slices.DeleteFunc(th.revokes, func(r *revoke) bool { return len(r.tasks) == 0 })
	if len(ids) > 0 {
		th.step(loop.Lost{Tasks: ids})
	}
}

// watchUserCode starts the poll clock of records that have been inside user
// code since the last look. Starting it for every record would cost more than
// most operators do; the clock is late by at most the time between two looks.
func (th *thread) watchUserCode() {
	for _, l := range th.lanes {
		t := l.task
		run, o := t.run.Load(), t.current.Load()
		if o == nil || run != l.seen {
			l.seen = run
			continue
		}
		if t.watched.Load() != nil {
			continue
		}
		_, ticket := th.member.Begin(member.Work{Topic: o.topic(), Partition: o.partition(), Offset: o.offset(), Name: t.userWork()})
		w := &watch{run: run, ticket: ticket}
		t.watched.Store(w)
		if t.run.Load() != run && t.watched.CompareAndSwap(w, nil) {
			th.member.End(ticket)
		}
	}
}
