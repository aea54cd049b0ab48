package lab

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/sim"
)

// arrivals are the records of a feed, in order of time. They are spread as
// package sim spreads them.
func arrivals(f sim.Feed, partitions int) []arrival {
	to := f.Partitions
	if to == nil {
		for p := range partitions {
			to = append(to, p)
		}
	}
	burst := max(f.Burst, 1)
	if f.Every == 0 {
		burst = f.Total
	}
	var out []arrival
	for i := range f.Total {
		out = append(out, arrival{f.At + time.Duration(i/burst)*f.Every, int32(to[i%len(to)])})
	}
	return out
}

func sortArrivals(list []arrival) {
	slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
}

// sampler is what was seen of the members, as changes.
type sampler struct {
	n      map[int]int
	owned  map[int]string
	ns     []sampledN
	owners []sampledOwner
}

type sampledN struct {
	at     time.Time
	member int
	n      int
}

type sampledOwner struct {
	at         time.Time
	member     int
	partitions []int
}

// take notes what has changed.
func (s *sampler) take(now time.Time, stats map[int]rondo.Stats) {
	for member, st := range stats {
		var has []int
		for _, th := range st.Threads {
			if th.N > 0 && th.N != s.n[member] {
				s.n[member] = th.N
				s.ns = append(s.ns, sampledN{now, member, th.N})
			}
			for _, task := range th.Tasks {
				for _, p := range task.Partitions {
					has = append(has, int(p.Partition))
				}
			}
		}
		slices.Sort(has)
		if key := fmt.Sprint(has); key != s.owned[member] {
			s.owned[member] = key
			s.owners = append(s.owners, sampledOwner{now, member, has})
		}
	}
}

// real turns wall times into those of facts.
type real struct {
	zero  time.Time
	scale float64
}

func (r real) at(t time.Time) float64 { return round(t.Sub(r.zero).Seconds() * r.scale) }

// facts puts together what was observed.
func (t *trial) facts(full *Scenario, events []cause.Event, seen []witnessed, stats map[int]rondo.Stats, commits []commit) *Facts {
	f := newFacts(full, t.policy, t.scale)
	f.At = t.began
	r := real{t.began.Add(t.s.Zero), float64(t.scale)}
	t.groupFacts(f, r, events, stats)
	if t.policy == ColumnStreams {
		t.streamsFacts(f, r)
	}
	for _, o := range t.samples.owners {
		f.Owners = append(f.Owners, Owner{r.at(o.at), o.member, o.partitions})
	}
	t.commitFacts(f, r, commits)
	f.callFacts(r, seen)
	for _, n := range t.samples.ns {
		f.N = append(f.N, NValue{max(r.at(n.at), 0), n.member, n.n})
	}
	f.N = settle(f.N)
	all := metricNames()
	for _, name := range []string{"passes", "pass-most"} {
		delete(all, name) // passes are not observed from outside
	}
	if len(f.Evicted) > 0 && slices.Equal(f.Evicted, f.Fenced) && t.policy == ColumnStreams42 {
		delete(all, "evicted-at") // what is known is when it was found out
		delete(all, "first-eviction")
	}
	if t.cluster.own == nil { // another cluster does not say why a generation began
		silent := []string{"expired", "expired-at", "generations"}
		if t.policy != ColumnStreams { // whose members say it themselves
			silent = append(silent, "evicted-at", "first-eviction")
		}
		for _, name := range silent {
			delete(all, name)
		}
	}
	for name := range all {
		f.Holds = append(f.Holds, name)
	}
	slices.Sort(f.Holds)
	if t.s.Eager {
		f.Given["stopped"] = one(t.stoppedAll(f))
	}
	return f
}

