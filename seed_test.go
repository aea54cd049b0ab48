package rondo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/sim"
)

// The article that Rondo begins with measured what max.poll.interval.ms bounds
// in Kafka Streams. This file has one test for each of its numbers: the stream
// thread of Kafka Streams 4.2 as a value (loop.Streams42), run in virtual time.
// The last test runs the same scenarios under Rondo's own loop.

const s = time.Second

// begun is what every run of the article pays before its first call: starting
// the thread and joining the group.
var begun = sim.Costs{Start: 2 * s}

// threeTasks is the article's first scenario: calls of 12 s, three tasks on one
// thread, max.poll.interval.ms 30 s. A round takes 36 s.
func threeTasks(handOvers ...sim.HandOver) sim.Scenario {
	return sim.Scenario{
		Name: "3 tasks x 12 s, M 30 s", Policy: sim.Streams42, Trace: true, For: 210 * s, Costs: begun,
		Settings:   loop.Settings{MaxPollInterval: 30 * s},
		Partitions: 3, Feeds: []sim.Feed{{Total: 60}}, Latency: sim.Fixed(12 * s),
		HandOvers: handOvers,
	}
}

// oneTask is one task with calls of 120 s at the defaults.
func oneTask(length, commitInterval time.Duration) sim.Scenario {
	return sim.Scenario{
		Name: "1 task x 120 s", Policy: sim.Streams42, Trace: true, For: length, Costs: sim.Costs{Start: 3 * s},
		Settings: loop.Settings{CommitInterval: commitInterval},
		Feeds:    []sim.Feed{{Total: 20}}, Latency: sim.Fixed(120 * s),
	}
}

// first hands the tasks of some partitions over before the others.
func first(partitions ...int) sim.HandOver { return sim.HandOver{Ready: [][]int{partitions}} }

var together = sim.HandOver{}

func gaps(at []sim.Moment) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(at); i++ {
		out = append(out, at[i].At-at[i-1].At)
	}
	return out
}

func about(t *testing.T, what string, got, want, tolerance time.Duration) {
	t.Helper()
	if d := got - want; d < -tolerance || d > tolerance {
		t.Errorf("%s: %v, the article has %v (tolerance %v)", what, got, want, tolerance)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, the article has %v", what, got, want)
	}
}

func ns(sum sim.Summary) []int {
	var out []int
	for _, p := range sum.Passes {
		out = append(out, p.N)
	}
	return out
}

func TestSeedThreeTasksNeverCommit(t *testing.T) {
	sum, _ := sim.Run(threeTasks())
	equal(t, "commits", sum.CommitCount, 0)
	for _, gap := range gaps(sum.Fenced) {
		about(t, "from one eviction to the next", gap, 36*s, s)
	}
}

// One window began with a single task: N rose to 2 on that task alone, and the
// next window ran two records of each task before it looked at a clock.
func TestSeedTheGapOf72Seconds(t *testing.T) {
	sum, _ := sim.Run(threeTasks(together, together, first(1)))
	equal(t, "evictions", len(sum.Fenced), 4)
	equal(t, "commits", sum.CommitCount, 0)
	equal(t, "records", sum.Ended, 17)
	equal(t, "CVEs", sum.Distinct, 7)
	want := []time.Duration{36 * s, 36 * s, 72 * s}
	for i, gap := range gaps(sum.Fenced) {
		about(t, fmt.Sprintf("gap %d", i+1), gap, want[i], s)
	}
}

// The whole table of windows seen on Kafka Streams 4.2.0: the tasks with
// records at the first fetching poll and N at the start decide how long it
// takes until the thread finds itself evicted, and with which N it goes on.
func TestSeedWindowTable(t *testing.T) {
	for _, row := range []struct {
		name   string
		ready  sim.HandOver
		n      int // at the start
		window time.Duration
		passes []int // records of each pass
		after  int   // N at the end
	}{
		{"3 tasks, N 1", together, 1, 36 * s, []int{3}, 1},
		{"3 tasks, N 2", together, 2, 72 * s, []int{6}, 2},
		{"1 task, N 1", first(2), 1, 36 * s, []int{1, 2}, 2},
		{"1 task, N 2", first(0), 2, 60 * s, []int{2, 3}, 1},
		{"2 tasks, N 1", first(0, 1), 1, 60 * s, []int{2, 3}, 1},
		{"2 tasks, N 2", first(1, 2), 2, 48 * s, []int{4}, 2},
		{"2 tasks, the third late for two polls, N 1", sim.HandOver{Ready: [][]int{{0, 1}, {}}}, 1, 84 * s, []int{2, 2, 3}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			handOvers := []sim.HandOver{row.ready}
			if row.n == 2 {
				handOvers = []sim.HandOver{first(0), row.ready} // leaves N at 2
			}
			sum, _ := sim.Run(threeTasks(handOvers...))
			w := row.n - 1 // the window to look at
			from, to := time.Duration(0), sum.Fenced[w].At
			if w > 0 {
				from = sum.Fenced[w-1].At
			}
			var records []int
			begin, last := to, 0
			for _, p := range sum.Passes {
				if p.Begin >= from && p.End <= to {
					begin = min(begin, p.Begin)
					records, last = append(records, p.Records), p.N
				}
			}
			about(t, "window", to-begin, row.window, s/2)
			equal(t, "passes", fmt.Sprint(records), fmt.Sprint(row.passes))
			equal(t, "N at the end", last, row.after)
		})
	}
}

