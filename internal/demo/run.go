package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/cause"
)

// Options say what is run and where.
type Options struct {
	// Command starts an instance: the program and its arguments, to which the
	// instance is appended as JSON. The program calls Instance.Run.
	Command []string
	// Bootstrap is another cluster, host:port; "" starts the broker inside
	// this process.
	Bootstrap string
	// Dir keeps the embedded broker's log; "" is a temporary directory.
	Dir        string
	Length     time.Duration
	Records    int
	Partitions int32
	// Parallel is how many calls of one partition may be in flight.
	Parallel int
	// Alone leaves the streams side out.
	Alone bool
	// Talk takes the progress: redrawn in place when Redraw, lines otherwise.
	Talk   io.Writer
	Redraw bool
	Logger *slog.Logger
}

// Check says what is wrong with the options, without running anything.
func (o Options) Check() error {
	if o.Partitions < 1 || o.Parallel < 1 || len(o.Command) == 0 {
		return fmt.Errorf("%d partitions, %d calls of each in parallel, command %q: want at least 1 of each", o.Partitions, o.Parallel, o.Command)
	}
	_, err := NewSchedule(o.Length, o.Records, o.sessionMin())
	return err
}

// sessionMin is the shortest session clock of a run: on another cluster what
// brokers allow by default, on our own what a busy machine still keeps.
func (o Options) sessionMin() time.Duration {
	if o.Bootstrap != "" {
		return 6 * time.Second
	}
	return 2 * time.Second
}

// run is a run while it goes on.
type run struct {
	options  Options
	schedule Schedule
	cluster  *cluster
	input    string
	sides    []*side
	began    time.Time
	progress *progress
	fed      chan error
	sent     atomic.Int64
	ending   atomic.Bool // what follows is the shutdown
}

// Run runs the demonstration and answers what it showed. The error is one that
// kept it from ending; whether what it showed is good is in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	schedule, err := NewSchedule(o.Length, o.Records, o.sessionMin())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{options: o, schedule: schedule, progress: newProgress(o.Talk, o.Redraw), fed: make(chan error, 1)}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.watch(ctx); err != nil {
		return nil, err
	}
	return r.report(ctx)
}

// open starts everything: broker, topics, services, instances, records.
func (r *run) open(ctx context.Context) (err error) {
	o := r.options
	name := fmt.Sprintf("rondo-demo-%06x", rand.Uint32N(1<<24))
	r.input = name + "-advisories"
	r.began = time.Now()
	if r.cluster, err = openCluster(ctx, o.Bootstrap, o.Dir, o.sessionMin(), o.Logger, r.rebalanced); err != nil {
		return err
	}
	for _, side := range [][2]string{{"rondo", "percall"}, {"streams", "streams42"}} {
		if o.Alone && side[0] == "streams" {
			continue
		}
		s, err := newSide(ctx, side[0], side[1], name)
		if err != nil {
			return err
		}
		r.sides = append(r.sides, s)
		r.cluster.groups = append(r.cluster.groups, s.group)
	}
	topics := []string{r.input}
	for _, s := range r.sides {
		topics = append(topics, s.scores, s.dead)
	}
	if err := r.cluster.createTopics(ctx, o.Partitions, topics...); err != nil {
		return err
	}
	r.progress.event(0, "%d advisories, %d partitions, two instances a side, on %s", o.Records, o.Partitions, r.where())
	for _, s := range r.sides {
		for range 2 {
			if err := s.start(o, r.cluster, r.schedule, r.input); err != nil {
				return err
			}
		}
	}
	go func() { r.fed <- r.feed(ctx) }()
	return nil
}

// rebalanced says what happened, shorter than the broker's own line.
func (r *run) rebalanced(e cause.Event) {
	if r.ending.Load() {
		return
	}
	name := func(m cause.Member) string { return strings.TrimSuffix(m.ClientID, "-thread-1") }
	words := fmt.Sprintf("rebalance of %s to generation %d: %s", e.Group[strings.LastIndex(e.Group, "-")+1:], e.To, e.Cause)
	if e.Trigger.ID != "" {
		words += " of " + name(e.Trigger)
	}
	if e.Reason != "" {
		words += fmt.Sprintf(" (%s)", e.Reason)
	}
	for _, m := range e.HeldOpen {
		words += ", held open by " + name(m)
	}
	r.progress.event(r.elapsed(), "%s, took %.1f s", words, e.Took.Seconds())
}

