package crash

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A found record is what stands in the log, in the order of offsets.
type found struct {
	offset int64
	writer string
	number int
	whole  bool
}

// readLog reads every partition from its first record to its end.
func readLog(ctx context.Context, t *testing.T, addr, topic string) map[int32][]found {
	t.Helper()
	c := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	log := map[int32][]found{}
	for left := true; left; {
		if ctx.Err() != nil {
			t.Fatalf("the log could not be read to its end: %v", ctx.Err())
		}
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read the log: %v", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			log[r.Partition] = append(log[r.Partition], parse(r))
		})
		left = false
		ends.Each(func(o kadm.ListedOffset) {
			records := log[o.Partition]
			if o.Offset > 0 && (len(records) == 0 || records[len(records)-1].offset+1 < o.Offset) {
				left = true
			}
		})
	}
	return log
}

func parse(r *kgo.Record) found {
	f := found{offset: r.Offset}
	parts := strings.SplitN(string(r.Value), "/", 3)
	if len(parts) < 3 {
		return f
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return f
	}
	f.writer, f.number = parts[0], n
	f.whole = bytes.Equal(r.Value, body(parts[0], n))
	return f
}

// check holds the log against the ledger, and says how much was compared.
func (l *ledger) check(t *testing.T, log map[int32][]found) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.problem {
		t.Error(p)
	}
	numbers := map[string]int{}   // idempotent writer -> the number that must come next
	starts := map[string]place{}  // one-shot batch -> its first record
	batches := map[string][]int{} // one-shot batch -> the numbers found
	where := map[string]place{}   // one-shot batch -> its last record
	problems := &limited{t: t, left: 20}
	for partition := range int32(partitions) {
		for i, f := range log[partition] {
			at := fmt.Sprintf("partition %d, offset %d", partition, f.offset)
			if f.offset != int64(i) {
				problems.errorf("%s: offset %d was expected", at, i)
				break
			}
			if !f.whole {
				problems.errorf("%s: a record that nobody wrote: %q/%d", at, f.writer, f.number)
				continue
			}
			if acked, ok := l.offsets[f.writer]; ok {
				if f.number != numbers[f.writer] {
					problems.errorf("%s: record %d of %s, %d was expected", at, f.number, f.writer, numbers[f.writer])
				}
				numbers[f.writer] = f.number + 1
				if got, want := (place{partition, f.offset}), acked[f.number]; got != want {
					problems.errorf("%s: record %d of %s was acknowledged at %+v", at, f.number, f.writer, want)
				}
				continue
			}
			if _, ok := starts[f.writer]; !ok {
				starts[f.writer] = place{partition, f.offset}
			} else if last := where[f.writer]; last != (place{partition, f.offset - 1}) {
				problems.errorf("%s: batch %s is torn, it was at %+v before", at, f.writer, last)
			}
			where[f.writer] = place{partition, f.offset}
			batches[f.writer] = append(batches[f.writer], f.number)
		}
	}
	records := 0
	for writer, acked := range l.offsets {
		records += len(acked)
		if numbers[writer] != len(acked) {
			problems.errorf("%s: %d records were acknowledged, the log ends after %d", writer, len(acked), numbers[writer])
		}
	}
	l.checkBatches(problems, starts, batches)
	t.Logf("%d records of %d idempotent writers; of %d one-shot batches %d were acknowledged and %d are there",
		records, len(l.offsets), len(l.sent), len(l.acked), len(batches))
}

func (l *ledger) checkBatches(problems *limited, starts map[string]place, batches map[string][]int) {
	for name, numbers := range batches {
		if want, ok := l.sent[name]; !ok || len(numbers) != want {
			problems.errorf("batch %s: %d of its %d records are there", name, len(numbers), want)
		}
		for i, n := range numbers {
			if n != i {
				problems.errorf("batch %s: record %d stands in the place of record %d", name, n, i)
				break
			}
		}
	}
	for name, at := range l.acked {
		if got, ok := starts[name]; !ok || got != at {
			problems.errorf("batch %s was acknowledged at %+v, it is at %+v (there at all: %v)", name, at, got, ok)
		}
	}
}

// limited reports the first problems: when one thing is lost, thousands are.
type limited struct {
	t    *testing.T
	left int
}

func (l *limited) errorf(format string, args ...any) {
	l.t.Helper()
	if l.left--; l.left >= 0 {
		l.t.Errorf(format, args...)
	}
}
