package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rondo-streams/rondo/internal/wire"
)

// producing is a log with few places for producers, and what it should know.
type producing struct {
	t     *testing.T
	fs    *MemFS
	fails atomic.Bool
	l     *Log
	p     *Partition
	known []int64 // by last append, oldest first
	next  map[int64]int32
}

const places = 6

func (w *producing) open() {
	var err error
	w.l, err = Open(Config{Dir: "data", FS: w.fs, Logger: quiet(), ProducersMax: places, SegmentBytes: 1500})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.p = w.l.Partition(ID{}); w.p == nil {
		if w.p, err = w.l.Create(ID{}, DefaultSettings()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *producing) batch(id int64, seq int32) []byte {
	return wire.AppendBatch(nil, wire.BatchOptions{Idempotent: true, ProducerID: id, BaseSequence: seq}, wire.Record{Value: []byte("v")})
}

func (w *producing) append(id int64, seq int32) Result {
	done := make(chan Result, 1)
	w.p.Append(Append{Batches: w.batch(id, seq)}, func(r Result) { done <- r })
	return <-done
}

func (w *producing) check() {
	w.t.Helper()
	var got []int64
	states := w.p.Producers()
	slices.SortFunc(states, func(a, b ProducerState) int { return compareInts(a.LastOffset, b.LastOffset) })
	for _, s := range states {
		got = append(got, s.ID)
	}
	if !slices.Equal(got, w.known) {
		w.t.Fatalf("known are %v, want %v", got, w.known)
	}
	if n := w.l.Stats().Producers; n != int64(len(got)) {
		w.t.Fatalf("%d are counted, %d are there", n, len(got))
	}
}

// TestProducersAreBounded plays producers that come, come back and try again, more
// than there are places for, over appends that fail, restarts and settling. The
// partition always knows those that have written last, and recognizes what they
// repeat.
func TestProducersAreBounded(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 11))
		w := &producing{t: t, fs: &MemFS{}, next: map[int64]int32{}}
		w.fs.Before = func(op Op) error {
			if w.fails.Load() && op.Changes() {
				return errors.New("no")
			}
			return nil
		}
		w.open()
		for range 300 {
			id := rng.Int64N(2 * places)
			switch n := rng.IntN(100); {
			case n < 2:
				if err := w.l.Close(); err != nil {
					t.Fatal(err)
				}
				w.open()
			case n < 10 && len(w.known) > 0: // the last one again
				id = w.known[rng.IntN(len(w.known))]
				if r := w.append(id, w.next[id]-1); r.Err != nil || !r.Duplicate {
					t.Fatalf("repeated by %d: %+v", id, r)
				}
			case n < 20:
				w.fails.Store(true)
				if r := w.append(id, w.next[id]); r.Err == nil {
					t.Fatal("appended to a disk that refuses")
				}
				w.fails.Store(false)
			default:
				if r := w.append(id, w.next[id]); r.Err != nil || r.Duplicate {
					t.Fatalf("seed %d: producer %d at %d: %+v", seed, id, w.next[id], r)
				}
				w.next[id]++
				w.known = append(slices.DeleteFunc(w.known, func(k int64) bool { return k == id }), id)
				if len(w.known) > places {
					w.known = w.known[1:]
				}
			}
			w.check()
		}
		if w.l.Stats().Forgotten == 0 {
			t.Error("nobody was forgotten")
		}
		w.l.Close()
	}
}

// TestProducersOfAllPartitions: while all partitions together remember too many, one
// that has its share forgets one for each that comes.
func TestProducersOfAllPartitions(t *testing.T) {
	l, err := Open(Config{Dir: "data", FS: &MemFS{}, Logger: quiet(), ProducersInAll: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := &producing{t: t, l: l}
	for n := range int32(3) {
		if w.p, err = l.Create(ID{Partition: n}, DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		for id := range int64(90) {
			if r := w.append(id, 7); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	sizes := ""
	for n := range int32(3) {
		sizes += fmt.Sprint(len(l.Partition(ID{Partition: n}).Producers()), " ")
	}
	if sizes != "90 64 64 " {
		t.Errorf("partitions remember %s", sizes)
	}
}

// A checkpoint that is taken while a newcomer's batch may still fail knows whom the
// newcomer has displaced, and only for so long.
func TestCheckpointKnowsTheDisplaced(t *testing.T) {
	w := &producing{t: t, fs: &MemFS{}, next: map[int64]int32{}}
	w.open()
	defer w.l.Close()
	for id := range int64(places) {
		if r := w.append(id, 0); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	w.p.mu.Lock()
	w.p.settled = w.p.hw // as after settling
	e := w.p.entry(Append{Batches: w.batch(places, 0)}, func(Result) {}, wallMs())
	kept := w.p.checkpointed()
	w.p.takeBack(e.undo)
	w.p.leo, w.p.settled = w.p.hw, 0
	left := len(w.p.displaced)
	w.p.mu.Unlock()
	if len(kept) != places || kept[0] == nil {
		t.Errorf("while the batch is pending the checkpoint knows %d producers, the displaced one among them: %v", len(kept), kept[0] != nil)
	}
	if left != 0 {
		t.Errorf("%d are displaced after the batch was taken back", left)
	}
	if r := w.append(places, 0); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.p.mu.Lock()
	left = len(w.p.displaced)
	w.p.mu.Unlock()
	if left != 0 {
		t.Errorf("%d are displaced after the batch was durable", left)
	}
}
