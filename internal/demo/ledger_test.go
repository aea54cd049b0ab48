package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestLedger runs the transcripts of testdata/ledger.txt. A line is a fact;
// times are seconds of the run. judge prints the verdict.
func TestLedger(t *testing.T) {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	datadriven.RunTest(t, "testdata/ledger.txt", func(t *testing.T, d *datadriven.TestData) string {
		l := NewLedger()
		for line := range strings.Lines(d.Input) {
			if err := tell(l, began, strings.Fields(line)); err != nil {
				t.Fatalf("%s: %q: %v", d.Pos, line, err)
			}
		}
		v := l.Judge()
		return fmt.Sprintf("in %d, scored %d, lost %v\ncalls %d, repeated %d, unexplained %v, results twice %d\nscored again after the commit %v, longest pause %s\n",
			v.In, v.Scored, v.Lost, v.Calls, v.Repeated, v.Unexplained, v.Twice, v.ScoredAgain, v.Pause)
	})
}

func tell(l *Ledger, began time.Time, words []string) error {
	text := strings.Join(words, " ")
	var key, member string
	var p Place
	var at float64
	var err error
	when := func() time.Time { return began.Add(time.Duration(at * float64(time.Second))) }
	switch words[0] {
	case "in":
		_, err = fmt.Sscanf(text, "in %s at %d/%d", &key, &p.Partition, &p.Offset)
		l.Produced(p, key)
	case "call":
		_, err = fmt.Sscanf(text, "call %d/%d by %s at %fs", &p.Partition, &p.Offset, &member, &at)
		l.Called(Call{Place: p, Member: member, At: when()})
	case "commit":
		_, err = fmt.Sscanf(text, "commit %d/%d at %fs", &p.Partition, &p.Offset, &at)
		l.Committed(Commit{Partition: p.Partition, Offset: p.Offset, At: when()})
	case "result":
		_, err = fmt.Sscanf(text, "result %s", &key)
		l.Result(key)
	case "kill":
		_, err = fmt.Sscanf(text, "kill %s", &member)
		l.Killed(member)
	default:
		err = fmt.Errorf("unknown fact")
	}
	return err
}

func TestAdvisories(t *testing.T) {
	records, err := Advisories(2500)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, a := range records {
		if a.CVE == "" || a.ID == "" || len(a.Modules) == 0 {
			t.Fatalf("incomplete advisory %+v", a)
		}
		if keys[a.CVE] {
			t.Fatalf("key %s is there twice", a.CVE)
		}
		keys[a.CVE] = true
	}
}

// The partition of a group in __consumer_offsets, against what Java's
// String.hashCode gives; the last two are negative ones, and the smallest.
func TestOffsetsPartition(t *testing.T) {
	for group, want := range map[string]int32{"": 0, "g": 3, "hello": 22, "Aa": 12, "my-streams-app": 38, "polygenelubricants": 0} {
		if got := offsetsPartition(group, 50); got != want {
			t.Errorf("group %q: partition %d, want %d", group, got, want)
		}
	}
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 3}, []byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5})
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte{0, 3})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		group, c, ok, err := parseCommit(key, value, "t")
		if ok && err != nil {
			t.Fatalf("commit %+v of %q came with %v", c, group, err)
		}
	})
}
