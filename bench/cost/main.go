package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	exe := flag.String("rondo", "bin/rondo", "the command")
	script := flag.String("kafka", "", "peers/kafka.sh, to measure Apache Kafka beside it")
	secs := flag.Float64("secs", 3, "seconds a repetition of a cell")
	reps := flag.Int("reps", 3, "repetitions")
	warm := flag.Float64("warm", 30, "seconds of work before the measurement of a broker that compiles while it runs")
	only := flag.String("run", "", "only cells that match this regular expression")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rondo-cost-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	brokers := []*broker{rondo(*exe, filepath.Join(dir, "rondo"))}
	if *script != "" {
		brokers = append(brokers, kafka(*script, filepath.Join(dir, "kafka")))
	}
	for _, b := range brokers {
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			return err
		}
	}
	// Rondo once more, with Kafka's bargain: nothing waits for the disk.
	lazy := rondo(*exe, filepath.Join(dir, "rondo-never"), "--flush", "never")
	if err := os.MkdirAll(lazy.dir, 0o755); err != nil {
		return err
	}
	t := newTable(os.Stdout, brokers)
	defer func() {
		for _, b := range append(brokers, lazy) {
			if b.pid != 0 {
				err = errors.Join(err, b.stop())
			}
		}
	}()
	if err := measureStarts(ctx, t, brokers, *reps); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(cells(), func(c cell) bool { return !match.MatchString(c.name) })
	if err := warmUp(ctx, brokers, chosen, *warm); err != nil {
		return err
	}
	if err := lazy.start(); err != nil {
		return err
	}
	never := newTable(os.Stdout, append([]*broker{lazy}, brokers[1:]...))
	for _, c := range chosen {
		if err := measure(ctx, c, *secs, *reps, brokers, t, lazy, never); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a cell on one broker after the other, as often as asked for.
func measure(ctx context.Context, c cell, secs float64, reps int, brokers []*broker, t *table, lazy *broker, never *table) error {
	run := func(b *broker, rep int, tables ...*table) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := c.run(b, secs, rep)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", b.name, c.name, err)
		}
		for _, t := range tables {
			t.add(b, r)
		}
		return nil
	}
	for rep := range reps {
		for _, b := range brokers {
			if err := run(b, rep, t, never); err != nil {
				return err
			}
		}
		if c.lazy {
			if err := run(lazy, rep, never); err != nil {
				return err
			}
		}
	}
	t.print(c.name, c.columns)
	if c.lazy {
		never.print(c.name+", Rondo with --flush never", c.columns)
	}
	clear(never.readings)
	return nil
}

// warmUp lets a JVM compile what the cells will use.
func warmUp(ctx context.Context, brokers []*broker, all []cell, secs float64) error {
	for _, b := range brokers {
		for i, c := range all {
			if !b.compiles || secs <= 0 || ctx.Err() != nil {
				continue
			}
			if _, err := c.run(b, secs/float64(len(all)), -1-i); err != nil {
				return fmt.Errorf("warm up %s, %s: %w", b.name, c.name, err)
			}
		}
	}
	return ctx.Err()
}

// measureStarts leaves every broker running.
func measureStarts(ctx context.Context, t *table, brokers []*broker, reps int) error {
	for _, b := range brokers {
		for rep := range reps + 1 {
			if b.pid != 0 {
				if err := b.stop(); err != nil {
					return err
				}
				b.pid = 0
			}
			r, err := b.measureStart(ctx)
			if err != nil {
				return fmt.Errorf("start %s: %w", b.name, err)
			}
			if rep > 0 { // the first start also makes its directory
				t.add(b, r)
			}
		}
	}
	t.print("start on an empty log", []string{"first answer, ms", "CPU to the first answer, s", "idle memory, MB", "idle CPU, % of a core"})
	return nil
}

// A table collects the readings of one cell and prints them.
type table struct {
	w        io.Writer
	brokers  []*broker
	readings map[*broker][]reading
}

func newTable(w io.Writer, brokers []*broker) *table {
	return &table{w: w, brokers: brokers, readings: map[*broker][]reading{}}
}

func (t *table) add(b *broker, r reading) { t.readings[b] = append(t.readings[b], r) }

// print writes the rows of a cell and forgets its readings.
func (t *table) print(title string, columns []string) {
	fmt.Fprintf(t.w, "\n%s\n", title)
	for _, column := range columns {
		fmt.Fprintf(t.w, "  %-28s", strings.TrimSuffix(column, " +"))
		var medians []float64
		for _, b := range t.brokers {
			low, median, high := spread(t.readings[b], column)
			medians = append(medians, median)
			fmt.Fprintf(t.w, "  %s %9s (%s-%s)", b.name, number(median), number(low), number(high))
		}
		if len(medians) == 2 && medians[0] > 0 && medians[1] > 0 {
			ratio := medians[1] / medians[0]
			if strings.HasSuffix(column, "+") {
				ratio = 1 / ratio
			}
			fmt.Fprintf(t.w, "  %.1fx", ratio)
		}
		fmt.Fprintln(t.w)
	}
	clear(t.readings)
}

func spread(rs []reading, column string) (low, median, high float64) {
	var v []float64
	for _, r := range rs {
		v = append(v, r[column])
	}
	if len(v) == 0 {
		return 0, 0, 0
	}
	slices.Sort(v)
	return v[0], v[len(v)/2], v[len(v)-1]
}

func number(v float64) string {
	switch {
	case v >= 10000:
		return fmt.Sprintf("%.0fk", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
