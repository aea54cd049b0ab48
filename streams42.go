package rondo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// runStreams42 is the thread's goroutine under Streams42: it carries out one
// act of the loop after the other, as the stream thread of Kafka Streams 4.2
// does. Calls run inside of Process, one after the other, and nothing is looked
// at meanwhile. A stop is seen when the thread next comes to poll.
func (th *thread) runStreams42(stop <-chan struct{}) {
	core := loop.NewStreams42(th.app.loopSettings())
	act := core.Step(time.Now(), loop.Started{})
	for th.err == nil {
		th.mu.Lock()
		th.reading = core.Reading()
		th.mu.Unlock()
		var in loop.In
		switch act.Kind {
		case loop.Poll:
			select {
			case <-stop:
				th.close42()
				return
			default:
			}
			in = th.poll42(act)
		case loop.Process:
			in = th.process42(act)
		case loop.Punctuate:
			in = loop.Punctuated{}
		case loop.Commit:
			in = th.commit42()
		case loop.Fence:
			th.fence42(member.ErrFenced)
			in = loop.Fenced{}
		default:
			panic(fmt.Sprintf("rondo: Streams42 asked for %s", act))
		}
		if th.err == nil {
			act = core.Step(time.Now(), in)
		}
	}
	th.close42()
}

// close42 closes the tasks cleanly: it commits first.
func (th *thread) close42() {
	reason := "the application is being closed"
	if th.err != nil {
		reason = "a stream thread failed"
	}
	th.stopping = true
	th.commit42()
	th.close(reason)
}

// poll42 is one poll: the group first, then records.
func (th *thread) poll42(act loop.Act) loop.In {
	for _, id := range act.Pause {
		for _, p := range th.tasks[id].parts {
			th.intake.pause(p.at)
		}
	}
	for _, id := range act.Resume {
		for _, p := range th.tasks[id].parts {
			th.intake.resume(p.at)
		}
	}
	ctx, cancel := context.WithTimeout(th.ctx, act.Timeout)
	defer cancel()
	began := time.Now()
	th.member.Poll(ctx)
	in := loop.Polled{}
	th.events42(&in)
	for _, t := range th.snapshot() {
		t.box.run()
	}
	counts := map[loop.TaskID]int{}
	if len(in.Assigned) == 0 {
		left := max(act.Timeout-time.Since(began), time.Millisecond)
		for _, b := range th.intake.once(th.ctx, left) {
			th.fetched42(b, counts)
		}
	} // else the new tasks are with Kafka's state updater, their partitions paused: this poll brings none of their records
	for id, n := range counts {
		in.Records = append(in.Records, loop.Delivery{Task: id, Records: n})
	}
	switch th.member.Clocks().State {
	case member.Joining, member.Syncing, member.Revoking:
		in.Rebalancing = true
	}
	return in
}

// events42 applies what the poll brought from the group.
func (th *thread) events42(in *loop.Polled) {
	for {
		select {
		case ev, open := <-th.member.Events():
			if !open {
				th.err = errors.Join(th.err, fmt.Errorf("thread %s: its member ended", th.name))
				return
			}
			th.event42(ev, in)
		default:
			return
		}
	}
}

func (th *thread) event42(ev member.Event, in *loop.Polled) {
	switch ev := ev.(type) {
	case member.Assigned:
		th.app.counts.rebalances.Add(1)
		in.Complete = true
		for id, parts := range th.byTask(ev.Partitions) {
			if th.start42(id, parts) {
				in.Assigned = append(in.Assigned, id)
				in.HandedOver = append(in.HandedOver, id)
			}
		}
	case member.Revoke:
		th.commit42()
		for id := range th.byTask(ev.Partitions) {
			if t := th.tasks[id]; t != nil {
				th.drop42(t, leaseEnd(errors.New("its partitions moved to another member")))
				in.Revoked = append(in.Revoked, id)
			}
		}
		ev.Done()
	case member.Lost:
		th.lost(ev)
		th.fence42(ev.Cause)
		*in = loop.Polled{Lost: true}
	case member.Evicted:
		th.evicted(ev)
	case member.Fatal:
		th.err = errors.Join(th.err, fmt.Errorf("thread %s: %w", th.name, ev.Err))
	}
}

