package lab

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is how a metric is compared.
type kind int8

const (
	count kind = iota // exactly
	times             // within Tolerance, one by one
	size              // one time or length, within Tolerance
)

// Metric is a number, or a list, that can be computed from facts.
type Metric struct {
	Name string
	Text string // for people
	Unit string // "s" or ""
	kind kind
	of   func(*Facts) []float64
}

func one(n int) []float64 { return []float64{float64(n)} }

// metrics are all of them, in the order of tables.
func metrics() []Metric {
	return []Metric{
		{"evictions", "evictions", "", count, func(f *Facts) []float64 { return one(len(f.Evicted)) }},
		{"first-eviction", "first eviction", "s", times, func(f *Facts) []float64 { return f.Evicted[:min(1, len(f.Evicted))] }},
		{"evicted-at", "evicted at", "s", times, func(f *Facts) []float64 { return f.Evicted }},
		{"fenced-at", "found out at", "s", times, func(f *Facts) []float64 { return f.Fenced }},
		{"gaps", "between evictions", "s", times, func(f *Facts) []float64 { return gaps(f.Fenced) }},
		{"expired", "removed by the session clock", "", count, func(f *Facts) []float64 { return one(len(f.Expired)) }},
		{"expired-at", "removed at", "s", times, func(f *Facts) []float64 { return f.Expired }},
		{"commits", "commits", "", count, func(f *Facts) []float64 { return one(len(f.Commits)) }},
		{"committed-at", "committed at", "s", times, func(f *Facts) []float64 { return f.Commits }},
		{"commit-gaps", "between commits", "s", times, func(f *Facts) []float64 { return gaps(f.Commits) }},
		{"commit-gap", "between commits, mean", "s", size, func(f *Facts) []float64 { return mean(gaps(f.Commits)) }},
		{"commit-gap-max", "longest without a commit", "s", size, func(f *Facts) []float64 { return most(gaps(f.Commits)) }},
		{"records", "results", "", count, func(f *Facts) []float64 { return one(f.Records) }},
		{"distinct", "of different records", "", count, func(f *Facts) []float64 { return one(f.Distinct) }},
		{"repeated", "repeated", "", count, func(f *Facts) []float64 { return one(f.Records - f.Distinct) }},
		{"repeated-by", "repeated when all were there", "", count, func(f *Facts) []float64 { return repeatedBy(f) }},
		{"committed", "records committed", "", count, func(f *Facts) []float64 { return one(f.Committed) }},
		{"cut", "calls cut", "", count, func(f *Facts) []float64 { return one(f.Cut) }},
		{"rate", "calls a second", "", size, func(f *Facts) []float64 { return rate(f) }},
		{"n", "values of N", "", count, func(f *Facts) []float64 { return ns(f) }},
		{"n-most", "largest N", "", count, func(f *Facts) []float64 { return most(ns(f)) }},
		{"n-end", "N at the end", "", count, func(f *Facts) []float64 { return last(ns(f)) }},
		{"passes", "lengths of passes", "s", times, passes},
		{"pass-most", "longest pass", "s", size, func(f *Facts) []float64 { return most(passes(f)) }},
		{"first-rebalance", "first rebalance", "s", times, func(f *Facts) []float64 { return f.Rebalances[:min(1, len(f.Rebalances))] }},
		{"refused", "commits refused", "", count, func(f *Facts) []float64 { return one(f.Failed) }},
		{"generations", "generations", "", count, func(f *Facts) []float64 { return one(f.Generations) }},
		{"moved", "partitions that changed hands", "", count, moved},
		{"stopped", "partitions taken away for a while", "", count, func(*Facts) []float64 { return nil }},
		{"newcomer", "the newcomer waited", "s", size, newcomer},
	}
}

func metric(name string) *Metric {
	for _, m := range metrics() {
		if m.Name == name {
			return &m
		}
	}
	return nil
}

func metricNames() map[string]bool {
	names := map[string]bool{}
	for _, m := range metrics() {
		names[m.Name] = true
	}
	return names
}

// Value computes a metric; ok is false when the facts do not hold it.
func (m *Metric) Value(f *Facts) (v []float64, ok bool) {
	if given, ok := f.Given[m.Name]; ok {
		return given, true
	}
	if m.Name == "stopped" || len(f.Holds) > 0 && !slices.Contains(f.Holds, m.Name) {
		return nil, false
	}
	return m.of(f), true
}

func gaps(list []float64) []float64 {
	var out []float64
	for i := 1; i < len(list); i++ {
		out = append(out, round(list[i]-list[i-1]))
	}
	return out
}

func mean(list []float64) []float64 {
	if len(list) == 0 {
		return nil
	}
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return []float64{round(sum / float64(len(list)))}
}

