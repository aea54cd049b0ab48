package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/predict"
)

// predictCmd judges settings. What flags leave out comes from --config, from
// the environment when asked for, or from a live group, in this order.
type predictCmd struct {
	Kind        string   `placeholder:"KIND" help:"Client: kafka-streams (default), java-consumer, librdkafka, franz-go, sarama, kafkajs or rondo."`
	Config      []string `short:"c" placeholder:"FILE" help:"Settings of the client: a .properties file, Spring's .yaml, variables in an .env file, or the JSON of a Rondo topology; may be repeated, later ones win."`
	Environment bool     `help:"Take settings from the environment too: MAX_POLL_INTERVAL_MS, with or without KAFKA_, KAFKA_STREAMS_, SPRING_KAFKA_PROPERTIES_ and the like in front."`
	Group       string   `placeholder:"GROUP" help:"Take members, partitions, time-outs, lag and rates from a live group."`
	clientFlags
	Sample time.Duration `default:"3s" help:"With --group: how long to watch offsets for the rates."`

	Call     string `placeholder:"DURATION" help:"How long a call takes (300ms, 12s, or milliseconds)."`
	Jump     string `placeholder:"DURATION" help:"The service jumps from --call to this ..."`
	JumpAt   string `placeholder:"DURATION" help:"... at this time; at once when left out."`
	Ramp     string `placeholder:"DURATION" help:"The service slows down from --call to this ..."`
	RampOver string `placeholder:"DURATION" help:"... evenly in this time, 5m when left out."`

	Tasks    string `placeholder:"N" help:"Tasks of the group: input partitions times subtopologies."`
	Threads  string `name:"num.stream.threads" aliases:"threads" placeholder:"N" help:"Members that share the tasks: threads times instances."`
	Queued   string `placeholder:"N" help:"Records of each task that wait at the beginning."`
	Arrival  string `placeholder:"N" help:"New records a second, over all tasks of a thread."`
	N        string `name:"n" placeholder:"N" help:"Kafka Streams: records of each task in a pass, learned before."`
	HandOver string `placeholder:"N" help:"Kafka Streams: tasks in the first poll after a rebalance; all numbers are tried when left out."`
	Overhead string `placeholder:"DURATION" help:"What a record takes beside its call."`

	MaxPollInterval    string `name:"max.poll.interval.ms" placeholder:"MS" help:"The poll clock; of clients without one, their rebalance timeout."`
	MaxPollRecords     string `name:"max.poll.records" placeholder:"N" help:"Records of one poll, or the batch that the application takes."`
	SessionTimeout     string `name:"session.timeout.ms" placeholder:"MS" help:"The session clock."`
	HeartbeatInterval  string `name:"heartbeat.interval.ms" placeholder:"MS" help:"Time between heartbeats."`
	CommitInterval     string `name:"commit.interval.ms" placeholder:"MS" help:"The commit clock."`
	Buffered           string `name:"buffered.records.per.partition" placeholder:"N" help:"Kafka Streams: a partition with more waiting is not fetched."`
	Guarantee          string `name:"processing.guarantee" placeholder:"NAME" help:"at_least_once or exactly_once_v2."`
	TransactionTimeout string `name:"transaction.timeout.ms" placeholder:"MS" help:"How long a transaction may be open."`
	Protocol           string `name:"group.protocol" placeholder:"NAME" help:"classic, consumer or streams."`
	Instance           string `name:"group.instance.id" placeholder:"ID" help:"Static membership."`
	Drain              string `name:"drain.timeout.ms" placeholder:"MS" help:"Rondo: how long calls may go on at a hand-over."`

	CallTimeout  string `placeholder:"DURATION" help:"Time-out of one attempt of a call, or none."`
	CallAttempts string `placeholder:"N" help:"Attempts of a call."`
	CallBackoff  string `placeholder:"DURATION" help:"Pause between attempts."`

	Sweep  string `placeholder:"NAME=FROM..TO" help:"Judge every value of a setting, as in --sweep max.poll.records=1..1000 or call=100..20000/100, and draw the safe region."`
	FailOn string `default:"never" enum:"never,unsafe,tight" help:"Exit with 3 when the verdict is this or worse (${enum})."`
	Output string `short:"o" default:"table" enum:"table,json" help:"Form of the answer (${enum})."`
	Rules  bool   `help:"Print the rules with their formulas and sources, and nothing else."`
}

