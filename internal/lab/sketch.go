package lab

import (
	"fmt"
	"strings"
)

// sketchWidth is how many columns of time a text picture has.
const sketchWidth = 84

// Sketch draws facts as text. One column is a stretch of time:
//
//	0_2     the calls of a task: each begins with the last digit of its record
//	        and goes on with =, or with ~ when the record had been done before;
//	        x where it was cut
//	lease   E the poll clock ran out, F the member found out and threw its work
//	        away, X the session clock removed it
//	commit  c
//	N       its values as they change
//
// and for plain consumers, a row a partition, the number of the member that has
// it, and where a rebalance begins (R) or the session clock removes a member.
func Sketch(f *Facts) string {
	d := sketch{f: f, unit: f.Length / sketchWidth}
	for _, u := range []float64{0.1, 0.2, 0.5, 1, 2, 2.5, 3, 4, 5, 6, 10, 15, 20, 30, 60} {
		if f.Length/u <= sketchWidth {
			d.unit = u
			break
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, 1 column = %g s\n", columnName(f), d.unit)
	b.WriteString(d.axis())
	if f.Policy == ColumnConsumers || f.Column == ColumnConsumers {
		b.WriteString(d.holders())
		b.WriteString(d.marks("group", map[byte][]float64{'R': f.Rebalances, 'X': f.Expired}, "RX"))
		return b.String()
	}
	for _, p := range rowsOf(f, 12) {
		if p < 0 {
			b.WriteString(d.load())
			continue
		}
		b.WriteString(d.calls(p))
	}
	b.WriteString(d.marks("lease", map[byte][]float64{'E': f.Evicted, 'F': f.Fenced, 'X': f.Expired}, "FEX"))
	b.WriteString(d.marks("commit", map[byte][]float64{'c': f.Commits}, "c"))
	b.WriteString(d.n())
	return b.String()
}

type sketch struct {
	f    *Facts
	unit float64
}

func (d *sketch) blank() []byte { return []byte(strings.Repeat(" ", int(d.f.Length/d.unit)+1)) }

func (d *sketch) column(at float64) int { return min(max(int(at/d.unit), 0), len(d.blank())-1) }

func line(name string, cells []byte) string {
	text := strings.TrimRight(string(cells), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%-8s%s\n", name, text)
}

func (d *sketch) axis() string {
	cells := d.blank()
	step := tick(d.f.Length)
	for at := 0.0; at < d.f.Length; at += step {
		mark := "|" + strings.TrimSuffix(seconds(at), " s")
		if c := d.column(at); c+len(mark) <= len(cells) {
			copy(cells[c:], mark)
		}
	}
	return line("s", cells)
}

func (d *sketch) calls(partition int) string {
	cells := d.blank()
	for _, c := range d.f.Spans {
		if c.Partition != partition {
			continue
		}
		from, to := d.column(c.Begin), d.column(c.End)
		fill := byte('=')
		if c.Repeated {
			fill = '~'
		}
		for i := from; i < max(to, from+1) && i < len(cells); i++ {
			cells[i] = fill
		}
		cells[from] = byte('0' + c.Offset%10)
		if c.Cut {
			cells[to] = 'x'
		}
	}
	return line(rowName(partition), cells)
}

// load is how many calls are in flight, when there are too many tasks to show.
func (d *sketch) load() string {
	cells := d.blank()
	for i := range cells {
		at, n := (float64(i)+0.5)*d.unit, 0
		for _, c := range d.f.Spans {
			if c.Begin <= at && at < c.End {
				n++
			}
		}
		switch {
		case n > 9:
			cells[i] = '#'
		case n > 0:
			cells[i] = byte('0' + n)
		}
	}
	return line("calls", cells)
}

func (d *sketch) marks(name string, lists map[byte][]float64, order string) string {
	cells := d.blank()
	for i := range len(order) {
		for _, at := range lists[order[i]] {
			if at <= d.f.Length {
				cells[d.column(at)] = order[i]
			}
		}
	}
	return line(name, cells)
}

func (d *sketch) n() string {
	cells := d.blank()
	free := 0
	for _, n := range d.f.N {
		text := fmt.Sprint(n.N)
		if c := d.column(n.At); n.Member == 0 && c >= free && c+len(text) <= len(cells) {
			copy(cells[c:], text)
			free = c + len(text) + 1
		}
	}
	return line("N", cells)
}
