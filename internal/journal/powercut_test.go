package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// ledger is what a test knows of one partition: what it sent, in order, and
// what became of it.
type ledger struct {
	id      ID
	p       *Partition
	sent    []*sentBatch
	start   int64 // the highest start that was asked for
	started int64 // and the highest that was acknowledged
	gone    bool  // its removal was asked for
	removed bool  // and acknowledged
}

type sentBatch struct {
	values []string
	done   bool
	result Result
}

// workload runs a seeded mix of everything that changes a log, several appends
// at a time, until the disk fails or it is through. With goOn it does not stop
// at failures.
type workload struct {
	l    *Log
	rng  *rand.Rand
	goOn bool
	made []*ledger
	next int
}

func (w *workload) run(rounds int) {
	for round := range rounds {
		if len(w.made) < 2 || round == 7 {
			g := &ledger{id: ID{topicID(byte(len(w.made) + 1)), int32(round)}}
			s := DefaultSettings()
			s.SegmentBytes = 700
			p, err := w.l.Create(g.id, s)
			if err == nil {
				g.p = p
				w.made = append(w.made, g)
			} else if !w.goOn {
				return
			}
		}
		if !w.appends(round) && !w.goOn {
			return
		}
		if !w.others(round) && !w.goOn {
			return
		}
		synctest.Wait()
	}
}

// appends sends several batches at once and waits for all of them.
func (w *workload) appends(round int) bool {
	results := make(chan error, 64)
	n := 1 + w.rng.IntN(8)
	sent := 0
	for range n {
		if len(w.made) == 0 {
			break
		}
		g := w.made[w.rng.IntN(len(w.made))]
		if g.gone {
			continue
		}
		values := []string{}
		for range 1 + w.rng.IntN(3) {
			w.next++
			values = append(values, fmt.Sprintf("%d%s", w.next, strings.Repeat("x", w.rng.IntN(200))))
		}
		b := &sentBatch{values: values}
		g.sent = append(g.sent, b)
		sent++
		g.p.Append(Append{Batches: batchOf(int64(round), values...), LeaderEpoch: int32(round / 5)}, func(r Result) {
			b.done, b.result = true, r
			results <- r.Err
		})
	}
	ok := true
	for range sent {
		ok = <-results == nil && ok
	}
	return ok
}

func (w *workload) others(round int) bool {
	if len(w.made) == 0 {
		return true
	}
	g := w.made[w.rng.IntN(len(w.made))]
	switch {
	case g.gone:
	case round%5 == 4:
		before := g.p.Start() + w.rng.Int64N(1+g.p.HighWatermark()-g.p.Start())
		g.start = max(g.start, before)
		low, err := g.p.DeleteRecords(before)
		if err != nil {
			return false
		}
		g.started = max(g.started, low)
	case round == 9:
		g.gone = true
		if err := w.l.Remove(g.id); err != nil {
			return false
		}
		g.removed = true
	}
	return true
}

// check holds a log against what was sent: every acknowledged record is there,
// in order, once, at the offset that was answered; whatever else is there was
// sent after them, and whole. With failures survived, only the tail may hold
// what was not acknowledged.
func (w *workload) check(t *testing.T, l *Log) {
	t.Helper()
	for _, g := range w.made {
		p := l.Partition(g.id)
		if p == nil {
			if !g.gone {
				t.Fatalf("partition %s was acknowledged and is gone", g.id)
			}
			continue
		}
		if g.removed {
			t.Fatalf("partition %s was removed and is there", g.id)
		}
		g.p = p
		if p.Start() < g.started || p.Start() > g.start {
			t.Fatalf("partition %s starts at %d; asked %d, acknowledged %d", g.id, p.Start(), g.start, g.started)
		}
		got := valuesOf(t, p, 300)
		i := 0
		take := func(values []string, base int64) bool {
			for j, v := range values {
				offset := base + int64(j)
				if offset < p.Start() {
					continue
				}
				if i >= len(got) || got[i] != fmt.Sprintf("%d:%s", offset, v) {
					return false
				}
				i++
			}
			return true
		}
		var tail []*sentBatch
		end := int64(0)
		for _, s := range g.sent {
			if s.done && s.result.Err == nil {
				if !take(s.values, s.result.Base) {
					t.Fatalf("partition %s: acknowledged %v at %d is not there: at %d of %v", g.id, s.values, s.result.Base, i, got)
				}
				end, tail = s.result.Last+1, nil
			} else {
				tail = append(tail, s)
			}
		}
		for _, s := range tail {
			if i < len(got) && take(s.values, end) {
				end += int64(len(s.values))
			}
		}
		if i != len(got) {
			t.Fatalf("partition %s: %v was not sent after what was acknowledged, or is half there", g.id, got[i:])
		}
	}
}

