package journal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rondo-streams/rondo/internal/wire"
)

// TestConcurrency runs producers, readers that follow the tail, DeleteRecords,
// settling, retention and compaction at once on a real disk, closes the log in
// the middle of it, and opens it again.
func TestConcurrency(t *testing.T) {
	defer goleak.VerifyNone(t)
	const partitions, producers, each = 4, 8, 150
	cfg := Config{Dir: t.TempDir(), Logger: quiet(), SegmentBytes: 16 << 10, HotBytes: 4 << 10, UnsettledMax: 128 << 10, CleanerBackoff: 20 * time.Millisecond, CheckInterval: 20 * time.Millisecond}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultSettings()
	s.SegmentBytes = 8 << 10
	s.RetentionMs = -1
	ids := make([]ID, partitions)
	for i := range ids {
		ids[i] = ID{topicID(1), int32(i)}
	}
	parts, err := l.CreateAll(ids, s)
	if err != nil {
		t.Fatal(err)
	}
	var group, readers sync.WaitGroup
	acked := make([]atomic.Int64, partitions)
	for n := range producers {
		group.Go(func() {
			for i := range each {
				p := (n + i) % partitions
				o := wire.BatchOptions{}
				if n%2 == 0 {
					// One sequence a producer and partition.
					o = wire.BatchOptions{Idempotent: true, ProducerID: int64(n), BaseSequence: int32(i / partitions)}
				}
				key := fmt.Appendf(nil, "%d-%d", n, i%10)
				r := appendWait(parts[p], Append{Batches: wire.AppendBatch(nil, o, wire.Record{Timestamp: int64(i), Key: key, Value: make([]byte, 100)})})
				if r.Err != nil {
					t.Errorf("producer %d, append %d: %v", n, i, r.Err)
					return
				}
				acked[p].Add(1)
			}
		})
	}
	total := int64(producers * each / partitions)
	for _, p := range parts {
		readers.Go(func() { follow(t, p, total) })
	}
	group.Go(func() { disturb(t, parts) })
	group.Wait()
	readers.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, id := range ids {
		p := l.Partition(id)
		if p.HighWatermark() != acked[i].Load() || p.End() != total {
			t.Errorf("partition %d has %d records, %d were acknowledged", i, p.HighWatermark(), acked[i].Load())
		}
		follow(t, p, total)
	}
}

// disturb deletes records, and turns compaction on and off.
func disturb(t *testing.T, parts []*Partition) {
	for range 20 {
		for _, p := range parts[1:] {
			if _, err := p.DeleteRecords(p.HighWatermark() / 4); err != nil {
				t.Error(err)
			}
		}
		s := parts[0].Settings()
		s.Compact = !s.Compact
		parts[0].Configure(s)
		time.Sleep(2 * time.Millisecond)
	}
}

