package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// TestStreamsLog reads what a Kafka Streams 4.2.0 application says.
func TestStreamsLog(t *testing.T) {
	const text = `1796077000000 owns
1796077000900 owns 0 2
1796077001000 StreamThread stream-thread [m0-StreamThread-1] Committing all active tasks [] and standby tasks [] since 3001ms has elapsed (commit interval is 3000ms)
1796077001100 StreamThread stream-thread [m0-StreamThread-1] Processing tasks with 2 iterations.
1796077001100 StreamThread stream-thread [m0-StreamThread-1] Processed 2 records with 2 iterations; invoking punctuators if necessary
1796077001200 StreamThread stream-thread [m0-StreamThread-1] Main Consumer poll completed in 4 ms and fetched 20 records from partitions [lab-a-in-0]
1796077001300 StreamThread stream-thread [m0-StreamThread-1] Main Consumer poll completed in 4 ms and fetched 0 records from partitions []
1796077001400 StreamThread stream-thread [m0-StreamThread-1] Main Consumer poll completed in 4 ms and fetched 40 records from partitions [lab-a-in-2, lab-a-in-0, lab-a-in-x]
1796077004005 ConsumerCoordinator [Consumer clientId=m0-StreamThread-1-consumer, groupId=g] consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the configured max.poll.interval.ms
1796077004500 StreamThread stream-thread [m0-StreamThread-1] Detected that the thread is being fenced. This implies that this thread missed a rebalance and dropped out of the consumer group. Will close out all assigned tasks and rejoin the consumer group.
not a line of the log
99999999999999999999 owns 7
1796077005000 owns 1 x
1796077005001 StreamThread stream-thread [m0-StreamThread-1] Processing tasks with many iterations.
`
	var s streamsLog
	for line := range strings.Lines(text) {
		s.hear(strings.TrimSuffix(line, "\n"))
	}
	if s.n != 2 || s.checks != 1 || len(s.owned) != 1 || s.owned[0] != 1 {
		t.Errorf("got %+v", s)
	}
	if len(s.expired) != 1 || !s.expired[0].Equal(time.UnixMilli(1796077004005)) || len(s.fenced) != 1 || !s.fenced[0].Equal(time.UnixMilli(1796077004500)) {
		t.Errorf("the poll clock ran out at %v, found out at %v", s.expired, s.fenced)
	}
	if got := fmt.Sprint(s.windows); got != "[[[0] [2]] []]" {
		t.Errorf("windows %s", got)
	}
	stats := s.stats("in")
	if th := stats.Threads[0]; th.N != 2 || len(th.Tasks) != 1 || th.Tasks[0].Partitions[0].Partition != 1 || len(stats.Evictions) != 1 {
		t.Errorf("as stats: %+v", stats)
	}
}

// TestStreamsNeedsJava says what is missing, and which scenarios cannot be.
func TestStreamsNeedsJava(t *testing.T) {
	s, err := Parse("quick", []byte(quick))
	if err != nil {
		t.Fatal(err)
	}
	run := func(s *Scenario, peers string) error {
		_, err := Run(context.Background(), Options{Scenarios: []*Scenario{s}, Dir: t.TempDir(), Java: &Java{Peers: peers}})
		return err
	}
	var j *JavaError
	if err := run(s, t.TempDir()); !errors.As(err, &j) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a checkout: %v", err)
	}
	peers := t.TempDir()
	if err := os.WriteFile(filepath.Join(peers, "kafka.sh"), []byte("echo no jars >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := run(s, peers); !errors.As(err, &j) || !strings.Contains(j.Help, "JDK") {
		t.Errorf("without a JVM: %v", err)
	}
	eager := *s
	eager.Eager = true
	if err := run(&eager, peers); err == nil || !strings.Contains(err.Error(), "eager") {
		t.Errorf("an eager scenario: %v", err)
	}
}

// TestStreamsColumn shows Kafka Streams beside the others when it was
// measured, and takes the rules of its loop.
func TestStreamsColumn(t *testing.T) {
	s, err := Parse("quick", []byte(quick+"because streams42 records A machine.\n"))
	if err != nil {
		t.Fatal(err)
	}
	without := Compare(s, Predict(s, sim.Streams42, 1)).Text()
	with := Compare(s, Predict(s, sim.Streams42, 1), &Facts{Column: ColumnStreams, Scenario: "quick", Scale: 10, Length: 12, Records: 7, Distinct: 2, Evicted: []float64{1}})
	if strings.Contains(without, "Kafka Streams, now") || !strings.Contains(with.Text(), "7 [2]") || !strings.Contains(with.Text(), "1 (!)") {
		t.Errorf("without:\n%s\nwith:\n%s", without, with.Text())
	}
}

// TestReplay holds a run of Kafka Streams against the prediction for the
// windows that it had, not for others.
func TestReplay(t *testing.T) {
	all, err := Find("gap-72")
	if err != nil {
		t.Fatal(err)
	}
	s := *all[0]
	live := Predict(&s, sim.Streams42, 1) // what the article saw: one task alone in the third window
	live.Column, live.Policy, live.Windows = ColumnStreams, "", [][][]int{{{0, 1, 2}}, {{0, 1, 2}}, {{0}, {1, 2}}, {{0, 1, 2}}, {}}
	s.HandOvers, s.Article, s.Because = nil, nil, nil
	table := Compare(&s, Predict(&s, sim.Streams42, 1), live)
	if text := table.Text(); !strings.Contains(text, "for its windows") || len(table.Differences()) > 0 {
		t.Errorf("%v\n%s", table.Differences(), text)
	}
	live.Windows = nil
	if table := Compare(&s, Predict(&s, sim.Streams42, 1), live); len(table.Differences()) == 0 {
		t.Errorf("without its windows the run differs, and nothing shows it:\n%s", table.Text())
	}
}
