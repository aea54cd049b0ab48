package sim

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// recorded is one run of Kafka Streams 4.2.0, reduced to what a model can be
// held against. Times are seconds since the run's zero. testdata/README.md
// says what each field is.
type recorded struct {
	Run        string         `json:"run"`
	What       string         `json:"what"`
	For        float64        `json:"for"`
	Partitions int            `json:"partitions"`
	Threads    int            `json:"threads"`
	Conf       map[string]any `json:"conf"`
	Steps      [][3]any       `json:"steps"`
	Windows    []window       `json:"windows"`

	Evicted   []float64      `json:"evicted"`
	Fenced    []float64      `json:"fenced"`
	Removed   [][3]any       `json:"removed"`
	Commits   [][2]any       `json:"commits"`
	Failed    []float64      `json:"failed"`
	NAtZero   []int          `json:"n_at_zero"`
	Passes    [][5]any       `json:"passes"`
	Records   int            `json:"records"`
	Distinct  int            `json:"distinct"`
	Calls     int            `json:"calls"`
	Ended     int            `json:"ended"`
	Lost      int            `json:"never_committed"`
	Committed map[string]int `json:"committed"`

	warm  bool    // the run begins with a thread that has been working
	pause float64 // by how much a pass took longer than its calls and the usual overhead, at most: the machine was busy
}

// window is the time from an assignment to the next fence of one thread.
type window struct {
	Who      string   `json:"who"`
	From     float64  `json:"from"` // the fence before, or 0
	Assigned float64  `json:"assigned"`
	Polls    [][2]any `json:"polls"` // polls that brought records of tasks which had brought none: time, partitions
	Fenced   *float64 `json:"fenced"`
}

