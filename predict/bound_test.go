package predict

import (
	"testing"
	"time"
)

// TestWorkIsBounded tries settings that ask for years of work, or for more records
// than there is memory: each is answered, and says what was not played. Without
// the bounds they took minutes or all memory.
func TestWorkIsBounded(t *testing.T) {
	month := 30 * 24 * time.Hour
	for name, s := range map[string]Settings{
		"the largest poll interval": {Latency: Always(time.Second), Arrival: 2, MaxPollInterval: 2147483647 * time.Millisecond},
		"a jump after a month":      {Latency: JumpTo(month, time.Millisecond, 40*time.Second), Queued: maxRecords, Overhead: time.Microsecond},
		"a ramp over a month":       {Latency: RampTo(month, time.Millisecond, 10*time.Second), Arrival: 900},
		"Rondo, a jump":             {Kind: Rondo, Latency: JumpTo(month, time.Millisecond, 10*time.Minute), Queued: maxRecords},
	} {
		r, err := Predict(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b, ok := r.Of(RulePollClock); !ok || s.Kind != Rondo && (b.Verdict != Tight || b.Note == "") {
			t.Errorf("%s: %+v", name, b)
		}
	}
	for name, s := range map[string]Settings{
		"many tasks":         {Tasks: maxTasks, Latency: Always(time.Millisecond), Arrival: 1000},
		"many tasks, slow":   {Tasks: maxTasks, Latency: Always(time.Second)},
		"many tasks, queued": {Tasks: maxTasks, Latency: Always(10 * time.Minute), CommitInterval: time.Millisecond, Queued: 1_000_000},
	} {
		if _, err := Predict(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
