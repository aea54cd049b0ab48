package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// State is how a cell stands to the prediction.
type State int8

// The states of a cell.
const (
	Silent    State = iota // nothing is known
	Agrees                 // as the prediction
	Explained              // differs, and a rule says why
	Differs                // differs, and nothing says why
	Shown                  // not compared: the prediction itself, or no prediction
)

// Cell is a number of one column.
type Cell struct {
	Column string `json:"column"`
	Text   string `json:"text"`
	State  State  `json:"state"`
	Why    string `json:"why,omitempty"`
}

// Row is one metric over all columns.
type Row struct {
	Metric string `json:"metric"`
	Text   string `json:"text"`
	Cells  []Cell `json:"cells"` // in order of the columns
}

// Table is what is known of one scenario, side by side.
type Table struct {
	Scenario *Scenario
	Rows     []Row
	Facts    []*Facts
	live     []string // metrics that are there for what is measured on Kafka Streams, not for the recording
}

// Measured tells whether the table has more than predictions and recordings.
func (t *Table) Measured() bool {
	return slices.ContainsFunc(t.Facts, func(f *Facts) bool {
		return slices.Contains([]string{ColumnStreams42, ColumnPerCall, ColumnStreams, ColumnConsumers}, f.Column)
	})
}

// columns are those of the table. Kafka Streams has one when it was measured.
func (t *Table) columns() []string {
	if t.Scenario.Plain != nil {
		return []string{ColumnArticle, ColumnPredicted, ColumnConsumers, ColumnRecorded}
	}
	out := []string{ColumnArticle, ColumnPredicted, ColumnStreams42, ColumnPerCall}
	if t.facts(ColumnReplayed, "") != nil {
		out = append(out, ColumnReplayed)
	}
	if t.facts(ColumnStreams, "") != nil {
		out = append(out, ColumnStreams)
	}
	return append(out, ColumnRecorded)
}

// heads are the names of the columns for people, and one for the metrics.
func (t *Table) heads() []string {
	out := []string{""}
	for _, c := range t.columns() {
		out = append(out, map[string]string{ColumnArticle: "article", ColumnPredicted: "predicted", ColumnStreams42: "Streams loop",
			ColumnPerCall: "per call", ColumnReplayed: "for its windows", ColumnStreams: "Kafka Streams, now", ColumnConsumers: "consumers, now", ColumnRecorded: "Kafka 4.2.0"}[c])
	}
	return out
}

// measured says whether a column is of runs on this machine.
func measured(column string) bool {
	return !slices.Contains([]string{ColumnArticle, ColumnPredicted, ColumnReplayed, ColumnRecorded}, column)
}

// usual are the metrics that a table shows when there is nothing else.
func usual() []string { return []string{"evictions", "commits", "records", "distinct"} }

