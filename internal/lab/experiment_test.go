package lab

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRulesMayChange: a better rule for a difference does not throw away what
// was measured, another call does.
func TestRulesMayChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(text string) []string {
		t.Helper()
		s, err := Parse("quick", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		o := Options{Scenarios: []*Scenario{s}, Policies: []string{ColumnPerCall}, Scale: 40, Dir: dir, Progress: func(p Progress) { events = append(events, p.Event) }}
		tables, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if tables[0].facts(ColumnPerCall, "") == nil {
			t.Error("what was measured is not in the table")
		}
		return events
	}
	if got, want := run(quick), []string{"predicted", "begins", "ended"}; !slices.Equal(got, want) {
		t.Errorf("at first %q, want %q", got, want)
	}
	again := "# a remark\n" + quick + "because percall records  Why.\nclaim Something else.\n"
	if got, want := run(again), []string{"found"}; !slices.Equal(got, want) {
		t.Errorf("with another rule %q, want %q", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "quick", "percall.json")); err != nil {
		t.Fatal(err)
	}
	if got, want := run(again), []string{"begins", "ended"}; !slices.Equal(got, want) {
		t.Errorf("what was missing under the other rule: %q, want %q", got, want)
	}
	if got, want := run(strings.Replace(again, "service 4s", "service 5s", 1)), []string{"predicted", "begins", "ended"}; !slices.Equal(got, want) {
		t.Errorf("with another call %q, want %q", got, want)
	}
}
