package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timelineWidth is how many columns of time a line has, at most. With its
// label a line has no more than 100.
const timelineWidth = 88

// label is the width of the names at the left.
const label = 10

// Timeline draws a traced run as text, one column a stretch of time. For each
// member:
//
//	0_3     the calls of a task: each begins with the last digit of its record's
//	        offset and goes on with =, or with ~ when the record had been done
//	        before; x where it is cut. With Scenario.Parallel above 1: how many
//	        calls are in flight
//	lease   - while the member has tasks, . while it works on them without
//	        being a member; J assigned, E its poll clock ran out, X removed by
//	        the coordinator, F its work thrown away, ] stopped, + killed
//	commit  c committed, ! refused
//	N       new values of N (Streams42)
//
// When several things fall into one column, the last one shows.
func Timeline(sc Scenario, sum Summary, trace []Event) string {
	sc = sc.withDefaults()
	d := &drawing{sc: &sc, unit: columnOf(sc.For)}
	d.columns = int((sc.For + d.unit - 1) / d.unit)
	d.calls = callsOf(trace, sc.For)
	var b strings.Builder
	b.WriteString(sc.Policy.String())
	if sc.Group != ClassicGroup {
		fmt.Fprintf(&b, ", group.protocol=%s", sc.Group)
	}
	fmt.Fprintf(&b, ", 1 column = %s\n", d.unit)
	b.WriteString(d.axis())
	for m := range sc.Members {
		rows := d.member(m, trace)
		if len(sc.Members) > 1 {
			fmt.Fprintf(&b, "member %d\n", m)
		}
		for _, r := range rows {
			if line := strings.TrimRight(string(r.cells), " "); line != "" {
				fmt.Fprintf(&b, "%-*s%s\n", label, r.name, line)
			}
		}
	}
	fmt.Fprintf(&b, "evictions %d, generation %d, records %d (%d different), commits %d (refused %d, held up %d)",
		sum.EvictionCount, sum.Generation, sum.Ended, sum.Distinct, sum.CommitCount, sum.FailedCount, sum.Blocked)
	if sum.CutCalls > 0 {
		fmt.Fprintf(&b, ", calls cut %d", sum.CutCalls)
	}
	b.WriteString("\n")
	return b.String()
}

// columnOf picks a round length of time for a column.
func columnOf(total time.Duration) time.Duration {
	for _, ms := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 2500, 3000, 4000, 5000, 10000, 15000, 20000, 30000} {
		if u := time.Duration(ms) * time.Millisecond; total <= timelineWidth*u {
			return u
		}
	}
	minutes := (total + timelineWidth*time.Minute - 1) / (timelineWidth * time.Minute)
	return minutes * time.Minute
}

type row struct {
	name  string
	cells []byte
}

type drawing struct {
	sc      *Scenario
	unit    time.Duration
	columns int
	calls   []span
}

// span is one call from its begin to its end.
type span struct {
	Event    // its begin
	end      time.Duration
	cut      bool
	repeated bool // the record had been done before
}

// callsOf pairs the begins and ends of a trace.
func callsOf(trace []Event, end time.Duration) []span {
	type key struct{ member, partition, offset int }
	var calls []span
	open := map[key]int{}
	done := map[[2]int]bool{}
	for _, e := range trace {
		k, record := key{e.Member, e.Partition, e.Offset}, [2]int{e.Partition, e.Offset}
		switch e.What {
		case CallBegin:
			open[k] = len(calls)
			calls = append(calls, span{Event: e, end: end, repeated: done[record]})
		case CallEnd, CallCut:
			c := &calls[open[k]]
			c.end, c.cut = e.At, e.What == CallCut
			done[record] = done[record] || !c.cut
		}
	}
	return calls
}

func (d *drawing) axis() string {
	cells := d.blank()
	for c := 0; c < d.columns; c += 10 {
		mark := "|" + (time.Duration(c) * d.unit).String()
		if short, ok := strings.CutSuffix(mark, "m0s"); ok {
			mark = short + "m"
		}
		if c+len(mark) <= d.columns {
			copy(cells[c:], mark)
		}
	}
	return fmt.Sprintf("%-*s%s\n", label, "time", strings.TrimRight(string(cells), " "))
}

func (d *drawing) blank() []byte { return []byte(strings.Repeat(" ", d.columns)) }

func (d *drawing) column(t time.Duration) int { return min(int(t/d.unit), d.columns-1) }

// member draws the lines of one member.
func (d *drawing) member(m int, trace []Event) []row {
	calls := make([]row, d.sc.Partitions)
	for p := range calls {
		calls[p] = row{taskOf(p).String(), d.blank()}
	}
	lease, commit, n := row{"lease", d.blank()}, row{"commit", d.blank()}, row{"N", d.blank()}
	ink, since := byte(' '), 0
	until := func(c int) { // draw the lease up to a column
		for i := since; i < c; i++ {
			if lease.cells[i] == ' ' {
				lease.cells[i] = ink
			}
		}
		since = c
	}
	values := numbers{cells: n.cells}
	for _, c := range d.calls {
		if c.Member == m {
			d.call(calls[c.Partition].cells, c)
		}
	}
	for _, e := range trace {
		if e.Member != m {
			continue
		}
		c := d.column(e.At)
		switch e.What {
		case Assign:
			until(c)
			ink = ' '
			if e.N > 0 {
				ink = '-'
				lease.cells[c] = 'J'
			}
		case Evicted, Remove:
			until(c)
			if ink == '-' {
				ink = '.'
			}
			lease.cells[c] = removal(e)
		case Fence, Die, Stop:
			until(c)
			ink = ' '
			lease.cells[c] = map[What]byte{Fence: 'F', Die: '+', Stop: ']'}[e.What]
		case CommitOK:
			commit.cells[c] = 'c'
		case CommitFailed:
			commit.cells[c] = '!'
		case NewN:
			values.add(c, e.N)
		}
	}
	until(d.columns)
	return append(calls, lease, commit, n)
}

func removal(e Event) byte {
	switch {
	case e.What == Evicted, Why(e.N) == PollClock:
		return 'E'
	case Why(e.N) == Left:
		return ']'
	}
	return 'X'
}

func (d *drawing) call(cells []byte, c span) {
	from := d.column(c.At)
	to := max(from+1, d.column(c.end))
	if c.end >= d.sc.For {
		to = d.columns
	}
	if d.sc.Parallel > 1 {
		for i := from; i < to; i++ {
			cells[i] = min(max(cells[i], '0')+1, '9')
		}
		return
	}
	for i := from; i < to; i++ {
		cells[i] = '='
		if c.repeated {
			cells[i] = '~'
		}
	}
	cells[from] = strconv.Itoa(c.Offset % 10)[0]
	if c.cut {
		cells[d.column(c.end)] = 'x'
	}
}

// numbers writes values into a line. A value that comes before the last one
// has been followed by a space takes its place.
type numbers struct {
	cells     []byte
	from, end int
}

func (l *numbers) add(c, n int) {
	text := strconv.Itoa(n)
	if c > l.end || l.end == 0 {
		l.from = c
	}
	for i := l.from; i < l.end; i++ {
		l.cells[i] = ' '
	}
	l.end = min(l.from+len(text), len(l.cells))
	copy(l.cells[l.from:l.end], text)
}