// groupFacts are those of the coordinator, and of the members' own counts.
func (t *trial) groupFacts(f *Facts, r real, events []cause.Event, stats map[int]rondo.Stats) {
	for _, s := range stats {
		for _, e := range s.Evictions {
			if at := r.at(e.At); at >= 0 && at <= f.Length && e.Cause == cause.PollClock {
				f.Fenced = append(f.Fenced, at)
			}
		}
		f.Failed += int(s.Counts.CommitErrors)
	}
	slices.Sort(f.Fenced)
	before := int32(0)
	for _, e := range events {
		at := r.at(e.At)
		if at < 0 {
			before = max(before, e.To)
			continue
		}
		switch {
		case at > f.Length || e.Confidence != cause.Stated: // what is inferred is a return after a loss
		case e.Cause == cause.PollClock:
			for range victims(e) {
				f.Evicted = append(f.Evicted, at)
			}
		case e.Cause == cause.SessionClock:
			for range victims(e) {
				f.Expired = append(f.Expired, at)
			}
		}
		f.Generations = max(f.Generations, int(e.To-before))
	}
	if static := slices.ContainsFunc(t.s.Threads, func(id string) bool { return id != "" }); static || t.cluster.own == nil {
		f.Evicted = f.Fenced // the coordinator hears nothing, or does not tell
	}
	if len(f.Evicted) < len(f.Fenced) && t.policy == ColumnStreams42 {
		// What began as something else is one rebalance with that cause.
		f.Evicted = f.Fenced
	}
}

// victims counts the members that an event of a clock removed: who began it,
// and who else lost its place before it was over. They have one time.
func victims(e cause.Event) int {
	n := 1
	for _, m := range e.Casualties {
		if m.ID != e.Trigger.ID {
			n++
		}
	}
	return n
}

// commitFacts are read back from the log of commits. Offsets of one request
// have one time, and one owner as far as is known.
func (t *trial) commitFacts(f *Facts, r real, commits []commit) {
	latest := map[int32]int64{}
	total := 0
	type request struct {
		at    time.Time
		owner int
	}
	requests := map[request]bool{}
	who := newOwnership(f.Owners)
	end := t.began.Add(t.s.Zero + t.s.For).Truncate(time.Millisecond) // as coarse as the times of commits
	for _, c := range commits {
		at := r.at(c.at)
		if !c.at.Before(end) || c.offset <= latest[c.partition] {
			continue
		}
		total += int(c.offset - latest[c.partition])
		latest[c.partition] = c.offset
		if n := len(f.Saved); n > 0 && f.Saved[n-1].At == at {
			f.Saved[n-1].Total = total
		} else if at >= 0 {
			f.Saved = append(f.Saved, Saved{at, total})
		}
		if by := (request{c.at, who.of(int(c.partition), at)}); at >= 0 && !requests[by] {
			requests[by] = true
			f.Commits = append(f.Commits, at)
		}
	}
	f.Committed = total
	slices.Sort(f.Commits)
}

// callFacts are those of the service.
func (f *Facts) callFacts(r real, seen []witnessed) {
	slices.SortStableFunc(seen, func(a, b witnessed) int { return a.begin.Compare(b.begin) })
	type ending struct {
		at     float64
		record [2]int
	}
	var ends []ending
	for _, c := range seen {
		if !c.end.IsZero() && !c.cut {
			ends = append(ends, ending{r.at(c.end), [2]int{c.partition, c.offset}})
		}
	}
	first := map[[2]int]float64{}
	distinct := map[[2]int]bool{}
	for _, e := range ends {
		if at, ok := first[e.record]; !ok || e.at < at {
			first[e.record] = e.at
		}
		if e.at >= 0 && e.at <= f.Length {
			f.Records++
			distinct[e.record] = true
		}
	}
	f.Distinct = len(distinct)
	var spans []Span
	for _, c := range seen {
		s := Span{Member: c.member, Partition: c.partition, Offset: c.offset, Begin: r.at(c.begin), End: f.Length, Cut: c.cut, Open: c.end.IsZero()}
		if !s.Open {
			s.End = r.at(c.end)
		}
		if at, ok := first[[2]int{c.partition, c.offset}]; ok && at <= s.Begin {
			s.Repeated = true
		}
		if c.cut && s.End >= 0 {
			f.Cut++
		}
		spans = append(spans, s)
	}
	f.keep(spans)
}

// stoppedAll counts the partitions that an eager rebalance took from those
// who had them, as far as they were seen without a task for a moment.
func (t *trial) stoppedAll(f *Facts) int {
	had, gone := map[int]bool{}, map[int]bool{}
	last := map[int][]int{}
	for _, o := range f.Owners {
		if o.At < 0 {
			for _, p := range o.Partitions {
				had[p] = true
			}
		}
		if o.At >= 0 && len(o.Partitions) == 0 {
			for _, p := range last[o.Member] {
				gone[p] = true
			}
		}
		last[o.Member] = o.Partitions
	}
	n := 0
	for p := range gone {
		if had[p] {
			n++
		}
	}
	return n
}