func (r *run) where() string {
	if r.cluster.own != nil {
		return "the embedded broker at " + r.cluster.bootstrap + " (on disk)"
	}
	return "Kafka at " + r.cluster.bootstrap
}

// feed writes the records, evenly over the time of the schedule.
func (r *run) feed(ctx context.Context) error {
	advisories, err := Advisories(r.options.Records)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	for i, a := range advisories {
		due := r.began.Add(time.Duration(float64(i) / float64(len(advisories)) * float64(r.schedule.Feed)))
		select {
		case <-time.After(time.Until(due)):
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		value, err := json.Marshal(a)
		if err != nil {
			return err
		}
		// A record may be called for before its producer hears of it: the
		// ledger learns its place later, and needs it only at the end.
		r.cluster.client.Produce(ctx, &kgo.Record{Topic: r.input, Key: []byte(a.CVE), Value: value}, func(rec *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- fmt.Errorf("produce %s: %w", a.CVE, err):
				default:
				}
				return
			}
			for _, s := range r.sides {
				s.produced(Place{rec.Partition, rec.Offset}, a.CVE)
			}
			r.sent.Add(1)
		})
	}
	if err := r.cluster.client.Flush(ctx); err != nil {
		return fmt.Errorf("produce advisories: %w", err)
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// deed is something that the schedule does once.
type deed struct {
	at time.Duration
	do func() error
}

// deeds are the timetable as acts, in order.
func (r *run) deeds() []deed {
	var deeds []deed
	for _, at := range []time.Duration{0, r.schedule.SlowDown, r.schedule.SlowAt, r.schedule.Recover} {
		deeds = append(deeds, deed{at, func() error { return r.setServices(at) }})
	}
	for _, s := range r.sides {
		deeds = append(deeds, deed{r.schedule.Kill, func() error {
			name, err := s.kill()
			r.progress.event(r.elapsed(), "kill -9 %s; its session clock (%s) must free its partitions", name, r.schedule.Session)
			return err
		}}, deed{r.schedule.Replace, func() error {
			err := s.start(r.options, r.cluster, r.schedule, r.input)
			r.progress.event(r.elapsed(), "%s takes its place", s.instances[len(s.instances)-1].instance.Name)
			return err
		}})
	}
	slices.SortStableFunc(deeds, func(a, b deed) int { return int(a.at - b.at) })
	return deeds
}

func (r *run) setServices(at time.Duration) error {
	settings := r.schedule.Service(at)
	for _, s := range r.sides {
		if err := s.service.Set(settings); err != nil {
			return err
		}
	}
	words := time.Duration(settings.Latency).String()
	if settings.Ramp != nil {
		words += " growing to " + time.Duration(settings.Ramp.To).String()
	}
	r.progress.event(r.elapsed(), "the service answers in %s", words)
	return nil
}

func (r *run) elapsed() time.Duration { return time.Since(r.began) }

// watch does the deeds, looks at the commits and draws, until both sides are
// done or their time is over.
func (r *run) watch(ctx context.Context) error {
	deeds := r.deeds()
	looks := 0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for fed := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.fed:
			if err != nil {
				return err
			}
			fed = true
		case <-tick.C:
		}
		at := r.elapsed()
		for len(deeds) > 0 && deeds[0].at <= at {
			if err := deeds[0].do(); err != nil {
				return err
			}
			deeds = deeds[1:]
		}
		if looks++; looks%3 == 0 {
			if err := r.look(ctx, at); err != nil {
				return err
			}
		}
		r.progress.draw(at, func() []string { return r.picture(at) })
		allDone := fed && len(deeds) == 0 && !slices.ContainsFunc(r.sides, func(s *side) bool { return !s.isDone() })
		if allDone || at > r.schedule.GiveUp {
			return nil
		}
	}
}

// look asks for the commits of every side and whether its processes live.
func (r *run) look(ctx context.Context, at time.Duration) error {
	for _, s := range r.sides {
		if err := s.broken(); err != nil {
			return err
		}
		if err := s.look(ctx, r.cluster, r.input, r.options.Records, at); err != nil {
			return err
		}
	}
	return nil
}

// close stops what runs and removes what was made; it can be called at any
// point.
func (r *run) close(ctx context.Context) error {
	r.ending.Store(true)
	var errs []error
	for _, s := range r.sides {
		if err := s.stop(r.schedule.Poll + 5*time.Second); err != nil && ctx.Err() == nil {
			errs = append(errs, err)
		}
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.close(ctx))
	}
	r.progress.end()
	return errors.Join(errs...)
}
