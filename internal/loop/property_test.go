package loop_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondo-streams/rondo/internal/loop"
)

// turns is the decision table said once more, as plainly as can be: the time
// from poll to poll of a thread whose queues never empty, and N after it. Times
// are milliseconds; the commit clock is given and handed on.
func turns(tasks, n, call, m, c, sinceCommit int) (took, after, clock int) {
	for {
		took += tasks * n * call
		sinceCommit += tasks * n * call
		committed := sinceCommit > c
		if committed {
			sinceCommit = 0
		}
		late := took > m/2
		if n > 1 && (late || committed) {
			n /= 2
		} else if !late && !committed {
			n++
		}
		if late {
			return took, n, sinceCommit
		}
	}
}

// TestStreams42AgainstThePlainTable plays threads with endless queues and
// compares each turn with the table.
func TestStreams42AgainstThePlainTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.IntRange(1, 8).Draw(t, "tasks")
		call := rapid.IntRange(1, 4000).Draw(t, "call ms")
		m := rapid.IntRange(1000, 300000).Draw(t, "max.poll.interval.ms")
		c := rapid.IntRange(100, 300000).Draw(t, "commit.interval.ms")
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		l := loop.NewStreams42(loop.Settings{MaxPollInterval: ms(m), CommitInterval: ms(c)})
		now := start
		l.Step(now, loop.Started{})
		in := loop.Polled{Complete: true}
		left := map[loop.TaskID]int{}
		for p := range tasks {
			id := loop.TaskID{Part: int32(p)}
			in.Assigned = append(in.Assigned, id)
		}
		in.HandedOver = in.Assigned
		l.Step(now, in)
		n, sinceCommit := 1, 0
		for range 5 {
			in := loop.Polled{}
			for p := range tasks {
				id := loop.TaskID{Part: int32(p)}
				more := 1 << 30
				in.Records = append(in.Records, loop.Delivery{Task: id, Records: more - left[id]})
				left[id] = more
			}
			polled := now
			act := l.Step(now, in)
			for act.Kind != loop.Poll {
				switch act.Kind {
				case loop.Process:
					now = now.Add(ms(call * act.Max))
					left[act.Task] -= act.Max
					act = l.Step(now, loop.Processed{Task: act.Task, Records: act.Max, Left: left[act.Task]})
				case loop.Commit:
					act = l.Step(now, loop.Committed{Tasks: tasks})
				default:
					t.Fatalf("act %v", act)
				}
			}
			var took int
			took, n, sinceCommit = turns(tasks, n, call, m, c, sinceCommit)
			if now.Sub(polled) != ms(took) || l.N() != n {
				t.Fatalf("a turn took %v and left N at %d; by the table %v and %d", now.Sub(polled), l.N(), ms(took), n)
			}
		}
	})
}

// shell is a PerCall shell with random calls that keeps count of everything.
type shell struct {
	t      *rapid.T
	loop   *loop.PerCall
	now    time.Time
	burst  time.Duration
	window int

	lanes      map[loop.TaskID]*laneState
	committing bool
	stopped    bool
	stopping   bool
}

type laneState struct {
	queued, flying int
	early          int // finished by the burst that has not reported yet
	bursting       bool
	until          time.Time
	paused         bool
	draining       bool
	deadline       time.Time
}

func (s *shell) step(in loop.In) {
	for _, act := range s.loop.Step(s.now, in) {
		l := s.lanes[act.Task]
		switch act.Kind {
		case loop.Burst:
			if l.bursting || l.draining || l.queued == 0 {
				s.t.Fatalf("%v: bursting %v, draining %v, %d queued", act, l.bursting, l.draining, l.queued)
			}
			if got := act.Until.Sub(s.now); got > s.burst {
				s.t.Fatalf("a burst of %v, the clocks are to be looked at every %v", got, s.burst)
			}
			l.bursting, l.until = true, act.Until
		case loop.Commit:
			if s.committing {
				s.t.Fatal("two commits at a time")
			}
			s.committing = true
		case loop.Pause, loop.Resume:
			if l.paused == (act.Kind == loop.Pause) {
				s.t.Fatalf("%v twice", act)
			}
			l.paused = !l.paused
		case loop.Release:
			busy := l != nil && (l.bursting || l.flying > 0)
			if !s.stopping && !l.draining {
				s.t.Fatalf("%v: nobody asked for it", act)
			}
			if busy && (!act.Abandon || s.now.Before(l.deadline)) {
				s.t.Fatalf("%v at work, %v before its budget is gone", act, l.deadline.Sub(s.now))
			}
			delete(s.lanes, act.Task)
		case loop.Stop:
			if len(s.lanes) > 0 || s.stopped {
				s.t.Fatalf("stop with %d lanes, stopped before: %v", len(s.lanes), s.stopped)
			}
			s.stopped = true
		}
	}
	r := s.loop.Reading()
	queued, flying, paused := 0, 0, 0
	for _, l := range s.lanes {
		if !l.draining {
			queued += l.queued
		}
		flying += l.flying
		if l.paused {
			paused++
		}
		if l.queued > 0 && !l.bursting && !l.draining && l.flying < s.window {
			s.t.Fatalf("after %#v: %d records wait and nothing runs them", in, l.queued)
		}
	}
	if r.Lanes != len(s.lanes) || r.Queued != queued || r.InFlight != flying || r.Paused != paused {
		s.t.Fatalf("after %#v: the loop reads %+v; the shell has %d lanes, %d queued, %d in flight, %d paused", in, r, len(s.lanes), queued, flying, paused)
	}
}

