package lab

import (
	"cmp"
	"fmt"
	"slices"
)

// stay is a stretch of time in which a partition belongs to a member.
type stay struct {
	partition, member int
	from, to          float64
}

// stays are those of a run, in order of partition and time. A partition that
// two members believe to own has two at once.
func (f *Facts) stays() []stay {
	var out []stay
	type key struct{ member, partition int }
	since := map[key]float64{}
	has := map[int][]int{}
	owners := slices.Clone(f.Owners)
	slices.SortStableFunc(owners, func(a, b Owner) int { return cmp.Compare(a.At, b.At) })
	end := func(k key, at float64) {
		if from := max(since[k], 0); at > from {
			out = append(out, stay{k.partition, k.member, from, at})
		}
		delete(since, k)
	}
	for _, o := range owners {
		for _, p := range has[o.Member] {
			if !slices.Contains(o.Partitions, p) {
				end(key{o.Member, p}, min(o.At, f.Length))
			}
		}
		for _, p := range o.Partitions {
			if !slices.Contains(has[o.Member], p) {
				since[key{o.Member, p}] = o.At
			}
		}
		has[o.Member] = o.Partitions
	}
	for k := range since {
		end(k, f.Length)
	}
	slices.SortFunc(out, func(a, b stay) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.from, b.from), cmp.Compare(a.member, b.member))
	})
	return out
}

// partitionsOf counts the partitions of stays.
func partitionsOf(stays []stay) int {
	if len(stays) == 0 {
		return 0
	}
	return stays[len(stays)-1].partition + 1
}

// ownership answers who has a partition, for times that never go back.
type ownership struct {
	left []Owner
	who  map[int]int
}

func newOwnership(owners []Owner) *ownership {
	left := slices.Clone(owners)
	slices.SortStableFunc(left, func(a, b Owner) int { return cmp.Compare(a.At, b.At) })
	return &ownership{left: left, who: map[int]int{}}
}

// of is the owner of a partition at a time, or the last that was; -1: nobody
// ever was.
func (o *ownership) of(partition int, at float64) int {
	for len(o.left) > 0 && o.left[0].At <= at {
		for _, p := range o.left[0].Partitions {
			o.who[p] = o.left[0].Member
		}
		o.left = o.left[1:]
	}
	if m, ok := o.who[partition]; ok {
		return m
	}
	return -1
}

// ownership draws who has which partition, a row each, a colour a member.
func (c *canvas) ownership(f *Facts) {
	stays := f.stays()
	n := partitionsOf(stays)
	height, gap := float64(rowHeight), 2.0
	if n > 12 {
		height, gap = max(160/float64(n), 1.6), 0
	}
	top := c.y
	for p := 0; p < n; p++ {
		if n <= 12 {
			c.text("t", marginLeft-8, c.y+13, "end", fmt.Sprintf("p%d", p))
		}
		for _, s := range stays {
			if s.partition == p {
				c.add(`<rect class="o%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>partition %d, member %d: %.1f to %.1f s</title></rect>`,
					s.member%memberColours, c.x(s.from), c.y+gap, max(c.x(s.to)-c.x(s.from), 0.8), height-2*gap, s.partition, s.member, s.from, s.to)
			}
		}
		c.y += height
	}
	if n > 12 {
		c.text("t", marginLeft-8, top+11, "end", "p0")
		c.text("t", marginLeft-8, c.y-2, "end", fmt.Sprintf("p%d", n-1))
	}
	for _, at := range f.Rebalances {
		c.add(`<line class="p" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>rebalance: %.1f s</title></line>`, c.x(at), c.x(at), top-3, c.y+3, at)
	}
	for _, at := range f.Expired {
		if at <= c.length {
			c.add(`<line class="e" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>session clock: %.1f s</title></line>`, c.x(at), c.x(at), top-3, c.y+3, at)
		}
	}
	c.axis(top)
	c.y += stripGap - 14
}

// memberColours is how many members have a colour of their own.
const memberColours = 12

// memberStyle are those colours, legible on light and dark.
func memberStyle() string {
	out := ""
	for i := range memberColours {
		out += fmt.Sprintf(".lab .o%d{fill:hsl(%d 52%% %d%%)}", i, (i*137+210)%360, 50+i%3*9)
	}
	return out
}

// ownershipLegend explains the colours of as many members as there are.
func (c *canvas) ownershipLegend(members int) {
	c.y += 16
	x := float64(marginLeft)
	for i := range min(members, memberColours) {
		c.add(`<rect class="o%d" x="%.1f" y="%.1f" width="12" height="10"/>`, i, x, c.y-9)
		text := fmt.Sprint(i)
		if i == 0 {
			text = "member 0"
		}
		c.text("s", x+16, c.y, "start", text)
		x += 26 + float64(len(text))*8
	}
	item := func(class, text string) {
		c.add(`<path class="%s" transform="translate(%.1f %.1f)" d="M2 0v11"/>`, class, x, c.y-9)
		c.text("s", x+10, c.y, "start", text)
		x += 24 + float64(len(text))*6.9
	}
	item("p", "rebalance")
	item("e", "session clock")
	c.y += 4
}

// holders draws the same as text: a row a partition, the number of its member
// in each column; - where nobody has it, * where two believe to.
func (d *sketch) holders() string {
	stays := d.f.stays()
	rows := changing(stays, 12)
	out := ""
	for _, p := range rows {
		cells := d.blank()
		for i := range cells {
			at := (float64(i) + 0.5) * d.unit
			if at >= d.f.Length {
				break
			}
			cells[i] = '-'
			for _, s := range stays {
				if s.partition == p && s.from <= at && at < s.to {
					if cells[i] != '-' {
						cells[i] = '*'
						break
					}
					cells[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[s.member%36]
				}
			}
		}
		out += line(fmt.Sprintf("p%d", p), cells)
	}
	if n := partitionsOf(stays) - len(rows); n > 0 {
		out += fmt.Sprintf("and %d partitions more\n", n)
	}
	return out
}

// changing are as many partitions as there is room for, those that change hands
// first.
func changing(stays []stay, most int) []int {
	count := make([]int, partitionsOf(stays))
	for _, s := range stays {
		count[s.partition]++
	}
	var rows, others []int
	for p, n := range count {
		if n > 1 {
			rows = append(rows, p)
		} else {
			others = append(others, p)
		}
	}
	rows = append(rows, others...)
	rows = rows[:min(len(rows), most)]
	slices.Sort(rows)
	return rows
}
