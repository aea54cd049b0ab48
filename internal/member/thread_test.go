package member

import "time"

// thread is the stream thread of Kafka Streams 4.2 with one task, as far as its
// member can tell: a poll of at most 100 ms, then passes of n calls until half
// of max.poll.interval.ms is over. A commit that succeeds halves n, one that is
// put off by a rebalance lets it grow.
type thread struct {
	call    time.Duration
	n       int
	polling bool
	polls   int
	polled  time.Time
	offset  int64
}

func (t *thread) poll(w *world, a *application) {
	if a.gone || a.core.State() == Stopped {
		return
	}
	t.polls++
	n := t.polls
	t.polling, t.polled = true, w.now
	w.after(100*time.Millisecond, func() { t.stop(w, a, n) })
	w.step(a, PollBegan{})
}

// stepped ends the poll early when nothing is outstanding, as records that are
// there do.
func (t *thread) stepped(w *world, a *application) {
	if t.polling && t.call > 0 && len(a.owned) > 0 && !a.core.Busy() && len(a.core.drains) == 0 {
		n := t.polls
		w.after(0, func() { t.stop(w, a, n) })
	}
}

func (t *thread) stop(w *world, a *application, n int) {
	if !t.polling || n != t.polls || a.gone {
		return
	}
	t.polling = false
	w.step(a, PollEnded{})
	if len(a.owned) == 0 || t.call == 0 {
		w.after(0, func() { t.poll(w, a) })
		return
	}
	t.pass(w, a)
}

func (t *thread) pass(w *world, a *application) {
	p := a.owned[0]
	w.draw(a.name, "pass of %d x %s begins", t.n, t.call)
	a.works = []openWork{{Work{p.Topic, p.Partition, t.offset, "call"}, w.now}}
	w.after(time.Duration(t.n)*t.call, func() {
		if a.gone {
			return
		}
		a.works = nil
		t.offset += int64(t.n)
		w.commit(a, p, t.offset, func(err error) { t.decide(w, a, err) })
	})
}

func (t *thread) decide(w *world, a *application, err error) {
	late := w.now.Sub(t.polled) > a.cfg.MaxPoll/2
	switch {
	case err == nil || late:
		t.n = max(1, t.n/2)
	case err == ErrRebalancing:
		t.n++
	}
	if late || t.call == 0 || len(a.owned) == 0 || err != nil && err != ErrRebalancing {
		t.poll(w, a)
		return
	}
	t.pass(w, a)
}
