package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// curveHeight is that of one curve.
const curveHeight = 110

// Curves draws, for each strip of a table, what was done and what was
// committed over time, and N where there is one that changes.
func Curves(t *Table) string {
	strips := t.strips()
	if len(strips) == 0 || t.Scenario.Plain != nil {
		return ""
	}
	c := &canvas{length: t.Scenario.For.Seconds(), y: 20}
	c.text("h", marginLeft, c.y-4, "start", "Done and committed")
	for _, s := range strips {
		c.y += 22
		c.text("s", marginLeft, c.y-6, "start", s.name)
		c.work(s.f)
		if most := most(ns(s.f)); len(most) > 0 && len(s.f.N) > 2 {
			c.y += 18
			c.text("s", marginLeft, c.y-4, "start", "N")
			c.plotN(s.f, most[0])
		}
	}
	return c.svg(t.Scenario.Title + ": done and committed")
}

// point is one step of a curve.
type point struct{ at, value float64 }

// work draws results, different records, and committed records.
func (c *canvas) work(f *Facts) {
	var results, distinct, saved []point
	ends := slices.Clone(f.Spans)
	slices.SortStableFunc(ends, func(a, b Span) int { return cmp.Compare(a.End, b.End) })
	seen := map[[2]int]bool{}
	n := 0.0
	for _, s := range ends {
		if s.Open || s.Cut {
			continue
		}
		n++
		results = append(results, point{s.End, n})
		seen[[2]int{s.Partition, s.Offset}] = true
		distinct = append(distinct, point{s.End, float64(len(seen))})
	}
	base := before(f)
	for _, s := range f.Saved {
		saved = append(saved, point{s.At, float64(max(s.Total-base, 0))})
	}
	top := max(n, 1)
	c.frame(top)
	c.plot("w", results, top)
	c.plot("d", distinct, top)
	c.plot("v", saved, top)
	c.y += curveHeight
	c.axis(c.y)
	c.text("s", marginLeft, c.y+17, "start", fmt.Sprintf("results %d (dashed), different records %d, committed %s (green)", int(n), len(seen), lastOf(saved)))
	c.y += 26
}

// before is how many records were done before zero: those below the first
// offset of each partition that was called for since.
func before(f *Facts) int {
	lowest := map[int]int{}
	for _, s := range f.Spans {
		if low, ok := lowest[s.Partition]; !ok || s.Offset < low {
			lowest[s.Partition] = s.Offset
		}
	}
	n := 0
	for _, low := range lowest {
		n += low
	}
	return n
}

func lastOf(p []point) string {
	if len(p) == 0 {
		return "0"
	}
	return fmt.Sprint(int(p[len(p)-1].value))
}

func (c *canvas) frame(top float64) {
	c.add(`<line class="g" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, marginLeft, marginLeft, c.y, c.y+curveHeight)
	c.text("s", marginLeft-8, c.y+10, "end", fmt.Sprint(int(top)))
	c.text("s", marginLeft-8, c.y+curveHeight, "end", "0")
}

// plot draws steps.
func (c *canvas) plot(class string, points []point, top float64) {
	if len(points) == 0 {
		return
	}
	y := func(v float64) float64 { return c.y + curveHeight - v/top*(curveHeight-4) }
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %.1f", marginLeft, y(0))
	for i, p := range points {
		if i+1 < len(points) && c.x(points[i+1].at)-c.x(p.at) < 3 {
			continue // the next one covers it
		}
		if p.at <= c.length {
			fmt.Fprintf(&b, "H%.0fV%.0f", c.x(p.at), y(p.value))
		}
	}
	fmt.Fprintf(&b, "H%d", pictureWidth-marginRight)
	c.add(`<path class="%s" d="%s"/>`, class, b.String())
}

func (c *canvas) plotN(f *Facts, top float64) {
	var points []point
	for _, n := range f.N {
		if n.Member == 0 {
			points = append(points, point{n.At, float64(n.N)})
		}
	}
	c.frame(top)
	c.plot("n", points, top)
	c.y += curveHeight
	c.axis(c.y)
}