func TestSeedOneTaskAtTheDefaults(t *testing.T) {
	sum, _ := sim.Run(oneTask(900*s, 0))
	equal(t, "records", sum.Ended, 7)
	equal(t, "CVEs", sum.Distinct, 7)
	equal(t, "commits", sum.CommitCount, 7)
	equal(t, "rebalances after the first join", sum.Generation, 1)
}

// The band: a call of 120 s is between a third and a half of 300 s. Without a
// commit to halve it, N grows to 2, and 1 + 2 calls pass the poll clock.
func TestSeedTheBandIn900Seconds(t *testing.T) {
	sum, _ := sim.Run(oneTask(900*s, 300*s))
	equal(t, "rebalances", len(sum.Fenced), 1)
	about(t, "rebalance", sum.Fenced[0].At, 363800*time.Millisecond, s)
	equal(t, "records", sum.Ended, 7)
	equal(t, "CVEs", sum.Distinct, 4)
}

func TestSeedTheBandIn1500Seconds(t *testing.T) {
	sum, _ := sim.Run(oneTask(1500*s, 300*s))
	equal(t, "rebalances", len(sum.Fenced), 2)
	about(t, "first rebalance", sum.Fenced[0].At, 363400*time.Millisecond, s)
	about(t, "second rebalance", sum.Fenced[1].At, 1203900*time.Millisecond, s)
	equal(t, "commits", len(sum.Commits), 1)
	about(t, "commit", sum.Commits[0].At, 725*s, 2*s)
	equal(t, "records", sum.Ended, 12)
	equal(t, "CVEs", sum.Distinct, 7)
}

// The same at a tenth of the scale: 9 s is under a third of 30 s, 17 s is over
// a half, and only what is between them is evicted.
func TestSeedScaledTo30Seconds(t *testing.T) {
	for _, c := range []struct {
		call      time.Duration
		evictions int
	}{{9 * s, 0}, {12 * s, 4}, {17 * s, 0}} {
		t.Run(c.call.String(), func(t *testing.T) {
			sum, _ := sim.Run(sim.Scenario{
				Policy: sim.Streams42, Trace: true, For: 300 * s,
				Settings: loop.Settings{MaxPollInterval: 30 * s},
				Feeds:    []sim.Feed{{Total: 40}}, Latency: sim.Fixed(c.call),
			})
			equal(t, "evictions", len(sum.Fenced), c.evictions)
			for _, gap := range gaps(sum.Fenced) {
				about(t, "from one eviction to the next", gap, 84*s, s) // 7 calls, as in the band
			}
		})
	}
}

// twoMinutes is a thread that gets 25 records a second, 13 at a time, and
// answers at once. Begun says when the first arrive after its start.
func twoMinutes(begun time.Duration) sim.Scenario {
	return sim.Scenario{
		Name: "25 records a second, answered at once", Policy: sim.Streams42, For: begun + 120*s,
		Feeds: []sim.Feed{{At: begun, Every: 520 * time.Millisecond, Burst: 13, Total: 3000}},
	}
}

// N grows by one with every poll that brings records, and only a commit that
// falls into such a turn halves it: most fall into idle ones. So the N of a
// fast thread is a matter of luck, here of when the records begin.
func TestSeedNOfAFastThread(t *testing.T) {
	least, most := 1<<30, 0
	seen := map[int]bool{}
	for begun := s; begun < 32*s; begun += 130 * time.Millisecond {
		sum, _ := sim.Run(twoMinutes(begun))
		n := sum.NAtEnd[0]
		seen[n] = true
		least, most = min(least, n), max(most, n)
	}
	for _, want := range []int{221, 124} {
		if !seen[want] {
			t.Errorf("no run ended with N = %d: %d to %d", want, least, most)
		}
	}
	if least < 110 || most > 245 {
		t.Errorf("N from %d to %d after two minutes", least, most)
	}
}

// slowDown is a fast thread whose service takes 10 s a call from slow on. The
// call of that moment has been held for a second, and 40 records wait behind it.
func slowDown(length time.Duration, maxPollRecords int) sim.Scenario {
	return sim.Scenario{
		Name: "from fast to 10 s a call, 40 waiting", Policy: sim.Streams42, Trace: true, For: slow + length,
		Settings: loop.Settings{MaxPollRecords: maxPollRecords},
		Costs:    sim.Costs{Settle: 450 * time.Millisecond}, // a rejoin took half a second
		Feeds: []sim.Feed{
			{At: 2 * s, Every: 80 * time.Millisecond, Total: fast},
			{At: slow - s, Total: 1},
			{At: slow - s/2, Total: 40},
		},
		Latency: func(c sim.Call) time.Duration {
			switch {
			case c.At < slow-s:
				return 0
			case c.At < slow:
				return slow - c.At
			}
			return 10 * s
		},
	}
}

