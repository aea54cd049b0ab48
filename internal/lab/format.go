package lab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// A scenario is a text file of directives, one a line: a word, then its
// arguments. A line that begins with # is a remark. Durations are Go's ("12s",
// "1.5s", "5m"), lists are separated by commas.
//
//	title TEXT                  what it is, in one line
//	of first|unmeasured|second|own
//	place N                     where it stands in lists and reports
//	claim TEXT                  what the article says, in other words; may be repeated
//	set NAME=VALUE ...          max.poll.interval.ms, commit.interval.ms, max.poll.records,
//	                            session.timeout.ms, heartbeat.interval.ms,
//	                            group.initial.rebalance.delay.ms, rebalance.protocol=eager,
//	                            processing.guarantee, transaction.timeout.ms
//	partitions N
//	member [N] [at=D] [kill=D] [close=D] [static=ID] [leaves]     N of them
//	feed total=N [at=D] [every=D] [burst=N] [to=P,P,...]
//	service D [at=D] [over=D]   latency from a time on; over: in a straight line
//	hang P/N                    the call for record N of partition P never returns
//	warm n=N waiting=N [hold=D] a thread that got to N on fast records; zero is when the held call ends
//	handover P,P ... [settle=D] Streams loop: tasks that are ready before the first poll of an
//	                            assignment, the second ...; one line an assignment; "all" is all
//	movable                     a task moves to a newcomer though its owner could have kept it
//	cost NAME=D ...             roundtrip, start, settle, record, commit
//	parallel N, call-timeout D, drain D                           percall
//	zero D                      times are shown since then, default 0
//	for D                       length of the run from zero on
//	scale N                     what --scaled divides by, default 10
//	ci                          one of --set ci
//	measure streams42|percall|kafka-streams|consumers ...
//	consumers range|cooperative|consumer                          members are plain consumers (plain.go)
//	predict METRIC V,V,...      a prediction by a rule, where no core makes it
//	article METRIC [~]V,V,...   the article's numbers; ~: rounded there
//	recorded RUN                a run of recorded.jsonl
//	recorded METRIC V,V,...     numbers of another recording
//	because COLUMN METRIC,... TEXT  the rule by which a column differs (because.go)
//	show METRIC ...             rows that the table has in any case
//	rule TEXT                   the mechanism

// maxFile bounds a scenario file.
const maxFile = 1 << 20

// FormatError is a line that cannot be read.
type FormatError struct {
	Name string
	Line int
	Err  error
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *FormatError) Hint() string {
	return "rondo lab show gap-72 --source prints a scenario that can be read; docs/lab/README.md lists the directives"
}

// parser reads one file.
type parser struct {
	s    *Scenario
	line int
	seen map[string]int

	protocols []string // of the members, where a line says one
}

// once are the directives that a file may have one of.
func once() []string {
	return []string{"title", "of", "place", "partitions", "hang", "warm", "movable", "parallel", "call-timeout", "drain", "zero", "for", "scale", "ci", "measure", "consumers", "lose", "commits", "draws"}
}