// goesOn appends to every partition of a log that was opened again.
func (w *workload) goesOn(t *testing.T, l *Log) {
	t.Helper()
	w.takeUp(t, l)
	for round := range 3 {
		if !w.appends(round) {
			t.Fatal("the log does not go on")
		}
	}
	w.check(t, l)
	if err := l.enqueue(pending{seal: true}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if l.k.failure != nil || l.stats.unsettled.Load() > 0 {
		t.Fatalf("the log cannot be settled: %v", l.k.failure)
	}
}

// takeUp makes what a log has the beginning of the next life.
func (w *workload) takeUp(t *testing.T, l *Log) {
	t.Helper()
	for _, g := range w.made {
		if g.p = l.Partition(g.id); g.p == nil {
			continue
		}
		// What survived without an acknowledgement counts as sent from now on.
		var sent []*sentBatch
		for _, v := range valuesOf(t, g.p, 1<<20) {
			offset, value, _ := strings.Cut(v, ":")
			var base int64
			fmt.Sscan(offset, &base)
			sent = append(sent, &sentBatch{values: []string{value}, done: true, result: Result{Base: base, Last: base}})
		}
		g.sent, g.gone = sent, false
		g.start, g.started = g.p.Start(), g.p.Start()
	}
	w.made = slices.DeleteFunc(w.made, func(g *ledger) bool { return g.p == nil })
	w.l = l
}

func testConfig(fs FS) Config {
	return Config{Dir: "data", FS: fs, Logger: quiet(), SegmentBytes: 1500, HotBytes: 400, Ballast: 300}
}

const workloadRounds = 12

// oneAtATime lets the log's goroutines count in one variable.
func oneAtATime(f func(Op) error) func(Op) error {
	var mu sync.Mutex
	return func(op Op) error {
		mu.Lock()
		defer mu.Unlock()
		return f(op)
	}
}

// countOps runs the workload undisturbed and counts what it does to the disk.
func countOps(t *testing.T, seed uint64) (n int) {
	synctest.Test(t, func(t *testing.T) {
		m := &MemFS{}
		m.Before = oneAtATime(func(op Op) error {
			if op.Changes() {
				n++
			}
			return nil
		})
		l, err := Open(testConfig(m))
		if err != nil {
			t.Fatal(err)
		}
		w := &workload{l: l, rng: rand.New(rand.NewPCG(seed, 1))}
		w.run(workloadRounds)
		w.check(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if s := l.Stats(); s.Settled < 2 || s.Reused < 1 {
			t.Fatalf("the workload settles too little: %+v", s)
		}
	})
	return n
}

// TestPowerCut cuts the power before every single operation that changes the
// disk, and opens the log on what is left.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(3) {
		total := countOps(t, seed)
		for at := 1; at <= total; at++ {
			for _, torn := range []bool{false, true} {
				name := fmt.Sprintf("seed %d, power cut at operation %d of %d, torn %v", seed, at, total, torn)
				synctest.Test(t, func(t *testing.T) { cutPowerAt(t, name, seed, at, torn) })
				if t.Failed() {
					t.Fatal(name)
				}
			}
		}
	}
}

