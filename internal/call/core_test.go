package call

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// story runs one window from a transcript.
type story struct {
	w     *Window
	now   time.Time
	began time.Time
}

func TestWindowStories(t *testing.T) {
	datadriven.Walk(t, "testdata/window", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, s.run)
	})
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "window":
		return s.open(t, d)
	case "offer":
		var key string
		var partition int
		var limit string
		d.MaybeScanArgs(t, "key", &key)
		d.MaybeScanArgs(t, "partition", &partition)
		d.MaybeScanArgs(t, "limit", &limit)
		return s.step(Offer{Partition: int32(partition), Key: keyHash(key), Limit: span(t, limit)})
	case "came":
		var after string
		d.MaybeScanArgs(t, "retry-after", &after)
		id, attempt := s.attempt(t, d)
		failure := None
		for _, f := range []Failure{Service, Late, Fatal, Crash} {
			if d.HasArg(f.String()) {
				failure = f
			}
		}
		return s.step(Came{ID: id, Attempt: attempt, Failure: failure, RetryAfter: span(t, after)})
	case "refused":
		var at string
		d.ScanArgs(t, "for", &at)
		id, attempt := s.attempt(t, d)
		return s.step(Refused{ID: id, Attempt: attempt, At: s.now.Add(span(t, at))})
	case "hold":
		var at string
		d.ScanArgs(t, "for", &at)
		return s.step(Hold{Until: s.now.Add(span(t, at))})
	case "drain":
		return s.step(Drain{})
	case "advance":
		return s.advance(span(t, d.CmdArgs[0].Key))
	case "show":
		return fmt.Sprintf("%d in the window, %d in flight, full=%v, worst %s\n", s.w.Len(), s.w.InFlight(), s.w.Full(), s.w.set.Worst())
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func (s *story) open(t *testing.T, d *datadriven.TestData) string {
	set := Settings{Timeout: 10 * time.Second}
	var order, timeout, backoff, budget string
	d.MaybeScanArgs(t, "timeout", &timeout)
	d.MaybeScanArgs(t, "backoff", &backoff)
	d.MaybeScanArgs(t, "budget", &budget)
	d.MaybeScanArgs(t, "parallel", &set.Parallel)
	d.MaybeScanArgs(t, "attempts", &set.Attempts)
	d.MaybeScanArgs(t, "buffer", &set.Buffer)
	d.MaybeScanArgs(t, "order", &order)
	if timeout != "" {
		set.Timeout = span(t, timeout)
	}
	set.Backoff, set.Budget = span(t, backoff), span(t, budget)
	set.Order = Order(max(slices.Index([]string{"partition", "key", "none"}, order), 0))
	s.now = time.Unix(0, 0)
	s.began = s.now
	s.w = NewWindow(set, rand.New(rand.NewPCG(1, 1)))
	return "worst " + set.Worst().String() + "\n"
}

func (s *story) attempt(t *testing.T, d *datadriven.TestData) (ID, int) {
	id, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	attempt := 1
	if e := s.w.entries[ID(id)]; e != nil {
		attempt = e.attempt
	}
	d.MaybeScanArgs(t, "attempt", &attempt)
	return ID(id), attempt
}

func (s *story) step(in In) string {
	var b strings.Builder
	for _, a := range s.w.Step(s.now, in) {
		fmt.Fprintf(&b, "%s\n", a)
	}
	return b.String()
}

// advance moves time on from alarm to alarm.
func (s *story) advance(d time.Duration) string {
	var b strings.Builder
	end := s.now.Add(d)
	for {
		at, ok := s.w.Next()
		if !ok || at.After(end) {
			break
		}
		s.now = at
		if out := s.step(Tick{}); out != "" {
			fmt.Fprintf(&b, "%s\n%s", at.Sub(s.began).Round(time.Millisecond), out)
		}
	}
	s.now = end
	return b.String()
}

func keyHash(key string) (h uint64) {
	for _, c := range key {
		h = h*31 + uint64(c)
	}
	return h
}

func span(t *testing.T, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWindowRules plays random services against random windows and holds every
// act against the rules of the package.
func TestWindowRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Settings{
			Timeout:  time.Duration(rapid.IntRange(1, 2000).Draw(t, "timeout")) * time.Millisecond,
			Parallel: rapid.IntRange(1, 5).Draw(t, "parallel"),
			Order:    Order(rapid.IntRange(0, 2).Draw(t, "order")),
			Attempts: rapid.IntRange(1, 4).Draw(t, "attempts"),
			Backoff:  time.Duration(rapid.IntRange(1, 500).Draw(t, "backoff")) * time.Millisecond,
			Budget:   time.Duration(rapid.IntRange(0, 3000).Draw(t, "budget")) * time.Millisecond,
		}
		w := newWorld(t, set)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.turn()
		}
		w.settle()
	})
}

type offered struct {
	partition int32
	key       uint64
	begun     time.Time
	attempts  int
	out       bool // an attempt is out
	emitted   bool
}

type world struct {
	t       *rapid.T
	set     Settings
	w       *Window
	now     time.Time
	records map[ID]*offered
	drained bool
}

func newWorld(t *rapid.T, set Settings) *world {
	return &world{t: t, set: set.WithDefaults(), w: NewWindow(set, rand.New(rand.NewPCG(2, 3))), now: time.Unix(1000, 0), records: map[ID]*offered{}}
}

