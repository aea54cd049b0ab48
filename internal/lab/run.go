package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what Run measures, and where its results go.
type Options struct {
	Scenarios []*Scenario
	Policies  []string // streams42, percall; default both; not with Java
	Scale     int      // 0: each scenario's own; 1: full length
	Bootstrap string   // another Kafka; "": an embedded broker, or with Java a Kafka 4.2.0
	Java      *Java    // measures Kafka Streams 4.2.0 (the policy kafka-streams) and nothing else
	Dir       string   // predictions and facts; what is there already is not measured again
	Again     bool     // measure what is there too
	Jobs      int      // runs at once, default 16
	Logger    *slog.Logger
	// Progress is told when something happens, and every so often when nothing
	// does; it must be quick.
	Progress func(Progress)
	Every    time.Duration // default a minute
}

// Progress is a state of the whole.
type Progress struct {
	Scenario string
	Policy   string
	Event    string // predicted, unmeasured, begins, goes on, ended, stopped, found, failed
	Detail   string
	Done     int
	Total    int
	Left     time.Duration // of the longest run in work
}

// sealed is a file of the directory.
type sealed struct {
	Written    time.Time `json:"written"`
	Scenario   string    `json:"scenario_sha256"`             // of the scenario's file
	Prediction string    `json:"prediction_sha256,omitempty"` // of the predictions that were made before
	Facts      []*Facts  `json:"facts"`
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// job is one trial to be made.
type job struct {
	s      *Scenario
	policy string
	scale  int
	path   string
	source string // hash of the scenario's file when it was predicted
	before string // hash of the prediction
}

// runner is one Run.
type runner struct {
	o        Options
	mu       sync.Mutex
	done     int
	total    int
	ends     map[*job]time.Time
	clusters map[needs]*cluster
}

// Run predicts, then measures, what of Options.Scenarios has not been, and
// answers a table a scenario. When ctx ends, what is finished has been kept.
func Run(ctx context.Context, o Options) (tables []*Table, err error) {
	if o.Jobs <= 0 {
		o.Jobs = 16
	}
	if o.Java != nil {
		o.Policies = []string{ColumnStreams}
	}
	if len(o.Policies) == 0 {
		o.Policies = []string{ColumnStreams42, ColumnPerCall, ColumnConsumers}
	}
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &runner{o: o, ends: map[*job]time.Time{}, clusters: map[needs]*cluster{}}
	defer func() {
		for _, c := range r.clusters {
			err = errors.Join(err, c.close())
		}
	}()
	if o.Java != nil {
		for _, s := range o.Scenarios {
			if err := s.OnStreams(); err != nil {
				return nil, fmt.Errorf("scenario %s does not run on Kafka Streams: %w", s.Name, err)
			}
		}
		if err := o.Java.prepare(ctx); err != nil {
			return nil, err
		}
	}
	jobs, err := r.predict()
	if err != nil {
		return nil, err
	}
	if err := r.measure(ctx, jobs); err != nil {
		return nil, err
	}
	return Tables(o.Dir, o.Scenarios)
}

// scaleOf is the scale of a scenario.
func (r *runner) scaleOf(s *Scenario) int {
	if len(s.Measured) == 0 {
		return 1 // nothing is measured beside it
	}
	if r.o.Scale > 0 {
		return r.o.Scale
	}
	if r.o.Java != nil {
		return min(s.Scale, streamsScale)
	}
	return s.Scale
}

// streamsScale is the largest scale on Kafka Streams unless one is asked for:
// its clocks are looked at every 100 ms, and its rejoins take as long.
const streamsScale = 10

// predict writes every prediction before anything runs.
func (r *runner) predict() ([]*job, error) {
	var jobs []*job
	for _, s := range r.o.Scenarios {
		scale := r.scaleOf(s)
		dir := filepath.Join(r.o.Dir, s.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, &DirError{err}
		}
		path := filepath.Join(dir, "predicted.json")
		old, before, err := readSealed(path)
		fresh := err != nil || !old.isOf(s, r.o.Dir) || len(old.Facts) == 0 || old.Facts[0].Scale != scale
		if fresh || r.o.Again {
			if err := os.WriteFile(filepath.Join(dir, sourceFile), s.Source, 0o644); err != nil {
				return nil, fmt.Errorf("keep the scenario: %w", err)
			}
			facts := Predictions(s, scale)
			old = &sealed{Scenario: hash(s.Source)}
			if before, err = writeSealed(path, sealed{Written: time.Now().UTC(), Scenario: hash(s.Source), Facts: facts}); err != nil {
				return nil, err
			}
			r.o.Progress(Progress{Scenario: s.Name, Event: "predicted", Detail: before[:16]})
		}
		if !slices.ContainsFunc(r.o.Policies, s.Measures) && r.o.Java == nil {
			r.o.Progress(Progress{Scenario: s.Name, Event: "unmeasured", Detail: strings.Join(s.Measured, ", ")})
		}
		for _, policy := range r.o.Policies {
			if policy != ColumnStreams && !s.Measures(policy) {
				continue
			}
			j := &job{s: s, policy: policy, scale: scale, path: filepath.Join(dir, policy+".json"), source: old.Scenario, before: before}
			if got, _, err := readSealed(j.path); err == nil && got.Prediction == before && !r.o.Again {
				r.o.Progress(Progress{Scenario: s.Name, Policy: policy, Event: "found"})
				continue
			}
			jobs = append(jobs, j)
		}
	}
	r.total = len(jobs)
	return jobs, nil
}

func readSealed(path string) (*sealed, string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	s := new(sealed)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	return s, hash(data), nil
}

// writeSealed writes a file whole or not at all, and answers its hash.
func writeSealed(path string, s sealed) (string, error) {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return hash(data), nil
}

// DirError is a directory that results cannot be kept in.
type DirError struct{ Err error }

func (e *DirError) Error() string { return fmt.Sprintf("make a directory for results: %v", e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

// measure runs the jobs side by side.
func (r *runner) measure(ctx context.Context, jobs []*job) error {
	for _, j := range jobs {
		need := j.s.Scaled(j.scale).needs()
		if r.clusters[need] == nil {
			c, err := r.open(ctx, need)
			if err != nil {
				return err
			}
			r.clusters[need] = c
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go r.goesOn(ctx)
	slots := make(chan struct{}, r.o.Jobs)
	var wg sync.WaitGroup
	errs := make(chan error, len(jobs))
	light, heavy := sortJobs(jobs)
	for i, j := range slices.Concat(light, heavy) {
		if i >= len(light) {
			wg.Wait() // a crowd of members would disturb the others' clocks
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			errs <- r.one(ctx, j)
		}()
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(all...)
}

// open is the Kafka for runs that need the same of it.
func (r *runner) open(ctx context.Context, need needs) (*cluster, error) {
	if r.o.Java != nil && r.o.Bootstrap == "" {
		return openKafka(ctx, r.o.Java, need.joinDelay)
	}
	return openCluster(ctx, r.o.Bootstrap, need, r.o.Logger)
}

// crowd is how many members make a run one that goes alone.
const crowd = 8

// sortJobs puts the longest first, and apart those that go alone.
func sortJobs(jobs []*job) (light, heavy []*job) {
	for _, j := range jobs {
		if len(j.s.Members) >= crowd {
			heavy = append(heavy, j)
		} else {
			light = append(light, j)
		}
	}
	slices.SortStableFunc(light, func(a, b *job) int { return cmp.Compare(b.length(), a.length()) })
	return light, heavy
}

func (j *job) length() time.Duration {
	s := j.s.Scaled(j.scale)
	return s.Zero + s.For
}

// one makes one trial and keeps what it found.
func (r *runner) one(ctx context.Context, j *job) error {
	r.note(j, "begins", j.length(), "")
	play := measure
	if j.policy == ColumnConsumers {
		play = measureConsumers
	}
	f, err := play(ctx, j.s, j.policy, j.scale, r.clusters[j.s.Scaled(j.scale).needs()], r.o.Java, r.o.Logger)
	if err == nil {
		_, err = writeSealed(j.path, sealed{Written: time.Now().UTC(), Scenario: j.source, Prediction: j.before, Facts: []*Facts{f}})
	}
	switch {
	case err != nil && ctx.Err() != nil:
		r.note(j, "stopped", 0, "")
		return err
	case err != nil:
		r.note(j, "failed", 0, err.Error())
		return err
	}
	r.note(j, "ended", 0, fmt.Sprintf("%d evictions, %d commits, %d results of %d records", len(f.Evicted), len(f.Commits), f.Records, f.Distinct))
	return nil
}

// goesOn tells how far things are when nothing else does: a run at full length
// is half an hour without a word.
func (r *runner) goesOn(ctx context.Context) {
	tick := time.NewTicker(r.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		if len(r.ends) > 0 && ctx.Err() == nil {
			r.o.Progress(Progress{Event: "goes on", Done: r.done, Total: r.total, Left: r.left()})
		}
		r.mu.Unlock()
	}
}

// left is how long the longest run in work goes on.
func (r *runner) left() time.Duration {
	left := time.Duration(0)
	for _, at := range r.ends {
		left = max(left, time.Until(at))
	}
	return left
}

// note tells how far things are.
func (r *runner) note(j *job, event string, length time.Duration, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if event == "begins" {
		r.ends[j] = time.Now().Add(length)
	} else {
		delete(r.ends, j)
		r.done++
	}
	r.o.Progress(Progress{Scenario: j.s.Name, Policy: j.policy, Event: event, Detail: detail, Done: r.done, Total: r.total, Left: r.left()})
}

// Tables reads what a directory holds. A scenario that was not predicted there
// is predicted now, at full length.
func Tables(dir string, scenarios []*Scenario) ([]*Table, error) {
	var out []*Table
	for _, s := range scenarios {
		facts, err := Recordings(s)
		if err != nil {
			return nil, err
		}
		predicted, _, err := readSealed(filepath.Join(dir, s.Name, "predicted.json"))
		switch {
		case err == nil && predicted.isOf(s, dir):
			if s.Plain == nil && len(predicted.Facts) > 0 && predicted.Facts[0].Scale > 1 {
				facts = append(facts, Predictions(s, 1)...)
			}
			facts = append(facts, predicted.Facts...)
		default:
			facts = append(facts, Predictions(s, 1)...)
		}
		for _, policy := range []string{ColumnStreams42, ColumnPerCall, ColumnStreams, ColumnConsumers} {
			got, _, err := readSealed(filepath.Join(dir, s.Name, policy+".json"))
			if err == nil && got.isOf(s, dir) {
				facts = append(facts, got.Facts...)
			} else if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		out = append(out, Compare(s, facts...))
	}
	return out, nil
}