// follow reads to an offset as a consumer does, waiting at the tail. Offsets
// must ascend; holes are allowed where records were deleted or compacted.
func follow(t *testing.T, p *Partition, end int64) {
	for from := p.Start(); from < end; {
		woken := make(chan struct{})
		cancel := p.Wait(from, func() { close(woken) })
		select {
		case <-woken:
		case <-time.After(30 * time.Second):
			t.Errorf("nobody woke the reader at %d", from)
			return
		}
		cancel()
		batches, err := p.Read(from, 4000, true)
		if err != nil {
			if start := p.Start(); start > from {
				from = start
				continue
			}
			t.Error(err)
			return
		}
		for _, b := range batches {
			err := wire.EachBatch(b, func(h wire.Header, batch []byte) error {
				if h.LastOffset() < from {
					return fmt.Errorf("batch %d to %d, at %d", h.BaseOffset, h.LastOffset(), from)
				}
				from = h.LastOffset() + 1
				_, err := wire.CheckStored(batch)
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// TestWait covers what a waiting reader can see: records, a removal, the end of
// the log, and its own cancelling.
func TestWait(t *testing.T) {
	l, err := Open(Config{Dir: t.TempDir(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Create(ID{topicID(1), 0}, DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	var woken atomic.Int64
	wants := func(n int64) {
		t.Helper()
		// An append is answered before the readers are woken.
		for deadline := time.Now().Add(30 * time.Second); woken.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("woken %d, want %d", woken.Load(), n)
			}
		}
	}
	p.Wait(0, func() { woken.Add(1) })
	cancel := p.Wait(0, func() { woken.Add(100) })
	cancel()
	cancel()
	appendWait(p, Append{Batches: batchOf(1, "x")})
	wants(1)
	p.Wait(0, func() { woken.Add(1) }) // at once
	p.Wait(1, func() { woken.Add(1) }) // by the removal
	if err := l.Remove(p.ID()); err != nil {
		t.Fatal(err)
	}
	wants(3)
	q, err := l.Create(ID{topicID(2), 0}, DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	q.Wait(0, func() { woken.Add(1) })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wants(4)
	if r := appendWait(q, Append{Batches: batchOf(1, "x")}); r.Err == nil {
		t.Fatal("appended to a closed log")
	}
}

// TestFailureOfManyGroups queues more than one write takes, for one partition,
// and lets the first write fail: what stood behind it has offsets that follow
// it, and must fail with it.
func TestFailureOfManyGroups(t *testing.T) {
	m := &MemFS{}
	gate, syncs := make(chan struct{}), 0
	m.Before = oneAtATime(func(op Op) error {
		if op.Name != "datasync" || !strings.Contains(op.Path, journalDir) {
			return nil
		}
		switch syncs++; syncs {
		case 2:
			<-gate
		case 3:
			return errors.New("injected")
		}
		return nil
	})
	l, err := Open(Config{Dir: "data", FS: m, Logger: quiet(), Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := l.Create(ID{topicID(1), 0}, DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan Result, 5)
	done := func(r Result) { results <- r }
	p.Append(Append{Batches: batchOf(1, "held while the others come")}, done)
	for i := range 4 {
		o := wire.BatchOptions{Idempotent: true, ProducerID: 1, BaseSequence: int32(i)}
		p.Append(Append{Batches: wire.AppendBatch(nil, o, wire.Record{Value: make([]byte, groupBytes/2)})}, done)
	}
	close(gate)
	for i := range cap(results) {
		if r := <-results; (i == 0) != (r.Err == nil) || i > 0 && !errors.Is(r.Err, ErrFull) {
			t.Fatalf("append %d: %+v", i, r)
		}
	}
	if end, hw, known := p.End(), p.HighWatermark(), len(p.Producers()); end != 1 || hw != 1 || known != 0 {
		t.Fatalf("the log ends at %d, acknowledged is %d, %d producers are known", end, hw, known)
	}
}

// BenchmarkAcks counts durable acknowledgements of 1 KiB batches over 64
// partitions, by how many producers wait at once.
func BenchmarkAcks(b *testing.B) {
	for _, producers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("producers-%d", producers), func(b *testing.B) {
			l, err := Open(Config{Dir: b.TempDir(), Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			ids := make([]ID, 64)
			for i := range ids {
				ids[i] = ID{topicID(1), int32(i)}
			}
			parts, err := l.CreateAll(ids, DefaultSettings())
			if err != nil {
				b.Fatal(err)
			}
			batch := wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Value: make([]byte, 950)})
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var group sync.WaitGroup
			for n := range producers {
				group.Go(func() {
					done := make(chan Result, 1)
					for next.Add(1) <= int64(b.N) {
						parts[n%len(parts)].Append(Append{Batches: append([]byte(nil), batch...)}, func(r Result) { done <- r })
						if r := <-done; r.Err != nil {
							b.Error(r.Err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
			s := l.Stats()
			b.ReportMetric(float64(s.Appends)/float64(max(s.Groups, 1)), "acks/group")
		})
	}
}

// BenchmarkCatchUp reads one of 64 partitions after everything was settled.
func BenchmarkCatchUp(b *testing.B) {
	l, err := Open(Config{Dir: b.TempDir(), Logger: quiet(), Flush: FlushNever, SegmentBytes: 16 << 20, HotBytes: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ids := make([]ID, 64)
	for i := range ids {
		ids[i] = ID{topicID(1), int32(i)}
	}
	parts, err := l.CreateAll(ids, DefaultSettings())
	if err != nil {
		b.Fatal(err)
	}
	batch := wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Value: make([]byte, 950)})
	var group sync.WaitGroup
	for i := range 64 << 10 {
		group.Add(1)
		parts[i%64].Append(Append{Batches: append([]byte(nil), batch...)}, func(Result) { group.Done() })
	}
	group.Wait()
	_ = l.enqueue(pending{seal: true})
	for l.Stats().Unsettled > 0 {
		time.Sleep(time.Millisecond)
	}
	b.SetBytes(parts[0].Size())
	b.ResetTimer()
	for n := 0; b.Loop(); n++ {
		p := parts[n%64]
		for from := int64(0); from < p.HighWatermark(); {
			batches, err := p.Read(from, 1<<20, true)
			if err != nil || len(batches) == 0 {
				b.Fatal(err)
			}
			for _, run := range batches {
				for rest := run; len(rest) > 0; rest = rest[batchSize(rest):] {
					from = batchLast(rest) + 1
				}
			}
		}
	}
}

// BenchmarkSettle copies a journal of 64 MiB into the files of many partitions.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{64, 1000} {
		b.Run(fmt.Sprintf("partitions-%d", n), func(b *testing.B) {
			const size = 64 << 20
			b.SetBytes(size)
			for b.Loop() {
				b.StopTimer()
				l, err := Open(Config{Dir: b.TempDir(), Logger: quiet(), Flush: FlushNever, SegmentBytes: 1 << 30})
				if err != nil {
					b.Fatal(err)
				}
				ids := make([]ID, n)
				for i := range ids {
					ids[i] = ID{topicID(1), int32(i)}
				}
				parts, err := l.CreateAll(ids, DefaultSettings())
				if err != nil {
					b.Fatal(err)
				}
				batch := wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Value: make([]byte, 16<<10)})
				var group sync.WaitGroup
				for i := range size / len(batch) {
					group.Add(1)
					parts[i%n].Append(Append{Batches: append([]byte(nil), batch...)}, func(Result) { group.Done() })
				}
				group.Wait()
				b.StartTimer()
				_ = l.enqueue(pending{seal: true})
				for l.Stats().Unsettled > 0 {
					time.Sleep(time.Millisecond)
				}
				b.StopTimer()
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
