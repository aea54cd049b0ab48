package lab

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The measures of a picture, in pixels of its own width; it is shown as wide
// as the page.
const (
	pictureWidth = 800
	marginLeft   = 58
	marginRight  = 24
	rowHeight    = 18
	stripGap     = 30
	digitWidth   = 9 // of the widest font that a page may have for system-ui
)

// pictureStyle gives every picture its colours, in light and dark.
const pictureStyle = `.lab{font:13px system-ui,sans-serif;--ink:#1d2330;--soft:#6b7280;--line:#d5d9e0;--call:#4078c0;--again:#d08a2e;--cut:#b8bec8;--bad:#c62f3b;--good:#2d8a4e;--n:#7a4fb5;--back:#fff}
@media (prefers-color-scheme:dark){.lab{--ink:#e4e7ec;--soft:#9aa3b2;--line:#3a4150;--call:#6aa3ea;--again:#e3a857;--cut:#5b6473;--bad:#f0707b;--good:#66c58a;--n:#b594ec;--back:#14171d}}
.lab .t{fill:var(--ink)}.lab .s{fill:var(--soft)}.lab .h{fill:var(--ink);font-weight:600}.lab .g{stroke:var(--line);stroke-width:1}
.lab .c{fill:var(--call)}.lab .a{fill:var(--again)}.lab .x{fill:var(--cut)}.lab .e{stroke:var(--bad);stroke-width:2}.lab .f{fill:var(--bad)}
.lab .k{fill:var(--good)}.lab .p{stroke:var(--soft);stroke-width:1.5}.lab .hp{stroke:var(--soft);stroke-dasharray:2 2}.lab .d{fill:none;stroke:var(--call);stroke-width:1.8}
.lab .w{fill:none;stroke:var(--again);stroke-width:1.4;stroke-dasharray:4 3}.lab .v{fill:none;stroke:var(--good);stroke-width:1.8}.lab .n{fill:none;stroke:var(--n);stroke-width:1.8}.lab .b{fill:var(--back)}`

// canvas collects the elements of one SVG.
type canvas struct {
	b      strings.Builder
	y      float64
	length float64
}

