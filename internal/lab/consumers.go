package lab

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/sim"
)

// consumers is the scenario for package sim. A seed above zero draws other
// starts, and other ids.
func (s *Scenario) consumers(seed uint64) sim.Consumers {
	pl := s.Plain
	c := sim.Consumers{
		Assignor: pl.Assignor, Session: s.Session, Heartbeat: s.Heartbeat, BrokerBeat: pl.BrokerBeat, MaxPoll: s.Settings.MaxPollInterval,
		MetadataAge: pl.MetadataAge, JoinDelay: s.JoinDelay, Partitions: s.Partitions, Feeds: s.Feeds, Growths: pl.Growths, Moves: pl.Moves,
		Loss: pl.Loss, LossFrom: s.Zero, NoCommits: pl.NoCommits, Seed: seed, For: s.Zero + s.For,
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for i, m := range s.Members {
		if seed > 0 && pl.Jitter > 0 && m.Start < s.Zero {
			m.Start += time.Duration(rng.Int64N(int64(pl.Jitter)))
		}
		c.Members = append(c.Members, sim.Consumer{Member: m, Instance: s.Threads[i], Protocol: pl.Protocols[i]})
	}
	return c
}

// predictConsumers runs a scenario of plain consumers in virtual time, as often
// as it says. The first run is the one that is drawn. Its length is that of the
// article: nothing of it is a machine's.
func predictConsumers(s *Scenario, scale int) *Facts {
	f := s.predictOnce(0, scale)
	if s.Plain.Draws < 2 {
		return f
	}
	drawn := map[string][]float64{}
	all := metrics()
	for seed := range s.Plain.Draws {
		one := s.predictOnce(uint64(seed+1), scale)
		for i := range all {
			if v, ok := all[i].Value(one); ok && len(v) == 1 {
				drawn[all[i].Name] = append(drawn[all[i].Name], v[0])
			}
		}
	}
	f.Bands = map[string][2]float64{}
	for name, list := range drawn {
		slices.Sort(list)
		if edge := len(list) / 40; list[edge] != list[len(list)-1-edge] {
			f.Bands[name] = [2]float64{list[edge], list[len(list)-1-edge]}
		}
		if _, byRule := f.Given[name]; !byRule || name == "stopped" {
			f.Given[name] = []float64{list[len(list)/2]}
		}
	}
	return f
}

func (s *Scenario) predictOnce(seed uint64, scale int) *Facts {
	out := sim.RunConsumers(s.consumers(seed))
	v := virtual{scale: 1, zero: s.Zero}
	f := newFacts(s, ColumnPredicted, scale)
	f.Policy = ColumnConsumers
	f.eventFacts(out.Events, func(e cause.Event) float64 { return v.at(time.Duration(e.At.UnixNano())) })
	for _, a := range out.Assigned {
		f.Owners = append(f.Owners, Owner{v.at(a.At), a.Member, a.Partitions})
	}
	stopped := 0
	for _, t := range out.Revoked {
		if v.at(t.At) >= 0 {
			stopped += t.Partitions
		}
	}
	f.Given["stopped"] = one(stopped)
	f.Commits = v.moments(out.Commits)
	f.Failed = len(v.moments(out.Refused))
	f.Records, f.Distinct, f.Committed = out.Consumed, out.Distinct, out.Committed
	for _, e := range s.ByRule {
		f.Given[e.Metric] = e.Values
	}
	f.Holds = consumerMetrics()
	return f
}

// consumerMetrics are what is known of plain consumers.
func consumerMetrics() []string {
	return []string{"generations", "first-rebalance", "expired", "expired-at", "moved", "stopped", "newcomer", "refused", "commits", "commit-gap-max", "records", "distinct", "repeated", "committed"}
}

// eventFacts are those of the coordinator of plain consumers.
func (f *Facts) eventFacts(events []cause.Event, when func(cause.Event) float64) {
	before := int32(0)
	for _, e := range events {
		at := when(e)
		if at < 0 {
			before = max(before, e.To)
			continue
		}
		if at > f.Length {
			continue
		}
		f.Rebalances = append(f.Rebalances, at)
		if e.Cause == cause.SessionClock && e.Confidence == cause.Stated {
			f.Expired = append(f.Expired, at) // rebalances that it began, as the recordings count them
		}
		f.Generations = max(f.Generations, int(e.To-before))
	}
}
