package lab

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Because is the rule that explains a difference.
type Because struct {
	Column  string // predicted, streams42, percall, kafka-streams, consumers, recorded, or any
	Metrics []Scope
	Text    string
	Line    int
}

// Scope is the difference of one metric that a rule explains: up to a size,
// upwards, downwards, or both. What differs by more, or the other way, is
// without a rule.
//
//	records        any difference
//	records+       more than predicted
//	records-5      at most 5 fewer
//	records~5%     up to a twentieth more or fewer
//	fenced-at~3#1  a list: each value up to 3 away, and one value more or fewer
type Scope struct {
	Metric  string // or any
	Up      float64
	Down    float64
	Percent bool
	Length  int // by how much the lengths of lists may differ; -1: by any
}

// parseScope reads one of the forms above.
func parseScope(word string) (Scope, error) {
	anything := Scope{Metric: word, Up: math.Inf(1), Down: math.Inf(1), Length: -1}
	if word == "any" || metric(word) != nil {
		return anything, nil
	}
	sc := Scope{}
	word, length, ok := strings.Cut(word, "#")
	if ok {
		if err := number(length, 0, 1000, &sc.Length); err != nil {
			return sc, err
		}
	}
	if metric(word) != nil { // METRIC#N
		sc.Metric, sc.Up, sc.Down = word, math.Inf(1), math.Inf(1)
		return sc, nil
	}
	at := strings.LastIndexAny(word, "~+-")
	if at < 0 || metric(word[:at]) == nil {
		return sc, fmt.Errorf("unknown metric %q", word)
	}
	sc.Metric = word[:at]
	most := math.Inf(1)
	if size := word[at+1:]; size != "" {
		size, sc.Percent = strings.CutSuffix(size, "%")
		v, err := strconv.ParseFloat(size, 64)
		if err != nil || v <= 0 {
			return sc, fmt.Errorf("%q: want a size above zero, as in %s~5%%", word, sc.Metric)
		}
		most = v
	}
	sign := word[at]
	if sign != '-' {
		sc.Up = most
	}
	if sign != '+' {
		sc.Down = most
	}
	return sc, nil
}

// covers says whether the scope explains that something is got and not what is
// wanted. slack is what a machine adds to times.
func (sc *Scope) covers(got, want []float64, slack float64) bool {
	if apart := max(len(got), len(want)) - min(len(got), len(want)); sc.Length >= 0 && apart > sc.Length {
		return false
	}
	for i := range min(len(got), len(want)) {
		d, up, down := got[i]-want[i], sc.Up, sc.Down
		if sc.Percent {
			up, down = up*math.Abs(want[i])/100, down*math.Abs(want[i])/100
		}
		if d > up+slack || d < -down-slack {
			return false
		}
	}
	return true
}

// Explained is the rule that the scenario gives for a difference, or "". What is
// said of streams42 is said of that loop on a machine, so of Kafka Streams too.
func (s *Scenario) Explained(column string, m *Metric, got, want []float64, slack float64) string {
	if m.kind == count {
		slack = 0
	}
	for _, b := range s.Because {
		if b.Column != "any" && b.Column != column && (b.Column != ColumnStreams42 || column != ColumnStreams) {
			continue
		}
		if slices.ContainsFunc(b.Metrics, func(sc Scope) bool {
			return sc.Metric == "any" || sc.Metric == m.Name && sc.covers(got, want, slack)
		}) {
			return b.Text
		}
	}
	return ""
}