func (c *canvas) x(at float64) float64 {
	return marginLeft + min(max(at, 0), c.length)/c.length*(pictureWidth-marginLeft-marginRight)
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

func (c *canvas) text(class string, x, y float64, anchor, text string) {
	c.add(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, html.EscapeString(text))
}

// svg closes the picture.
func (c *canvas) svg(title string) string {
	return fmt.Sprintf(`<svg class="lab" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="100%%" role="img" aria-label="%s"><style>%s</style><rect class="b" width="100%%" height="100%%"/>`,
		pictureWidth, c.y+6, html.EscapeString(title), pictureStyle+"\n"+memberStyle()) + "\n" + c.b.String() + "</svg>\n"
}

// Timeline draws the strips of a table one below the other on one axis: calls
// by task, with the marks of the poll clock, evictions and commits, and N.
func Timeline(t *Table) string {
	strips := t.strips()
	if len(strips) == 0 {
		return ""
	}
	poll := t.Scenario.Settings.WithDefaults().MaxPollInterval.Seconds()
	c := &canvas{length: t.Scenario.For.Seconds(), y: 20}
	c.text("h", marginLeft, c.y-4, "start", t.Scenario.Title)
	c.y += 6
	for _, s := range strips {
		c.strip(s, poll)
	}
	if t.Scenario.Plain != nil {
		c.ownershipLegend(len(t.Scenario.Members))
	} else {
		c.legend(slices.ContainsFunc(strips, func(s strip) bool { return len(s.f.Expired) > 0 }))
	}
	return c.svg(t.Scenario.Title)
}

func (c *canvas) strip(s strip, poll float64) {
	c.y += 16
	c.text("s", marginLeft, c.y-4, "start", s.name)
	if len(s.f.Spans) == 0 {
		c.ownership(s.f)
		return
	}
	rows := rowsOf(s.f, 12)
	top := c.y
	for _, p := range rows {
		c.text("t", marginLeft-8, c.y+13, "end", rowName(p))
		c.calls(s.f, p)
		c.y += rowHeight
	}
	c.clocks(s.f, poll, top)
	c.commits(s.f)
	c.ns(s.f)
	c.axis(top)
	c.y += stripGap - 14
}

// calls draws the calls of a task, or of all. Those that would be thinner than
// a few pixels become one stretch with their neighbours.
func (c *canvas) calls(f *Facts, partition int) {
	var at bar
	for _, s := range f.Spans {
		if partition >= 0 && s.Partition != partition || s.Begin > c.length {
			continue
		}
		b := bar{class: "c", from: c.x(s.Begin), to: c.x(s.End), span: s, calls: 1}
		switch {
		case s.Cut || s.Open:
			b.class = "x"
		case s.Repeated:
			b.class = "a"
		}
		if at.takes(b) {
			at.to = max(at.to, b.to)
			at.calls++
			continue
		}
		c.bar(at)
		at = b
	}
	c.bar(at)
}

// bar is one rectangle of a row.
type bar struct {
	class    string
	from, to float64
	span     Span
	calls    int
}

// takes says whether another call is drawn with this one: it lies upon it, or
// both are too thin to be told apart.
func (b bar) takes(o bar) bool {
	const thin = 4
	upon := o.from-b.from < 0.5 && b.to-o.to < 0.5 && o.to-b.to < 0.5
	return b.class == o.class && b.calls > 0 && (upon || o.to-o.from < thin && o.from-b.to < thin/2)
}

func (c *canvas) bar(b bar) {
	if b.calls == 0 {
		return
	}
	title := fmt.Sprintf("%d calls", b.calls)
	if b.calls == 1 {
		title = fmt.Sprintf("record %d of task 0_%d: %.1f to %.1f s", b.span.Offset, b.span.Partition, b.span.Begin, b.span.End)
	}
	c.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2"><title>%s</title></rect>`, b.class, b.from, c.y+2, max(b.to-b.from-1, 0.8), rowHeight-5, title)
}

// clocks marks, for each eviction, the poll that began it, the half of the
// interval, its end, and where the thread found out.
func (c *canvas) clocks(f *Facts, poll, top float64) {
	for _, at := range f.Evicted {
		if at > c.length {
			continue
		}
		if begin := at - poll; begin >= -1 && f.Policy != ColumnPerCall && f.Column != ColumnPerCall {
			c.add(`<line class="p" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.x(begin), c.x(begin), top, c.y)
			c.add(`<line class="hp" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.x(begin+poll/2), c.x(begin+poll/2), top, c.y)
		}
		c.add(`<line class="e" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>poll clock: %.1f s</title></line>`, c.x(at), c.x(at), top, c.y, at)
	}
	for _, at := range f.Fenced {
		if at <= c.length {
			x := c.x(at)
			c.add(`<path class="f" d="M%.1f %.1fl-4 7h8z"><title>commit refused: %.1f s</title></path>`, x, c.y-1, at)
		}
	}
	for _, at := range f.Expired {
		if at <= c.length {
			c.add(`<line class="e" stroke-dasharray="3 2" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>session clock: %.1f s</title></line>`, c.x(at), c.x(at), top, c.y, at)
		}
	}
}

func (c *canvas) commits(f *Facts) {
	for _, at := range f.Commits {
		if at <= c.length {
			c.add(`<circle class="k" cx="%.1f" cy="%.1f" r="3"><title>commit: %.1f s</title></circle>`, c.x(at), c.y+4, at)
		}
	}
}

// ns writes the values of N of the first member where they change and there is
// room.
func (c *canvas) ns(f *Facts) {
	free := 0.0
	wrote := false
	for _, n := range f.N {
		x, text := c.x(n.At), fmt.Sprintf("N=%d", n.N)
		wide := float64(len(text)) * digitWidth
		if n.Member != 0 || n.At > c.length || x < free || x+wide > pictureWidth {
			continue
		}
		c.add(`<text x="%.1f" y="%.1f" style="fill:var(--n)">%s</text>`, x, c.y+18, text)
		free = x + wide + digitWidth
		wrote = true
	}
	if wrote {
		c.y += 12
	}
}

func (c *canvas) axis(top float64) {
	c.y += 10
	c.add(`<line class="g" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, marginLeft, pictureWidth-marginRight, c.y, c.y)
	step := tick(c.length)
	for at := 0.0; at <= c.length; at += step {
		c.add(`<line class="g" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.x(at), c.x(at), c.y, c.y+4)
		c.text("s", c.x(at), c.y+16, "middle", seconds(at))
	}
	c.y += 16
}

func (c *canvas) legend(expired bool) {
	c.y += 16
	x := float64(marginLeft)
	item := func(mark, text string) {
		wide := 26 + float64(len(text))*6.9
		if x+wide > pictureWidth {
			x, c.y = marginLeft, c.y+18
		}
		c.add(mark, x, c.y-9)
		c.text("s", x+16, c.y, "start", text)
		x += wide
	}
	item(`<rect class="c" x="%.1f" y="%.1f" width="12" height="10" rx="2"/>`, "call")
	item(`<rect class="a" x="%.1f" y="%.1f" width="12" height="10" rx="2"/>`, "repeated")
	item(`<rect class="x" x="%.1f" y="%.1f" width="12" height="10" rx="2"/>`, "cut or unfinished")
	item(`<rect x="%.1f" y="%.1f" width="2" height="10" style="fill:var(--soft)"/>`, "poll")
	item(`<path class="hp" transform="translate(%.1f %.1f)" d="M2 0v11"/>`, "half of the interval")
	item(`<rect x="%.1f" y="%.1f" width="2.4" height="10" style="fill:var(--bad)"/>`, "clock ran out")
	if expired {
		item(`<path class="e" stroke-dasharray="3 2" transform="translate(%.1f %.1f)" d="M1 0v11"/>`, "session clock")
	}
	item(`<path class="f" transform="translate(%.1f %.1f)" d="M5 1l-4 7h8z"/>`, "found out")
	item(`<circle class="k" transform="translate(%.1f %.1f)" cx="5" cy="5" r="3"/>`, "commit")
	c.y += 4
}
