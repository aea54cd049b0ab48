package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rondo-streams/rondo/internal/lab"
)

// labCmd is the lab: experiments on stream threads and groups.
type labCmd struct {
	List   labListCmd   `cmd:"" help:"List the scenarios."`
	Show   labShowCmd   `cmd:"" help:"Explain one scenario: its claim, its prediction, its picture. Takes no time."`
	Run    labRunCmd    `cmd:"" help:"Predict scenarios, then measure them with real members on a real broker."`
	Report labReportCmd `cmd:"" help:"Write everything that was measured as one HTML file."`
}

// labListCmd lists.
type labListCmd struct {
	Names  []string `arg:"" optional:"" help:"Names, prefixes with *, or first, unmeasured, second, ci, all."`
	Output string   `short:"o" default:"table" enum:"table,json" help:"Form of the output (${enum})."`
}

// Run lists.
func (c *labListCmd) Run(t *terminal) error {
	scenarios, err := findScenarios(c.Names)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		type row struct {
			Name    string   `json:"name"`
			Of      string   `json:"of"`
			Title   string   `json:"title"`
			Seconds float64  `json:"seconds"`
			Scale   int      `json:"scale"`
			Measure []string `json:"measure"`
			CI      bool     `json:"ci"`
		}
		rows := []row{}
		for _, s := range scenarios {
			rows = append(rows, row{s.Name, s.Of, s.Title, (s.Zero + s.For).Seconds(), s.Scale, s.Measured, s.CI})
		}
		return json.NewEncoder(t.out).Encode(rows)
	}
	for _, s := range scenarios {
		measured := "predicted only"
		if len(s.Measured) > 0 {
			measured = ((s.Zero + s.For) / time.Duration(s.Scale)).Round(time.Second).String()
		}
		fmt.Fprintf(t.out, "%-24s %-10s %-14s %s\n", s.Name, s.Of, measured, s.Title)
	}
	return nil
}

// findScenarios finds scenarios; none named is all.
func findScenarios(names []string) ([]*lab.Scenario, error) {
	if len(names) == 0 {
		names = []string{"all"}
	}
	scenarios, err := lab.Find(names...)
	switch {
	case err == nil:
		return scenarios, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, fail(exitNotFound, err, "a name with a slash or an ending is a file; rondo lab list shows the scenarios of this binary")
	}
	if u, ok := errors.AsType[*lab.UnknownError](err); ok {
		return nil, fail(exitNotFound, err, "%s", u.Hint())
	}
	if w, ok := errors.AsType[*lab.TwiceError](err); ok {
		return nil, fail(exitUsage, err, "%s", w.Hint())
	}
	if f, ok := errors.AsType[*lab.FormatError](err); ok {
		return nil, fail(exitUsage, err, "%s", f.Hint())
	}
	return nil, err
}

// labShowCmd explains one scenario.
type labShowCmd struct {
	Name   string `arg:"" help:"A scenario, or a file with one."`
	Policy string `default:"streams42" enum:"streams42,percall" help:"The loop to predict (${enum})."`
	SVG    string `name:"svg" placeholder:"FILE" help:"Write the picture as SVG."`
	Source bool   `help:"Print the scenario's file and nothing else."`
	Dir    string `default:"rondo-lab" placeholder:"DIR" help:"Where rondo lab run keeps what it measured; it is shown when it is there."`
}

// Run explains.
func (c *labShowCmd) Run(t *terminal) error {
	found, err := findScenarios([]string{c.Name})
	if err != nil {
		return err
	}
	s := found[0]
	if len(found) > 1 {
		return fail(exitUsage, fmt.Errorf("%s is %d scenarios, and one is shown at a time", c.Name, len(found)), "rondo lab list '%s' lists them", c.Name)
	}
	if c.Source {
		_, err := t.out.Write(s.Source)
		return err
	}
	tables, err := kept(c.Dir, found[:1])
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s\n\n", s.Title)
	for _, claim := range s.Claims {
		fmt.Fprintf(t.out, "The claim: %s\n", claim)
	}
	for _, rule := range s.Rules {
		fmt.Fprintf(t.out, "The rule: %s\n", rule)
	}
	fmt.Fprintf(t.out, "\n%s\n", tables[0].Text())
	facts := lab.Predictions(s, 1)
	if c.Policy == "percall" {
		facts = facts[len(facts)-1:]
	}
	fmt.Fprint(t.out, lab.Sketch(facts[0]))
	if c.SVG != "" {
		return writeFile(t, c.SVG, lab.Timeline(tables[0]))
	}
	return nil
}