const (
	slow = 40 * s // when the service slows down
	fast = 220    // records before that
)

func TestSeedSlowDown(t *testing.T) {
	sum, _ := sim.Run(slowDown(1550*s, 0))
	for i, p := range sum.Passes {
		if p.End >= slow {
			equal(t, "N of the call that was held", p.N, 221)
			equal(t, "N of the pass after it", sum.Passes[i+1].N, 222)
			break
		}
	}
	want := []time.Duration{401 * s, 811 * s, 1222 * s}
	equal(t, "evictions noticed", len(sum.Fenced), 3)
	for i := range min(len(want), len(sum.Fenced)) {
		about(t, fmt.Sprintf("eviction %d", i+1), sum.Fenced[i].At-slow, want[i], s)
	}
	equal(t, "committed of the 41", sum.Committed[0]-fast, 0)
	equal(t, "records since", sum.Ended-fast, 155)
	equal(t, "CVEs since", sum.Distinct-fast, 41)
	equal(t, "N at the end", sum.NAtEnd[0], 222)
}

// The cure: a fresh thread begins with N = 1.
func TestSeedFreshThread(t *testing.T) {
	sum, _ := sim.Run(sim.Scenario{
		Policy: sim.Streams42, Trace: true, For: 450 * s, Costs: begun,
		Feeds: []sim.Feed{{Total: 40}}, Latency: sim.Fixed(10 * s),
	})
	equal(t, "evictions", sum.EvictionCount, 0)
	equal(t, "N", fmt.Sprint(ns(sum)[:4]), "[1 2 1 2]")
	equal(t, "records", sum.Ended, 40)
	equal(t, "CVEs", sum.Distinct, 40)
	about(t, "the last one", sum.Passes[len(sum.Passes)-1].End, 402*s, 8*s)
}

// The other cure: max.poll.records bounds what a pass can find.
func TestSeedMaxPollRecords20(t *testing.T) {
	sum, _ := sim.Run(slowDown(520*s, 20))
	equal(t, "evictions", sum.EvictionCount, 0)
	equal(t, "records since", sum.Ended-fast, 41)
	equal(t, "CVEs since", sum.Distinct-fast, 41)
	var passes []sim.Pass
	for _, p := range sum.Passes {
		if p.Begin >= slow {
			passes = append(passes, p)
		}
	}
	equal(t, "passes", len(passes), 2)
	for _, p := range passes {
		equal(t, "records of a pass", p.Records, 20)
		about(t, "a pass of 20", p.End-p.Begin, 200*s, s)
	}
}

func TestSeedCommitSpacing(t *testing.T) {
	sum, _ := sim.Run(sim.Scenario{
		Policy: sim.Streams42, Trace: true, For: 240 * s, Costs: begun,
		Partitions: 3, Feeds: []sim.Feed{{Total: 1500}}, Latency: sim.Fixed(300 * time.Millisecond),
	})
	spacing := gaps(sum.Commits)
	mean := (sum.Commits[len(sum.Commits)-1].At - sum.Commits[0].At) / time.Duration(len(spacing))
	about(t, "commits apart, on the average", mean, 35*s, 2*s)
	for _, gap := range spacing {
		about(t, "from one commit to the next", gap, 35*s, 5*s)
	}
}

// Under PerCall a round is one call, and no count is carried over: the same
// scenarios cost no lease and no repeated call.
func TestSeedPerCall(t *testing.T) {
	for _, c := range []struct {
		sc   sim.Scenario
		late int // calls for records that are not committed yet when the run ends, at most
	}{
		{threeTasks(), 12},
		{threeTasks(together, together, first(1)), 12},
		{oneTask(900*s, 0), 1},
		{oneTask(900*s, 300*s), 4},
		{oneTask(1500*s, 300*s), 4},
		{twoMinutes(4340 * time.Millisecond), 30 * 25},
		{slowDown(1550*s, 0), 4},
		{slowDown(520*s, 20), 4},
	} {
		t.Run(c.sc.Name, func(t *testing.T) {
			c.sc.Policy = sim.PerCall
			sum, _ := sim.Run(c.sc)
			equal(t, "evictions", sum.EvictionCount, 0)
			equal(t, "members removed", sum.RemovalCount, 0)
			equal(t, "rebalances after the first join", sum.Generation, 1)
			equal(t, "repeated calls", sum.Repeated(), 0)
			equal(t, "failed commits", sum.FailedCount, 0)
			if sum.NeverCommitted > c.late {
				t.Errorf("%d calls were made for records that are not committed, at most %d could be", sum.NeverCommitted, c.late)
			}
		})
	}
}
