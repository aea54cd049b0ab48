package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/cause"
)

// TestConsumersSettle: whatever comes, goes, grows and moves, some time later
// every partition has one owner that lives, and nothing was committed that
// nobody read.
func TestConsumersSettle(t *testing.T) {
	for seed := range uint64(80) {
		s := randomConsumers(seed)
		o := RunConsumers(s)
		owned := map[int][]int{}
		for _, a := range o.Assigned {
			owned[a.Member] = a.Partitions
		}
		who := map[int]int{}
		for m, parts := range owned {
			for _, p := range parts {
				if other, taken := who[p]; taken {
					t.Errorf("seed %d: partition %d belongs to %d and to %d", seed, p, other, m)
				}
				who[p] = m
			}
		}
		most := s.Partitions
		for _, g := range s.Growths {
			most = max(most, g.To)
		}
		if len(who) != most {
			t.Errorf("seed %d: %d of %d partitions have an owner: %+v\n%v", seed, len(who), most, s, o.Events)
		}
		if o.Committed > o.Distinct || o.Distinct > o.Consumed {
			t.Errorf("seed %d: read %d (%d different), committed %d", seed, o.Consumed, o.Distinct, o.Committed)
		}
		if len(o.Fatal) > 0 {
			t.Errorf("seed %d: gave up %v", seed, o.Fatal)
		}
		if again := RunConsumers(s); len(again.Events) != len(o.Events) || again.Consumed != o.Consumed {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// randomConsumers are up to six dynamic members of one protocol, of which the
// first stays. Everything has happened two minutes before the end.
func randomConsumers(seed uint64) Consumers {
	r := rand.New(rand.NewPCG(seed, 5))
	span := func(seconds int) time.Duration { return time.Duration(r.IntN(seconds*1000)) * time.Millisecond }
	p := Protocol(r.IntN(3))
	s := Consumers{Partitions: 1 + r.IntN(20), Seed: seed, MetadataAge: 10 * time.Second, Session: 20 * time.Second, JoinDelay: span(4), For: 240 * time.Second}
	if p == NextGen && r.IntN(2) == 0 {
		s.Assignor = "range"
	}
	for i := range 1 + r.IntN(6) {
		m := Consumer{Protocol: p, Member: Member{Start: span(20)}}
		if i > 0 && r.IntN(3) == 0 {
			m.Kill = 30*time.Second + span(60)
		}
		if i > 0 && r.IntN(3) == 0 {
			m.Close = 30*time.Second + span(60)
		}
		s.Members = append(s.Members, m)
	}
	s.Feeds = []Feed{{At: span(10), Every: 300 * time.Millisecond, Burst: 3, Total: 1500}}
	if r.IntN(2) == 0 {
		s.Growths = []Growth{{At: 25*time.Second + span(60), To: s.Partitions + r.IntN(5)}}
	}
	for range r.IntN(3) {
		s.Moves = append(s.Moves, 25*time.Second+span(60))
	}
	s.Load = span(3)
	return s
}

// TestConsumersRecorded holds single facts against runs of Kafka 4.2.0 that
// have no scenario of their own in the lab.
func TestConsumersRecorded(t *testing.T) {
	three := func(p Protocol, instances bool) (out []Consumer) {
		for i := range 3 {
			c := Consumer{Protocol: p, Member: Member{Start: time.Duration(i) * 50 * time.Millisecond}}
			if instances {
				c.Instance = fmt.Sprintf("i%d", i)
			}
			out = append(out, c)
		}
		return out
	}
	feeds := []Feed{{At: 5 * time.Second, Every: 500 * time.Millisecond, Burst: 6, Total: 6000}}
	causes := func(o Consumed, after time.Duration) (list []string) {
		for _, e := range o.Events {
			if at := e.At.Sub(epoch); at >= after {
				list = append(list, fmt.Sprintf("%s at %.0f s", e.Cause, at.Seconds()))
			}
		}
		return list
	}
	t.Run("01a-kill9-range", func(t *testing.T) {
		m := three(Range, false)
		m[1].Kill = 60 * time.Second
		o := RunConsumers(Consumers{Members: m, Partitions: 6, JoinDelay: 3 * time.Second, Feeds: feeds, For: 150 * time.Second})
		if got := causes(o, 20*time.Second); !slices.Equal(got, []string{cause.SessionClock.String() + " at 105 s"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("08b-duplicate-instance-range", func(t *testing.T) { // the newcomer wins, the older is fenced
		m := append(three(Range, true), Consumer{Instance: "i1", Member: Member{Start: 20 * time.Second}})
		o := RunConsumers(Consumers{Members: m, Partitions: 6, JoinDelay: 3 * time.Second, Feeds: feeds, For: 60 * time.Second})
		if got := causes(o, 15*time.Second); len(got) != 0 || len(o.Fatal) != 1 || o.Fatal[0].Member != 1 {
			t.Errorf("rebalances %q, gave up %v", got, o.Fatal)
		}
	})
	t.Run("08b-duplicate-instance-consumer", func(t *testing.T) { // the older wins
		m := append(three(NextGen, true), Consumer{Protocol: NextGen, Instance: "i1", Member: Member{Start: 20 * time.Second}})
		o := RunConsumers(Consumers{Members: m, Partitions: 6, Feeds: feeds, For: 60 * time.Second})
		if got := causes(o, 15*time.Second); len(got) != 0 || len(o.Fatal) != 1 || o.Fatal[0].Member != 3 {
			t.Errorf("rebalances %q, gave up %v", got, o.Fatal)
		}
	})
	t.Run("15b-static-close-range", func(t *testing.T) { // close() of a static member is noticed by the session clock
		m := three(Range, true)
		m[1].Close = 30 * time.Second
		o := RunConsumers(Consumers{Members: m, Partitions: 6, Session: 20 * time.Second, JoinDelay: 3 * time.Second, Feeds: feeds, For: 90 * time.Second})
		if got := causes(o, 15*time.Second); !slices.Equal(got, []string{cause.SessionClock.String() + " at 50 s"}) {
			t.Errorf("got %q", got)
		}
	})
}
