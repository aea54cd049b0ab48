package predict

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// Schema is the version of the JSON form of a Report. It grows when a field is
// removed or changes its meaning, not when one is added.
const Schema = 1

// Report is a prediction.
type Report struct {
	Judgement
	Settings Settings // complete, with defaults
	Changes  []Change // what makes it better, the smallest first
	Two      []Change // two that make it safe together, when none does alone
	Idle     []string // knobs with which nothing gets better
	Fastest  time.Duration
	Assumed  []string // what was taken for granted because nothing was said about it
	Shows    string   // the rule that the counter-example breaks, empty when there is none
	Example  string   // the counter-example: a timeline of the core's run
	Lost     time.Duration
	Notes    []string
}

// Predict checks settings, applies the rules, and, when the verdict is not
// safe, looks for changes and plays a counter-example.
func Predict(s Settings) (*Report, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	r := &Report{Judgement: Evaluate(s), Settings: s.complete()}
	r.assume(s)
	if r.Verdict == Unsafe {
		r.counterExample()
	}
	if r.Verdict > Safe {
		var l search
		r.Changes, r.Idle = l.changes(s, r.Judgement)
		if len(r.Changes) == 0 || r.Changes[0].Verdict > Safe {
			r.Two = l.pair(s)
		}
		r.Fastest = l.fastest(s)
		if l.over() {
			r.Notes = append(r.Notes, "the search for what makes it better was ended early: these settings make long runs")
		}
	}
	r.note()
	if list := s.withoutPart(); len(list) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("set, and without a part in this: %s", strings.Join(list, ", ")))
	}
	return r, nil
}

func (r *Report) assume(s Settings) {
	say := func(unset bool, format string, args ...any) {
		if unset {
			r.Assumed = append(r.Assumed, fmt.Sprintf(format, args...))
		}
	}
	d := &r.Settings
	say(s.Latency.Worst() == 0, "every call takes as long as its time-outs allow: %s", d.Latency.From)
	say(s.Queued == 0 && d.Queued > 0, "%d records of each task wait at the beginning", d.Queued)
	say(s.N == 0 && d.N > 1, "N had grown to %d while calls were fast: twice the passes in commit.interval.ms", d.N)
	say(s.N == 0 && d.N == 1 && d.Kind == KafkaStreams && s.Latency.Shape != Fixed, "a fresh thread, N=1: with records arriving before the slow-down N would be larger")
	say(s.MaxPollInterval == 0, "max.poll.interval.ms=%d, the default of %s", d.MaxPollInterval.Milliseconds(), d.Kind)
	say(s.SessionTimeout == 0, "session.timeout.ms=%d, the default", d.SessionTimeout.Milliseconds())
	say(s.MaxPollRecords == 0 && d.Kind != Rondo, "max.poll.records=%d, the default", d.MaxPollRecords)
	say(s.CommitInterval == 0 && d.Kind == KafkaStreams, "commit.interval.ms=%d, the default", d.CommitInterval.Milliseconds())
	say(s.Call.Timeout == 0, "every call returns: nothing was said about its time-out")
	say(s.Overhead == 0, "%s of a record beside its call", d.Overhead)
}

// withoutPart are the settings that were given and that no rule for this client
// looks at.
func (s *Settings) withoutPart() []string {
	var list []string
	say := func(ignored bool, name string) {
		if ignored {
			list = append(list, name)
		}
	}
	streams, rondo := s.Kind == KafkaStreams, s.Kind == Rondo
	say(s.N > 0 && !streams, "n")
	say(s.HandOver > 0 && !streams, "hand-over")
	say(s.BufferedRecords > 0 && !streams, "buffered.records.per.partition")
	say(s.MaxPollRecords > 0 && rondo, "max.poll.records")
	say(s.Queued > 0 && rondo, "queued")
	say(s.Arrival > 0 && rondo, "arrival")
	say(s.Drain > 0 && !rondo, "drain.timeout.ms")
	say(s.TransactionTimeout > 0 && !s.ExactlyOnce, "transaction.timeout.ms")
	return list
}

// note says what the rules do not.
func (r *Report) note() {
	s := &r.Settings
	if s.Call.Timeout <= 0 {
		r.Notes = append(r.Notes, "a call that never returns: "+s.Kind.Clocks(s.Protocol).Hung)
	}
	if s.Call.Timeout <= 0 && (s.Call.Attempts > 1 || s.Call.Backoff > 0) {
		r.Notes = append(r.Notes, "attempts and back-off had no part in this: they count with the time-out of an attempt, which is not given")
	}
	if worst := s.Call.Worst(); worst > 0 && s.Latency.Worst() > worst {
		r.Notes = append(r.Notes, fmt.Sprintf("calls of %s are longer than their time-outs allow (%s): every one of them fails", short(s.Latency.Worst()), short(worst)))
	}
	if r.Band {
		r.Notes = append(r.Notes, fmt.Sprintf("the band: a round of %s is between a third and a half of max.poll.interval.ms", r.Round))
	}
	if s.Protocol == Streams {
		r.Notes = append(r.Notes, "group.protocol=streams: the client looks at its poll clock when a heartbeat is due, so it may notice up to 5 s later than in a timeline; a late commit is taken while the group is empty, and refused while anybody is in it (recorded runs ma, mc)")
	}
	if s.Kind == KafkaJS && r.Shows == RuleBetween {
		r.Notes = append(r.Notes, "in the timeline E is the session clock: heartbeats are sent between messages only")
	}
}

