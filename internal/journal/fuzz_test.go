package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
)

// fuzzDisk makes a disk with everything on it that a start reads: a checkpoint,
// a settled segment, two journal segments, controls and producers.
func fuzzDisk(t testing.TB) (*MemFS, []string) {
	t.Helper()
	m := &MemFS{}
	var want []string
	for session := range 2 {
		l, err := Open(Config{Dir: "data", FS: m, Logger: quiet(), Ballast: -1, SegmentBytes: 600})
		if err != nil {
			t.Fatal(err)
		}
		if session == 0 {
			if _, err := l.Create(ID{topicID(1), 0}, DefaultSettings()); err != nil {
				t.Fatal(err)
			}
		}
		for session == 1 && l.Stats().Unsettled > 0 {
			time.Sleep(time.Millisecond)
		}
		p := l.Partition(ID{topicID(1), 0})
		for range 6 {
			i := len(want)
			o := wire.BatchOptions{Idempotent: true, ProducerID: 9, BaseSequence: int32(i)}
			v := fmt.Sprintf("value %d", i)
			r := appendWait(p, Append{Batches: wire.AppendBatch(nil, o, wire.Record{Timestamp: int64(i), Value: []byte(v)})})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			want = append(want, fmt.Sprintf("%d:%s", i, v))
		}
		if _, err := p.DeleteRecords(int64(session)); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return m, want[1:]
}

// copyOf gives a disk of its own to one try.
func copyOf(m *MemFS) *MemFS {
	c := &MemFS{live: map[string]*memNode{}, safe: map[string]*memNode{}, locks: map[string]bool{}}
	for path, n := range m.live {
		c.live[path] = &memNode{dir: n.dir, data: bytes.Clone(n.data), synced: bytes.Clone(n.synced)}
		c.safe[path] = c.live[path]
	}
	return c
}

// openDamaged opens a damaged disk. Either it says what is wrong, or everything
// is there: after an orderly end nothing counts as a torn tail.
func openDamaged(t *testing.T, m *MemFS, want []string, what string) {
	t.Helper()
	l, err := Open(Config{Dir: "data", FS: m, Logger: quiet(), Ballast: -1, SegmentBytes: 600})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: %v is not ErrCorrupt", what, err)
		}
		return
	}
	defer l.Close()
	p := l.Partition(ID{topicID(1), 0})
	if p == nil {
		t.Fatalf("%s: opened without the partition", what)
	}
	got, err := readAll(p)
	if errors.Is(err, ErrCorrupt) || errors.Is(err, wire.ErrCorrupt) {
		return // found while reading
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: opened without an error and lost something:\ngot  %v\nwant %v", what, got, want)
	}
	if r := appendWait(p, Append{Batches: batchOf(1, "more")}); r.Err != nil || r.Base != 12 {
		t.Fatalf("%s: does not go on: %+v", what, r)
	}
}

// readAll reads a partition as a client would, with its checks.
func readAll(p *Partition) (values []string, err error) {
	for from := p.Start(); from < p.HighWatermark(); {
		batches, err := p.Read(from, 1<<20, true)
		if err != nil {
			return nil, err
		}
		if len(batches) == 0 {
			break
		}
		for _, b := range batches {
			err := wire.EachBatch(b, func(h wire.Header, batch []byte) error {
				if _, err := wire.CheckStored(batch); err != nil {
					return err // clients do this
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
				return nil, err
			}
		}
	}
	return values, nil
}

// TestEveryByteOfTheDisk changes each byte of each file.
func TestEveryByteOfTheDisk(t *testing.T) {
	disk, want := fuzzDisk(t)
	files := 0
	for path, size := range disk.Files() {
		if !strings.Contains(path, "journal") && !strings.Contains(path, "partitions") && !strings.Contains(path, "checkpoint") {
			continue
		}
		files++
		for at := range size {
			m := copyOf(disk)
			if err := m.Corrupt(path, at); err != nil {
				t.Fatal(err)
			}
			openDamaged(t, m, want, fmt.Sprintf("byte %d of %s", at, path))
		}
	}
	if files < 4 {
		t.Fatalf("only %d files: %v", files, disk.Files())
	}
}

// FuzzRecovery writes arbitrary bytes over a file of a closed log, or cuts it
// short. Cutting the journal short, or destroying all of its end, is the one
// thing that may lose records silently, since nothing is left to tell that there
// was more.
func FuzzRecovery(f *testing.F) {
	for i := range uint8(8) {
		f.Add(i, 76, []byte("000000\xe4\x96"), false)
	}
	f.Add(uint8(0), 40, []byte("x"), false)
	f.Add(uint8(1), 0, []byte{}, true)
	f.Add(uint8(2), 100, bytes.Repeat([]byte{0}, 64), false)
	f.Add(uint8(3), 7, []byte{0xff, 0xff, 0xff, 0xff}, false)
	disk, want := fuzzDisk(f)
	var paths []string
	for path := range disk.Files() {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	f.Fuzz(func(t *testing.T, file uint8, at int, b []byte, cut bool) {
		m := copyOf(disk)
		path := paths[int(file)%len(paths)]
		n := m.live[path]
		at = max(0, at) % (len(n.data) + 1)
		if cut {
			n.data, n.synced = n.data[:at], n.synced[:at]
		} else {
			n.data = memOp{int64(at), append([]byte{}, b...)}.apply(n.data)
			n.synced = bytes.Clone(n.data)
		}
		if strings.Contains(path, "journal") && (cut || at+len(b) > len(disk.live[path].data)-entryHeaderSize) {
			if l, err := Open(Config{Dir: "data", FS: m, Logger: quiet(), Ballast: -1}); err == nil {
				l.Close()
			} else if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		openDamaged(t, m, want, path)
	})
}

// FuzzCheckpoint parses arbitrary bytes under a right checksum.
func FuzzCheckpoint(f *testing.F) {
	disk, _ := fuzzDisk(f)
	f.Add(disk.live["data/checkpoint"].data)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCheckpoint(b)
		if err == nil {
			if _, err := parseCheckpoint(c.encode()); err != nil {
				t.Fatal(err)
			}
		}
		r := reader{b: b}
		r.partition()
	})
}
