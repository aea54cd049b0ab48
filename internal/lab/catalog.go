package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed scenarios/*.txt
var files embed.FS

//go:embed recorded.jsonl
var recordings []byte

// All are the scenarios of the binary, in the order of their places.
func All() ([]*Scenario, error) {
	entries, err := files.ReadDir("scenarios")
	if err != nil {
		return nil, fmt.Errorf("read scenarios: %w", err)
	}
	var out []*Scenario
	var errs []error
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("scenarios", e.Name()))
		if err == nil {
			var s *Scenario
			s, err = Parse(strings.TrimSuffix(e.Name(), ".txt"), text)
			out = append(out, s)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b *Scenario) int { return cmp.Compare(a.Place, b.Place) })
	return out, nil
}

// UnknownError is a scenario that is not there.
type UnknownError struct{ Name, Near string }

func (e *UnknownError) Error() string { return fmt.Sprintf("no scenario %q", e.Name) }

// Hint says which is near.
func (e *UnknownError) Hint() string {
	return fmt.Sprintf("did you mean %s? rondo lab list shows all; a file is given with its ending, as in ./mine.txt", e.Near)
}

// TwiceError is a name that two different scenarios have: their results would be
// kept in one place.
type TwiceError struct{ Name string }

func (e *TwiceError) Error() string {
	return fmt.Sprintf("two different scenarios are called %s", e.Name)
}

// Hint says what to do.
func (e *TwiceError) Hint() string {
	return "a file's name is its scenario's: rename one, or run them apart with a --dir each"
}

// Find answers the scenarios of names: one of the binary, a file (anything with
// a slash or an ending), a prefix that ends with *, or a group: first,
// unmeasured, second, ci, all.
func Find(names ...string) ([]*Scenario, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	var out []*Scenario
	seen := map[string]*Scenario{}
	add := func(s *Scenario) error {
		if before := seen[s.Name]; before != nil && !bytes.Equal(before.Source, s.Source) {
			return &TwiceError{s.Name}
		} else if before == nil {
			seen[s.Name] = s
			out = append(out, s)
		}
		return nil
	}
	for _, name := range names {
		found := false
		for _, s := range all {
			if s.is(name) {
				found = true
				if err := add(s); err != nil {
					return nil, err
				}
			}
		}
		if !found && strings.ContainsAny(name, "/\\.") {
			s, err := load(name)
			if err != nil {
				return nil, err
			}
			if err := add(s); err != nil {
				return nil, err
			}
			continue
		}
		if !found {
			byName := map[string]bool{}
			for _, s := range all {
				byName[s.Name] = true
			}
			return nil, &UnknownError{name, nearest(name, byName)}
		}
	}
	return out, nil
}

func (s *Scenario) is(name string) bool {
	prefix, wild := strings.CutSuffix(name, "*")
	return s.Name == name || s.Of == name || name == "all" || name == "ci" && s.CI || wild && strings.HasPrefix(s.Name, prefix)
}

// load reads a scenario from a path.
func load(name string) (*Scenario, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	base := filepath.Base(name)
	s, err := Parse(name, text)
	if err != nil {
		return nil, err
	}
	s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	return s, nil
}

// Recordings are the recorded runs of a scenario.
func Recordings(s *Scenario) ([]*Facts, error) {
	var out []*Facts
	lines := bufio.NewScanner(bytes.NewReader(recordings))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := &Facts{Column: ColumnRecorded, Scenario: s.Name}
		if err := json.Unmarshal(lines.Bytes(), f); err != nil {
			return nil, fmt.Errorf("read recorded.jsonl: %w", err)
		}
		for i, run := range s.Runs {
			if f.Run == run {
				f.Column, f.Scenario = ColumnRecorded, s.Name
				for len(out) <= i {
					out = append(out, nil)
				}
				out[i] = f
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read recorded.jsonl: %w", err)
	}
	for i, run := range s.Runs {
		if i >= len(out) || out[i] == nil {
			return nil, fmt.Errorf("scenario %s: no recording %q", s.Name, run)
		}
	}
	return out, nil
}