// counterExample plays the first bound that is unsafe. A bound that no run of
// the core breaks is not called unsafe: the rule takes the worst of everything
// at once, which need not come together.
func (r *Report) counterExample() {
	r.Verdict = Safe
	for i := range r.Bounds {
		b := &r.Bounds[i]
		if b.Verdict == Unsafe && r.Shows == "" {
			sc, lost, ok := r.Settings.breaks(*b)
			if ok {
				sc.For, sc.Trace = lost+lost/4+time.Second, true
				sum, trace := sim.Run(sc)
				r.Shows, r.Lost, r.Example = b.Rule, lost, sim.Timeline(sc, sum, trace)
			} else {
				b.Verdict = Tight
				b.Note = "by the rule unsafe; no run of the core with these settings showed it"
			}
		}
		r.Verdict = max(r.Verdict, b.Verdict)
	}
}

// loss runs a scenario and tells when a member first lost its lease, or a
// commit was refused.
func loss(sc sim.Scenario) (time.Duration, bool) {
	sc.StopAtLoss, sc.Trace = true, false
	sum, _ := sim.Run(sc)
	return sum.FirstLoss, sum.FirstLoss > 0
}

// MarshalJSON is the report as docs/predict.md describes it: durations in
// milliseconds.
func (r *Report) MarshalJSON() ([]byte, error) {
	type bound struct {
		Rule    string  `json:"rule"`
		Verdict Verdict `json:"verdict"`
		Worst   *int64  `json:"worst_ms"`
		Limit   *int64  `json:"limit_ms"`
		Margin  *int64  `json:"margin_ms"`
		Note    string  `json:"note,omitempty"`
	}
	ms := func(d time.Duration) *int64 { n := d.Milliseconds(); return &n }
	bounds := make([]bound, 0, len(r.Bounds))
	rules := []Rule{}
	for _, b := range r.Bounds {
		o := bound{Rule: b.Rule, Verdict: b.Verdict, Note: b.Note}
		if !b.Unknown {
			o.Worst = ms(b.Worst)
		}
		if b.Limit > 0 {
			o.Limit = ms(b.Limit)
		}
		if o.Worst != nil && o.Limit != nil {
			o.Margin = ms(b.Margin())
		}
		bounds = append(bounds, o)
		for _, rule := range Rules() {
			if rule.ID == b.Rule {
				rules = append(rules, rule)
			}
		}
	}
	return json.Marshal(struct {
		Schema   int            `json:"schema"`
		Verdict  Verdict        `json:"verdict"`
		Kind     Kind           `json:"kind"`
		Protocol Protocol       `json:"group_protocol"`
		Round    int64          `json:"round_ms"`
		Pass     int64          `json:"longest_pass_ms"`
		MaxN     int            `json:"largest_n"`
		Band     bool           `json:"band"`
		Bounds   []bound        `json:"bounds"`
		Changes  []Change       `json:"changes"`
		Two      []Change       `json:"two_changes"`
		Idle     []string       `json:"knobs_that_do_nothing"`
		Fastest  int64          `json:"safe_call_ms"`
		Example  *exampleJSON   `json:"counter_example"`
		Assumed  []string       `json:"assumed"`
		Notes    []string       `json:"notes"`
		Settings map[string]any `json:"settings"`
		Rules    []Rule         `json:"rules"`
	}{Schema, r.Verdict, r.Settings.Kind, r.Settings.Protocol, r.Round.Milliseconds(), r.Pass.Milliseconds(), r.MaxN, r.Band,
		bounds, notNil(r.Changes), notNil(r.Two), notNil(r.Idle), r.Fastest.Milliseconds(), r.exampleJSON(), notNil(r.Assumed), notNil(r.Notes), r.Settings.named(), rules})
}

type exampleJSON struct {
	Rule     string `json:"rule"`
	Lost     int64  `json:"lost_ms"`
	Timeline string `json:"timeline"`
}

func (r *Report) exampleJSON() *exampleJSON {
	if r.Shows == "" {
		return nil
	}
	return &exampleJSON{r.Shows, r.Lost.Milliseconds(), r.Example}
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// named are the settings under Kafka's names where Kafka has them.
func (s *Settings) named() map[string]any {
	m := map[string]any{
		"tasks": s.Tasks, "num.stream.threads": s.Threads, "max.poll.records": s.MaxPollRecords, "buffered.records.per.partition": s.BufferedRecords,
		"queued": s.Queued, "n": s.N, "arrival_per_second": s.Arrival, "latency": s.Latency.String(), "exactly_once": s.ExactlyOnce, "static": s.Static,
		"call_attempts": s.Call.Attempts, "call_time_out_ms": s.Call.Timeout.Milliseconds(),
	}
	if s.Call.Timeout == NoTimeout {
		m["call_time_out_ms"] = "none"
	}
	for _, d := range s.durations() {
		if d.name != "latency" && d.name != "latency at" && d.name != "latency over" {
			m[d.name] = d.value.Milliseconds()
		}
	}
	return m
}
