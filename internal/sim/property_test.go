package sim

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondo-streams/rondo/internal/loop"
)

// anyScenario draws a small world: up to three members that come and go, up to
// four tasks, calls of any length, hand-overs in any order.
func anyScenario(t *rapid.T) Scenario {
	ms := func(name string, least, most int) time.Duration {
		return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Millisecond
	}
	sc := Scenario{
		Trace:      true,
		Policy:     Policy(rapid.IntRange(0, 1).Draw(t, "policy")),
		Partitions: rapid.IntRange(1, 4).Draw(t, "partitions"),
		Settings: loop.Settings{
			MaxPollInterval: ms("max.poll.interval.ms", 10000, 300000),
			CommitInterval:  ms("commit.interval.ms", 100, 100000),
			MaxPollRecords:  rapid.IntRange(1, 100).Draw(t, "max.poll.records"),
			BufferedRecords: rapid.IntRange(1, 100).Draw(t, "buffered.records.per.partition"),
		},
		Movable:  rapid.Bool().Draw(t, "movable"),
		Parallel: rapid.IntRange(1, 4).Draw(t, "parallel"),
		Drain:    ms("drain", 0, 60000),
		For:      ms("for", 1000, 900000),
		Costs:    Costs{RoundTrip: ms("round trip", 1, 200)},
	}
	for range rapid.IntRange(1, 3).Draw(t, "members") {
		m := Member{Start: ms("start", 0, 100000)}
		switch rapid.IntRange(0, 3).Draw(t, "end") {
		case 0:
			m.Kill = m.Start + ms("kill", 1, 300000)
		case 1:
			m.Close = m.Start + ms("close", 1, 300000)
		}
		sc.Members = append(sc.Members, m)
	}
	for range rapid.IntRange(1, 3).Draw(t, "feeds") {
		sc.Feeds = append(sc.Feeds, Feed{
			At: ms("at", 0, 60000), Every: ms("every", 0, 1000), Burst: rapid.IntRange(1, 9).Draw(t, "burst"),
			Total: rapid.IntRange(0, 300).Draw(t, "total"),
		})
	}
	for range rapid.IntRange(0, 5).Draw(t, "hand-overs") {
		sc.HandOvers = append(sc.HandOvers, HandOver{Ready: [][]int{{rapid.IntRange(0, 3).Draw(t, "first")}}})
	}
	sc.Latency = Tail(rapid.Uint64().Draw(t, "seed"), ms("usual", 0, 5000), ms("slow", 0, 100000), 10)
	return sc
}

// TestEveryWorld checks what must be so in any world: one owner a partition,
// nothing committed that was not done, commits that never go back, no call of
// a record before its predecessors began.
func TestEveryWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { anyWorld(t, anyScenario(t)) })
}

// TestEveryNewerWorld checks the same under the protocols of KIP-848 and
// KIP-1071.
func TestEveryNewerWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := anyScenario(t)
		sc.Policy = Streams42
		sc.Group = GroupProtocol(rapid.IntRange(1, 2).Draw(t, "group.protocol"))
		sc.Notice = time.Duration(rapid.IntRange(0, 5000).Draw(t, "notice")) * time.Millisecond
		sc.NoPollClock = rapid.Bool().Draw(t, "no poll clock")
		for i := range sc.Members {
			sc.Members[i].Static = sc.Group == ConsumerGroup && rapid.Bool().Draw(t, "static")
		}
		anyWorld(t, sc)
	})
}

func anyWorld(t *rapid.T, sc Scenario) {
	sc = sc.withDefaults()
	w := newWorld(&sc)
	w.play()
	for p := range w.parts {
		log := &w.parts[p]
		if log.committed > log.endAt(sc.For) {
			t.Fatalf("partition %d: committed %d of %d", p, log.committed, log.endAt(sc.For))
		}
		for offset := range log.committed {
			if log.done[offset] == 0 && !w.struck[[2]int{p, offset}] { // a record that cost a lease may be set aside
				t.Fatalf("partition %d: committed %d, but record %d was not done", p, log.committed, offset)
			}
		}
	}
	oneOwner(t, &sc, w.trace)
	if sc.Policy == PerCall && w.sum.LostCount == 0 && w.sum.CutCalls == 0 && w.sum.Abandoned == 0 && w.sum.FailedCount == 0 && !killed(&sc) {
		if w.sum.Repeated() > 0 {
			t.Fatalf("%d calls repeated, and nobody lost anything", w.sum.Repeated())
		}
	}
	_ = Timeline(sc, w.sum, w.trace)
}

func killed(sc *Scenario) bool {
	for _, m := range sc.Members {
		if m.Kill > 0 && m.Kill <= sc.For {
			return true
		}
	}
	return false
}

// oneOwner checks that no partition is called for by two members that both
// are in the group. A stream thread that was evicted works on without knowing.
func oneOwner(t *rapid.T, sc *Scenario, trace []Event) {
	in := make([]bool, len(sc.Members))
	type key struct{ partition, member int }
	flying := map[key]int{}
	for _, e := range trace {
		k := key{e.Partition, e.Member}
		switch e.What {
		case Assign:
			in[e.Member] = true
		case Remove, Evicted, Fence, Die, Stop:
			in[e.Member] = false
		case CallEnd, CallCut:
			flying[k]--
		case CallBegin:
			flying[k]++
			for m := range sc.Members {
				if m != e.Member && in[m] && in[e.Member] && flying[key{e.Partition, m}] > 0 {
					t.Fatalf("at %v members %d and %d both work on partition %d", e.At, m, e.Member, e.Partition)
				}
			}
		}
	}
}

// TestSameSeedSameRun: a world has no luck but its seed's.
func TestSameSeedSameRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := anyScenario(t)
		fixed := rapid.IntRange(0, 60000).Draw(t, "call")
		sc.Latency = Fixed(time.Duration(fixed) * time.Millisecond)
		a, traceA := Run(sc)
		b, traceB := Run(sc)
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(traceA, traceB) {
			t.Fatal("two runs differ")
		}
	})
}

// TestPerCallNeverEvicted: with calls shorter than max.poll.interval.ms, no
// settings, joins or hand-overs cost a living member its lease.
func TestPerCallNeverEvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := anyScenario(t)
		sc.Policy = PerCall
		sc.Settings.MaxPollInterval = max(sc.Settings.MaxPollInterval, 101*time.Second)
		sum, _ := Run(sc)
		for _, r := range sum.Removed {
			if r.Why != Left && sc.Members[r.Member].Kill == 0 {
				t.Fatalf("member %d lost its lease at %v: %v", r.Member, r.At, r.Why)
			}
		}
	})
}