// Compare sets everything side by side. The prediction of a percall column is
// that of its own policy. The first recording stands in the table.
func Compare(s *Scenario, facts ...*Facts) *Table {
	t := &Table{Scenario: s, Facts: facts}
	var names []string
	add := func(list ...string) {
		for _, n := range list {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, list := range [][]Expect{s.Article, s.ByRule, s.Recorded} {
		for _, e := range list {
			add(e.Metric)
		}
	}
	add(s.Show...)
	if s.Plain != nil {
		add("generations", "expired", "stopped")
	} else {
		add(usual()...)
	}
	if live := t.facts(ColumnStreams, ""); live != nil {
		if slices.ContainsFunc(live.Windows, func(polls [][]int) bool { return len(polls) > 0 }) {
			t.Facts = append(t.Facts, s.replay(live))
		}
		for _, name := range []string{"gaps", "n"} {
			if !slices.Contains(names, name) {
				t.live = append(t.live, name)
			}
		}
		add(t.live...)
	}
	all := metrics()
	for i := range all {
		if m := &all[i]; slices.Contains(names, m.Name) {
			if row, some := t.row(m); some {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return t
}

func (t *Table) facts(column, policy string) *Facts {
	for _, f := range t.Facts {
		if f.Column == column && (policy == "" || f.Policy == policy) {
			return f
		}
	}
	return nil
}

// predicted is the prediction that a column is held against: at the scale of
// what was measured, and at full length for the article and the recording.
func (t *Table) predicted(column string) *Facts {
	policy := ColumnStreams42
	if again := t.facts(ColumnReplayed, ""); again != nil && (column == ColumnStreams || column == ColumnReplayed) {
		return again
	}
	if t.Scenario.Plain != nil {
		return t.facts(ColumnPredicted, ColumnConsumers) // of no scale
	}
	if column == ColumnPerCall || column == ColumnPredicted && t.facts(ColumnPredicted, ColumnStreams42) == nil {
		policy = ColumnPerCall
	}
	if ran := t.facts(column, ""); measured(column) && ran != nil {
		for _, f := range t.Facts {
			if f.Column == ColumnPredicted && f.Policy == policy && f.Scale == ran.Scale {
				return f
			}
		}
	}
	return t.facts(ColumnPredicted, policy)
}

// whenScaled is the prediction at the scale of what was measured, where it is
// another.
func (t *Table) whenScaled(m *Metric, full []float64) string {
	for _, column := range []string{ColumnStreams42, ColumnPerCall} {
		f := t.facts(column, "")
		if f == nil || f.Scale <= 1 || column == ColumnPerCall && t.facts(ColumnStreams42, "") != nil {
			continue
		}
		p := t.predicted(column)
		if p == nil || p.Policy != ColumnStreams42 {
			continue
		}
		if v, ok := m.Value(p); ok && !m.agree(Expect{Values: full}, v, t.slack(f)) {
			return " (scaled: " + m.Show(v) + ")"
		}
	}
	return ""
}

func (t *Table) row(m *Metric) (Row, bool) {
	row := Row{Metric: m.Name, Text: m.Text}
	some := false
	for _, column := range t.columns() {
		c := t.cell(m, column)
		some = some || c.State != Silent
		row.Cells = append(row.Cells, c)
	}
	return row, some
}

func (t *Table) cell(m *Metric, column string) Cell {
	c := Cell{Column: column}
	if column == ColumnRecorded && slices.Contains(t.live, m.Name) {
		return c
	}
	want, known := t.want(m, column)
	var e Expect
	slack := 0.0
	switch column {
	case ColumnArticle:
		list := t.Scenario.Article
		i := slices.IndexFunc(list, func(e Expect) bool { return e.Metric == m.Name })
		if i < 0 {
			return c
		}
		e = list[i]
	default:
		v, ok := t.value(m, column)
		if !ok {
			return c
		}
		e.Values = v
		if f := t.facts(column, ""); f != nil && f.Scale > 1 && measured(column) {
			slack = t.slack(f)
		}
	}
	c.Text = m.Show(e.Values)
	band, drawn := t.band(m)
	if drawn && column == ColumnPredicted {
		c.Text += fmt.Sprintf(" (%s to %s)", m.number(band[0]), m.number(band[1]))
	}
	if column == ColumnPredicted {
		c.Text += t.whenScaled(m, e.Values)
	}
	if e.Approx {
		c.Text = "about " + c.Text
	}
	c.State = Shown
	if !known || column == ColumnPredicted || column == ColumnReplayed {
		return c
	}
	e2 := Expect{Values: e.Values, Approx: e.Approx}
	if m.agree(e2, want, slack) || drawn && m.within(e.Values, band, slack) {
		c.State = Agrees
		return c
	}
	c.State, c.Why = Differs, t.why(m, column, e, want, slack)
	if c.Why == "" && measured(column) && (m.atTheCut(e.Values, want) || column == ColumnStreams && m.cutShort(e2, want, slack)) {
		c.Why = cutRule
	}
	if c.Why != "" {
		c.State = Explained
	}
	return c
}

// why is the scenario's rule for a difference. A difference between article and
// prediction is one of the prediction.
func (t *Table) why(m *Metric, column string, e Expect, want []float64, slack float64) string {
	if column == ColumnArticle {
		return t.Scenario.Explained(ColumnPredicted, m, want, e.Values, slack)
	}
	return t.Scenario.Explained(column, m, e.Values, want, slack)
}

// cutRule is the rule of small differences between a model and a machine.
const cutRule = "A run is cut somewhere: a call or a commit more or less at its end, and what a machine adds to each of many calls."

// atTheCut says that a count of calls or commits is off by what cutRule allows:
// one, or 2 in a hundred.
func (m *Metric) atTheCut(got, want []float64) bool {
	if !slices.Contains([]string{"records", "distinct", "repeated", "committed", "commits"}, m.Name) || len(got) != 1 || len(want) != 1 {
		return false
	}
	return math.Abs(got[0]-want[0]) <= max(1, want[0]/50)
}

// cutShort says that a list is another but for what came at the end, one value
// or 2 in a hundred: the run was over before it.
func (m *Metric) cutShort(got Expect, want []float64, slack float64) bool {
	n := min(len(got.Values), len(want))
	apart := max(len(got.Values), len(want)) - n
	got.Values = got.Values[:n]
	return apart > 0 && apart <= max(1, len(want)/50) && slices.Contains([]string{"gaps", "n"}, m.Name) && m.agree(got, want[:n], slack)
}

// wallSlack is how much a real machine adds to each stretch of time, in
// seconds of the wall: joins, commits, round trips.
const wallSlack = 0.15

// streamsSlack is the same for Kafka Streams, a JVM that has just begun.
const streamsSlack = 0.5

// slack is that in seconds of the scenario.
func (t *Table) slack(f *Facts) float64 {
	if f.Column == ColumnStreams {
		return streamsSlack * float64(f.Scale)
	}
	return wallSlack * float64(f.Scale)
}

// want is the prediction for a column.
func (t *Table) want(m *Metric, column string) ([]float64, bool) {
	f := t.predicted(column)
	if f == nil {
		return nil, false
	}
	return m.Value(f)
}

// band is between which values 95 of 100 predictions lie, when there were
// several: of something that is drawn.
func (t *Table) band(m *Metric) (b [2]float64, ok bool) {
	if f := t.predicted(ColumnPredicted); f != nil {
		b, ok = f.Bands[m.Name]
	}
	return b, ok
}

func (t *Table) value(m *Metric, column string) ([]float64, bool) {
	if column == ColumnRecorded {
		if i := slices.IndexFunc(t.Scenario.Recorded, func(e Expect) bool { return e.Metric == m.Name }); i >= 0 {
			return t.Scenario.Recorded[i].Values, true
		}
	}
	f := t.facts(column, "")
	if column == ColumnPredicted || column == ColumnReplayed {
		f = t.predicted(column)
	}
	if f == nil {
		return nil, false
	}
	return m.Value(f)
}

// Differences are the cells without an explanation, as lines.
func (t *Table) Differences() []string {
	var out []string
	for _, r := range t.Rows {
		for _, c := range r.Cells {
			if c.State == Differs {
				want, _ := t.want(metric(r.Metric), c.Column)
				out = append(out, fmt.Sprintf("%s: %s: %s says %s, predicted %s", t.Scenario.Name, r.Text, c.Column, c.Text, metric(r.Metric).Show(want)))
			}
		}
	}
	return out
}

// Text is the table for a terminal.
func (t *Table) Text() string {
	lines := [][]string{t.heads()}
	var notes []string
	for _, r := range t.Rows {
		line := []string{r.Text}
		for _, c := range r.Cells {
			text := c.Text
			switch c.State {
			case Silent:
				text = "."
			case Explained:
				text += fmt.Sprintf(" [%d]", note(&notes, c.Why))
			case Differs:
				text += " (!)"
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	writeColumns(&b, lines)
	for i, n := range notes {
		fmt.Fprintf(&b, "  [%d] %s\n", i+1, n)
	}
	return b.String()
}

// writeColumns aligns cells; long ones are wrapped.
func writeColumns(b *strings.Builder, lines [][]string) {
	const most = 22
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			width[i] = min(max(width[i], len(c)), most)
		}
	}
	width[0] = 0
	for _, l := range lines {
		width[0] = max(width[0], len(l[0]))
	}
	for _, l := range lines {
		cells := make([][]string, len(l))
		rows := 1
		for i, c := range l {
			cells[i] = wrap(c, width[i])
			rows = max(rows, len(cells[i]))
		}
		for r := range rows {
			var out strings.Builder
			for i := range l {
				text := ""
				if r < len(cells[i]) {
					text = cells[i][r]
				}
				fmt.Fprintf(&out, "  %-*s", width[i], text)
			}
			b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
		}
	}
}

// wrap breaks a text at spaces.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
