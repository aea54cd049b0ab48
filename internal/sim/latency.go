package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Forever is the latency of a call that never returns.
const Forever = time.Duration(math.MaxInt64)

// Call is one request to the service.
type Call struct {
	Partition int
	Offset    int
	Attempt   int // 1 for the first call of this record, 2 when it is repeated, ...
	At        time.Duration
}

// Latency gives the length of a call. It is asked once a call, when the call
// begins, in order of time.
type Latency func(Call) time.Duration

// Fixed is a service that always takes d.
func Fixed(d time.Duration) Latency { return func(Call) time.Duration { return d } }

// Jump is a service that takes before until at, and after from then on.
func Jump(at, before, after time.Duration) Latency {
	return func(c Call) time.Duration {
		if c.At < at {
			return before
		}
		return after
	}
}

// Ramp is a service that takes from until at, changes evenly over a time, and
// takes to afterwards.
func Ramp(at, over, from, to time.Duration) Latency {
	return func(c Call) time.Duration {
		switch {
		case c.At <= at:
			return from
		case c.At >= at+over:
			return to
		}
		return from + time.Duration(float64(to-from)*float64(c.At-at)/float64(over))
	}
}

// Tail is a service that takes usual, and in one call of oneIn, chosen by the
// seed, takes slow.
func Tail(seed uint64, usual, slow time.Duration, oneIn int) Latency {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(Call) time.Duration {
		if rnd.IntN(oneIn) == 0 {
			return slow
		}
		return usual
	}
}

// Hang is a service like usual, but the call for one record never returns.
func Hang(partition, offset int, usual Latency) Latency {
	return func(c Call) time.Duration {
		if c.Partition == partition && c.Offset == offset {
			return Forever
		}
		return usual(c)
	}
}
