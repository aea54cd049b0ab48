package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/cause"
)

// Report is what a run showed.
type Report struct {
	Where    string
	Schedule Schedule
	Took     time.Duration
	// Exact says that commits were read back with the broker's time stamps;
	// otherwise their times are those at which the parent saw them.
	Exact bool
	Sides []SideReport // rondo first
}

// SideReport is one column of the closing table.
type SideReport struct {
	Name, Policy string
	Verdict
	Committed int64
	Done      time.Duration // since the run began, 0 when it was not
	// Causes counts the rebalances; nil on a cluster that does not tell.
	Causes     map[cause.Cause]int
	Generation int32
	PollClock  int64 // leases lost to the poll clock, as the members saw it
	MostCalls  int   // in flight at once
	MaxN       int   // streams42
	Failed     int   // dead letters
}

// report stops the instances, reads everything back and judges.
func (r *run) report(ctx context.Context) (*Report, error) {
	report := &Report{Where: r.where(), Schedule: r.schedule, Took: r.elapsed()}
	r.ending.Store(true)
	var errs []error
	for _, s := range r.sides {
		errs = append(errs, s.stop(r.schedule.Poll+r.schedule.Slow+5*time.Second))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := r.look(ctx, r.elapsed()); err != nil {
		return nil, err
	}
	report.Exact = r.readCommits(ctx)
	for _, s := range r.sides {
		side, err := r.judge(ctx, s, report.Took)
		if err != nil {
			return nil, err
		}
		report.Sides = append(report.Sides, side)
	}
	return report, nil
}

// readCommits replaces the commits that were seen from outside by the
// broker's own record of them, where it can be read.
func (r *run) readCommits(ctx context.Context) bool {
	commits, err := r.cluster.commitLog(ctx, r.began.Add(-time.Minute), r.input, r.cluster.groups...)
	if err != nil {
		r.progress.event(r.elapsed(), "times of commits are those of the parent: %v", err)
		return false
	}
	for _, s := range r.sides {
		s.mu.Lock()
		s.ledger.Forget()
		for _, c := range commits[s.group] {
			s.ledger.Committed(c)
		}
		s.mu.Unlock()
	}
	return true
}

func (r *run) judge(ctx context.Context, s *side, ended time.Duration) (SideReport, error) {
	report := SideReport{Name: s.name, Policy: s.policy, MostCalls: s.service.Stats().MaxInFlight}
	_, report.Committed = s.counts()
	err := r.cluster.readAll(ctx, s.scores, r.began.Add(-time.Minute), nil, func(rec *kgo.Record) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger.Result(string(rec.Key))
		return nil
	})
	if err != nil {
		return report, err
	}
	err = r.cluster.readAll(ctx, s.dead, r.began.Add(-time.Minute), nil, func(*kgo.Record) error {
		report.Failed++
		return nil
	})
	if err != nil {
		return report, err
	}
	s.mu.Lock()
	report.Verdict, report.Done = s.ledger.Judge(), s.done
	s.mu.Unlock()
	report.PollClock = leasesLost(s)
	for _, p := range s.instances {
		n, generation := p.highest()
		report.MaxN, report.Generation = max(report.MaxN, n), max(report.Generation, generation)
	}
	if events, known := r.cluster.rebalances(s.group, r.began.Add(ended)); known {
		report.Causes = map[cause.Cause]int{}
		for _, e := range events {
			report.Causes[e.Cause]++
		}
	}
	return report, nil
}

// Check says what the rondo side must not have shown.
func (r *Report) Check() error {
	var errs []error
	for _, s := range r.Sides {
		if s.Policy != "percall" {
			continue
		}
		complain := func(n int, what string, keys []string) {
			if n > 0 {
				errs = append(errs, fmt.Errorf("%s: %d%s", what, n, some(keys)))
			}
		}
		complain(len(s.Lost), "records lost", s.Lost)
		complain(len(s.ScoredAgain), "records scored again after their commit", s.ScoredAgain)
		complain(len(s.Unexplained), "records called for again although nobody was killed over them", s.Unexplained)
		complain(s.In-int(s.Committed), "records not committed in time", nil)
		complain(int(s.PollClock), "leases lost to the poll clock", nil)
	}
	return errors.Join(errs...)
}