// kept reads what was measured.
func kept(dir string, scenarios []*lab.Scenario) ([]*lab.Table, error) {
	tables, err := lab.Tables(dir, scenarios)
	if err != nil {
		return nil, fail(exitFailed, fmt.Errorf("read what was measured: %w", err), "--dir DIR takes another directory; rondo lab run NAME --again measures anew")
	}
	return tables, nil
}

// writable says before a long run whether its report can be written.
func writable(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fail(exitFailed, fmt.Errorf("write the report: %w", err), "--report FILE takes another file")
	}
	return f.Close()
}

// writeFile writes a file and says so.
func writeFile(t *terminal, name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fail(exitFailed, fmt.Errorf("write %s: %w", name, err), "is the directory there, and may it be written?")
	}
	t.say("wrote %s", name)
	return nil
}

// labRunCmd measures.
type labRunCmd struct {
	Names     []string `arg:"" optional:"" help:"Scenarios: names, prefixes with *, files, or first, unmeasured, second, all."`
	Set       string   `enum:",ci,all" default:"" help:"A set of scenarios: ci (minutes, exits 1 outside of the tolerance) or all."`
	Scaled    bool     `xor:"scale" help:"Divide every clock and latency by the scenario's factor (the default)."`
	Full      bool     `xor:"scale" help:"Full length, as in the articles: up to half an hour each, side by side."`
	Scale     int      `xor:"scale" help:"Divide by this factor."`
	On        string   `default:"rondo" enum:"rondo,kafka,kafka-streams" help:"The embedded broker, the Kafka of --bootstrap-server, or Kafka Streams 4.2.0 instead of Rondo (${enum})."`
	Bootstrap string   `name:"bootstrap-server" short:"b" placeholder:"HOST:PORT" help:"The Kafka of --on kafka; topics and groups are the run's own and are deleted. --on kafka-streams starts an Apache Kafka 4.2.0 without it."`
	Peers     string   `default:"peers" placeholder:"DIR" help:"The folder peers of a checkout, which --on kafka-streams needs, beside a JDK of 17 or later and Maven."`
	Policy    []string `placeholder:"POLICY" help:"Only streams42, only percall, or only consumers."`
	Dir       string   `default:"rondo-lab" placeholder:"DIR" help:"Where predictions and facts are kept. What is there is not measured again: a run that was stopped goes on."`
	Again     bool     `help:"Measure again what is there."`
	Jobs      int      `default:"16" help:"Runs side by side."`
	Report    string   `placeholder:"FILE" help:"Write the report too."`
}

// Run measures and prints the tables.
func (c *labRunCmd) Run(ctx context.Context, t *terminal) error {
	options, err := c.options(t)
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := writable(c.Report); err != nil {
			return err
		}
	}
	began := time.Now()
	tables, err := lab.Run(ctx, options)
	if err != nil {
		if d, ok := errors.AsType[*lab.DirError](err); ok {
			return fail(exitFailed, d, "--dir DIR takes another directory")
		}
		if u, ok := errors.AsType[*lab.UnreachableError](err); ok {
			return fail(exitUnreachable, err, "%s", u.Hint())
		}
		if j, ok := errors.AsType[*lab.JavaError](err); ok {
			return fail(exitNotFound, err, "%s", j.Hint())
		}
		if ctx.Err() != nil {
			t.say("stopped; what had ended is kept in %s, the same command goes on with the rest", c.Dir)
		}
		return err
	}
	different := writeTables(t.out, tables)
	if c.Report != "" {
		if err := writeFile(t, c.Report, lab.Report(tables)); err != nil {
			return err
		}
	}
	t.say("%d scenarios in %s, kept in %s", len(tables), time.Since(began).Round(time.Second), c.Dir)
	if len(different) > 0 {
		for _, d := range different {
			t.say("differs: %s", d)
		}
		return fail(exitFailed, fmt.Errorf("%d numbers differ, and no rule of the scenarios says why", len(different)),
			"was the machine busy? --again measures again, --full with longer clocks")
	}
	return nil
}

// writeTables prints the tables and answers what differs without a rule.
func writeTables(w io.Writer, tables []*lab.Table) []string {
	var different []string
	for _, table := range tables {
		fmt.Fprintf(w, "%s: %s\n%s\n", table.Scenario.Name, table.Scenario.Title, table.Text())
		different = append(different, table.Differences()...)
	}
	return different
}

