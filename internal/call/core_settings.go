package call

import (
	"fmt"
	"math"
	"time"
)

// Order is the order of calls and results of one task.
type Order int

// The three orders. The values are those of the public Ordering.
const (
	// ByPartition: results leave in the order in which a partition's records
	// came; calls overlap.
	ByPartition Order = iota
	// ByKey: calls and results of one key follow each other.
	ByKey
	// Unordered: results leave when they are there.
	Unordered
)

// Settings bound one call. WithDefaults gives zero fields their meaning.
type Settings struct {
	Timeout    time.Duration // of one attempt
	Parallel   int           // in flight per task; 0 means 1
	Order      Order
	Attempts   int           // 0 means 1
	Backoff    time.Duration // before the second attempt, doubling; 0 means 100 ms
	MaxBackoff time.Duration // 0 means 30 s
	Budget     time.Duration // of all attempts and pauses; 0 means what they add up to
	Buffer     int           // records in the window, waiting and finished ones included, before it says Full; 0 means 4 x Parallel, at least 64
}

// Grace is how long after its time-out an attempt may still come back with an
// error of its own before it is given up.
const Grace = 250 * time.Millisecond

// WithDefaults answers the settings with zero fields filled.
func (s Settings) WithDefaults() Settings {
	s.Parallel = max(s.Parallel, 1)
	s.Attempts = max(s.Attempts, 1)
	if s.Backoff == 0 {
		s.Backoff = 100 * time.Millisecond
	}
	if s.MaxBackoff == 0 {
		s.MaxBackoff = 30 * time.Second
	}
	s.MaxBackoff = max(s.MaxBackoff, s.Backoff)
	if s.Buffer == 0 {
		s.Buffer = max(4*min(s.Parallel, math.MaxInt/8), 64)
	}
	s.Buffer = max(s.Buffer, s.Parallel)
	return s
}

// Pause is the pause before the given attempt (2 is the second), without the
// random part.
func (s Settings) Pause(attempt int) time.Duration {
	if attempt < 2 {
		return 0
	}
	d := s.Backoff
	for i := 2; i < attempt && d < s.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, s.MaxBackoff)
}

// Worst is the longest time that a record can spend in the call from its first
// attempt on: attempts x time-out plus the pauses between, capped by the
// budget. A Retry-After may lengthen a pause, but never beyond the budget, and
// without a budget never beyond this sum.
func (s Settings) Worst() time.Duration {
	s = s.WithDefaults()
	const far = time.Duration(math.MaxInt64)
	var sum time.Duration
	for i := 1; i <= s.Attempts; i++ {
		if sum > far-s.Timeout-s.Pause(i) || (s.Budget > 0 && sum >= s.Budget) {
			break
		}
		sum += s.Pause(i) + s.Timeout
	}
	if s.Budget > 0 {
		return min(sum, s.Budget)
	}
	return sum
}

// String shows the settings in one line.
func (s Settings) String() string {
	return fmt.Sprintf("timeout %s parallel %d order %d attempts %d backoff %s budget %s", s.Timeout, s.Parallel, s.Order, s.Attempts, s.Backoff, s.Budget)
}
