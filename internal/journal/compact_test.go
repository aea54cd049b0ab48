package journal

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
)

// TestCompactionOfNonsense compacts a partition with a batch whose checksum is
// right and whose records are none, as a topic may hold that was not compacted
// when it was written. It is kept, and keeps nobody from anything: the keys
// around it are compacted, and appends go on.
func TestCompactionOfNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := DefaultSettings()
		s.Compact, s.Delete, s.SegmentBytes, s.MinDirtyRatio = true, false, 150, 0.01
		l, err := Open(Config{Dir: "data", FS: &MemFS{}, Logger: quiet(), SegmentBytes: 200, HotBytes: 1, Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p, err := l.Create(ID{topicID(1), 0}, s)
		if err != nil {
			t.Fatal(err)
		}
		send := func(batch []byte) {
			t.Helper()
			done := make(chan error, 1)
			p.Append(Append{Batches: batch}, func(r Result) { done <- r.Err })
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		keyed := func() []byte {
			return wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Key: []byte("k"), Value: []byte("some value of the key")})
		}
		send(keyed())
		nonsense := keyed()
		nonsense[wire.HeaderSize] = 0x01 // a record of -1 bytes
		binary.BigEndian.PutUint32(nonsense[17:], crc32.Checksum(nonsense[21:], castagnoli))
		send(nonsense)
		for range 8 {
			send(keyed())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := l.Stats().Compacted; n == 0 {
			t.Fatal("nothing was compacted")
		}
		if err := l.k.looked; err != nil {
			t.Fatal(err)
		}
		out, err := p.Read(0, 1<<20, true)
		if err != nil || batchBase(out[0]) != 1 {
			t.Fatalf("the first batch that is left is at %d, want the nonsense at 1 (%v)", batchBase(out[0]), err)
		}
		send(keyed())
	})
}

// TestCompactionReachesMemory reads a small compacted partition from its
// beginning, all of which is still in memory: what compaction took away must
// not be read there.
func TestCompactionReachesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := DefaultSettings()
		s.Compact, s.Delete, s.SegmentMs, s.MinDirtyRatio = true, false, 500, 0.01
		l, err := Open(Config{Dir: "data", FS: &MemFS{}, Logger: quiet(), CleanerBackoff: 500 * time.Millisecond, Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p, err := l.Create(ID{topicID(1), 0}, s)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			done := make(chan error, 1)
			batch := wire.AppendBatch(nil, wire.BatchOptions{}, wire.Record{Key: []byte("k"), Value: []byte("some value of the key")})
			p.Append(Append{Batches: batch}, func(r Result) { done <- r.Err })
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		out, err := p.Read(0, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		if first := batchBase(out[0]); first == 0 || l.Stats().Compacted == 0 {
			t.Fatalf("offset %d is read first, after %d bytes were compacted", first, l.Stats().Compacted)
		}
	})
}
