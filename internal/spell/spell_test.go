package spell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rondo-streams/rondo/internal/spell"
)

func TestNearest(t *testing.T) {
	known := []string{"max.poll.interval.ms", "max.poll.records", "session.timeout.ms", "acks", "band", "bend"}
	back := slices.Clone(known)
	slices.Reverse(back)
	for _, c := range []struct {
		word, best string
		meant      bool
	}{
		{"max.poll.interval", "max.poll.interval.ms", true},
		{"max.pol.records", "max.poll.records", true},
		{"sesion.timeout.ms", "session.timeout.ms", true},
		{"bnd", "band", true}, // as near as bend, and before it
		{"acks", "acks", true},
		{"", "acks", false},
		{strings.Repeat("x", 1<<20), "max.poll.interval.ms", false},
	} {
		for _, names := range [][]string{known, back} {
			best, meant := spell.Nearest(c.word, slices.Values(names))
			if best != c.best || meant != c.meant {
				t.Errorf("%.40q among %v: got %q, meant %v; want %q, %v", c.word, names, best, meant, c.best, c.meant)
			}
		}
	}
	if best, meant := spell.Nearest("acks", slices.Values([]string(nil))); best != "" || meant {
		t.Errorf("nothing is known, got %q, meant %v", best, meant)
	}
}
