package journal

import (
	"errors"
	"sync"
	"testing"

	"github.com/rondo-streams/rondo/internal/wire"
)

// TestAppendPair: two appends that are made together are one write and one sync; one
// of them may be refused without the other; and whoever pairs them the other way
// round waits for nobody for ever.
func TestAppendPair(t *testing.T) {
	l, err := Open(Config{Dir: "data", FS: &MemFS{}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var p [2]*Partition
	for n := range p {
		if p[n], err = l.Create(ID{Partition: int32(n)}, DefaultSettings()); err != nil {
			t.Fatal(err)
		}
	}
	batch := func() Append {
		return Append{Batches: wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Value: []byte("v")})}
	}
	pair := func(a, b int, first Append) (Result, Result) {
		done, then := make(chan Result, 1), make(chan Result, 1)
		AppendPair(p[a], first, func(r Result) { done <- r }, p[b], batch(), func(r Result) { then <- r })
		return <-done, <-then
	}
	before := l.Stats()
	if one, two := pair(0, 1, batch()); one.Err != nil || two.Err != nil {
		t.Fatal(one.Err, two.Err)
	}
	if s := l.Stats(); s.Groups != before.Groups+1 || s.Syncs != before.Syncs+1 || s.Appends != before.Appends+2 {
		t.Errorf("a pair took %d writes and %d syncs", s.Groups-before.Groups, s.Syncs-before.Syncs)
	}
	if one, two := pair(1, 0, Append{}); !errors.Is(one.Err, ErrInvalidBatch) || two.Err != nil || two.Base != 1 {
		t.Errorf("the first without a batch: %+v, %+v", one, two)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 50 {
				pair(n%2, 1-n%2, batch())
			}
		})
	}
	all.Wait()
	if p[0].HighWatermark() != 402 || p[1].HighWatermark() != 401 {
		t.Errorf("%d and %d records", p[0].HighWatermark(), p[1].HighWatermark())
	}
}