func readRuns(t *testing.T) map[string]*recorded {
	t.Helper()
	f, err := os.Open("testdata/runs.jsonl")
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

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func (r *recorded) millis(key string) time.Duration {
	v, _ := r.Conf[key].(float64)
	return time.Duration(v) * time.Millisecond
}

// scenario builds the scenario of a run whose thread starts at zero: what was
// set and fed, and, from the record, what a model cannot know: which tasks
// were ready before the first poll of each window, and how long the rejoin
// took on the loaded machine.
func (r *recorded) scenario() Scenario {
	sc := Scenario{
		Name: r.Run, Policy: Streams42, Partitions: r.Partitions, For: seconds(r.For), Trace: true,
		Settings: loop.Settings{
			MaxPollInterval: r.millis("max.poll.interval.ms"),
			CommitInterval:  r.millis("commit.interval.ms"),
		},
	}
	rejoin := 6 * time.Millisecond // the model's own part of a rejoin: JoinGroup, SyncGroup and a fetch
	if r.Conf["group.protocol"] == "streams" {
		sc.Group = StreamsGroup
		rejoin += 5 * time.Second // and the first heartbeat after the initial delay
	}
	if n, ok := r.Conf["max.poll.records"].(float64); ok {
		sc.Settings.MaxPollRecords = int(n)
	}
	for _, step := range r.Steps {
		what, detail := step[1].(string), step[2].(string)
		switch what {
		case "stub":
			if ms, ok := strings.CutSuffix(detail, " ms a call"); ok {
				n, _ := strconv.Atoi(ms)
				sc.Latency = Fixed(time.Duration(n) * time.Millisecond)
			}
		case "send":
			sc.Feeds = append(sc.Feeds, sent(detail)...)
		}
	}
	if r.Conf["processing.guarantee"] == "exactly_once_v2" {
		sc.Settings.CommitInterval = 100 * time.Millisecond // its default
	}
	for _, w := range r.Windows {
		sc.HandOvers = append(sc.HandOvers, w.handOver(r.Partitions, rejoin))
	}
	if r.Conf["processing.guarantee"] != nil {
		sc.Costs.Commit = r.commits() // a transaction's
	}
	sc.Costs.Record = r.overhead(sc.Latency)
	r.pauses(sc.Latency, sc.Costs.Record)
	return sc
}

// pauses finds the longest time that the machine took away from five passes in
// a row, which is as many as there are between two evictions.
func (r *recorded) pauses(latency Latency, overhead time.Duration) {
	var lost []float64
	for i, p := range r.Passes {
		n := time.Duration(p[4].(float64))
		pause := max(0, p[1].(float64)-p[0].(float64)-(n*(latency(Call{})+overhead)).Seconds())
		if i > 0 {
			before := r.Passes[i-1][1].(float64)
			fenced := slices.ContainsFunc(r.Fenced, func(at float64) bool { return at >= before-1 && at <= p[0].(float64) })
			if gap := p[0].(float64) - before - 0.1; gap > 0 && !fenced {
				pause += gap // a poll that came back late
			}
		}
		lost = append(lost, pause)
		sum := 0.0
		for _, x := range lost[max(0, len(lost)-5):] {
			sum += x
		}
		r.pause = max(r.pause, sum)
	}
}

// overhead is what a record took beside its call, on the average of the run's
// passes: 1 to 400 ms, by the load of the machine.
func (r *recorded) overhead(latency Latency) time.Duration {
	var took, calls time.Duration
	for _, p := range r.Passes {
		took += seconds(p[1].(float64) - p[0].(float64))
		calls += time.Duration(p[4].(float64)) * latency(Call{})
	}
	n := calls / max(latency(Call{}), 1)
	if n == 0 {
		return time.Millisecond
	}
	return max((took-calls)/n, time.Millisecond)
}

// commits is what a commit took, on the average: the time between two passes
// of a thread that commits after each.
func (r *recorded) commits() time.Duration {
	sum := 0.0
	for i := 1; i < len(r.Passes); i++ {
		gap := r.Passes[i][0].(float64) - r.Passes[i-1][1].(float64)
		sum += gap
		r.pause = max(r.pause, gap)
	}
	return seconds(sum / float64(len(r.Passes)-1))
}

var listed = regexp.MustCompile(`\[([0-9, ]+)\]`)

// sent reads "60 records to partitions [20, 20, 20]".
func sent(detail string) []Feed {
	var feeds []Feed
	for p, n := range strings.Split(listed.FindStringSubmatch(detail)[1], ", ") {
		total, _ := strconv.Atoi(n)
		if total > 0 {
			feeds = append(feeds, Feed{Total: total, Partitions: []int{p}})
		}
	}
	return feeds
}

func (w *window) partitions(poll int) []int {
	var out []int
	for _, p := range w.Polls[poll][1].([]any) {
		out = append(out, int(p.(float64)))
	}
	return out
}

// handOver is what the first polls of the window brought.
func (w *window) handOver(of int, rejoin time.Duration) HandOver {
	var h HandOver
	if len(w.Polls) == 0 {
		return h
	}
	h.Settle = max(seconds(w.Polls[0][0].(float64)-w.From)-rejoin, time.Millisecond)
	for i := range w.Polls {
		h.Ready = append(h.Ready, w.partitions(i))
	}
	if len(h.Ready) == 1 && len(h.Ready[0]) == of {
		h.Ready = nil
	}
	return h
}

// alone are the runs of one thread that begin with records waiting: everything
// about them can be held against the model.
var alone = []string{
	"a1", "a2", "a3", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18",
	"az1", "b1", "c1", "d9-1", "d12-1", "d17-1", "e-300ms", "e-300ms-3", "e-3s", "e-3s-3", "g1", "i-3-1", "i-32-1x",
	"l1", "l2", "l3", "l4", "l5", "t1", "v1",
}

func TestRecordedAlone(t *testing.T) {
	runs := readRuns(t)
	for _, name := range alone {
		t.Run(name, func(t *testing.T) {
			r := runs[name]
			sc := r.scenario()
			switch name {
			case "t1":
				sc.Members = []Member{{Static: true}}
			case "l1", "l4": // three transactions that are too old; later passes are not in the record
				sc.Transaction = 10 * time.Second
				sc.Costs.Commit, r.pause = 0, 2
				r.Passes = slices.DeleteFunc(r.Passes, func(p [5]any) bool { return p[1].(float64) > 121 })
				r.For, sc.For = 123, 123*time.Second
				r.Failed = r.Fenced // not all are in the record, but what followed
				r.Ended, r.Distinct = 0, 0
			case "v1":
				sc.Latency = Hang(0, 10, sc.Latency)
			case "e-300ms-3":
				// From here on the recorded commit fell a few ms to the other
				// side of a pass.
				r.Passes = r.Passes[:31]
				r.For, sc.For = 139, 139*time.Second
				r.Ended, r.Distinct = 0, 0
			}
			sum, _ := Run(sc)
			r.compare(t, &sum)
		})
	}
}

// compare holds a run without a warm-up against its record: N and records of
// each pass, evictions and commits exactly, times to a second or a hundredth.
// What the model has and the record has not, or the other way round, is
// excused in the last two hundredths of the run, where a small drift decides.
func (r *recorded) compare(t *testing.T, sum *Summary) {
	t.Helper()
	for i, p := range r.Passes {
		if n, records := int(p[3].(float64)), int(p[4].(float64)); i < len(sum.Passes) {
			if got := sum.Passes[i]; got.N != n || got.Records != records {
				t.Fatalf("pass %d: N %d, %d records; recorded N %d, %d records", i, got.N, got.Records, n, records)
			}
		}
	}
	if len(sum.Passes) < len(r.Passes)-1 {
		t.Errorf("%d passes, recorded %d", len(sum.Passes), len(r.Passes))
	}
	r.evictions(t, sum.Evictions)
	r.moments(t, "fenced", sum.Fenced, r.Fenced)
	r.moments(t, "commit refused", sum.Failed, r.Failed)
	var commits []float64
	for _, c := range r.Commits {
		commits = append(commits, c[0].(float64))
	}
	r.moments(t, "commit", sum.Commits, commits)
	near := func(what string, got, want int) {
		t.Helper()
		if d, slack := got-want, max(1, want/50); d < -slack || d > slack {
			t.Errorf("%s: %d, recorded %d", what, got, want)
		}
	}
	if r.Ended > 0 {
		near("records", sum.Ended, r.Ended)
		near("different records", sum.Distinct, r.Distinct)
	}
}

// evictions compares the expired poll clocks. The client of the streams protocol
// looks at its own when a heartbeat is due.
func (r *recorded) evictions(t *testing.T, got []Moment) {
	t.Helper()
	pause := r.pause
	if r.Conf["group.protocol"] == "streams" {
		r.pause += 5
	}
	r.moments(t, "evicted", got, r.Evicted)
	r.pause = pause
}

// moments compares how far apart things happened, so that no difference is
// counted twice.
func (r *recorded) moments(t *testing.T, what string, got []Moment, want []float64) {
	t.Helper()
	edge := r.For * 0.98
	want = slices.DeleteFunc(slices.Clone(want), func(at float64) bool { return at > r.For })
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			if want[i] < edge {
				t.Errorf("%s %d: recorded at %.1f, not in the model", what, i, want[i])
			}
		case i >= len(want):
			if got[i].At.Seconds() < edge {
				t.Errorf("%s %d: at %v, not in the record", what, i, got[i].At)
			}
		default:
			g, w := got[i].At.Seconds(), want[i]
			if i == 0 && !r.warm {
				continue // the start of the thread: its join, class loading, the first connection
			}
			if i > 0 {
				g, w = g-got[i-1].At.Seconds(), w-want[i-1]
			}
			if d := max(g-w, w-g); d > max(1, w/100)+r.pause {
				t.Errorf("%s %d: %.1f after the one before, recorded %.1f", what, i, g, w)
			}
		}
	}
}