// act does one random thing.
func (s *shell) act() {
	s.now = s.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(s.t, "ms")) * time.Millisecond)
	id := loop.TaskID{Part: int32(rapid.IntRange(0, 3).Draw(s.t, "task"))}
	l := s.lanes[id]
	switch what := rapid.IntRange(0, 9).Draw(s.t, "what"); {
	case l == nil && !s.stopping:
		s.lanes[id] = &laneState{}
		s.step(loop.Assigned{Tasks: []loop.TaskID{id}})
	case l == nil:
		s.step(loop.Tick{})
	case what <= 2 && !l.paused:
		n := rapid.IntRange(1, 20).Draw(s.t, "fetched")
		l.queued += n
		s.step(loop.Fetched{Task: id, N: n})
	case what <= 5 && l.bursting:
		ran := l.early + rapid.IntRange(0, min(l.queued-l.early, s.window-l.flying)).Draw(s.t, "ran")
		done := rapid.IntRange(0, l.flying+ran-l.early).Draw(s.t, "done")
		l.bursting = false
		l.queued -= ran
		l.flying += ran - l.early - done
		l.early = 0
		s.step(loop.BurstEnded{Task: id, Ran: ran, Finished: done, Blocked: l.flying == s.window})
	case what <= 7 && l.flying > 0:
		n := rapid.IntRange(1, l.flying).Draw(s.t, "finished")
		l.flying -= n
		s.step(loop.Finished{Task: id, N: n})
	case what == 7 && l.bursting && l.queued > l.early:
		l.early++
		s.step(loop.Finished{Task: id, N: 1})
	case what == 8 && s.committing:
		s.committing = false
		s.step(loop.CommitDone{Err: rapid.Bool().Draw(s.t, "fails")})
	case what == 9 && rapid.IntRange(0, 5).Draw(s.t, "revoke") == 0:
		budget := time.Duration(rapid.IntRange(0, 5000).Draw(s.t, "budget")) * time.Millisecond
		if deadline := s.now.Add(budget); !l.draining || deadline.Before(l.deadline) {
			l.draining, l.deadline = true, deadline
		}
		s.step(loop.Revoking{Tasks: []loop.TaskID{id}, Budget: budget})
	default:
		s.step(loop.Tick{})
	}
}

// TestPerCallKeepsItsPromises: whatever happens, no burst is longer than the
// setting, nothing begins in a lane that is handed over, a lane leaves at work
// only when its budget is gone, and everything is let go in the end.
func TestPerCallKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shell{
			t: t, now: start, lanes: map[loop.TaskID]*laneState{},
			burst: 100 * time.Millisecond, window: rapid.IntRange(1, 4).Draw(t, "window"),
		}
		s.loop = loop.NewPerCall(loop.Settings{Burst: s.burst, BufferedRecords: 10, CommitInterval: 10 * time.Second})
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			s.act()
		}
		s.stopping = true
		for _, l := range s.lanes {
			if !l.draining || l.deadline.After(s.now) {
				l.draining, l.deadline = true, s.now
			}
		}
		s.step(loop.Stopping{})
		for range 3 { // at most a commit in flight, and one for what finished since
			if s.committing {
				s.committing = false
				s.step(loop.CommitDone{})
			}
		}
		if !s.stopped {
			t.Fatalf("not stopped: %+v", s.loop.Reading())
		}
	})
}