// Run judges and prints.
func (c *predictCmd) Run(ctx context.Context, t *terminal) error {
	if c.Rules {
		return c.printRules(t)
	}
	var s predict.Settings
	assumed, err := c.gather(ctx, t, &s)
	if err != nil {
		return err
	}
	if c.Sweep != "" {
		return c.sweep(ctx, t, s)
	}
	report, err := unlessStopped(ctx, func() (*predict.Report, error) { return predict.Predict(s) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fail(exitUsage, errors.New(strings.TrimPrefix(err.Error(), "predict: ")), "rondo predict --tasks 3 --call 12s --max.poll.interval.ms 30000; --help lists the rest")
	}
	report.Assumed = append(assumed, report.Assumed...)
	if err := c.print(t, report, report.String()); err != nil {
		return err
	}
	return c.verdict(report.Verdict, "the smallest change is in the answer")
}

// unlessStopped waits for work that does not look at a context, or for the end
// of the context.
func unlessStopped[T any](ctx context.Context, work func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var result T
	var failed error
	go func() {
		defer close(done)
		result, failed = work()
	}()
	select {
	case <-done:
		return result, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (c *predictCmd) print(t *terminal, value any, table string) error {
	if c.Output == "table" {
		_, err := fmt.Fprint(t.out, table)
		return err
	}
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

func (c *predictCmd) verdict(v predict.Verdict, hint string) error {
	limit := map[string]predict.Verdict{"never": predict.Unsafe + 1, "unsafe": predict.Unsafe, "tight": predict.Tight}[c.FailOn]
	if v < limit {
		return nil
	}
	return fail(exitFindings, fmt.Errorf("verdict %s, --fail-on %s", v, c.FailOn), "%s", hint)
}

func (c *predictCmd) printRules(t *terminal) error {
	var b strings.Builder
	for _, r := range predict.Rules() {
		fmt.Fprintf(&b, "%s\n  %s\n  formula: %s\n  source:  %s\n", r.ID, r.Sentence, r.Formula, r.Source)
	}
	return c.print(t, predict.Rules(), b.String())
}

// gather fills settings from a live group, files, the environment and flags,
// each over the one before.
func (c *predictCmd) gather(ctx context.Context, t *terminal, s *predict.Settings) (assumed []string, err error) {
	for _, pair := range c.X {
		name, _, _ := strings.Cut(pair, "=")
		if c.Group != "" && !slices.Contains(predict.Names(), name) {
			continue // of the connection
		}
		if c.Group != "" {
			return nil, fail(exitUsage, fmt.Errorf("-X %s is not a setting of the connection to the group", pair), "--%s says what to judge", pair)
		}
		return nil, fail(exitUsage, fmt.Errorf("-X %s is for the connection to the cluster of --group, which is not given", pair),
			"what is to be judged is a flag, --max.poll.interval.ms 30000, or in a file, -c FILE")
	}
	if c.Group != "" {
		if assumed, err = c.fromGroup(ctx, t, s); err != nil {
			return nil, err
		}
	}
	for _, file := range c.Config {
		more, unused, err := readSettings(file, s)
		if err != nil {
			return nil, err
		}
		assumed = append(assumed, more...)
		if len(unused) > 0 {
			t.say("%s: no part in a prediction: %s", file, strings.Join(unused, ", "))
		}
	}
	if c.Environment {
		more, err := fromVariables(t.environ, s, c.Group == "" && len(c.Config) == 0)
		if err != nil {
			return nil, fail(exitUsage, fmt.Errorf("environment: %w", err), "leave --environment out to take nothing from it")
		}
		assumed = append(assumed, more...)
	}
	if c.Kind != "" {
		if s.Kind, err = predict.ParseKind(c.Kind); err != nil {
			return nil, fail(exitUsage, fmt.Errorf("--%w", err), "rondo predict --help")
		}
	}
	if err := c.latency(s); err != nil {
		return nil, fail(exitUsage, err, "a duration such as 300ms, 12s or 2m, or milliseconds")
	}
	return assumed, c.flags(s)
}

// flags are those that are a property each.
func (c *predictCmd) flags(s *predict.Settings) error {
	for _, f := range []struct{ name, value string }{
		{"tasks", c.Tasks}, {"num.stream.threads", c.Threads}, {"queued", c.Queued}, {"n", c.N},
		{"max.poll.interval.ms", c.MaxPollInterval}, {"max.poll.records", c.MaxPollRecords}, {"session.timeout.ms", c.SessionTimeout},
		{"heartbeat.interval.ms", c.HeartbeatInterval}, {"commit.interval.ms", c.CommitInterval}, {"buffered.records.per.partition", c.Buffered},
		{"processing.guarantee", c.Guarantee}, {"transaction.timeout.ms", c.TransactionTimeout}, {"group.protocol", c.Protocol},
		{"group.instance.id", c.Instance}, {"drain.timeout.ms", c.Drain}, {"call.timeout", c.CallTimeout}, {"call.attempts", c.CallAttempts},
		{"call.backoff", c.CallBackoff}, {"hand-over", c.HandOver}, {"overhead", c.Overhead}, {"arrival", c.Arrival},
	} {
		if f.value == "" {
			continue
		}
		if err := s.Set(f.name, f.value); err != nil {
			return fail(exitUsage, err, "rondo predict --help")
		}
	}
	return nil
}

func (c *predictCmd) latency(s *predict.Settings) error {
	times := map[string]time.Duration{}
	for name, value := range map[string]string{"--call": c.Call, "--jump": c.Jump, "--jump-at": c.JumpAt, "--ramp": c.Ramp, "--ramp-over": c.RampOver} {
		if value == "" {
			continue
		}
		d, err := predict.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, value, err)
		}
		times[name] = d
	}
	switch {
	case c.Jump != "" && c.Ramp != "":
		return errors.New("--jump and --ramp exclude each other")
	case c.Jump == "" && c.JumpAt != "":
		return errors.New("--jump-at says when, and --jump how slow the service is then: it is not given")
	case c.Ramp == "" && c.RampOver != "":
		return errors.New("--ramp-over says in what time, and --ramp how slow the service gets: it is not given")
	case c.Jump != "":
		s.Latency = predict.JumpTo(times["--jump-at"], times["--call"], times["--jump"])
	case c.Ramp != "":
		if c.RampOver == "" {
			times["--ramp-over"] = 5 * time.Minute
		}
		s.Latency = predict.RampTo(times["--ramp-over"], times["--call"], times["--ramp"])
	case c.Call != "":
		s.Latency = predict.Always(times["--call"])
	}
	return nil
}

// sweep reads NAME=FROM..TO or NAME=FROM..TO/STEP.
func (c *predictCmd) sweep(ctx context.Context, t *terminal, s predict.Settings) error {
	name, region, _ := strings.Cut(c.Sweep, "=")
	region, stepText, stepped := strings.Cut(region, "/")
	low, high, ok := strings.Cut(region, "..")
	from, err1 := strconv.ParseInt(low, 10, 64)
	to, err2 := strconv.ParseInt(high, 10, 64)
	step, err3 := int64(0), error(nil)
	if stepped {
		step, err3 = strconv.ParseInt(stepText, 10, 64)
	}
	if !ok || err1 != nil || err2 != nil || err3 != nil || name == "" {
		return fail(exitUsage, fmt.Errorf("--sweep %s: not NAME=FROM..TO", c.Sweep), "--sweep max.poll.records=1..1000, or call=100..20000/100 for steps of 100")
	}
	sweep, err := unlessStopped(ctx, func() (*predict.Sweep, error) { return s.Sweep(name, from, to, step) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fail(exitUsage, err, "--sweep max.poll.records=1..1000")
	}
	if err := c.print(t, sweep, sweep.String()); err != nil {
		return err
	}
	return c.verdict(sweep.Worst(), "of a sweep the worst value counts; the regions are in the answer")
}