func (c *labRunCmd) options(t *terminal) (lab.Options, error) {
	names := c.Names
	if c.Set != "" {
		names = append(names, c.Set)
	}
	if len(names) == 0 {
		return lab.Options{}, fail(exitUsage, errors.New("no scenario"), "rondo lab list shows them; --set ci takes those of a few minutes")
	}
	scenarios, err := findScenarios(names)
	if err != nil {
		return lab.Options{}, err
	}
	if c.On == "kafka-streams" && len(c.Policy) > 0 {
		return lab.Options{}, fail(exitUsage, errors.New("--policy is one of Rondo's loops"), "--on kafka-streams has its own")
	}
	if c.On != "kafka-streams" && (c.On == "kafka") != (c.Bootstrap != "") {
		return lab.Options{}, fail(exitUsage, errors.New("--on kafka and --bootstrap-server belong together"), "rondo lab run NAME --on kafka -b HOST:PORT")
	}
	for _, p := range c.Policy {
		if p != "streams42" && p != "percall" && p != "consumers" {
			return lab.Options{}, fail(exitUsage, fmt.Errorf("--policy %s", p), "streams42, percall or consumers")
		}
	}
	o := lab.Options{Scenarios: scenarios, Policies: c.Policy, Scale: c.Scale, Bootstrap: c.Bootstrap, Dir: filepath.Clean(c.Dir), Again: c.Again, Jobs: c.Jobs, Logger: t.log}
	if c.On == "kafka-streams" {
		o.Java = &lab.Java{Peers: c.Peers}
	}
	if c.Full {
		o.Scale = 1
	}
	if c.Scale < 0 || c.Jobs < 1 {
		return lab.Options{}, fail(exitUsage, errors.New("--scale and --jobs are above zero"), "rondo lab run --help")
	}
	if !t.log.Enabled(context.Background(), slog.LevelInfo) {
		o.Logger = slog.New(slog.DiscardHandler) // evictions are the subject here
	}
	o.Progress = func(p lab.Progress) { t.progress(p) }
	return o, nil
}

// progress prints one line of what a run has come to.
func (t *terminal) progress(p lab.Progress) {
	switch p.Event {
	case "predicted":
		t.say("predicted %s, sha256 %s", p.Scenario, p.Detail)
	case "found":
		t.say("%s %s: measured before", p.Scenario, p.Policy)
	case "unmeasured":
		if p.Detail == "" {
			t.say("%s is predicted only", p.Scenario)
		} else {
			t.say("%s is not measured like that, but as %s", p.Scenario, p.Detail)
		}
	case "begins":
		t.say("%s %s begins; the longest goes on for %s", p.Scenario, p.Policy, p.Left.Round(time.Second))
	case "goes on":
		t.say("%d of %d ended; the longest goes on for %s", p.Done, p.Total, p.Left.Round(time.Second))
	case "ended":
		t.say("%d of %d: %s %s: %s (%s left)", p.Done, p.Total, p.Scenario, p.Policy, p.Detail, p.Left.Round(time.Second))
	case "stopped":
		t.say("%s %s stopped before its end", p.Scenario, p.Policy)
	case "failed":
		t.say("%d of %d: %s %s failed: %s", p.Done, p.Total, p.Scenario, p.Policy, p.Detail)
	}
}

// labReportCmd writes the page.
type labReportCmd struct {
	Names []string `arg:"" optional:"" help:"Scenarios, default all."`
	Dir   string   `default:"rondo-lab" placeholder:"DIR" help:"Where rondo lab run kept its facts."`
	Out   string   `default:"rondo-lab.html" placeholder:"FILE" help:"The file to write; - is standard output."`
}

// Run writes the page.
func (c *labReportCmd) Run(t *terminal) error {
	scenarios, err := findScenarios(c.Names)
	if err != nil {
		return err
	}
	tables, err := kept(c.Dir, scenarios)
	if err != nil {
		return err
	}
	measured := 0
	for _, table := range tables {
		if table.Measured() {
			measured++
		}
	}
	if measured < len(tables) {
		t.say("measured in %s: %d of %d scenarios; of the rest the page has predictions and recordings", c.Dir, measured, len(tables))
	}
	if c.Out == "-" {
		_, err := io.WriteString(t.out, lab.Report(tables))
		return err
	}
	return writeFile(t, c.Out, lab.Report(tables))
}
