package lab

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// Facts is what is known of a run, wherever it took place. Times are seconds
// of the scenario since its zero: those of a scaled run are multiplied again.
type Facts struct {
	Column   string    `json:"column"` // predicted, streams42, percall or recorded
	Scenario string    `json:"scenario"`
	Policy   string    `json:"policy,omitempty"` // of a prediction: streams42 or percall
	Run      string    `json:"run,omitempty"`    // of a recording
	Scale    int       `json:"scale,omitempty"`
	At       time.Time `json:"at,omitzero"` // when it began
	Length   float64   `json:"length"`

	Evicted []float64 `json:"evicted"` // a poll clock ran out
	Fenced  []float64 `json:"fenced"`  // a member found out and threw its work away
	Expired []float64 `json:"expired"` // the coordinator's session clock removed a member
	Commits []float64 `json:"commits"` // that committed something
	Failed  int       `json:"failed"`  // commits refused

	Records   int `json:"records"`  // calls that ended
	Distinct  int `json:"distinct"` // different records among them
	Calls     int `json:"calls"`
	Cut       int `json:"cut"` // calls cut off
	Committed int `json:"committed"`

	Generations int       `json:"generations"`          // since zero
	Rebalances  []float64 `json:"rebalances,omitempty"` // when they began, of plain consumers
	Owners      []Owner   `json:"owners,omitempty"`
	N           []NValue  `json:"n,omitempty"`
	Passes      []Pass    `json:"passes,omitempty"`
	Spans       []Span    `json:"spans,omitempty"`
	Saved       []Saved   `json:"saved,omitempty"` // what commits covered, over time

	Fed      int       `json:"fed,omitempty"`      // records of the scenario
	Newcomer *Newcomer `json:"newcomer,omitempty"` // the last member to come, when it is not there from the beginning

	// Windows are, of Kafka Streams, from one assignment to the next, the
	// partitions that each poll brought the first records of.
	Windows [][][]int `json:"windows,omitempty"`

	// Given are metrics that come from a rule or from a recording's own table
	// instead of events.
	Given map[string][]float64 `json:"given,omitempty"`
	// Bands are between which values 95 of 100 predictions lie.
	Bands map[string][2]float64 `json:"bands,omitempty"`
	// Holds are the only metrics that can be computed; empty: all.
	Holds []string `json:"holds,omitempty"`
}

// Newcomer is a member that comes late.
type Newcomer struct {
	Member int     `json:"member"`
	At     float64 `json:"at"`
}

// Owner is what a member has from a moment on.
type Owner struct {
	At         float64 `json:"at"`
	Member     int     `json:"member"`
	Partitions []int   `json:"partitions"`
}

// NValue is N of a member from a moment on.
type NValue struct {
	At     float64 `json:"at"`
	Member int     `json:"member"`
	N      int     `json:"n"`
}

// Saved is how many records were committed from a moment on.
type Saved struct {
	At    float64 `json:"at"`
	Total int     `json:"total"`
}

// Pass is one pass of a stream thread.
type Pass struct {
	Begin   float64 `json:"begin"`
	End     float64 `json:"end"`
	Member  int     `json:"member"`
	N       int     `json:"n"`
	Records int     `json:"records"`
}

// Span is one call.
type Span struct {
	Member    int     `json:"m,omitempty"`
	Partition int     `json:"p,omitempty"`
	Offset    int     `json:"o,omitempty"`
	Begin     float64 `json:"b"`
	End       float64 `json:"e"`
	Cut       bool    `json:"cut,omitempty"`
	Repeated  bool    `json:"again,omitempty"` // the record had been done before
	Open      bool    `json:"open,omitempty"`  // it had not ended when the run did
}

// maxSpans bounds the calls that are kept for a picture.
const maxSpans = 4000

// Predictions runs the scenario in virtual time, under every loop that it has.
func Predictions(s *Scenario, scale int) []*Facts {
	if s.Plain != nil {
		return []*Facts{predictConsumers(s, scale)}
	}
	return []*Facts{Predict(s, sim.Streams42, scale), Predict(s, sim.PerCall, scale)}
}

// Predict runs the scenario in virtual time.
func Predict(s *Scenario, policy sim.Policy, scale int) *Facts {
	scaled := s.Scaled(scale)
	sc := scaled.virtual(policy)
	sum, trace := sim.Run(sc)
	v := virtual{scale: float64(max(scale, 1)), zero: scaled.Zero}
	f := newFacts(s, ColumnPredicted, scale)
	*f = Facts{
		Column: f.Column, Scenario: f.Scenario, Policy: columnOf(policy), Scale: f.Scale, Length: f.Length, Fed: f.Fed, Newcomer: f.Newcomer, Given: f.Given,
		Evicted: v.moments(sum.Evictions), Fenced: v.moments(sum.Fenced), Commits: v.moments(sum.Commits),
		Failed: len(v.moments(sum.Failed)), Cut: sum.CutCalls,
	}
	f.Fenced = append(f.Fenced, v.moments(sum.Lost)...) // found out by a poll instead of a commit
	slices.Sort(f.Fenced)
	for _, r := range sum.Removed {
		if at := v.at(r.At); at >= 0 && r.Why == sim.SessionClock {
			f.Expired = append(f.Expired, at)
		}
	}
	for _, n := range sum.Committed {
		f.Committed += n
	}
	v.assignments(f, sum, trace)
	v.calls(f, trace)
	v.saved(f, trace)
	for _, e := range s.ByRule {
		f.Given[e.Metric] = e.Values
	}
	return f
}

