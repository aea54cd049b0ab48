package loop_test

import (
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// TestStepAllocatesNothing: predictions play a virtual day, thousands of times,
// and the runtime steps for every burst.
func TestStepAllocatesNothing(t *testing.T) {
	id := loop.TaskID{Part: 1}
	now := start
	thread := loop.NewStreams42(loop.Settings{})
	thread.Step(now, loop.Started{})
	thread.Step(now, loop.Polled{Complete: true, Assigned: []loop.TaskID{id}, HandedOver: []loop.TaskID{id}})
	records := []loop.Delivery{{Task: id, Records: 1}}
	turn := func() {
		act := thread.Step(now, loop.Polled{Records: records})
		for act.Kind != loop.Poll {
			now = now.Add(20 * time.Second)
			if act.Kind == loop.Commit {
				act = thread.Step(now, loop.Committed{Tasks: 1})
				continue
			}
			act = thread.Step(now, loop.Processed{Task: id, Records: 1})
		}
	}
	if n := testing.AllocsPerRun(100, turn); n > 0 {
		t.Errorf("a turn of Streams42 allocates %v times", n)
	}

	lanes := loop.NewPerCall(loop.Settings{})
	lanes.Step(now, loop.Assigned{Tasks: []loop.TaskID{id}})
	call := func() {
		lanes.Step(now, loop.Fetched{Task: id, N: 1})
		lanes.Step(now, loop.BurstEnded{Task: id, Ran: 1, Blocked: true})
		now = now.Add(31 * time.Second)
		for _, act := range lanes.Step(now, loop.Finished{Task: id, N: 1}) {
			if act.Kind == loop.Commit {
				lanes.Step(now, loop.CommitDone{})
			}
		}
		lanes.Next()
	}
	call()
	if n := testing.AllocsPerRun(100, call); n > 0 {
		t.Errorf("a call of PerCall allocates %v times", n)
	}
}