// start42 finds the positions of a task and makes it. As in Kafka Streams the
// thread waits for that.
func (th *thread) start42(id loop.TaskID, parts []member.TopicPartition) bool {
	if th.tasks[id] != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(th.ctx, time.Minute)
	defer cancel()
	positions, err := th.positions(ctx, parts)
	if errors.Is(err, member.ErrFenced) {
		return false // Lost follows
	}
	var t *task
	if err == nil {
		t, err = newTask(th, id, positions)
	}
	if err != nil {
		th.err = errors.Join(th.err, fmt.Errorf("thread %s: task %s: %w", th.name, id, err))
		return false
	}
	th.setTask(t)
	for _, p := range t.parts {
		p.intake = th.intake.add(p.at, positions[p.at].At)
	}
	return true
}

func (th *thread) drop42(t *task, reason error) {
	for _, p := range t.parts {
		th.intake.remove(p.at)
	}
	th.dropTask(t.id)
	t.fence(reason)
	t.box.run()
}

// fence42 closes all tasks without a commit. The member has left, or has been
// put out; it joins anew in the next poll.
func (th *thread) fence42(reason error) {
	if reason == nil {
		reason = member.ErrFenced
	}
	for _, t := range th.snapshot() {
		th.drop42(t, leaseEnd(reason))
	}
}

func (th *thread) fetched42(b batch, counts map[loop.TaskID]int) {
	t := th.tasks[loop.TaskID{Sub: th.app.subOf[b.at.Topic], Part: b.at.Partition}]
	if t == nil {
		return
	}
	for _, p := range t.parts {
		switch {
		case p.at != b.at || p.intake != b.number:
		case b.err == nil:
			t.add(p, b.records)
			counts[t.id] += len(b.records)
		case outOfRange(b.err):
			th.reset42(p)
		case fatalFetch(b.err):
			th.err = errors.Join(th.err, fmt.Errorf("thread %s: fetch %s: %w", th.name, p.at, b.err))
		default:
			th.log.Warn("fetch", "partition", p.at.String(), "error", b.err)
		}
	}
}

func (th *thread) reset42(p *inputPartition) {
	ctx, cancel := context.WithTimeout(th.ctx, 30*time.Second)
	defer cancel()
	begin, err := th.intake.reset(ctx, th.app.config.text("auto.offset.reset"), []member.TopicPartition{p.at})
	if err != nil {
		th.err = errors.Join(th.err, fmt.Errorf("thread %s: reset %s: %w", th.name, p.at, err))
		return
	}
	th.intake.remove(p.at)
	p.intake = th.intake.add(p.at, begin[p.at])
}

// process42 runs records of one task, each with its calls, to the end.
func (th *thread) process42(act loop.Act) loop.In {
	t := th.tasks[act.Task]
	ran := 0
	for ran < act.Max && th.err == nil && t.one() {
		ran++
		th.awaitCalls(t)
	}
	t.takeDone()
	return loop.Processed{Task: t.id, Records: ran, Left: int(t.queued.Load()), CommitRequested: t.committed.Swap(false)}
}

// awaitCalls waits until the task has no record in a call.
func (th *thread) awaitCalls(t *task) {
	if t.calling() == 0 {
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for t.calling() > 0 && th.err == nil {
		if at, due := t.next(); due {
			timer.Reset(time.Until(at))
		}
		select {
		case <-t.box.signal:
			t.box.run()
		case <-timer.C:
			t.tick()
		}
	}
}

// commit42 waits for all outputs, then commits.
func (th *thread) commit42() loop.Committed {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // default.api.timeout.ms
	defer cancel()
	if err := th.app.producer.Flush(ctx); err != nil {
		th.log.Warn("flush before commit", "error", err)
		return loop.Committed{}
	}
	tasks, err := th.commitNow(ctx)
	switch {
	case errors.Is(err, member.ErrFenced):
		return loop.Committed{Failed: true}
	case errors.Is(err, member.ErrRebalancing):
		return loop.Committed{Tasks: -1}
	case err != nil:
		return loop.Committed{}
	}
	return loop.Committed{Tasks: tasks}
}
