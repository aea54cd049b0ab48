package stub

import (
	"hash/fnv"
	"math"
	"time"
)

// Kind is what a call gets.
type Kind int8

// The kinds of answer.
const (
	Answer  Kind = iota // a score
	Fail                // FailStatus
	Limit               // 429 with Retry-After
	Hang                // nothing, until the caller goes away
	Trickle             // a score, a byte at a time
)

// String is the kind as /stats spells it.
func (k Kind) String() string {
	return [...]string{"answer", "fail", "limit", "hang", "trickle"}[k]
}

// Planned is what one call gets.
type Planned struct {
	Kind   Kind
	Wait   time.Duration // before the first byte of the answer
	Status int
}

// Plan says what the nth call (from 0) with a key gets, age after the settings
// were made.
func Plan(s Settings, key string, nth int, age time.Duration) Planned {
	u := uniform(s.Seed, key, nth, 'k')
	switch {
	case u < s.Hang:
		return Planned{Kind: Hang}
	case u < s.Hang+s.Limit:
		return Planned{Kind: Limit, Status: 429}
	}
	p := Planned{Status: 200, Wait: latency(s, key, nth, age)}
	switch u -= s.Hang + s.Limit; {
	case u < s.Fail:
		p.Kind, p.Status = Fail, s.FailStatus
		if p.Status == 0 {
			p.Status = 500
		}
	case u < s.Fail+s.Trickle:
		p.Kind = Trickle
	}
	return p
}

func latency(s Settings, key string, nth int, age time.Duration) time.Duration {
	switch {
	case len(s.Tail) > 0:
		return quantile(s.Tail, uniform(s.Seed, key, nth, 'l'))
	case s.Ramp != nil:
		from, to := time.Duration(s.Latency), time.Duration(s.Ramp.To)
		if over := time.Duration(s.Ramp.Over); age < over {
			return from + time.Duration(float64(to-from)*float64(max(age, 0))/float64(over))
		}
		return to
	}
	return time.Duration(s.Latency)
}

// quantile reads a distribution at u. Below its first point and above its last
// one it is flat.
func quantile(points []Quantile, u float64) time.Duration {
	for i, p := range points {
		if u > p.Q {
			continue
		}
		if i == 0 {
			return time.Duration(p.At)
		}
		low := points[i-1]
		share := (u - low.Q) / (p.Q - low.Q)
		a, b := max(float64(low.At), 1), max(float64(p.At), 1)
		return time.Duration(a * math.Pow(b/a, share))
	}
	return time.Duration(points[len(points)-1].At)
}

// uniform draws a number in [0, 1) that depends on its arguments alone.
// purpose keeps the draws of one call apart.
func uniform(seed uint64, key string, nth int, purpose byte) float64 {
	h := fnv.New64a()
	var fixed [17]byte
	for i := range 8 {
		fixed[i], fixed[8+i] = byte(seed>>(8*i)), byte(uint64(nth)>>(8*i))
	}
	fixed[16] = purpose
	h.Write(fixed[:])
	h.Write([]byte(key))
	return float64(mix(h.Sum64())>>11) / (1 << 53)
}

// mix spreads the bits of a hash (the finalizer of SplitMix64): FNV alone
// leaves the high bits of short keys close together.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Score is the answer for a record.
type Score struct {
	Key      string  `json:"key"`
	Score    float64 `json:"score"`    // 0.0 to 10.0
	Severity string  `json:"severity"` // none, low, medium, high, critical
}

// ScoreOf scores a record by its bytes, with the severities of CVSS 3.
func ScoreOf(key string, record []byte) Score {
	h := fnv.New64a()
	h.Write(record)
	tenths := mix(h.Sum64()) % 101
	s := Score{Key: key, Score: float64(tenths) / 10, Severity: "critical"}
	switch {
	case tenths == 0:
		s.Severity = "none"
	case tenths < 40:
		s.Severity = "low"
	case tenths < 70:
		s.Severity = "medium"
	case tenths < 90:
		s.Severity = "high"
	}
	return s
}