func most(list []float64) []float64 {
	if len(list) == 0 {
		return nil
	}
	return []float64{slices.Max(list)}
}

func last(list []float64) []float64 { return list[max(0, len(list)-1):] }

func ns(f *Facts) []float64 {
	var out []float64
	for _, n := range f.N {
		out = append(out, float64(n.N))
	}
	return out
}

func passes(f *Facts) []float64 {
	var out []float64
	for _, p := range f.Passes {
		out = append(out, round(p.End-p.Begin))
	}
	return out
}

func rate(f *Facts) []float64 {
	if f.Length == 0 {
		return nil
	}
	return []float64{math.Round(float64(f.Records)/f.Length*10) / 10}
}

// repeatedBy is how many results were repeats when the last of the records
// came that the run could do: as many results as records were fed.
func repeatedBy(f *Facts) []float64 {
	total := f.Fed
	if total == 0 {
		return nil
	}
	ends := slices.Clone(f.Spans)
	slices.SortStableFunc(ends, func(a, b Span) int {
		switch {
		case a.End < b.End:
			return -1
		case a.End > b.End:
			return 1
		}
		return 0
	})
	seen, n, repeats := map[[2]int]bool{}, 0, 0
	for _, c := range ends {
		if c.Open || c.Cut {
			continue
		}
		k := [2]int{c.Partition, c.Offset}
		if seen[k] {
			repeats++
		}
		seen[k] = true
		if n++; n == total {
			break
		}
	}
	return one(repeats)
}

// owners is who has which partition at a moment.
func owners(f *Facts, at float64) map[int]int {
	has := map[int][]int{}
	for _, o := range f.Owners {
		if o.At <= at {
			has[o.Member] = o.Partitions
		}
	}
	who := map[int]int{}
	for _, m := range slices.Sorted(maps.Keys(has)) {
		for _, p := range has[m] {
			who[p] = m
		}
	}
	return who
}

// moved is how many partitions have another owner at the end than at zero.
func moved(f *Facts) []float64 {
	before, after := owners(f, 0), owners(f, f.Length)
	n := 0
	for p, m := range before {
		if a, ok := after[p]; ok && a != m {
			n++
		}
	}
	return one(n)
}

// newcomer is how long the last member to come waited for partitions.
func newcomer(f *Facts) []float64 {
	if f.Newcomer == nil {
		return nil
	}
	for _, o := range f.Owners {
		if o.Member == f.Newcomer.Member && len(o.Partitions) > 0 && o.At >= f.Newcomer.At {
			return []float64{round(o.At - f.Newcomer.At)}
		}
	}
	return nil
}

// Tolerance is how far apart two times of a scenario may lie: a second or a
// hundredth, whichever is more; slack is added for what does not scale.
func Tolerance(want, slack float64) float64 { return max(1, math.Abs(want)/100) + slack }

// agree compares a value with what it should be.
func (m *Metric) agree(want Expect, got []float64, slack float64) bool {
	if m.kind != count && m.kind != size && len(got) != len(want.Values) || m.kind == count && len(got) != len(want.Values) {
		return false
	}
	if len(got) != len(want.Values) {
		return false
	}
	for i, w := range want.Values {
		d := math.Abs(got[i] - w)
		switch {
		case want.Approx && d > max(math.Abs(w)/10, 1):
			return false
		case want.Approx:
		case m.kind == count && d != 0:
			return false
		case m.kind != count && d > Tolerance(w, slack):
			return false
		}
	}
	return true
}

// within says whether a single value lies in a band.
func (m *Metric) within(got []float64, band [2]float64, slack float64) bool {
	if m.kind != count {
		slack = Tolerance(band[1], slack)
	} else {
		slack = 0
	}
	return len(got) == 1 && got[0] >= band[0]-slack && got[0] <= band[1]+slack
}

// Show writes values as a cell: long lists are shortened, runs folded.
func (m *Metric) Show(v []float64) string {
	if len(v) == 0 {
		if m.kind == count {
			return "-"
		}
		return "none"
	}
	var parts []string
	for i := 0; i < len(v); {
		j := i
		for j < len(v) && near(v[j], v[i], m.kind) {
			j++
		}
		text := m.number(v[i])
		if j-i > 2 {
			text = fmt.Sprintf("%d x %s", j-i, text)
			i = j
		} else {
			i++
		}
		parts = append(parts, text)
	}
	if len(parts) > 9 {
		parts = append(parts[:8], fmt.Sprintf("... (%d)", len(v)))
	}
	text := strings.Join(parts, ", ")
	if m.Unit != "" {
		text += " " + m.Unit
	}
	return text
}

func near(a, b float64, k kind) bool {
	if k == count {
		return a == b
	}
	return math.Abs(a-b) < 0.05
}

func (m *Metric) number(x float64) string {
	if m.kind == count {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}