func cutPowerAt(t *testing.T, name string, seed uint64, at int, torn bool) {
	m := &MemFS{}
	n := 0
	m.Before = oneAtATime(func(op Op) error {
		if op.Changes() {
			n++
		}
		if n >= at {
			return errDead
		}
		return nil
	})
	w := &workload{rng: rand.New(rand.NewPCG(seed, 1))}
	l, err := Open(testConfig(m))
	if err == nil {
		w.l = l
		w.run(workloadRounds)
		l.Close() // fails, without power
	}
	var rng *rand.Rand
	if torn {
		rng = rand.New(rand.NewPCG(seed, uint64(at)))
	}
	m.PowerCut(rng)
	m.Before = nil
	m.Start()
	l, err = Open(testConfig(m))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer l.Close()
	w.check(t, l)
	w.goesOn(t, l)
	synctest.Wait()
	if err := l.Close(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	m.PowerCut(rng)
	m.Start()
	if l, err = Open(testConfig(m)); err != nil {
		t.Fatalf("%s: the second time: %v", name, err)
	}
	defer l.Close()
	w.check(t, l)
	if err := l.Close(); err != nil {
		t.Fatalf("%s: the second time: %v", name, err)
	}
}

// TestManyPowerCuts cuts the power of one directory again and again, at any
// operation. What a life left in the files that the next ones write over must
// never come back, and never be taken for damage.
func TestManyPowerCuts(t *testing.T) {
	reused := int64(0)
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 77))
			m := &MemFS{}
			w := &workload{rng: rng}
			cfg := testConfig(m)
			cfg.Ahead = int64(seed%2) - 1 // every other seed nothing marks the end of a group
			for life := range 6 {
				var left atomic.Int64
				left.Store(rng.Int64N(170))
				m.Before = func(op Op) error {
					if n := left.Load(); n < 0 || op.Changes() && left.Add(-1) < 0 {
						return errDead
					}
					return nil
				}
				if l, err := Open(cfg); err == nil {
					rest := left.Swap(1 << 40)
					w.check(t, l)
					w.takeUp(t, l)
					left.Store(rest)
					w.run(workloadRounds)
					l.Close() // fails, without power
					reused += l.Stats().Reused
				} else if !errors.Is(err, errDead) {
					t.Fatalf("seed %d, life %d: %v", seed, life, err)
				}
				m.PowerCut(rng)
				m.Start()
			}
			m.Before = nil
			l, err := Open(cfg)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w.check(t, l)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if reused < 500 {
		t.Errorf("only %d segments were written over others", reused)
	}
}

// TestKillThenPowerCut kills the process before every single operation that
// changes the disk, goes on with what it left, and cuts the power: what was
// readable after the kill must not go away, durable or not when it was killed.
func TestKillThenPowerCut(t *testing.T) {
	const seed = 5
	total := countOps(t, seed)
	for at := 1; at <= total; at++ {
		name := fmt.Sprintf("kill at operation %d of %d", at, total)
		synctest.Test(t, func(t *testing.T) {
			m := &MemFS{}
			n := 0
			m.Before = oneAtATime(func(op Op) error {
				if op.Changes() {
					n++
				}
				if n >= at {
					return errDead
				}
				return nil
			})
			w := &workload{rng: rand.New(rand.NewPCG(seed, 1))}
			l, err := Open(testConfig(m))
			if err == nil {
				w.l = l
				w.run(workloadRounds)
				l.Close()
			}
			m.Kill()
			m.Before = nil
			m.Start()
			for range 2 {
				l, err := Open(testConfig(m))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				defer l.Close()
				w.check(t, l)
				w.goesOn(t, l)
				m.Kill()
				l.Close() // its goroutines end; it cannot reach the disk
				m.PowerCut(nil)
				m.Start()
			}
		})
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestFailureAtEveryCall fails every single operation once, and goes on.
func TestFailureAtEveryCall(t *testing.T) {
	injected := errors.New("injected failure")
	for seed := range uint64(2) {
		total := countOps(t, seed)
		for at := 1; at <= total; at++ {
			name := fmt.Sprintf("seed %d, failure of operation %d of %d", seed, at, total)
			synctest.Test(t, func(t *testing.T) {
				m := &MemFS{}
				n := 0
				var failed Op
				m.Before = oneAtATime(func(op Op) error {
					if op.Changes() {
						n++
						if n == at {
							failed = op
							return injected
						}
					}
					return nil
				})
				l, err := Open(testConfig(m))
				if err != nil {
					if !errors.Is(err, injected) {
						t.Fatalf("%s: %v", name, err)
					}
					return
				}
				defer l.Close()
				w := &workload{l: l, rng: rand.New(rand.NewPCG(seed, 1)), goOn: true}
				w.run(workloadRounds)
				w.check(t, l)
				err = l.Close()
				if err != nil && !errors.Is(err, injected) {
					t.Fatalf("%s (%v): %v", name, failed, err)
				}
				m.PowerCut(nil)
				m.Before = nil
				m.Start()
				if l, err = Open(testConfig(m)); err != nil {
					t.Fatalf("%s (%v): %v", name, failed, err)
				}
				defer l.Close()
				w.check(t, l)
				w.goesOn(t, l)
				if err := l.Close(); err != nil {
					t.Fatalf("%s (%v): %v", name, failed, err)
				}
			})
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
}
