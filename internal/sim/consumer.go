package sim

import (
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// This file is the consumer of a stream thread: what happens inside poll().

// beginPoll resets the poll clock and lets the client do its group work.
func (t *thread) beginPoll() {
	m, w := t.m, t.w
	w.sum.Polls++
	t.endPass()
	if m.closing {
		// Shutdown is looked at once per poll.
		if m.asks() && w.coord.accepts(m) {
			t.commitAll()
		}
		m.stopped(m.set.Leaves || m.epochs() && !m.set.Static)
		return
	}
	for _, id := range t.act.Pause {
		t.tasks[id.Part].paused = true
	}
	for _, id := range t.act.Resume {
		t.tasks[id.Part].paused = false
	}
	w.sum.LongestPoll = max(w.sum.LongestPoll, w.now-m.pollReset)
	m.pollReset = w.now
	t.polling = true
	t.pollEnd = w.now + max(t.act.Timeout, w.sc.Costs.RoundTrip/2) // even a poll of no length takes time
	p := &t.polled                                                 // its slices are used again: the loop keeps none of them
	*p = loop.Polled{Revoked: p.Revoked[:0], Assigned: p.Assigned[:0], HandedOver: p.HandedOver[:0], Records: p.Records[:0]}
	t.handOver(t.passAt)
	if m.answered {
		m.readJoin()
	}
	if m.assigned {
		m.readSync()
	}
	if m.wanted && m.phase != preparing {
		t.lose()
		m.sendJoin()
	}
}

// poll waits for records until its time-out.
func (t *thread) poll() bool {
	w := t.w
	for {
		if len(t.asked) > 0 && t.answerAt <= w.now {
			t.fetchDone()
		}
		if len(t.buffer) > 0 || w.now >= t.pollEnd {
			t.endPoll()
			return true
		}
		next := min(t.pollEnd, t.fetch())
		if next == t.pollEnd {
			next = t.idle()
		}
		if !w.reach(next) {
			t.m.schedule(tWake, next)
			return false
		}
	}
}

// fetch sends a fetch if none is in flight, and tells when to look again.
func (t *thread) fetch() time.Duration {
	w := t.w
	look := Forever
	fresh := false // a partition may be fetched that the fetch in flight does not ask for
	for p := range t.tasks {
		k := &t.tasks[p]
		if !k.ready || k.paused || k.buffered {
			continue
		}
		if k.fetchAt > w.now {
			look = min(look, k.fetchAt)
		} else {
			_, asked := slices.BinarySearch(t.asked, p)
			fresh = fresh || !asked
		}
	}
	if len(t.asked) > 0 {
		// A fetch that found nothing is answered after fetchWait.
		expires := t.askedAt + fetchWait
		switch {
		case t.answerAt <= expires || !fresh && w.now < expires:
			return min(look, t.answerAt)
		case w.now < expires:
			return min(look, expires)
		}
	}
	t.ask()
	return min(look, t.answerAt)
}

// ask sends a fetch for all partitions that can take records.
func (t *thread) ask() {
	w := t.w
	t.asked, t.askedAt, t.answerAt = t.asked[:0], w.now, Forever
	data := Forever
	for p := range t.tasks {
		k := &t.tasks[p]
		if !k.ready || k.paused || k.fetchAt > w.now || k.buffered {
			continue
		}
		t.asked = append(t.asked, p)
		if w.parts[p].endAt(w.now) > k.fetched {
			data = w.now
		} else {
			data = min(data, w.parts[p].nextAfter(w.now))
		}
	}
	if data != Forever {
		t.answerAt = data + w.sc.Costs.RoundTrip
	}
}

// fetchDone takes what the broker had when it answered.
func (t *thread) fetchDone() {
	for _, p := range t.asked {
		k := &t.tasks[p]
		if n := t.w.parts[p].endAt(t.w.now) - k.fetched; n > 0 {
			k.fetched += n
			k.buffered = true
			t.buffer = append(t.buffer, chunk{p, n})
		}
	}
	t.asked = t.asked[:0]
}

// endPoll returns up to max.poll.records, one completed fetch after the other.
func (t *thread) endPoll() {
	w := t.w
	t.polling = false
	if w.now > t.m.pollReset+t.act.Timeout {
		t.m.pollReset = w.now - t.act.Timeout // idle polls were left out
	}
	left := w.sc.Settings.MaxPollRecords
	for len(t.buffer) > 0 && left > 0 {
		c := &t.buffer[0]
		n := min(c.n, left)
		left -= n
		c.n -= n
		t.tasks[c.partition].queued += n
		t.polled.Records = append(t.polled.Records, loop.Delivery{Task: taskOf(c.partition), Records: n})
		if c.n == 0 {
			t.tasks[c.partition].buffered = false
			t.buffer = slices.Delete(t.buffer, 0, 1)
		}
	}
	got := w.sc.Settings.MaxPollRecords - left
	if got > 0 {
		w.note(t.m, Poll, got)
		t.fetch()
	}
	if t.stage < len(t.plan) && slices.ContainsFunc(t.tasks, func(k task) bool { return k.queued > 0 }) {
		t.stage++
	}
	t.handOver(w.now)
	t.passAt = w.now
	t.polled.Rebalancing = t.m.phase == preparing || t.m.phase == completing
	t.next(t.step(t.polled))
}

// idling tells whether the present poll stands for several idle ones.
func (t *thread) idling() bool { return t.polling && t.w.now > t.m.pollReset+t.act.Timeout }

// idle tells when the present poll may end: at its time-out, or, when nothing
// can happen before, as many time-outs later as fit. The polls left out would
// have brought nothing.
func (t *thread) idle() time.Duration {
	w, m := t.w, t.m
	p := &t.polled
	if m.phase != stable || m.wanted || p.Lost || len(p.Revoked)+len(p.Assigned)+len(p.HandedOver) > 0 || t.act.Timeout == 0 {
		return t.pollEnd
	}
	horizon := min(w.sc.For, t.fetch())
	if len(w.heap) > 0 {
		horizon = min(horizon, w.heap[0].at)
	}
	r := t.loop.Reading()
	if r.Queued > 0 || r.Restoring > 0 {
		return t.pollEnd
	}
	// The commit clock is restarted by the first turn after it is due, whether
	// or not there is anything to commit: that turn is played.
	skip := (horizon - t.pollEnd) / t.act.Timeout
	if due := r.LastCommit.Sub(epoch) + w.sc.Settings.CommitInterval; due < t.pollEnd {
		skip = 0
	} else {
		skip = min(skip, (due-t.pollEnd)/t.act.Timeout+1)
	}
	if skip > 0 {
		t.pollEnd += skip * t.act.Timeout
	}
	return t.pollEnd
}
