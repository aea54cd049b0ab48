package lab

import (
	"fmt"
	"slices"
	"strconv"
)

// strip is one row of facts in a picture: a name and the facts.
type strip struct {
	name string
	f    *Facts
}

// names of columns for people.
func columnName(f *Facts) string {
	switch f.Column {
	case ColumnPredicted:
		switch f.Policy {
		case ColumnPerCall:
			return "predicted, per call"
		case ColumnConsumers:
			return "predicted"
		}
		return "predicted, Streams loop"
	case ColumnStreams42:
		return "measured, Streams loop"
	case ColumnPerCall:
		return "measured, per call"
	case ColumnReplayed:
		return "predicted for the hand-overs of that run"
	case ColumnStreams:
		return "Kafka Streams 4.2.0, measured"
	case ColumnConsumers:
		return "measured, consumers"
	case ColumnRecorded:
		return "Kafka Streams 4.2.0, recorded (" + f.Run + ")"
	}
	return f.Column
}

// strips are what a table has to draw: the predictions, what was measured, and
// the first recording.
func (t *Table) strips() []strip {
	var out []strip
	add := func(f *Facts) {
		if f != nil && (len(f.Spans) > 0 || t.Scenario.Plain != nil && len(f.Owners) > 0) {
			out = append(out, strip{columnName(f), f})
		}
	}
	if t.Scenario.Plain != nil {
		add(t.facts(ColumnPredicted, ColumnConsumers))
		add(t.facts(ColumnConsumers, ""))
		return out
	}
	add(t.facts(ColumnPredicted, ColumnStreams42))
	add(t.facts(ColumnStreams42, ""))
	add(t.facts(ColumnReplayed, ""))
	add(t.facts(ColumnStreams, ""))
	add(t.facts(ColumnRecorded, ""))
	percall := t.facts(ColumnPerCall, "")
	if percall == nil {
		percall = t.facts(ColumnPredicted, ColumnPerCall)
	}
	add(percall)
	return out
}

// tick is a round step so that about eight fit.
func tick(length float64) float64 {
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600} {
		if length/s <= 8 {
			return s
		}
	}
	return 7200
}

// seconds writes a time of an axis.
func seconds(x float64) string {
	return strconv.FormatFloat(x, 'f', -1, 64) + " s"
}

// rowsOf are the partitions that have calls, in order. More than most are
// drawn as one row.
func rowsOf(f *Facts, most int) []int {
	var rows []int
	for _, c := range f.Spans {
		if !slices.Contains(rows, c.Partition) {
			rows = append(rows, c.Partition)
		}
	}
	slices.Sort(rows)
	if len(rows) > most {
		return []int{-1}
	}
	return rows
}

func rowName(partition int) string {
	if partition < 0 {
		return "all"
	}
	return fmt.Sprintf("0_%d", partition)
}
