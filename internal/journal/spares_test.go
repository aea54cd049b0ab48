package journal

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// TestWhoReadsASegmentKeepsIt: a file that somebody still reads from is not
// written over, and neither is one that failed.
func TestWhoReadsASegmentKeepsIt(t *testing.T) {
	for name, use := range map[string]func(*Log, *journalSegment){
		"nobody":     func(*Log, *journalSegment) {},
		"a reader":   func(l *Log, seg *journalSegment) { l.segments.acquire(uint32(seg.seq)) },
		"an outcast": func(_ *Log, seg *journalSegment) { seg.suspect = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := Open(Config{Dir: "data", FS: &MemFS{}, Logger: quiet(), SegmentBytes: 1000})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				p, err := l.Create(ID{}, DefaultSettings())
				if err != nil {
					t.Fatal(err)
				}
				first := l.c.active
				use(l, first)
				for range 8 { // the first segment, and not all of the second
					appended := make(chan Result, 1)
					p.Append(Append{Batches: batchOf(0, "a value that makes it longer, so that few of them do")}, func(r Result) { appended <- r })
					if r := <-appended; r.Err != nil {
						t.Fatal(r.Err)
					}
					synctest.Wait()
				}
				if l.Stats().Settled != 1 {
					t.Fatalf("%+v", l.Stats())
				}
				if got, want := len(l.spares.files), map[string]int{"nobody": 1}[name]; got != want {
					t.Errorf("%d files are kept, want %d", got, want)
				}
				if name == "a reader" {
					l.segments.release(first)
				}
			})
		})
	}
}

// BenchmarkSync is one write and its sync, on a file that grows and on one that
// is written over: what spares are for.
func BenchmarkSync(b *testing.B) {
	const length = 64 << 20
	for _, size := range []int{512, 4 << 10, 64 << 10, 1 << 20} {
		for _, over := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d/over=%v", size, over), func(b *testing.B) {
				f, err := OS{}.Create(filepath.Join(b.TempDir(), "f"))
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				piece := make([]byte, size)
				write := func(off int64) {
					if err := f.WriteVec(off, piece); err != nil {
						b.Fatal(err)
					}
				}
				if over {
					for off := int64(0); off < length; off += int64(size) {
						write(off)
					}
					if err := f.Datasync(); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(int64(size))
				off := int64(0)
				for b.Loop() {
					if off >= length {
						if off = 0; !over {
							if err := f.Truncate(0); err != nil {
								b.Fatal(err)
							}
						}
					}
					write(off)
					if err := f.Datasync(); err != nil {
						b.Fatal(err)
					}
					off += int64(size)
				}
			})
		}
	}
}
