package predict

import (
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/sim"
)

// group is the protocol by which the core plays the group.
func (s *Settings) group() sim.GroupProtocol {
	switch s.Protocol {
	case Consumer:
		return sim.ConsumerGroup
	case Streams:
		return sim.StreamsGroup
	}
	return sim.ClassicGroup
}

// hears is how long a member may not know that it has something to give up:
// until its next heartbeat, under the newer protocols, where its rebalance
// timeout begins then.
func (s *Settings) hears() time.Duration {
	if s.Protocol == Classic {
		return 0
	}
	return s.HeartbeatInterval
}

// maxCalls bounds a run of the core, and the records that are fed to it one by
// one. A loss that comes later is not shown, and so not called unsafe.
const maxCalls = 1 << 21

// scenario is the run of the core that a rule is about: one thread with its
// share of the tasks, from its start.
func (s *Settings) scenario(handOver int, until time.Duration) sim.Scenario {
	sc := sim.Scenario{
		Policy:     sim.Streams42,
		Group:      s.group(),
		Partitions: s.PerThread(),
		For:        until,
		AtMost:     maxCalls,
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
		feeds = append(feeds, sim.Feed{Every: every, Total: min(int(until/every)+1, maxCalls)})
	}
	return feeds
}

// threeMembers is the run of the core in which the session clock takes the lease
// of a member that waits for another: two members with their share of tasks,
// both busy, the second a while behind the first, and a newcomer.
func (s *Settings) threeMembers(behind, newcomer, until time.Duration) sim.Scenario {
	sc := s.scenario(s.PerThread(), until)
	per := s.PerThread()
	sc.Partitions = 2 * per
	sc.Movable = true
	sc.JoinDelay = time.Second
	begin := 5 * time.Second
	sc.Members = []sim.Member{{}, {}, {Start: begin + newcomer}}
	sc.Feeds = nil
	var first, second []int
	for p := range per {
		first, second = append(first, p), append(second, per+p)
	}
	for _, f := range []struct {
		at   time.Duration
		list []int
	}{{begin, first}, {begin + behind, second}} {
		if s.Queued > 0 {
			sc.Feeds = append(sc.Feeds, sim.Feed{At: f.at, Total: s.Queued * per, Partitions: f.list})
		}
		if s.Arrival > 0 {
			every := time.Duration(float64(time.Second) / s.Arrival)
			sc.Feeds = append(sc.Feeds, sim.Feed{At: f.at, Every: every, Total: min(int((until-f.at)/every)+1, maxCalls), Partitions: f.list})
		}
	}
	return sc
}

// counter is the scenario in which a bound is broken.
func (s *Settings) counter(b Bound) sim.Scenario {
	if b.queued > 0 {
		deep := *s
		deep.Queued = b.queued
		s = &deep
	}
	until := s.horizon()
	first := b.handOver
	if first == 0 {
		first = s.PerThread()
	}
	switch b.Rule {
	case RuleTimeouts:
		down := *s
		down.Latency = Always(s.Call.Worst())
		return down.scenario(first, until)
	case RuleNoTimeout:
		sc := s.scenario(first, until)
		sc.Latency = sim.Hang(0, 0, sc.Latency)
		return s.withoutPollClock(sc)
	case RuleSessionJoin:
		return s.busyPair(b, 0)
	case RuleBetween:
		between := *s
		between.MaxPollInterval, between.MaxPollRecords = s.SessionTimeout, 1 // the loop's poll stands for the heartbeat
		return between.scenario(first, until)
	case RuleRebalance:
		return s.withoutPollClock(s.scenario(first, s.MaxPollInterval+2*time.Second+s.hears())) // one rebalance
	}
	if s.Kind == Rondo {
		sc := s.scenario(first, until)
		sc.Policy = sim.PerCall
		sc.Drain = s.Drain
		if w := s.Call.Worst(); w > 0 {
			sc.Latency = sim.Fixed(w)
		}
		return sc
	}
	return s.scenario(first, until)
}

// phases are how far the second of two busy members is behind the first, in
// hundredths of a call. When their polls fall together nothing is lost.
var phases = [...]time.Duration{37, 71, 11, 153}

// busyPair is the run with one of the phases.
func (s *Settings) busyPair(b Bound, phase int) sim.Scenario {
	gap := min(b.Worst, s.horizon())
	behind := max(500*time.Millisecond, (s.Latency.Worst()+s.Overhead)*phases[phase]/100)
	return s.threeMembers(behind, behind+gap/10+time.Second, 3*gap+s.SessionTimeout+time.Minute)
}

// breaks finds the run in which a bound is broken, and when.
func (s *Settings) breaks(b Bound) (sc sim.Scenario, lost time.Duration, ok bool) {
	if b.Rule != RuleSessionJoin {
		sc = s.counter(b)
		lost, ok = loss(sc)
		return sc, lost, ok
	}
	for phase := range phases {
		sc = s.busyPair(b, phase)
		if lost, ok = loss(sc); ok {
			return sc, lost, true
		}
	}
	return sc, 0, false
}

// withoutPollClock gives a client that has none a second member that joins
// while the first is at work: what a hung or slow handler costs there.
func (s *Settings) withoutPollClock(sc sim.Scenario) sim.Scenario {
	if s.Kind == Rondo {
		sc.Policy, sc.Drain = sim.PerCall, s.Drain
	}
	if !s.Kind.Clocks(s.Protocol).PollClock {
		sc.NoPollClock = true
		sc.Movable = s.Protocol != Classic                                       // what the newcomer is to have is ours
		sc.Session = maxDuration                                                 // these read the answer to a join apart from the handler
		sc.Members = []sim.Member{{}, {Start: s.begins() + 10*time.Millisecond}} // just after the first record has begun
	}
	return sc
}