// warm is a thread that has got to a certain N on fast records and has been
// idle since; at zero, which is a time after its last look at the commit clock,
// other things begin.
func warm(n int, sinceCommit time.Duration) (sc Scenario, zero time.Duration) {
	sc = Scenario{
		Policy: Streams42, Trace: true,
		Feeds: []Feed{{At: 2 * time.Second, Every: 80 * time.Millisecond, Total: n - 1}},
	}
	return sc, 60200*time.Millisecond + sinceCommit
}

// held is the recorded slow-down: the call of one record is held for 13 s, the
// others that are sent meanwhile wait, and from zero on calls are slow.
func (r *recorded) held(waiting int, slow Latency) (sc Scenario, zero time.Duration) {
	const hold = 13 * time.Second
	n := r.NAtZero[0]
	r.warm = true
	sc, zero = warm(n, hold+500*time.Millisecond)
	if r.Conf["group.protocol"] == "streams" {
		sc.Group = StreamsGroup
		sc.Feeds[0].At = 7 * time.Second // its tasks are there after 5 s
	}
	sc.Name, sc.For = r.Run, zero+seconds(r.For)
	sc.Partitions = 1
	if n, ok := r.Conf["max.poll.records"].(float64); ok {
		sc.Settings.MaxPollRecords = int(n)
	}
	sc.Feeds = append(sc.Feeds, Feed{At: zero - hold, Total: 1}, Feed{At: zero - hold + time.Second, Total: waiting})
	sc.Costs.Record = time.Millisecond
	sc.Latency = func(c Call) time.Duration {
		switch {
		case c.At < zero-hold:
			return 0
		case c.At < zero:
			return zero - c.At
		}
		c.At -= zero
		return slow(c)
	}
	return sc, zero
}

