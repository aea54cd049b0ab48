package journal

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

var kills = flag.Int("kills", 8, "how often TestKilled kills its child")

const (
	childVar        = "RONDO_JOURNAL_CHILD"
	childPartitions = 3
	childProducers  = 6
)

// TestKilled appends from a process of its own, kills that with SIGKILL at
// random instants, and opens what it left: each record that the process said
// was acknowledged is there, at its offset, once, and every batch is whole.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childVar); dir != "" {
		child(t, dir)
		return
	}
	dir := t.TempDir()
	acked := map[string]bool{} // "partition offset:value", over all lives
	for life := range *kills {
		lines := runChild(t, dir, 30*time.Millisecond+rand.N(80*time.Millisecond))
		for _, line := range lines {
			acked[line] = true
		}
		l, err := Open(childConfig(dir))
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		found := map[string]bool{}
		for _, id := range l.Partitions() {
			values, err := readAll(l.Partition(id))
			if err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
			last := int64(-1)
			once := map[string]bool{}
			for i, v := range values {
				var offset int64
				_, value, _ := strings.Cut(v, ":")
				fmt.Sscan(v, &offset)
				if offset != last+1 || once[value] {
					t.Fatalf("life %d: %s after offset %d, or twice", life, v, last)
				}
				// Batches are pairs: half of one would show here.
				if pair := strings.TrimSuffix(value, "a"); i%2 == 1 && value != strings.TrimSuffix(values[i-1][strings.Index(values[i-1], ":")+1:], "a")+"b" {
					t.Fatalf("life %d: %s stands without its first half (%s)", life, v, pair)
				}
				last, once[value] = offset, true
				found[fmt.Sprintf("%d %s", id.Partition, v)] = true
			}
			if len(values)%2 != 0 {
				t.Fatalf("life %d: half a batch at the end of partition %d", life, id.Partition)
			}
		}
		for a := range acked {
			if !found[a] {
				t.Fatalf("life %d: acknowledged %q is gone", life, a)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged in any life")
	}
	t.Logf("%d kills, %d acknowledged records", *kills, len(acked))
}

func childConfig(dir string) Config {
	return Config{Dir: dir, Logger: quiet(), SegmentBytes: 64 << 10, HotBytes: 16 << 10}
}

// runChild gives what the child printed until it was killed.
func runChild(t *testing.T, dir string, after time.Duration) (lines []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	first := true
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			break // a line that is cut short was not said
		}
		if first {
			first = false
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	io.Copy(io.Discard, out)
	cmd.Wait() // it was killed: an error is what we want
	if first {
		t.Fatal("the child said nothing")
	}
	return lines
}

// child appends until it is killed, and says what was acknowledged.
func child(t *testing.T, dir string) {
	l, err := Open(childConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultSettings()
	s.SegmentBytes = 20 << 10
	parts := make([]*Partition, childPartitions)
	for i := range parts {
		id := ID{topicID(1), int32(i)}
		if parts[i] = l.Partition(id); parts[i] == nil {
			if parts[i], err = l.Create(id, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	var mu sync.Mutex
	life := time.Now().UnixNano()
	for n := range childProducers {
		go func() {
			for i := 0; ; i++ {
				p := parts[(n+i)%len(parts)]
				value := fmt.Sprintf("%d-%d-%d-%s", life, n, i, strings.Repeat("x", i*37%400))
				r := appendWait(p, Append{Batches: batchOf(1, value+"a", value+"b")})
				if r.Err != nil {
					t.Error(r.Err)
					return
				}
				mu.Lock()
				fmt.Printf("%d %d:%sa\n%d %d:%sb\n", p.ID().Partition, r.Base, value, p.ID().Partition, r.Base+1, value)
				mu.Unlock()
			}
		}()
	}
	select {}
}

// TestUnwritable opens directories that it cannot use: the errors name the
// object, the cause and what to do.
func TestUnwritable(t *testing.T) {
	for name, cause := range map[string]error{"denied": fs.ErrPermission, "broken": errors.New("input/output error")} {
		m := &MemFS{}
		m.Before = func(op Op) error {
			if op.Name == "list" {
				return nil
			}
			return cause
		}
		_, err := Open(Config{Dir: "data", FS: m, Logger: quiet()})
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "open the log in data") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "denied" && !strings.Contains(err.Error(), "must be writable") {
			t.Errorf("%s: no hint in %v", name, err)
		}
	}
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: file, Logger: quiet()}); err == nil {
		t.Error("opened a file as a directory")
	} else {
		t.Log(err)
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("opened without a directory")
	}
}
