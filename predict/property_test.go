package predict

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

func TestProbe(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	bad := 0
	ev, n := 0, 0
	var tw, ts time.Duration
	for n < 3000 {
		s := random(rnd).WithDefaults()
		per := s.PerThread()
		k := 1 + rnd.IntN(per)
		until := s.horizon()
		a := time.Now()
		out := walk(&s, k, until)
		b := time.Now()
		sum, _ := sim.Run(s.scenario(k, until))
		tw += b.Sub(a)
		ts += time.Since(b)
		n++
		lost := out.lost()
		if lost {
			ev++
		}
		simlost := sum.EvictionCount > 0 || sum.FailedCount > 0
		if lost != simlost {
			bad++
			if bad < 5 {
				t.Errorf("%+v k=%d: walk %+v, sim %d evictions, longest %v", s, k, out, sum.EvictionCount, sum.LongestPoll)
			}
		}
	}
	t.Logf("%d, %d evicted, %d bad, walk %v sim %v", n, ev, bad, tw, ts)
}

func logUniform(rnd *rand.Rand, from, to time.Duration) time.Duration {
	x := float64(from)
	for r := rnd.Float64() * 64; r >= 1; r-- {
		x *= ratio(from, to)
	}
	return time.Duration(x)
}

func ratio(from, to time.Duration) float64 {
	// the 64th root
	x := float64(to) / float64(from)
	for range 6 {
		x = sqrt(x)
	}
	return x
}

func sqrt(x float64) float64 {
	z := x
	for range 40 {
		z = (z + x/z) / 2
	}
	return z
}

func random(rnd *rand.Rand) Settings {
	s := Settings{Tasks: 1 + rnd.IntN(6)}
	if rnd.IntN(4) == 0 {
		s.Kind = JavaConsumer
	}
	s.MaxPollInterval = logUniform(rnd, 10*time.Second, 10*time.Minute)
	s.CommitInterval = logUniform(rnd, 100*time.Millisecond, 2*time.Minute)
	if rnd.IntN(3) == 0 {
		s.CommitInterval = 0
	}
	call := logUniform(rnd, 50*time.Millisecond, s.MaxPollInterval)
	switch rnd.IntN(4) {
	case 0, 1:
		s.Latency = Always(call)
	case 2:
		s.Latency = JumpTo(logUniform(rnd, time.Second, time.Minute), 0, call)
	case 3:
		s.Latency = RampTo(logUniform(rnd, time.Second, 5*time.Minute), 0, call)
	}
	if rnd.IntN(2) == 0 {
		s.Queued = 1 + rnd.IntN(200)
	}
	if s.Queued == 0 || rnd.IntN(2) == 0 {
		s.Arrival = 0.01 + 3*rnd.Float64()*rnd.Float64()
	}
	if rnd.IntN(3) == 0 {
		s.N = 1 + rnd.IntN(150)
	}
	if rnd.IntN(3) == 0 {
		s.MaxPollRecords = 1 + rnd.IntN(100)
	}
	if s.Kind == KafkaStreams && rnd.IntN(5) == 0 {
		s.ExactlyOnce = true
		s.CommitInterval = 0
	}
	return s
}