// newFacts are facts of which only the scenario is known.
func newFacts(s *Scenario, column string, scale int) *Facts {
	f := &Facts{Column: column, Scenario: s.Name, Scale: max(scale, 1), Length: s.For.Seconds(), Given: map[string][]float64{}}
	for _, feed := range s.feeds() {
		f.Fed += feed.Total
	}
	if i := len(s.Members) - 1; s.Members[i].Start >= s.Zero+5*time.Second {
		f.Newcomer = &Newcomer{i, (s.Members[i].Start - s.Zero).Seconds()}
	}
	return f
}

func columnOf(p sim.Policy) string {
	if p == sim.Streams42 {
		return ColumnStreams42
	}
	return ColumnPerCall
}

// virtual turns virtual times into those of facts.
type virtual struct {
	scale float64
	zero  time.Duration
}

func (v virtual) at(d time.Duration) float64 { return round((d - v.zero).Seconds() * v.scale) }

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func (v virtual) moments(list []sim.Moment) []float64 {
	var out []float64
	for _, m := range list {
		if at := v.at(m.At); at >= 0 {
			out = append(out, at)
		}
	}
	return out
}

func (v virtual) assignments(f *Facts, sum sim.Summary, trace []sim.Event) {
	for _, a := range sum.Assigned {
		f.Owners = append(f.Owners, Owner{v.at(a.At), a.Member, slices.Clone(a.Partitions)})
	}
	before := 0
	for _, e := range trace {
		if e.What == sim.Joined && v.at(e.At) < 0 {
			before = max(before, e.N)
		}
	}
	f.Generations = sum.Generation - before
	for _, n := range sum.N {
		f.N = append(f.N, NValue{max(v.at(n.At), 0), n.Member, n.N})
	}
	f.N = settle(f.N)
	for _, p := range sum.Passes {
		if v.at(p.End) >= 0 && p.End > p.Begin {
			f.Passes = append(f.Passes, Pass{v.at(p.Begin), v.at(p.End), p.Member, p.N, p.Records})
		}
	}
}

// settle keeps, of the values of N before zero, the last of each member.
func settle(list []NValue) []NValue {
	var out []NValue
	for i, n := range list {
		later := slices.ContainsFunc(list[i+1:], func(o NValue) bool { return o.Member == n.Member && o.At == 0 })
		if n.At > 0 || !later {
			out = append(out, n)
		}
	}
	return out
}

// saved follows what commits covered: the finished records of the member that
// committed, without those it had lost.
func (v virtual) saved(f *Facts, trace []sim.Event) {
	type place struct{ member, partition int }
	done, kept := map[place]int{}, map[int]int{}
	for _, e := range trace {
		switch e.What {
		case sim.CallEnd:
			k := place{e.Member, e.Partition}
			done[k] = max(done[k], e.Offset+1)
		case sim.Fence:
			for k := range done {
				if k.member == e.Member {
					delete(done, k)
				}
			}
		case sim.CommitOK:
			total := 0
			for k, n := range done {
				if k.member == e.Member {
					kept[k.partition] = max(kept[k.partition], n)
				}
			}
			for _, n := range kept {
				total += n
			}
			if at := v.at(e.At); at >= 0 {
				f.Saved = append(f.Saved, Saved{at, total})
			}
		}
	}
}

func (v virtual) calls(f *Facts, trace []sim.Event) {
	type key struct{ member, partition, offset int }
	open := map[key]int{}
	done := map[[2]int]bool{}
	distinct := map[[2]int]bool{}
	var spans []Span
	for _, e := range trace {
		k, record := key{e.Member, e.Partition, e.Offset}, [2]int{e.Partition, e.Offset}
		switch e.What {
		case sim.CallBegin:
			open[k] = len(spans)
			spans = append(spans, Span{Member: e.Member, Partition: e.Partition, Offset: e.Offset, Begin: v.at(e.At), End: f.Length, Repeated: done[record], Open: true})
		case sim.CallEnd, sim.CallCut:
			c := &spans[open[k]]
			c.End, c.Cut, c.Open = v.at(e.At), e.What == sim.CallCut, false
			done[record] = done[record] || !c.Cut
			if e.What == sim.CallEnd && c.End >= 0 {
				f.Records++
				if !distinct[record] {
					distinct[record] = true
					f.Distinct++
				}
			}
		}
	}
	f.keep(spans)
}

// keep takes the calls since zero, as many as a picture can use.
func (f *Facts) keep(spans []Span) {
	for _, c := range spans {
		if c.End < 0 {
			continue
		}
		f.Calls++
		if len(f.Spans) < maxSpans {
			f.Spans = append(f.Spans, c)
		}
	}
	slices.SortStableFunc(f.Spans, func(a, b Span) int { return cmp.Compare(a.Begin, b.Begin) })
}
