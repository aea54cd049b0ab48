package predict

import (
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/sim"
)

// scenario is the run of the core that a rule is about: one thread with its
// share of the tasks, from its start.
func (s *Settings) scenario(handOver int, until time.Duration) sim.Scenario {
	sc := sim.Scenario{
		Policy:     sim.Streams42,
		Partitions: s.PerThread(),
		For:        until,
		Session:    s.SessionTimeout,
		Heartbeat:  s.HeartbeatInterval,
		Costs:      sim.Costs{Record: s.Overhead},
		Latency:    func(c sim.Call) time.Duration { return s.Latency.Of(c.At) },
		Settings: loop.Settings{
			MaxPollInterval: s.MaxPollInterval, CommitInterval: s.CommitInterval, MaxPollRecords: s.MaxPollRecords,
			BufferedRecords: s.BufferedRecords, FirstN: s.N, Whole: s.Kind != KafkaStreams,
		},
	}
	if s.ExactlyOnce {
		sc.Transaction = s.TransactionTimeout
	}
	if handOver < sc.Partitions {
		var first []int
		for p := range handOver {
			first = append(first, p)
		}
		sc.HandOvers = []sim.HandOver{{Ready: [][]int{first}}}
	}
	sc.Feeds = s.feeds(until)
	return sc
}

// feeds are the records of a scenario: what waits, and what arrives until the
// end of it.
func (s *Settings) feeds(until time.Duration) []sim.Feed {
	var feeds []sim.Feed
	if s.Queued > 0 {
		feeds = append(feeds, sim.Feed{Total: s.Queued * s.PerThread()})
	}
	if s.Arrival > 0 {
		every := time.Duration(float64(time.Second) / s.Arrival)
		feeds = append(feeds, sim.Feed{Every: every, Total: int(until/every) + 1})
	}
	return feeds
}
