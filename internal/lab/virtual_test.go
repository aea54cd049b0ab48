package lab

import (
	"math"
	"testing"
)

// TestVirtual runs every scenario in virtual time under both loops and holds
// the predictions against the articles' numbers and the recordings. What
// differs has to have a rule in the scenario's file.
func TestVirtual(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Errorf("%d scenarios, want 40 at least", len(all))
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			facts, err := Recordings(s)
			if err != nil {
				t.Fatal(err)
			}
			facts = append(facts, Predictions(s, 1)...)
			table := Compare(s, facts...)
			for _, d := range table.Differences() {
				t.Error(d)
			}
			t.Logf("%s\n%s", s.Title, table.Text())
		})
	}
}

// TestRulesAreNarrow: what a rule explains of a measurement is one metric, up to
// a size or in one direction. Whatever else differs is shown as such.
func TestRulesAreNarrow(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, b := range s.Because {
			for _, sc := range b.Metrics {
				wide := math.IsInf(sc.Up, 1) && math.IsInf(sc.Down, 1) && sc.Length < 0
				if b.Column == "any" || sc.Metric == "any" || wide && b.Column != ColumnRecorded {
					t.Errorf("%s:%d: because %s %s explains everything", s.Name, b.Line, b.Column, sc.Metric)
				}
			}
		}
	}
}
