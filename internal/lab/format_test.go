package lab

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/internal/sim"
)

// TestFormat goes through what the format of scenarios refuses, and draws what
// it accepts.
func TestFormat(t *testing.T) {
	datadriven.RunTest(t, "testdata/format.txt", func(t *testing.T, d *datadriven.TestData) string {
		s, err := Parse("x.txt", []byte(d.Input))
		if err != nil {
			return err.Error() + "\n"
		}
		switch d.Cmd {
		case "parse":
			return fmt.Sprintf("%s: %d partitions, %d members, zero %s, for %s\n", s.Title, s.Partitions, len(s.Members), s.Zero, s.For)
		case "sketch":
			var b strings.Builder
			for _, f := range Predictions(s, 1) {
				b.WriteString(Sketch(f))
			}
			return b.String()
		case "svg":
			return Timeline(Compare(s, Predict(s, sim.Streams42, 1)))
		case "curves":
			return Curves(Compare(s, Predict(s, sim.Streams42, 1)))
		case "table":
			return Compare(s, Predictions(s, 1)...).Text()
		case "scaled":
			k := s.Scaled(10)
			return fmt.Sprintf("%s of %s, poll clock %s, service %v, feeds %v\n", k.For, s.For, k.Settings.MaxPollInterval, k.Service, k.Feeds)
		}
		return "unknown command " + d.Cmd
	})
}

// FuzzParse: nothing that is read as a scenario makes the lab fail, or run
// without bounds.
func FuzzParse(f *testing.F) {
	all, err := All()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range append(all[:8:8], all[len(all)-8:]...) {
		f.Add(s.Source)
	}
	f.Add([]byte("title x\nfor 1s\nhang 0/0\nwarm n=2 waiting=1\nhandover 0 settle=1s\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f", text)
		if err != nil {
			var at *FormatError
			if !errors.As(err, &at) || at.Line < 1 {
				t.Fatalf("%v: no line", err)
			}
			return
		}
		total := 0
		for _, feed := range s.feeds() {
			total += feed.Total
		}
		if total > 5000 || s.For.Seconds() > 600 || len(s.Members) > 20 {
			return
		}
		k := s.Scaled(7)
		if k.For > s.For {
			t.Fatalf("scaled to %s from %s", k.For, s.For)
		}
		if s.Plain != nil {
			s.Plain.Draws = min(s.Plain.Draws, 3)
		}
		Sketch(Predictions(s, 1)[0])
	})
}