// TestRecordedSlowDowns holds the runs of a fast thread whose service slows
// down against the model. Those whose thread was exchanged (q5, q6) are
// compared until then.
func TestRecordedSlowDowns(t *testing.T) {
	runs := readRuns(t)
	ten := 10 * time.Second
	for _, c := range []struct {
		run     string
		waiting int
		slow    Latency
		until   float64
	}{
		{"f5", 40, Fixed(ten), 0},
		{"h3", 40, Fixed(ten), 0},
		{"o5", 40, Jump(205*time.Second, ten, 0), 0},
		{"o6", 40, Jump(325*time.Second, ten, 0), 0},
		{"p12c", 222, Fixed(1200 * time.Millisecond), 0},
		{"p15c", 222, Fixed(1500 * time.Millisecond), 0},
		{"q5", 40, Fixed(ten), 830},
		{"q6", 40, Fixed(ten), 830},
		{"mf3", 40, Fixed(ten), 0},
	} {
		t.Run(c.run, func(t *testing.T) {
			r := runs[c.run]
			sc, zero := r.held(c.waiting, c.slow)
			if c.until > 0 {
				r.For = c.until
				sc.For = zero + seconds(c.until)
			}
			sum, _ := Run(sc)
			before := r.NAtZero[0] - 1
			if c.run == "p15c" {
				r.pauses(c.slow, sc.Costs.Record)
			}
			r.after(t, &sum, zero)
			if c.until == 0 {
				if got := sum.Ended - before; got != r.Ended && (r.pause == 0 || got > r.Ended+r.Ended/100) {
					t.Errorf("%d records, recorded %d", got, r.Ended)
				}
				if got := sum.Distinct - before; got != r.Distinct {
					t.Errorf("%d different records, recorded %d", got, r.Distinct)
				}
			}
		})
	}
}

// after compares what happened after zero: passes exactly, times to 1 s or 1 %.
func (r *recorded) after(t *testing.T, sum *Summary, zero time.Duration) {
	t.Helper()
	var passes []Pass
	for _, p := range sum.Passes {
		if p.End >= zero {
			passes = append(passes, p)
		}
	}
	for i, p := range r.Passes {
		if p[1].(float64) >= r.For {
			break
		}
		if n, records := int(p[3].(float64)), int(p[4].(float64)); i >= len(passes) || passes[i].N != n || passes[i].Records != records {
			t.Fatalf("pass %d: recorded N %d, %d records, not so in %v", i, n, records, passes)
		}
	}
	since := func(list []Moment) []Moment {
		var out []Moment
		for _, m := range list {
			if m.At >= zero {
				out = append(out, Moment{m.At - zero, m.Member})
			}
		}
		return out
	}
	until := func(list []float64) []float64 {
		var out []float64
		for _, at := range list {
			if at >= 0 && at < r.For {
				out = append(out, at)
			}
		}
		return out
	}
	r.Evicted = until(r.Evicted)
	r.evictions(t, since(sum.Evictions))
	r.moments(t, "fenced", since(sum.Fenced), until(r.Fenced))
	var commits []float64
	for _, c := range r.Commits {
		commits = append(commits, c[0].(float64))
	}
	r.moments(t, "commit", since(sum.Commits), until(commits))
}
