package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// TestRecordedStreamsAlone holds runs of one thread under group.protocol=streams
// against the model. Some end early: their client died at a poll after an
// eviction, of records that it had fetched and not yet given out.
func TestRecordedStreamsAlone(t *testing.T) {
	runs := readRuns(t)
	for name, until := range streamsAlone() {
		t.Run(name, func(t *testing.T) {
			r := runs[name]
			if until > 0 {
				r.For = until
				r.Passes = slices.DeleteFunc(r.Passes, func(p [5]any) bool { return p[1].(float64) > until })
			}
			sum, _ := Run(r.scenario())
			r.compare(t, &sum)
		})
	}
}

// streamsAlone are those runs and when their client died.
func streamsAlone() map[string]float64 {
	return map[string]float64{
		"ma1": 0, "ma2": 0, "mb1": 0, "mc1": 0,
		"mz1": 45.3, "mz2": 135.8, "mz3": 90.5, "ma-lone6": 196.1, "ma-lone6b": 41.3, "ma-lone6c": 41.3,
	}
}

// streamsTogether are recorded runs of two members under the streams protocol.
type streamsTogether struct {
	run  string
	sc   Scenario
	zero time.Duration
	by   float64
	heir float64 // when the second member had all partitions; 0: never
}

func runsStreamsTogether() []streamsTogether {
	two := func(partitions int, second, feed time.Duration, sc Scenario) Scenario {
		sc.Group, sc.Partitions = StreamsGroup, partitions
		sc.Members = append([]Member{{}}, Member{Start: second})
		for i := range sc.Feeds {
			sc.Feeds[i].At = feed
		}
		return sc
	}
	newcomer := two(2, 33200*time.Millisecond, 0, Scenario{
		Movable: true, Latency: Fixed(60 * second), Feeds: []Feed{{Total: 40}}, HandOvers: []HandOver{{Ready: [][]int{{1}}}},
	})
	survivor := two(2, 350*time.Millisecond, 15300*time.Millisecond, Scenario{
		Latency: Fixed(40 * second), Settings: loop.Settings{MaxPollInterval: 30 * second}, Feeds: []Feed{{Total: 10, Partitions: []int{0}}},
	})
	pair := two(6, second, 26100*time.Millisecond, Scenario{
		Latency: Fixed(12 * second), Settings: loop.Settings{MaxPollInterval: 30 * second}, Feeds: []Feed{{Total: 120}},
		HandOvers: []HandOver{{}, {}, {Ready: [][]int{{0}}}},
	})
	gone := func(m Member) Scenario { // the starts give their heartbeats the recorded phases
		sc := two(2, 2900*time.Millisecond, 20*second, Scenario{Latency: Fixed(second / 5), Feeds: []Feed{{Every: second / 2, Total: 2000}}})
		m.Start = 3500 * time.Millisecond
		sc.Members[0] = m
		return sc
	}
	return []streamsTogether{
		{"mj1", newcomer, 0, 0, 0},
		{"ma-surv", survivor, 15300 * time.Millisecond, 120, 30.3},
		{"ma-pair", pair, 26100 * time.Millisecond, 112, 0}, // then a tenth of a second decides
		{"u2-kill-s", gone(Member{Kill: 60 * second}), 60 * second, 0, 48.1},
		{"u2-stop-s", gone(Member{Kill: 60 * second}), 60 * second, 79, 43.7}, // until it is resumed
		{"u2-close-s", gone(Member{Close: 60 * second}), 60 * second, 0, 1.1},
		{"u2-closeleave-s", gone(Member{Close: 60 * second, Leaves: true}), 60 * second, 0, 1.7},
	}
}

// TestRecordedStreamsTogether compares evictions, commits that were taken and
// refused, and when an heir had its partitions, as far as heartbeats let it be
// known: they are 5 s apart.
func TestRecordedStreamsTogether(t *testing.T) {
	runs := readRuns(t)
	for _, c := range runsStreamsTogether() {
		t.Run(c.run, func(t *testing.T) {
			r := runs[c.run]
			r.warm = true
			if c.by > 0 {
				r.For = c.by
			}
			c.sc.Policy, c.sc.Trace, c.sc.For = Streams42, true, c.zero+seconds(r.For)
			sum, trace := Run(c.sc)
			r.pause = 2
			r.evictions(t, since(c.zero, sum.Evictions))
			r.pause = 5 // which heartbeat brings the tasks of another
			slices.Sort(r.Failed)
			r.moments(t, "refused", since(c.zero, sum.Failed), r.Failed)
			if c.run == "mj1" && (sum.Ended != r.Ended || sum.Distinct != r.Distinct || sum.Blocked > 0) {
				t.Errorf("%d records, %d different, %d commits held up; recorded %d, %d, 0", sum.Ended, sum.Distinct, sum.Blocked, r.Ended, r.Distinct)
			}
			heir := 0.0
			for _, a := range sum.Assigned {
				if a.Member == 1 && a.At >= c.zero && len(a.Partitions) == c.sc.Partitions && heir == 0 {
					heir = (a.At - c.zero).Seconds()
				}
			}
			if d := heir - c.heir; d < -5 || d > 5 || (heir == 0) != (c.heir == 0) {
				t.Errorf("the second member had all partitions at %.1f, recorded %.1f", heir, c.heir)
			}
			if t.Failed() {
				t.Log("\n" + Timeline(c.sc, sum, trace))
			}
		})
	}
}
