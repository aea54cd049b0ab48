package member

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errWorkEnded is the cause of a context whose work has ended.
var errWorkEnded = errors.New("work has ended")

// Ticket is the receipt of Begin. The zero Ticket is of no work.
type Ticket struct{ w *workContext }

// workContext is one piece of work under the poll clock, and its context. Most
// work never looks at its context, so the real one, which would be entered in
// its parent's books, is only made when somebody does.
type workContext struct {
	work       Work
	began      time.Time
	prev, next *workContext // in order of beginning, while the work is open
	expired    bool         // guarded by the list: the poll clock took it

	parent context.Context
	mu     sync.Mutex // guards what follows; nobody waits while holding it
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error // set before inner was made
}

var _ context.Context = (*workContext)(nil)

func (w *workContext) real() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner == nil {
		w.inner, w.cancel = context.WithCancelCause(w.parent)
		if w.cause != nil {
			w.cancel(w.cause)
		}
	}
	return w.inner
}

func (w *workContext) stop(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause == nil {
		w.cause = cause
	}
	if w.cancel != nil {
		w.cancel(cause)
	}
}

// Deadline, Done, Err and Value are those of the real context; Value too, so
// that context.Cause and contexts derived from this one find it.
func (w *workContext) Deadline() (time.Time, bool) { return w.parent.Deadline() }
func (w *workContext) Done() <-chan struct{}       { return w.real().Done() }
func (w *workContext) Err() error                  { return w.real().Err() }
func (w *workContext) Value(key any) any           { return w.real().Value(key) }

// workList holds the open works, oldest first. Works begin in order of time, so
// adding at the end keeps it sorted, and every operation is constant.
type workList struct {
	mu       sync.Mutex
	oldest   *workContext
	youngest *workContext
	n        int
}

func (l *workList) begin(parent context.Context, w Work) *workContext {
	c := &workContext{work: w, parent: parent}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.began = time.Now() // under the lock: the list is in this order
	c.prev = l.youngest
	if c.prev != nil {
		c.prev.next = c
	} else {
		l.oldest = c
	}
	l.youngest = c
	l.n++
	return c
}

// end takes a work off the list, once; false when the poll clock had taken it.
func (l *workList) end(c *workContext) (inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlink(c)
	return !c.expired
}

func (l *workList) unlink(c *workContext) {
	if c.prev == nil && l.oldest != c {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.oldest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.youngest = c.prev
	}
	c.prev, c.next = nil, nil
	l.n--
}

// takeExpired takes off all works that are limit old.
func (l *workList) takeExpired(now time.Time, limit time.Duration) []*workContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*workContext
	for c := l.oldest; c != nil && now.Sub(c.began) >= limit; c = l.oldest {
		l.unlink(c)
		c.expired = true
		out = append(out, c)
	}
	return out
}

// look reads the oldest work.
func (l *workList) look() (w Work, began time.Time, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.oldest != nil {
		w, began = l.oldest.work, l.oldest.began
	}
	return w, began, l.n
}

// Held is one piece of work that is unfinished.
type Held struct {
	Work
	Began time.Time
}

// held lists the works that are age old, oldest first.
func (l *workList) held(now time.Time, age time.Duration) []Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Held
	for c := l.oldest; c != nil && now.Sub(c.began) >= age; c = c.next {
		out = append(out, Held{c.work, c.began})
	}
	return out
}

// Held lists works whose poll clock has run for age, oldest first.
func (m *Member) Held(age time.Duration) []Held { return m.works.held(time.Now(), age) }

// Begin starts the poll clock of one piece of work. The context is cancelled
// with a *PollClockError as its cause when the work is older than
// max.poll.interval.ms, and when the member stops or the work ends. InPoll
// members do not cancel it: the stream thread is never interrupted.
func (m *Member) Begin(w Work) (context.Context, Ticket) {
	c := m.works.begin(m.ctx, w)
	return c, Ticket{c}
}

// End says, from any goroutine, that a piece of work is finished. It answers
// false when the poll clock had fired for it before: the lease under which it
// ran is gone, or goes. Ending twice does nothing and answers the same.
func (m *Member) End(t Ticket) (inTime bool) {
	if t.w == nil {
		return true
	}
	inTime = m.works.end(t.w)
	t.w.stop(errWorkEnded)
	return inTime
}
