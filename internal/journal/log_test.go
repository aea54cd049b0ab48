package journal

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/rondo-streams/rondo/internal/wire"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func topicID(b byte) [16]byte {
	var id [16]byte
	id[15] = b
	return id
}

func batchOf(ts int64, values ...string) []byte {
	records := make([]wire.Record, len(values))
	for i, v := range values {
		records[i] = wire.Record{Timestamp: ts + int64(i), Value: []byte(v)}
	}
	return wire.AppendBatch(nil, wire.BatchOptions{}, records...)
}

func appendWait(p *Partition, a Append) Result {
	ch := make(chan Result, 1)
	p.Append(a, func(r Result) { ch <- r })
	return <-ch
}

// valuesOf reads the whole partition.
func valuesOf(t testing.TB, p *Partition, maxBytes int) (values []string) {
	t.Helper()
	for from := p.Start(); from < p.HighWatermark(); {
		batches, err := p.Read(from, maxBytes, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			return values
		}
		for _, b := range batches {
			err := wire.EachBatch(b, func(h wire.Header, batch []byte) error {
				if _, err := wire.CheckStored(batch); err != nil {
					return err
				}
				return wire.EachRecord(batch, func(r wire.Record) error {
					if r.Offset >= from {
						values = append(values, fmt.Sprintf("%d:%s", r.Offset, r.Value))
						from = r.Offset + 1
					}
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			h, _ := wire.ParseHeader(b)
			from = max(from, h.LastOffset()+1)
		}
	}
	return values
}

func TestAppendReadReopen(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Logger: quiet(), SegmentBytes: 2000, HotBytes: 300}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	p, err := l.Create(ID{topicID(1), 0}, DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		for i := range 40 {
			v := fmt.Sprintf("value-%d-%d", round, i)
			r := appendWait(p, Append{Batches: batchOf(int64(1000*round+i), v, v+"b")})
			if r.Err != nil || r.Base != int64(len(want)) {
				t.Fatalf("append: %+v, want base %d", r, len(want))
			}
			want = append(want, fmt.Sprintf("%d:%s", len(want), v), fmt.Sprintf("%d:%sb", len(want)+1, v))
		}
		for _, max := range []int{1, 200, 1 << 20} {
			if got := valuesOf(t, p, max); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("read by %d: got %v\nwant %v", max, got, want)
			}
		}
		t.Logf("%+v", l.Stats())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(cfg); err != nil {
			t.Fatal(err)
		}
		if p = l.Partition(ID{topicID(1), 0}); p == nil {
			t.Fatal("the partition is gone")
		}
		if got := valuesOf(t, p, 500); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("after reopening: got %v\nwant %v", got, want)
		}
	}
	if _, err := Open(cfg); err == nil {
		t.Fatal("opened twice")
	} else {
		t.Log(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
