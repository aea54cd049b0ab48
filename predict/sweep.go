package predict

import (
	"fmt"
	"strings"
)

// Point is one value of a sweep.
type Point struct {
	Value   int64   `json:"value"`
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule,omitempty"` // the worst bound, unless safe
}

// Region is a run of values with the same verdict.
type Region struct {
	From    int64   `json:"from"`
	To      int64   `json:"to"`
	Verdict Verdict `json:"verdict"`
}

// Sweep is the verdicts of a range of values of one setting.
type Sweep struct {
	Schema  int      `json:"schema"`
	Name    string   `json:"setting"`
	Points  []Point  `json:"points"`
	Regions []Region `json:"regions"`
	LeftOut int      `json:"left_out"`                   // values that Check refused
	Refusal string   `json:"left_out_because,omitempty"` // of the last of them
}

// Worst is the worst verdict of all values.
func (w *Sweep) Worst() Verdict {
	worst := Safe
	for _, r := range w.Regions {
		worst = max(worst, r.Verdict)
	}
	return worst
}

// MaxPoints is how many values a sweep may try.
const MaxPoints = 100000

// Sweep judges the settings with each value of a setting from one to another,
// in steps; step 0 takes steps such that there are at most 1000 values. Values
// that Check refuses are left out.
func (s Settings) Sweep(name string, from, to, step int64) (*Sweep, error) {
	switch {
	case from > to || step < 0:
		return nil, fmt.Errorf("sweep %s=%d..%d step %d: want a range that goes up", name, from, to, step)
	case from < 0 || to > maxDuration.Milliseconds():
		return nil, fmt.Errorf("sweep %s=%d..%d: want a range between 0 and %d", name, from, to, maxDuration.Milliseconds())
	case bare(name) == "group.instance.id":
		return nil, fmt.Errorf("sweep %s=%d..%d: a name has no range", name, from, to)
	case step == 0:
		step = max(1, (to-from)/1000)
	}
	if (to-from)/step >= MaxPoints {
		return nil, fmt.Errorf("sweep %s=%d..%d step %d: more than %d values", name, from, to, step, MaxPoints)
	}
	out := &Sweep{Schema: Schema, Name: name}
	var refused error
	for v := from; v <= to; v += step {
		t := s
		if err := t.Set(name, fmt.Sprint(v)); err != nil {
			return nil, fmt.Errorf("sweep %s=%d: %w", name, v, err)
		}
		if err := t.Check(); err != nil {
			refused = err
			out.LeftOut, out.Refusal = out.LeftOut+1, err.Error()
			continue
		}
		j := Evaluate(t)
		p := Point{Value: v, Verdict: j.Verdict}
		for _, b := range j.Bounds {
			if b.Verdict == j.Verdict && j.Verdict > Safe && p.Rule == "" {
				p.Rule = b.Rule
			}
		}
		out.Points = append(out.Points, p)
	}
	if len(out.Points) == 0 {
		return nil, fmt.Errorf("sweep %s=%d..%d: no value is sensible: %w", name, from, to, refused)
	}
	out.regions()
	return out, nil
}

func (w *Sweep) regions() {
	for _, p := range w.Points {
		if n := len(w.Regions); n > 0 && w.Regions[n-1].Verdict == p.Verdict {
			w.Regions[n-1].To = p.Value
			continue
		}
		w.Regions = append(w.Regions, Region{p.Value, p.Value, p.Verdict})
	}
}

// String draws the sweep: one mark a stretch of values, the worst of them, and
// lists the regions.
func (w *Sweep) String() string {
	const width = 72
	var b strings.Builder
	n := len(w.Points)
	fmt.Fprintf(&b, "%s, %s, + safe  ~ tight  # unsafe\n\n", w.Name, count(n, "value"))
	columns := min(width, n)
	for c := range columns {
		worst := Safe
		for _, p := range w.Points[c*n/columns : (c+1)*n/columns] {
			worst = max(worst, p.Verdict)
		}
		b.WriteByte("+~#"[worst])
	}
	first, last := fmt.Sprint(w.Points[0].Value), fmt.Sprint(w.Points[n-1].Value)
	fmt.Fprintf(&b, "\n%s%*s\n\n", first, max(columns-len(first), len(last)+1), last)
	for _, r := range w.Regions {
		fmt.Fprintf(&b, "%-7s %d..%d\n", r.Verdict, r.From, r.To)
	}
	if w.LeftOut > 0 {
		fmt.Fprintf(&b, "\nleft out: %s; %s\n", count(w.LeftOut, "value"), w.Refusal)
	}
	return b.String()
}
