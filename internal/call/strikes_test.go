package call

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNote(t *testing.T) {
	for _, c := range []struct {
		strikes []Strike
		note    string
	}{
		{nil, ""},
		{[]Strike{{41, "model", 1}}, "rondo held 41 call:model 1"},
		{[]Strike{{47, "", 2}, {41, "ask, then wait", 1}}, "rondo held 41 call:ask%2C%20then%20wait 1, 47 code 2"},
		{[]Strike{{0, "code", 1}}, "rondo held 0 call:code 1"},
	} {
		if note := Note(c.strikes); note != c.note {
			t.Errorf("Note(%v) = %q, want %q", c.strikes, note, c.note)
		}
		back, err := ParseNote(c.note)
		if err != nil || len(back) != len(c.strikes) {
			t.Errorf("ParseNote(%q) = %v, %v", c.note, back, err)
		}
		for _, s := range c.strikes {
			if !slices.Contains(back, s) {
				t.Errorf("ParseNote(%q) has no %v", c.note, s)
			}
		}
	}
	for _, other := range []string{"", "committed by hand", "AgAAAZqT"} {
		if s, err := ParseNote(other); s != nil || err != nil {
			t.Errorf("ParseNote(%q) = %v, %v: it is somebody else's", other, s, err)
		}
	}
	for _, bad := range []string{"rondo held ", "rondo held 41", "rondo held x code 1", "rondo held -1 code 1", "rondo held 1 code 0", "rondo held 1 model 1", "rondo held 1 call: 1", "rondo held 1 call:%zz 1", "rondo held 1 code 1,2 code 1", "rondo held " + strings.Repeat("1 code 1, ", 300)} {
		if s, err := ParseNote(bad); err == nil {
			t.Errorf("ParseNote(%.40q) = %v, want an error", bad, s)
		}
	}
}

// TestNoteIsBounded: what does not fit is left out, whole, from the top.
func TestNoteIsBounded(t *testing.T) {
	var many []Strike
	for i := range 1000 {
		many = append(many, Strike{int64(999 - i), "model", 1})
	}
	many = append(many, Strike{5, strings.Repeat("long ", 1000), 1})
	note := Note(many)
	back, err := ParseNote(note)
	if err != nil || len(note) > noteMax || len(note) < noteMax-50 {
		t.Fatalf("a note of %d bytes: %v", len(note), err)
	}
	for i, s := range back {
		if s != (Strike{int64(i), "model", 1}) {
			t.Fatalf("entry %d is %v", i, s)
		}
	}
}

// FuzzNote: whatever somebody has committed, reading it is safe, and what was
// read reads the same when it is written again.
func FuzzNote(f *testing.F) {
	for _, s := range []string{"", "rondo held 41 call:model 1", "rondo held 41 call:ask%2C%20then%20wait 1, 47 code 2", "rondo held 1 code 01", "rondo held  "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		strikes, err := ParseNote(metadata)
		if err != nil || len(strikes) == 0 {
			return
		}
		note := Note(strikes)
		again, err := ParseNote(note)
		if err != nil || len(metadata) <= noteMax/4 && fmt.Sprint(len(again)) != fmt.Sprint(len(strikes)) {
			t.Fatalf("%q became %q: %v, %v", metadata, note, again, err)
		}
	})
}
