package lab

import (
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
