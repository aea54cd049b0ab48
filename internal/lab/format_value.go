package lab

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/spell"
)

// maxDuration bounds every duration of a scenario.
const maxDuration = 48 * time.Hour

func nonEmpty(t string) error {
	if t == "" {
		return errors.New("nothing follows")
	}
	return nil
}

func empty(t string) error {
	if t != "" {
		return fmt.Errorf("%q: nothing may follow", t)
	}
	return nil
}

func number(t string, low, high int, to *int) error {
	n, err := strconv.Atoi(t)
	if err != nil || n < low || n > high {
		return fmt.Errorf("%q: want a number from %d to %d", t, low, high)
	}
	*to = n
	return nil
}

func duration(t string, to *time.Duration) error {
	d, err := time.ParseDuration(t)
	if err != nil || d < 0 || d > maxDuration {
		return fmt.Errorf("%q: want a duration from 0 to 48h, such as 12s or 1.5s", t)
	}
	*to = d
	return nil
}

// millis reads Kafka's milliseconds.
func millis(name, t string, to *time.Duration) error { return millisFrom(0, name, t, to) }

// clock reads those of a clock, where none is the default.
func clock(name, t string, to *time.Duration) error { return millisFrom(1, name, t, to) }

func millisFrom(low int, name, t string, to *time.Duration) error {
	var ms int
	if err := number(t, low, int(maxDuration.Milliseconds()), &ms); err != nil {
		return named(name, err)
	}
	*to = time.Duration(ms) * time.Millisecond
	return nil
}

// named is an error with the name of what it is about.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func list(t string, to *[]int) error {
	for _, word := range strings.Split(t, ",") {
		var n int
		if err := number(word, 0, 999, &n); err != nil {
			return err
		}
		*to = append(*to, n)
	}
	return nil
}

// fields calls f for each NAME=VALUE, or NAME alone.
func fields(t string, f func(name, value string) error) error {
	seen := map[string]bool{}
	for _, word := range strings.Fields(t) {
		name, value, _ := strings.Cut(word, "=")
		if seen[name] {
			return fmt.Errorf("second %s", name)
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

// nearest is the key that was probably meant by a word.
func nearest[V any](word string, of map[string]V) string {
	best, _ := spell.Nearest(word, maps.Keys(of))
	return best
}
