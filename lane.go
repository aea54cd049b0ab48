package rondo

import (
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// lane drives one task under PerCall: one goroutine that runs a burst when the
// loop gives it one, takes back calls whenever they come, and keeps the call
// windows' time.
type lane struct {
	task  *task
	until time.Time // of the burst that was given; zero for none
	ended bool
	seen  uint64 // of the thread: task.run at its last look
}

func newLane(t *task) *lane { return &lane{task: t} }

// burst gives the lane time until then.
func (l *lane) burst(until time.Time) { l.task.box.put(func() { l.until = until }) }

// drain stops intake.
func (l *lane) drain() { l.task.box.put(l.task.drain) }

// stop ends the lane's goroutine. Whatever is unfinished is no longer taken
// back, so fence the task first unless it is drained.
func (l *lane) stop() { l.task.box.put(func() { l.ended = true }) }

func (l *lane) drive() {
	t := l.task
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		t.box.run()
		if l.ended {
			return
		}
		if !l.until.IsZero() {
			l.runBurst()
			continue
		}
		at, due := t.next()
		if due {
			timer.Reset(time.Until(at))
		}
		select {
		case <-t.box.signal:
		case <-timer.C:
			t.tick()
		}
	}
}

// runBurst runs records until the queue is empty, a call window is full, or
// the time is over, and reports. Between two records it takes back calls, so a
// long burst does not hold results up.
func (l *lane) runBurst() {
	t := l.task
	ran := 0
	for !t.draining && !t.broken && !t.fenced.Load() && !t.full() && time.Now().Before(l.until) {
		if !t.one() {
			break
		}
		ran++
		t.box.run()
		if at, due := t.next(); due && !time.Now().Before(at) {
			t.tick()
		}
	}
	l.until = time.Time{}
	id, blocked := t.id, t.full()
	t.host.box.put(func() {
		if t.host.lanes[id] == l {
			t.host.step(loop.BurstEnded{Task: id, Ran: ran, Blocked: blocked})
		}
	})
}
