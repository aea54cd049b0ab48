package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

const quick = `title Two calls
set max.poll.interval.ms=30000
feed total=2
service 4s
for 40s
measure streams42 percall
`

// TestRunKeepsAndGoesOn measures a scenario, finds it measured the next time,
// and measures again what is missing. The prediction is older than the run.
func TestRunKeepsAndGoesOn(t *testing.T) {
	t.Parallel()
	s, err := Parse("quick", []byte(quick))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var events []string
	o := Options{Scenarios: []*Scenario{s}, Scale: 20, Dir: dir, Jobs: 1, Progress: func(p Progress) { events = append(events, p.Event+" "+p.Policy) }}
	tables, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if f := tables[0].facts(ColumnPerCall, ""); f == nil || f.Distinct != 2 || len(f.Evicted) != 0 {
		t.Errorf("per call: %+v", f)
	}
	before, _, err := readSealed(filepath.Join(dir, "quick", "predicted.json"))
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := readSealed(filepath.Join(dir, "quick", "percall.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !before.Written.Before(after.Facts[0].At) {
		t.Errorf("predicted at %v, begun at %v", before.Written, after.Facts[0].At)
	}
	if err := os.Remove(filepath.Join(dir, "quick", "streams42.json")); err != nil {
		t.Fatal(err)
	}
	events = nil
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	want := []string{"found percall", "begins streams42", "ended streams42"}
	if len(events) != len(want) || events[0] != want[0] || events[1] != want[1] || events[2] != want[2] {
		t.Errorf("the second time: %q, want %q", events, want)
	}
}

// TestRunStops ends with its context, at once, and says so. Before that it says
// every so often how far it is.
func TestRunStops(t *testing.T) {
	t.Parallel()
	s, err := Parse("long", []byte("title Long\nfeed total=2\nservice 1h\nfor 2h\nmeasure percall\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(500*time.Millisecond, cancel)
	began := time.Now()
	words := 0
	_, err = Run(ctx, Options{Scenarios: []*Scenario{s}, Scale: 1, Dir: t.TempDir(), Every: 50 * time.Millisecond, Progress: func(p Progress) {
		if p.Event == "goes on" && p.Total == 1 && p.Left > time.Hour {
			words++
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if words == 0 {
		t.Error("not a word while it ran")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

// TestUnreachable names a broker that is not there.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s, err := Parse("quick", []byte(quick))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(context.Background(), Options{Scenarios: []*Scenario{s}, Dir: t.TempDir(), Bootstrap: "127.0.0.1:1"})
	var u *UnreachableError
	if !errors.As(err, &u) {
		t.Errorf("got %v", err)
	}
}

// TestSpread holds the feeds of measured runs against those of virtual time:
// the same records for the same partitions.
func TestSpread(t *testing.T) {
	f := sim.Feed{At: time.Second, Every: time.Second, Burst: 3, Total: 8, Partitions: []int{0, 2}}
	var got [3]int
	for _, a := range arrivals(f, 3) {
		got[a.partition]++
	}
	if got != [3]int{4, 0, 4} {
		t.Errorf("got %v", got)
	}
	if last := arrivals(f, 3)[7].at; last != 3*time.Second {
		t.Errorf("the last comes at %v", last)
	}
}
