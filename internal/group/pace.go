package group

import "time"

// How soon a member of the newer protocols comes again is in every answer to a
// heartbeat, and it decides how long a rebalance takes: whoever has to give
// something up hears of it at its next heartbeat, and whoever waits for that
// gets it at the one after. Kafka says 5 s to everybody.
//
// Where nobody has set the interval (group.consumer.heartbeat.interval.ms,
// group.streams.heartbeat.interval.ms, or the config of the group) it is chosen
// here, from how many members the broker hears: so that all of them together
// send a bounded number of heartbeats a second, and none comes later than
// Kafka's clients do. Where it is set it is what was set.
const (
	calmShare  = 600 * time.Microsecond // a member, while nothing moves: 1,667 heartbeats a second
	calmLeast  = 500 * time.Millisecond
	calmMost   = 5 * time.Second
	hurryShare = 250 * time.Microsecond // a member, while something moves: 4,000 a second
	hurryLeast = 100 * time.Millisecond

	// hurryFor is how long after the last of several changes of a group all of its
	// members hurry. Then only those do that wait for something.
	hurryFor = 10 * time.Second
	// crowdAge is how old the count of members may be.
	crowdAge = time.Second
)

// pace is how soon members come again.
type pace struct {
	calm, hurry time.Duration
	set         bool // by somebody: both are that, and nothing else differs from Kafka
}

// pace finds it for a group of so many members: from the config of the group,
// the setting of the broker (0: not set), or the number of members.
func (s *Shard) pace(group, config string, broker time.Duration, members int) pace {
	if d := s.groupDuration(group, config, broker); d > 0 {
		return pace{d, d, true}
	}
	n := time.Duration(max(members, s.Crowd()) + s.elsewhere)
	calm := min(max(n*calmShare, calmLeast), calmMost)
	return pace{calm: calm, hurry: min(max(n*hurryShare, hurryLeast), calm)}
}

// spread takes up to a tenth off an interval that nobody has set: members that
// came together are not to come together for ever.
func (s *Shard) spread(p pace, d time.Duration) time.Duration {
	if p.set {
		return d
	}
	return d - time.Duration(s.rng.Int64N(int64(d/10))).Truncate(time.Millisecond)
}

// Crowd counts the members of the newer protocols: those that came count at
// once, those that went after a second. The shell tells the other shards
// (Request.Elsewhere).
func (s *Shard) Crowd() int {
	if age := s.now.Sub(s.counted); age < 0 || age >= crowdAge {
		s.counted, s.crowd = s.now, 0
		for _, g := range s.groups {
			switch m := g.members.(type) {
			case *consumer:
				s.crowd += len(m.members)
			case *streams:
				s.crowd += len(m.members)
			}
		}
	}
	return s.crowd
}