// some names a few keys.
func some(keys []string) string {
	const few = 5
	switch {
	case len(keys) == 0:
		return ""
	case len(keys) > few:
		return " (" + strings.Join(keys[:few], ", ") + " ...)"
	}
	return " (" + strings.Join(keys, ", ") + ")"
}

// row is one line of the closing table.
type row struct {
	label string
	cell  func(SideReport) string
}

func number(n int) string { return fmt.Sprint(n) }

func rows() []row {
	rows := []row{
		{"records in", func(s SideReport) string { return number(s.In) }},
		{"scored", func(s SideReport) string { return number(s.Scored) }},
		{"lost", func(s SideReport) string { return number(len(s.Lost)) }},
		{"committed", func(s SideReport) string { return fmt.Sprint(s.Committed) }},
		{"committed and scored again", func(s SideReport) string { return number(len(s.ScoredAgain)) }},
		{"calls made", func(s SideReport) string { return number(s.Calls) }},
		{"calls repeated", func(s SideReport) string { return number(s.Repeated) }},
		{"  that the kill does not explain", func(s SideReport) string { return number(len(s.Unexplained)) }},
		{"calls in flight at once", func(s SideReport) string { return number(s.MostCalls) }},
		{"results written twice", func(s SideReport) string { return number(s.Twice) }},
		{"leases lost to the poll clock", func(s SideReport) string { return fmt.Sprint(s.PollClock) }},
		{"rebalances", func(s SideReport) string { return rebalances(s) }},
	}
	for _, c := range cause.All() {
		rows = append(rows, row{"  by " + c.String(), func(s SideReport) string {
			if s.Causes == nil {
				return "-"
			}
			return number(s.Causes[c])
		}})
	}
	return append(rows,
		row{"longest time without a commit", func(s SideReport) string { return seconds(s.Pause) }},
		row{"everything committed after", func(s SideReport) string {
			if s.Done == 0 {
				return "not in time"
			}
			return seconds(s.Done)
		}},
		row{"highest N", func(s SideReport) string {
			if s.Policy != "streams42" {
				return "-"
			}
			return number(s.MaxN)
		}},
	)
}

func rebalances(s SideReport) string {
	if s.Causes == nil {
		return fmt.Sprint(s.Generation)
	}
	total := 0
	for _, n := range s.Causes {
		total += n
	}
	return number(total)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// Write prints the closing table and how to read it.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	sc := r.Schedule
	fmt.Fprintf(&b, "\nOn %s in %s.\n", r.Where, seconds(r.Took))
	fmt.Fprintf(&b, "Poll clock %s, session clock %s, a commit every %s; the service took %s, then %s, then %s again.\n\n", sc.Poll, sc.Session, sc.Commit, sc.Fast, sc.Slow, sc.Fast)
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	cells := func(label string, cell func(SideReport) string) {
		// Left column by hand: AlignRight is for the numbers.
		fmt.Fprintf(table, "%-40s", label)
		for _, s := range r.Sides {
			fmt.Fprintf(table, "\t%s", cell(s))
		}
		fmt.Fprint(table, "\t\n")
	}
	titles := map[string]string{"percall": "rondo", "streams42": "Streams loop"}
	cells("", func(s SideReport) string { return titles[s.Policy] })
	for _, row := range rows() {
		cells(row.label, row.cell)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\n", r.notes())
	_, err := io.WriteString(w, b.String())
	return err
}

// notes say how the numbers were come by.
func (r *Report) notes() string {
	clock := "when this process saw it"
	if r.Exact {
		clock = "the broker's stamp in __consumer_offsets"
	}
	return "Lost: no result in the output topic, which was read back whole.\n" +
		"Committed and scored again: a call that reached the service after a commit had covered its\n" +
		"record (time of the commit: " + clock + ").\n" +
		"Calls repeated: what a killed process had called for and not yet committed is called for\n" +
		"again. That is what at least once means; nothing else may be repeated.\n" +
		Attribution
}
