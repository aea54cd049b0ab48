package predict

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// recorded is one run of Kafka Streams 4.2.0, reduced to whether a lease was
// lost; internal/sim/testdata/README.md says what each field is.
type recorded struct {
	Run     string    `json:"run"`
	Evicted []float64 `json:"evicted"`
	Failed  []float64 `json:"failed"`
	Removed [][3]any  `json:"removed"`
	NAtZero []int     `json:"n_at_zero"`
}

func (r *recorded) lost() bool {
	lost := len(r.Evicted)+len(r.Failed) > 0
	for _, m := range r.Removed {
		lost = lost || m[2] == "session"
	}
	return lost
}

func readRecorded(t *testing.T) map[string]*recorded {
	t.Helper()
	f, err := os.Open("../internal/sim/testdata/runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs := map[string]*recorded{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := new(recorded)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			t.Fatalf("%v in %.80s", err, lines.Text())
		}
		runs[r.Run] = r
	}
	return runs
}

// predicted are settings and the recorded runs that had them, with what was
// known before the run began. N is that of the record where a thread had been
// working before.
func predicted() []struct {
	s    Settings
	runs []string
} {
	const sec = time.Second
	fixed := func(tasks, queued int, call, m, c time.Duration) Settings {
		return Settings{Tasks: tasks, Queued: queued, Latency: Always(call), MaxPollInterval: m, CommitInterval: c}
	}
	with := func(s Settings, f func(*Settings)) Settings { f(&s); return s }
	streams := func(s Settings) Settings { return with(s, func(s *Settings) { s.Protocol = Streams }) }
	eos := func(s Settings, timeout time.Duration) Settings {
		return with(s, func(s *Settings) { s.ExactlyOnce, s.TransactionTimeout = true, timeout })
	}
	threads := func(s Settings, n int) Settings { return with(s, func(s *Settings) { s.Threads = n }) }
	a := fixed(3, 20, 12*sec, 30*sec, 0)
	b := fixed(1, 20, 120*sec, 0, 0)
	c := fixed(1, 20, 120*sec, 0, 300*sec)
	z := fixed(1, 3000, 40*sec, 30*sec, 0)
	f := fixed(1, 40, 10*sec, 0, 0)
	p := func(call time.Duration) Settings { return fixed(1, 222, call, 0, 0) }
	ramp := func(rate float64, over, to time.Duration) Settings {
		return Settings{Arrival: rate, Latency: RampTo(over, 0, to), Overhead: 40 * time.Millisecond}
	}
	return []struct {
		s    Settings
		runs []string
	}{
		{a, []string{"a1", "a2", "a3", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18", "s1"}},
		{with(a, func(s *Settings) { s.Static = true }), []string{"t1"}},
		{b, []string{"b1"}}, {c, []string{"c1", "r2"}}, {z, []string{"az1"}},
		{fixed(1, 20, 9*sec, 30*sec, 0), []string{"d9-1"}}, {fixed(1, 20, 12*sec, 30*sec, 0), []string{"d12-1"}}, {fixed(1, 20, 17*sec, 30*sec, 0), []string{"d17-1"}},
		{threads(fixed(32, 8, 9*sec, 30*sec, 0), 32), []string{"d9-32x"}}, {threads(fixed(32, 8, 12*sec, 30*sec, 0), 32), []string{"d12-32", "d12-32x"}},
		{threads(fixed(32, 8, 17*sec, 30*sec, 0), 32), []string{"d17-32"}},
		{fixed(1, 1500, 300*time.Millisecond, 0, 0), []string{"e-300ms"}}, {fixed(3, 500, 300*time.Millisecond, 0, 0), []string{"e-300ms-3"}},
		{fixed(1, 150, 3*sec, 30*sec, 0), []string{"e-3s"}}, {fixed(3, 60, 3*sec, 30*sec, 0), []string{"e-3s-3"}},
		{f, []string{"f1", "f2", "f3", "f5", "g1", "q1", "q2", "q5", "q6"}},
		{with(f, func(s *Settings) { s.MaxPollRecords = 20 }), []string{"h1", "h3"}},
		{with(f, func(s *Settings) { s.Latency = JumpTo(205*sec, 10*sec, 0) }), []string{"o1", "o5"}},
		{with(f, func(s *Settings) { s.Latency = JumpTo(325*sec, 10*sec, 0) }), []string{"o2", "o6"}},
		{p(1200 * time.Millisecond), []string{"p12", "p12c"}}, {p(1500 * time.Millisecond), []string{"p15", "p15c"}},
		{fixed(3, 150, 300*time.Millisecond, 0, 0), []string{"i-3-1"}}, {fixed(32, 20, 300*time.Millisecond, 0, 0), []string{"i-32-1x"}},
		{eos(fixed(3, 20, 12*sec, 0, 0), 0), []string{"l1"}}, {eos(fixed(1, 20, 12*sec, 0, 0), 0), []string{"l2"}},
		{eos(fixed(3, 20, 12*sec, 0, 0), 60*sec), []string{"l3"}}, {eos(a, 0), []string{"l4"}}, {eos(fixed(3, 60, 4*sec, 0, 0), 0), []string{"l5"}},
		{ramp(25, 300*sec, 10*sec), []string{"n1"}}, {ramp(2, 300*sec, 10*sec), []string{"n2"}}, {ramp(2, 60*sec, sec), []string{"n3"}},
		{threads(fixed(6, 20, 12*sec, 30*sec, 0), 2), []string{"a-pair", "t2"}}, {threads(fixed(2, 10, 40*sec, 30*sec, 0), 2), []string{"a-surv"}},
		{threads(fixed(2, 20, 120*sec, 0, 300*sec), 2), []string{"r1"}}, {fixed(2, 30, 10*sec, 60*sec, 0), []string{"w1", "w1c"}},
		{threads(fixed(3, 20, 60*sec, 0, 0), 2), []string{"j3"}}, {threads(fixed(2, 10, 100*sec, 180*sec, 0), 2), []string{"j5", "j5b"}},
		{with(fixed(1, 60, sec, 60*sec, 0), func(s *Settings) { s.Call.Timeout = NoTimeout }), []string{"v1"}},
		{with(fixed(2, 400, sec, 60*sec, 0), func(s *Settings) { s.Call.Timeout, s.Threads = NoTimeout, 2 }), []string{"v2"}},
		{streams(a), []string{"ma1", "ma2"}}, {streams(fixed(6, 20, 12*sec, 30*sec, 0)), []string{"ma-lone6", "ma-lone6b", "ma-lone6c"}},
		{streams(threads(fixed(6, 20, 12*sec, 30*sec, 0), 2)), []string{"ma-pair", "ma-pair2", "ma-two"}},
		{streams(threads(fixed(2, 10, 40*sec, 30*sec, 0), 2)), []string{"ma-surv"}},
		{streams(b), []string{"mb1"}}, {streams(c), []string{"mc1"}}, {streams(f), []string{"mf3"}}, {streams(z), []string{"mz1", "mz2", "mz3"}},
		{streams(fixed(2, 20, 60*sec, 0, 0)), []string{"mj1"}},
	}
}

// races are settings whose recorded runs went both ways: with one busy member
// it depended on the machine whether the join was answered within the poll.
func races() map[string]Settings {
	j1 := Settings{Tasks: 1, Queued: 20, Latency: Always(120 * time.Second)}
	j2 := Settings{Tasks: 2, Queued: 20, Latency: Always(60 * time.Second)}
	j4 := j1
	j4.Queued = 5000
	k := Settings{Tasks: 2, Queued: 40, Latency: Always(12 * time.Second), MaxPollInterval: 180 * time.Second}
	return map[string]Settings{"j1": j1, "j1b": j1, "j1c": j1, "j2": j2, "j2b": j2, "j2c": j2, "j4": j4, "k1": k, "k1b": k, "k2": k, "k2b": k}
}

// notPredicted are recorded runs about something that settings do not say.
var notPredicted = map[string]string{
	"u2-kill": killed, "u2-stop": killed, "u2-kill-s": killed, "u2-stop-s": killed,
	"u2-close": closed, "u2-close-s": closed, "u2-closeleave": closed, "u2-closeleave-s": closed, "u-closeleave": closed,
	"i-32-32": "32 threads in one process: the rate of the machine",
	"s2":      "how long each of three tasks is restored; with one back at once and the others a poll later the rule, and the loop, say unsafe",
	"mf1":     "31 rounds of 10 s, and fewer records waiting than in f1, which the record does not have",
}

const (
	killed = "a process is killed or stopped"
	closed = "a process is closed"
)

// TestRecordedRuns holds verdicts against the recorded runs: unsafe exactly
// when a lease was lost or a commit refused, and tight for what went both ways.
func TestRecordedRuns(t *testing.T) {
	runs := readRecorded(t)
	seen := map[string]bool{}
	for _, p := range predicted() {
		for _, name := range p.runs {
			seen[name] = true
			r, s := runs[name], p.s
			if len(r.NAtZero) == 1 {
				s.N = r.NAtZero[0]
			}
			if err := s.Check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if j := Evaluate(s); (j.Verdict == Unsafe) != r.lost() {
				t.Errorf("%s: %s, recorded: lost %v\n%+v\n%+v", name, j.Verdict, r.lost(), s, j.Bounds)
			}
		}
	}
	for name, s := range races() {
		seen[name] = true
		if j := Evaluate(s); j.Verdict != Tight {
			t.Errorf("%s: %s, want tight\n%+v\n%+v", name, j.Verdict, s, j.Bounds)
		}
	}
	for name := range runs {
		if seen[name] == (notPredicted[name] != "") {
			t.Errorf("run %s: predicted %v, excused because %q", name, seen[name], notPredicted[name])
		}
	}
	t.Logf("%d of %d recorded runs are predicted", len(seen), len(runs))
}