func (w *world) turn() {
	switch rapid.IntRange(0, 5).Draw(w.t, "what") {
	case 0, 1:
		o := &offered{partition: int32(rapid.IntRange(0, 1).Draw(w.t, "p")), key: uint64(rapid.IntRange(0, 2).Draw(w.t, "k"))}
		w.records[ID(len(w.records)+1)] = o
		w.step(Offer{Partition: o.partition, Key: o.key})
	case 2, 3:
		if id, ok := w.pick(); ok {
			o := w.records[id]
			o.out = false
			f := Failure(rapid.IntRange(int(None), int(Crash)).Draw(w.t, "f"))
			w.step(Came{ID: id, Attempt: o.attempts, Failure: f, RetryAfter: time.Duration(rapid.IntRange(0, 2).Draw(w.t, "ra")) * time.Second})
		}
	case 4:
		w.advance(time.Duration(rapid.IntRange(1, 3000).Draw(w.t, "ms")) * time.Millisecond)
	case 5:
		if rapid.IntRange(0, 9).Draw(w.t, "rare") == 0 {
			w.drained = true
			w.step(Drain{})
		} else if id, ok := w.pick(); ok {
			o := w.records[id]
			o.out = false
			o.attempts--
			w.step(Refused{ID: id, Attempt: o.attempts + 1, At: w.now.Add(time.Second)})
		}
	}
}

// pick is some attempt that is out.
func (w *world) pick() (ID, bool) {
	var out []ID
	for id, o := range w.records {
		if o.out {
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		return 0, false
	}
	slices.Sort(out)
	return rapid.SampledFrom(out).Draw(w.t, "id"), true
}

func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		at, ok := w.w.Next()
		if !ok || at.After(end) {
			w.now = end
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		w.step(Tick{})
	}
}

// settle lets every attempt hang: all that have begun must leave by themselves.
func (w *world) settle() {
	for i := 0; w.w.Len() > 0; i++ {
		if i > 1000 {
			w.t.Fatalf("%d records never left the window", w.w.Len())
		}
		w.advance(time.Minute)
	}
	for id, o := range w.records {
		if !o.emitted && !w.drained {
			w.t.Fatalf("record %d was lost", id)
		}
	}
	if w.w.InFlight() != 0 {
		w.t.Fatalf("%d in flight in an empty window", w.w.InFlight())
	}
}

func (w *world) step(in In) {
	for _, a := range slices.Clone(w.w.Step(w.now, in)) {
		o := w.records[a.ID]
		switch a.Kind {
		case Start:
			if o.attempts == 0 {
				o.begun = w.now
			}
			o.attempts++
			o.out = true
			w.checkStart(a, o)
		case Cut:
			o.out = false
		case Emit:
			w.checkEmit(a, o)
		}
	}
	if w.w.InFlight() > w.set.Parallel {
		w.t.Fatalf("%d in flight, parallel is %d", w.w.InFlight(), w.set.Parallel)
	}
}

func (w *world) checkStart(a Act, o *offered) {
	if a.Attempt != o.attempts || a.Attempt > w.set.Attempts || o.emitted {
		w.t.Fatalf("%s: attempt %d of %d, emitted %v", a, o.attempts, w.set.Attempts, o.emitted)
	}
	if a.Deadline.After(o.begun.Add(w.set.Worst())) || !a.Deadline.After(w.now) {
		w.t.Fatalf("%s: deadline %s after its begin, worst is %s", a, a.Deadline.Sub(o.begun), w.set.Worst())
	}
	if w.set.Order != ByKey {
		return
	}
	for id, other := range w.records {
		if id != a.ID && other.key == o.key && other.out {
			w.t.Fatalf("%s: call %d of the same key is in flight", a, id)
		}
	}
}

func (w *world) checkEmit(a Act, o *offered) {
	if o.emitted || (o.out && a.Failure == None) {
		w.t.Fatalf("%s: emitted before %v, attempt out %v", a, o.emitted, o.out)
	}
	o.emitted = true
	for id, other := range w.records {
		same := w.set.Order == ByPartition && other.partition == o.partition || w.set.Order == ByKey && other.key == o.key
		if same && id < a.ID && !other.emitted {
			w.t.Fatalf("%s: overtakes %d", a, id)
		}
	}
}

// TestOffsetsRules ends random records and holds Lowest against a plain model.
func TestOffsetsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := NewOffsets(100)
		open := map[int64]bool{}
		next, highest := int64(100), int64(99)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "begin") {
				next += int64(rapid.IntRange(0, 2).Draw(t, "gap"))
				o.Begin(next, 7)
				open[next] = true
				highest = next
				next++
			} else if len(open) > 0 {
				offsets := make([]int64, 0, len(open))
				for off := range open {
					offsets = append(offsets, off)
				}
				slices.Sort(offsets)
				off := rapid.SampledFrom(offsets).Draw(t, "end")
				delete(open, off)
				if !o.End(off) || o.End(off) {
					t.Fatalf("End(%d) must work exactly once", off)
				}
			}
			lowest, _ := o.Lowest()
			for off := range open {
				if lowest > off {
					t.Fatalf("lowest %d passes unfinished %d", lowest, off)
				}
			}
			if len(open) == 0 && lowest != max(highest+1, 100) {
				t.Fatalf("all finished: lowest %d, want %d", lowest, highest+1)
			}
			if o.Open() != len(open) {
				t.Fatalf("open %d, want %d", o.Open(), len(open))
			}
		}
	})
}
