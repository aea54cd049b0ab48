package journal

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkStart opens an empty directory and creates the fifty partitions of
// __consumer_offsets: what a broker does before its first answer.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		l, err := Open(Config{Dir: b.TempDir(), Logger: quiet()})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.CreateAll(offsetsPartitions(), DefaultSettings()); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func offsetsPartitions() []ID {
	ids := make([]ID, 50)
	for i := range ids {
		ids[i] = ID{topicID(9), int32(i)}
	}
	return ids
}

// TestIdle holds the cost of a log that nobody uses: one write and one sync for
// fifty partitions, little memory, no timer.
func TestIdle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, err := Open(Config{Dir: t.TempDir(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.CreateAll(offsetsPartitions(), DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 1<<20 {
		t.Errorf("fifty empty partitions take %d bytes of memory", used)
	}
	if s := l.Stats(); s.Groups > 2 || s.Syncs > 2 {
		t.Errorf("fifty partitions took %d writes and %d syncs", s.Groups, s.Syncs)
	}
	// The keeper looks once after a change; then nothing is due.
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		l.k.mu.Lock()
		settled := !l.k.changed
		l.k.mu.Unlock()
		if settled {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the keeper did not come to rest")
}
