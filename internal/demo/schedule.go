package demo

import (
	"fmt"
	"time"

	"github.com/rondo-streams/rondo/internal/stub"
)

// full is the length of a run at which the settings are round numbers.
const full = 90 * time.Second

// Schedule is the timetable of a run and the settings that fit it. Make it
// with NewSchedule.
type Schedule struct {
	Length  time.Duration // of the timetable; a run ends when everything is committed
	Records int
	Feed    time.Duration // the records come in this time, evenly

	Fast, Slow            time.Duration // what the service takes
	SlowDown, SlowAt      time.Duration // it slows down between these times
	Recover               time.Duration // and is fast again from here
	Kill, Replace         time.Duration // one instance dies, and another one starts
	Poll, Commit, Session time.Duration // the clocks of both sides
	CallTimeout           time.Duration
	GiveUp                time.Duration // a side that is not done by now is stopped
}

// NewSchedule scales the timetable to a length. sessionMin is the shortest
// session clock that the broker allows.
func NewSchedule(length time.Duration, records int, sessionMin time.Duration) (Schedule, error) {
	if length < 10*time.Second || length > time.Hour {
		return Schedule{}, fmt.Errorf("a run of %s: want 10s to 1h", length)
	}
	if records < 1 || records > 1_000_000 {
		return Schedule{}, fmt.Errorf("%d records: want 1 to 1,000,000", records)
	}
	scale := float64(length) / float64(full)
	at := func(d time.Duration) time.Duration { return time.Duration(float64(d) * scale).Round(time.Millisecond) }
	s := Schedule{
		Length: length, Records: records, Feed: at(68 * time.Second),
		Fast: 20 * time.Millisecond, Slow: at(3 * time.Second),
		SlowDown: at(14 * time.Second), SlowAt: at(17 * time.Second), Recover: at(60 * time.Second),
		Kill: at(30 * time.Second),
		Poll: max(at(10*time.Second), pollMin), Commit: at(time.Second), Session: max(at(6*time.Second), sessionMin),
	}
	s.CallTimeout = s.Poll * 8 / 10
	// A supervisor that is in no hurry: the session clock fires first, so that
	// its rebalance and that of the newcomer can be told apart.
	s.Replace = s.Kill + s.Session + at(2*time.Second)
	s.Recover = max(s.Recover, s.Replace+at(5*time.Second))
	s.GiveUp = max(s.Length, s.Recover+at(45*time.Second))
	return s, nil
}

// pollMin is the shortest poll clock of a run: shorter ones would be lost to
// a machine that is busy with something else.
const pollMin = 3 * time.Second

// Service is how the service behaves at a time of the run.
func (s Schedule) Service(at time.Duration) stub.Settings {
	switch {
	case at < s.SlowDown || at >= s.Recover:
		return stub.Settings{Latency: stub.Duration(s.Fast)}
	case at < s.SlowAt:
		return stub.Settings{Latency: stub.Duration(s.Fast), Ramp: &stub.Ramp{To: stub.Duration(s.Slow), Over: stub.Duration(s.SlowAt - s.SlowDown)}}
	}
	return stub.Settings{Latency: stub.Duration(s.Slow)}
}

// Phase names what Service answers, so that it is set once.
func (s Schedule) Phase(at time.Duration) string {
	switch {
	case at < s.SlowDown:
		return "fast"
	case at < s.SlowAt:
		return "slowing down"
	case at < s.Recover:
		return "slow"
	}
	return "recovered"
}