// Parse reads a scenario. Errors are *FormatError, all of them joined.
func Parse(name string, text []byte) (*Scenario, error) {
	if len(text) > maxFile {
		return nil, &FormatError{name, 1, fmt.Errorf("%d bytes are more than %d", len(text), maxFile)}
	}
	p := &parser{s: &Scenario{Name: name, Of: Own, Scale: 10, Partitions: 1, Source: text}, seen: map[string]int{}}
	var errs []error
	for raw := range bytes.Lines(text) {
		p.line++
		line := strings.TrimSpace(string(raw))
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if err := p.directive(word, strings.TrimSpace(rest)); err != nil {
			errs = append(errs, &FormatError{name, p.line, err})
		}
	}
	if len(errs) == 0 {
		if err := p.check(); err != nil {
			errs = append(errs, &FormatError{name, max(p.line, 1), err})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p.s, nil
}

// directives are what a word does.
func (p *parser) directives() map[string]func(string) error {
	s := p.s
	return map[string]func(string) error{
		"title": func(t string) error { s.Title = t; return nonEmpty(t) },
		"of":    p.of, "claim": func(t string) error { s.Claims = append(s.Claims, t); return nonEmpty(t) },
		"place": func(t string) error { return number(t, 0, 10_000, &s.Place) },
		"set":   p.set, "partitions": func(t string) error { return number(t, 1, 1000, &s.Partitions) },
		"member": p.member, "feed": p.feed, "service": p.service, "hang": p.hang, "warm": p.warm,
		"handover": p.handover, "movable": func(t string) error { s.Movable = true; return empty(t) }, "cost": p.cost,
		"parallel":     func(t string) error { return number(t, 1, 1000, &s.Parallel) },
		"call-timeout": func(t string) error { return duration(t, &s.CallTimeout) },
		"drain":        func(t string) error { return duration(t, &s.Drain) },
		"zero":         func(t string) error { return duration(t, &s.Zero) },
		"for":          func(t string) error { return duration(t, &s.For) },
		"scale":        func(t string) error { return number(t, 1, 1000, &s.Scale) },
		"ci":           func(t string) error { s.CI = true; return empty(t) },
		"measure":      p.measure,
		"predict":      func(t string) error { return p.expect(t, &s.ByRule) },
		"article":      func(t string) error { return p.expect(t, &s.Article) },
		"recorded":     p.recorded, "because": p.because,
		"show":      p.show,
		"consumers": p.consumers, "grow": p.grow, "topic": p.topic, "move": p.move,
		"lose": p.lose, "commits": p.commits, "draws": p.draws,
		"rule": func(t string) error { s.Rules = append(s.Rules, t); return nonEmpty(t) },
	}
}

func (p *parser) directive(word, rest string) error {
	all := p.directives()
	do, ok := all[word]
	if !ok {
		return fmt.Errorf("unknown directive %q, did you mean %q?", word, nearest(word, all))
	}
	if before := p.seen[word]; before > 0 && slices.Contains(once(), word) {
		return fmt.Errorf("second %s, the first is in line %d", word, before)
	}
	p.seen[word] = p.line
	if err := do(rest); err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	return nil
}

// check holds directives against each other, and completes them.
func (p *parser) check() error {
	s := p.s
	if s.Title == "" {
		return errors.New("no title")
	}
	if s.For <= 0 {
		return errors.New("no length: for 300s")
	}
	for _, d := range []time.Duration{s.Settings.MaxPollInterval, s.Session, s.Heartbeat, s.Settings.CommitInterval} {
		if d > 0 && s.For/d > 1_000_000 {
			return fmt.Errorf("for %s with a clock of %s: more than a million of them", s.For, d)
		}
	}
	if s.Warm.N > 0 {
		if s.Zero > 0 {
			return errors.New("warm and zero exclude each other: warm says where zero is")
		}
		s.Zero = 60700*time.Millisecond + s.Warm.Hold
	}
	if len(s.Members) == 0 {
		s.Members, s.Threads, p.protocols = []sim.Member{{}}, []string{""}, []string{""}
	}
	if !slices.IsSortedFunc(s.Service, func(a, b Step) int { return int(a.At - b.At) }) {
		return errors.New("service: the steps are not in order of time")
	}
	for _, f := range s.Feeds {
		for _, to := range f.Partitions {
			if to >= s.Partitions {
				return fmt.Errorf("feed to partition %d, and there are %d: they count from 0", to, s.Partitions)
			}
		}
	}
	for _, h := range s.HandOvers {
		for _, r := range h.Ready {
			for _, q := range r {
				if q >= s.Partitions {
					return fmt.Errorf("handover of partition %d, and there are %d: they count from 0", q, s.Partitions)
				}
			}
		}
	}
	if err := p.checkTimes(); err != nil {
		return err
	}
	if s.Exactly && (s.Measures(ColumnStreams42) || s.Measures(ColumnPerCall)) {
		return errors.New("exactly-once is Kafka Streams' own: measure kafka-streams")
	}
	return p.checkPlain()
}

// checkTimes holds times against each other.
func (p *parser) checkTimes() error {
	s := p.s
	if session := cmp.Or(s.Session, 45*time.Second); s.Heartbeat >= session {
		return fmt.Errorf("heartbeat.interval.ms (%s) must be below session.timeout.ms (%s)", s.Heartbeat, session)
	}
	end := s.Zero + s.For
	late := func(what string, at time.Duration) error {
		if at <= end {
			return nil
		}
		return fmt.Errorf("%s at %s: the run has ended by then, after %s", what, at, end)
	}
	var errs []error
	for _, m := range s.Members {
		errs = append(errs, late("member", m.Start))
	}
	for _, f := range s.Feeds {
		errs = append(errs, late("feed", f.At))
	}
	for _, step := range s.Service {
		errs = append(errs, late("service", step.At))
	}
	if len(s.Feeds) == 0 && s.Warm.N == 0 && s.Plain == nil {
		errs = append(errs, errors.New("no records: feed total=10"))
	}
	return errors.Join(errs...)
}

func (p *parser) of(t string) error {
	if !slices.Contains([]string{First, Unmeasured, Second, Own}, t) {
		return fmt.Errorf("%q: want first, unmeasured, second or own", t)
	}
	p.s.Of = t
	return nil
}

func (p *parser) set(t string) error {
	return fields(t, func(name, value string) error {
		s := p.s
		switch name {
		case "max.poll.interval.ms":
			return clock(name, value, &s.Settings.MaxPollInterval)
		case "commit.interval.ms":
			return clock(name, value, &s.Settings.CommitInterval)
		case "max.poll.records":
			return named(name, number(value, 1, 1<<20, &s.Settings.MaxPollRecords))
		case "session.timeout.ms":
			return clock(name, value, &s.Session)
		case "heartbeat.interval.ms":
			return clock(name, value, &s.Heartbeat)
		case "group.initial.rebalance.delay.ms":
			return millis(name, value, &s.JoinDelay)
		case "transaction.timeout.ms":
			return clock(name, value, &s.Txn)
		case "processing.guarantee":
			if value != "at_least_once" && value != "exactly_once_v2" {
				return fmt.Errorf("processing.guarantee=%s: want at_least_once or exactly_once_v2", value)
			}
			s.Exactly = value == "exactly_once_v2"
			return nil
		case "metadata.max.age.ms":
			return millis(name, value, &p.plain().MetadataAge)
		case "group.consumer.heartbeat.interval.ms":
			err := millis(name, value, &p.plain().BrokerBeat)
			if err == nil && p.plain().BrokerBeat == 0 {
				p.plain().BrokerBeat = ownBeat
			}
			return err
		case "group.remote.assignor":
			p.plain().Assignor = value
			if value != "uniform" && value != "range" {
				return fmt.Errorf("group.remote.assignor=%s: want uniform or range", value)
			}
			return nil
		case "rebalance.protocol":
			if value != "eager" && value != "cooperative" {
				return fmt.Errorf("rebalance.protocol=%s: want eager or cooperative", value)
			}
			s.Eager = value == "eager"
			return nil
		}
		return fmt.Errorf("unknown setting %q", name)
	})
}

func (p *parser) member(t string) error {
	m, count, static, protocol := sim.Member{}, 1, "", ""
	words := strings.Fields(t)
	if len(words) > 0 && !strings.Contains(words[0], "=") && words[0] != "leaves" {
		if err := number(words[0], 1, 200, &count); err != nil {
			return err
		}
		words = words[1:]
	}
	err := fields(strings.Join(words, " "), func(name, value string) error {
		switch name {
		case "at":
			return duration(value, &m.Start)
		case "kill":
			return duration(value, &m.Kill)
		case "close":
			return duration(value, &m.Close)
		case "static":
			m.Static, static = true, value
			return nonEmpty(value)
		case "leaves":
			m.Leaves = true
			return empty(value)
		case "protocol":
			protocol = value
			return protocolOf(value, new(sim.Protocol))
		}
		return fmt.Errorf("unknown argument %q", name)
	})
	if static != "" && count > 1 {
		return errors.New("members with one group.instance.id exclude each other: one line each")
	}
	for range count {
		p.s.Members, p.s.Threads, p.protocols = append(p.s.Members, m), append(p.s.Threads, static), append(p.protocols, protocol)
	}
	if len(p.s.Members) > 200 {
		return errors.New("more than 200 members")
	}
	return err
}

func (p *parser) feed(t string) error {
	f := sim.Feed{}
	err := fields(t, func(name, value string) error {
		switch name {
		case "total":
			return number(value, 1, 1_000_000, &f.Total)
		case "at":
			return duration(value, &f.At)
		case "every":
			return duration(value, &f.Every)
		case "burst":
			return number(value, 1, 100_000, &f.Burst)
		case "to":
			return list(value, &f.Partitions)
		}
		return fmt.Errorf("unknown argument %q", name)
	})
	if err == nil && f.Total == 0 {
		err = errors.New("no total=N")
	}
	p.s.Feeds = append(p.s.Feeds, f)
	return err
}

func (p *parser) service(t string) error {
	first, rest, _ := strings.Cut(t, " ")
	st := Step{}
	if err := duration(first, &st.To); err != nil {
		return err
	}
	err := fields(rest, func(name, value string) error {
		switch name {
		case "at":
			return duration(value, &st.At)
		case "over":
			return duration(value, &st.Over)
		}
		return fmt.Errorf("unknown argument %q", name)
	})
	p.s.Service = append(p.s.Service, st)
	return err
}

func (p *parser) hang(t string) error {
	part, record, ok := strings.Cut(t, "/")
	h := &Hang{}
	if !ok {
		return fmt.Errorf("%q: want PARTITION/RECORD, as in 0/10", t)
	}
	p.s.Hang = h
	return errors.Join(number(part, 0, 999, &h.Partition), number(record, 0, 1_000_000, &h.Record))
}

func (p *parser) warm(t string) error {
	w := &p.s.Warm
	*w = Warm{Hold: 13 * time.Second, Begin: 2 * time.Second, Every: 80 * time.Millisecond, Gap: time.Second}
	err := fields(t, func(name, value string) error {
		switch name {
		case "n":
			return number(value, 2, 600, &w.N)
		case "waiting":
			return number(value, 0, 100_000, &w.Waiting)
		case "hold":
			return duration(value, &w.Hold)
		}
		return fmt.Errorf("unknown argument %q", name)
	})
	if err == nil && w.N == 0 {
		err = errors.New("no n=N")
	}
	return err
}

func (p *parser) handover(t string) error {
	h := sim.HandOver{}
	for _, word := range strings.Fields(t) {
		if value, ok := strings.CutPrefix(word, "settle="); ok {
			if err := duration(value, &h.Settle); err != nil {
				return err
			}
			continue
		}
		if word == "all" {
			continue
		}
		var ready []int
		if err := list(word, &ready); err != nil {
			return err
		}
		h.Ready = append(h.Ready, ready)
	}
	p.s.HandOvers = append(p.s.HandOvers, h)
	return nonEmpty(t)
}

func (p *parser) cost(t string) error {
	c := &p.s.Costs
	return fields(t, func(name, value string) error {
		to, ok := map[string]*time.Duration{"roundtrip": &c.RoundTrip, "start": &c.Start, "settle": &c.Settle, "record": &c.Record, "commit": &c.Commit}[name]
		if !ok {
			return fmt.Errorf("unknown cost %q: want roundtrip, start, settle, record or commit", name)
		}
		return duration(value, to)
	})
}

func (p *parser) measure(t string) error {
	for _, policy := range strings.Fields(t) {
		if !slices.Contains([]string{ColumnStreams42, ColumnPerCall, ColumnStreams, ColumnConsumers}, policy) {
			return fmt.Errorf("%q: want streams42, percall, kafka-streams or consumers", policy)
		}
		p.s.Measured = append(p.s.Measured, policy)
	}
	return nonEmpty(t)
}

func (p *parser) show(t string) error {
	for _, name := range strings.Fields(t) {
		if metric(name) == nil {
			return fmt.Errorf("unknown metric %q, did you mean %q?", name, nearest(name, metricNames()))
		}
		p.s.Show = append(p.s.Show, name)
	}
	return nonEmpty(t)
}

func (p *parser) recorded(t string) error {
	if !strings.Contains(t, " ") {
		p.s.Runs = append(p.s.Runs, t)
		return nonEmpty(t)
	}
	return p.expect(t, &p.s.Recorded)
}

func (p *parser) because(t string) error {
	words := strings.SplitN(t, " ", 3)
	if len(words) < 3 {
		return errors.New("want COLUMN METRIC,... TEXT")
	}
	if !slices.Contains([]string{"any", ColumnPredicted, ColumnStreams42, ColumnPerCall, ColumnStreams, ColumnConsumers, ColumnRecorded}, words[0]) {
		return fmt.Errorf("unknown column %q", words[0])
	}
	b := Because{Column: words[0], Text: words[2], Line: p.line}
	for _, word := range strings.Split(words[1], ",") {
		sc, err := parseScope(word)
		if err != nil {
			return err
		}
		b.Metrics = append(b.Metrics, sc)
	}
	p.s.Because = append(p.s.Because, b)
	return nil
}

// expect reads METRIC V,V,... or METRIC none.
func (p *parser) expect(t string, to *[]Expect) error {
	name, rest, _ := strings.Cut(t, " ")
	m := metric(name)
	if m == nil {
		return fmt.Errorf("unknown metric %q, did you mean %q?", name, nearest(name, metricNames()))
	}
	e := Expect{Metric: name, Line: p.line}
	rest, e.Approx = strings.CutPrefix(strings.TrimSpace(rest), "~")
	if rest == "" {
		return fmt.Errorf("%s has no value", name)
	}
	if rest != "none" {
		for _, word := range strings.Split(rest, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
			if err != nil {
				return fmt.Errorf("%s: %q is not a number", name, word)
			}
			e.Values = append(e.Values, v)
		}
	}
	*to = append(*to, e)
	return nil
}
