package predict

import (
	"fmt"
	"time"
)

// Shape is how the latency of a service goes over time.
type Shape int8

// The shapes. They are told apart because a thread that has learned a large N
// on fast calls is given time to unlearn it by a slow ramp, and none by a jump.
const (
	Fixed Shape = iota // always From
	Jump               // From until At, To from then on
	Ramp               // From until At, evenly to To during Over, To from then on
)

// String names the shape.
func (s Shape) String() string {
	switch s {
	case Fixed:
		return "fixed"
	case Jump:
		return "jump"
	case Ramp:
		return "ramp"
	}
	return fmt.Sprintf("shape(%d)", int8(s))
}

// MarshalText is the name of the shape.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Latency is how long a call takes, by the time at which it begins, counted
// from the beginning of the prediction.
type Latency struct {
	Shape    Shape
	From, To time.Duration
	At, Over time.Duration
}

// Always is a service that takes d.
func Always(d time.Duration) Latency { return Latency{From: d} }

// JumpTo is a service that takes from and, at a time, begins to take to.
func JumpTo(at, from, to time.Duration) Latency {
	return Latency{Shape: Jump, At: at, From: from, To: to}
}

// RampTo is a service that takes from, and gets to to during a time.
func RampTo(over, from, to time.Duration) Latency {
	return Latency{Shape: Ramp, From: from, To: to, Over: over}
}

// Of is the length of a call that begins at a time.
func (l Latency) Of(at time.Duration) time.Duration {
	switch {
	case l.Shape == Fixed || l.Shape == Jump && at < l.At || l.Shape == Ramp && at <= l.At:
		return l.From
	case l.Shape == Jump || at >= l.At+l.Over:
		return l.To
	}
	return l.From + time.Duration(float64(l.To-l.From)*float64(at-l.At)/float64(l.Over))
}

// Worst is the longest a call can take.
func (l Latency) Worst() time.Duration {
	switch {
	case l.Shape == Fixed:
		return l.From
	case l.Shape == Jump && l.At == 0:
		return l.To // there never was another; N may have been learned before
	}
	return max(l.From, l.To)
}

// String is the latency in a few words.
func (l Latency) String() string {
	switch l.Shape {
	case Jump:
		return fmt.Sprintf("%s, from %s on %s", l.From, l.At, l.To)
	case Ramp:
		return fmt.Sprintf("%s to %s in %s", l.From, l.To, l.Over)
	}
	return l.From.String()
}

// longer is the same latency with calls that take so many per cent longer.
func (l Latency) longer(percent int) Latency {
	l.From += l.From * time.Duration(percent) / 100
	l.To += l.To * time.Duration(percent) / 100
	return l
}

func (l Latency) check() error {
	if l.Shape < Fixed || l.Shape > Ramp {
		return fmt.Errorf("latency %s is unknown: fixed, jump or ramp", l.Shape)
	}
	if l.Shape == Ramp && l.Over == 0 {
		return fmt.Errorf("a ramp takes time: say how long, or make it a jump")
	}
	return nil
}
