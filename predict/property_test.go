package predict

import (
	"flag"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondo-streams/rondo/internal/sim"
)

// TestMain makes rapid try a thousand settings where it would try a hundred.
// A hundred thousand: go test ./predict -run TestVerdictIsWhatTheLoopDoes
// -rapid.checks=100000.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestVerdictIsWhatTheLoopDoes holds the verdict of each rule against the run
// of the core that the rule is about: unsafe exactly when a lease is lost or a
// commit is refused in it.
func TestVerdictIsWhatTheLoopDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySettings(t)
		if s.Check() != nil {
			t.Skip("refused")
		}
		j := Evaluate(s)
		full := s.complete()
		for _, b := range j.Bounds {
			want := b.Verdict == Unsafe
			switch b.Rule {
			case RulePollClock: // the same run shows aborted transactions
				if x, ok := j.Of(RuleTransaction); ok && x.Verdict == Unsafe {
					want = true
				}
			case RuleRebalance: // by how much the newcomer is later than the call is not in the rule
				if d := b.Margin(); d > -100*time.Millisecond-full.hears() && d < 100*time.Millisecond || s.Arrival > 0 {
					continue
				}
			case RuleHandOver, RuleBacklog, RuleTimeouts, RuleBetween:
			default:
				continue
			}
			sc := full.counter(b)
			if lost, got := loss(sc); got != want {
				t.Fatalf("%+v\nrule %s says %v (worst %s, limit %s), the loop lost its lease: %v, after %s\n%s",
					full, b.Rule, b.Verdict, b.Worst, b.Limit, got, lost, drawn(sc))
			}
		}
	})
}

// TestSessionClockWhileJoining holds the rule of the session clock against two
// busy members and a newcomer, away from the limit: how far the polls of the
// members are apart, and which N they have when the newcomer comes, is not in
// the rule, which calls such settings tight.
func TestSessionClockWhileJoining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.IntRange(1, 4).Draw(t, "tasks")
		s := Settings{
			Tasks: 2 * tasks, Threads: 2, Queued: 1000,
			MaxPollInterval: between(t, "max.poll.interval.ms", 20*time.Second, 10*time.Minute),
			SessionTimeout:  between(t, "session.timeout.ms", 10*time.Second, 2*time.Minute),
		}
		s.Latency = Always(between(t, "call", 500*time.Millisecond, s.MaxPollInterval/2/time.Duration(tasks)))
		j := Evaluate(s)
		if poll, _ := j.Of(RulePollClock); poll.Verdict == Unsafe {
			t.Skip("lost without company")
		}
		b, _ := j.Of(RuleSessionJoin)
		full := s.complete()
		if b.Verdict == Tight || b.Verdict == Unsafe && full.atLeast() < b.Limit+3*s.Latency.From {
			t.Skip("depends on N, or on how far the polls are apart")
		}
		got := false
		var sc sim.Scenario
		for phase := range phases {
			sc = full.busyPair(b, phase)
			if got = expired(sc); got {
				break
			}
		}
		if got != (b.Verdict == Unsafe) {
			t.Fatalf("%+v\nthe rule says %v (worst %s, limit %s), removed by the session clock: %v\n%s", full, b.Verdict, b.Worst, b.Limit, got, drawn(sc))
		}
	})
}

// expired tells whether the session clock took a member in a run.
func expired(sc sim.Scenario) bool {
	sc.Trace, sc.StopAtLoss = true, true
	sum, _ := sim.Run(sc)
	return slices.ContainsFunc(sum.Removed, func(r sim.Removal) bool { return r.Why == sim.SessionClock })
}

func drawn(sc sim.Scenario) string {
	sc.Trace = true
	sum, trace := sim.Run(sc)
	return sim.Timeline(sc, sum, trace)
}

// between draws a time evenly over the orders of magnitude.
func between(t *rapid.T, name string, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	x := rapid.Float64Range(0, 1).Draw(t, name)
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), x)).Round(time.Millisecond)
}

// sometimes draws a value in one of n cases and leaves the zero value else.
func sometimes[T any](t *rapid.T, name string, n int, draw func() T) (v T) {
	if rapid.IntRange(1, n).Draw(t, name+"?") == 1 {
		v = draw()
	}
	return v
}

func anySettings(t *rapid.T) Settings {
	s := Settings{
		Kind:            rapid.SampledFrom([]Kind{KafkaStreams, KafkaStreams, KafkaStreams, KafkaStreams, JavaConsumer, Librdkafka, FranzGo, Sarama, KafkaJS, Rondo}).Draw(t, "kind"),
		Tasks:           rapid.IntRange(1, 8).Draw(t, "tasks"),
		MaxPollInterval: between(t, "max.poll.interval.ms", 10*time.Second, 10*time.Minute),
	}
	s.CommitInterval = sometimes(t, "commit.interval.ms", 2, func() time.Duration {
		return between(t, "commit.interval.ms", 100*time.Millisecond, 2*time.Minute)
	})
	call := between(t, "call", 50*time.Millisecond, s.MaxPollInterval+s.MaxPollInterval/4)
	switch rapid.IntRange(0, 3).Draw(t, "shape") {
	case 0, 1:
		s.Latency = Always(call)
	case 2:
		s.Latency = JumpTo(between(t, "at", time.Second, time.Minute), 0, call)
	case 3:
		s.Latency = RampTo(between(t, "over", time.Second, 5*time.Minute), 0, call)
	}
	s.Queued = sometimes(t, "queued", 2, func() int { return rapid.IntRange(1, 200).Draw(t, "queued") })
	s.Arrival = sometimes(t, "arrival", 3, func() float64 { return rapid.Float64Range(0.01, 2).Draw(t, "arrival") })
	s.N = sometimes(t, "n", 3, func() int { return rapid.IntRange(1, 150).Draw(t, "n") })
	s.MaxPollRecords = sometimes(t, "max.poll.records", 3, func() int { return rapid.IntRange(1, 100).Draw(t, "max.poll.records") })
	s.Call.Timeout = sometimes(t, "call.timeout", 4, func() time.Duration {
		return between(t, "call.timeout", time.Second, s.MaxPollInterval)
	})
	s.Call.Attempts = rapid.IntRange(1, 3).Draw(t, "attempts")
	switch s.Kind {
	case KafkaStreams:
		s.Protocol = sometimes(t, "group.protocol", 3, func() Protocol { return Streams })
	case JavaConsumer, Librdkafka, FranzGo:
		s.Protocol = sometimes(t, "group.protocol", 3, func() Protocol { return Consumer })
	}
	switch s.Kind {
	case KafkaStreams:
		s.HandOver = sometimes(t, "hand-over", 3, func() int { return rapid.IntRange(1, s.Tasks).Draw(t, "hand-over") })
		s.ExactlyOnce = sometimes(t, "exactly once", 5, func() bool { return true })
		s.TransactionTimeout = sometimes(t, "transaction.timeout.ms", 2, func() time.Duration {
			return between(t, "transaction.timeout.ms", 10*time.Second, 2*time.Minute)
		})
	case FranzGo, Sarama, KafkaJS, Rondo:
		s.Latency = Always(call)
	}
	return s
}
