package predict

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCheckRefuses lists nonsense with a part of the answer.
func TestCheckRefuses(t *testing.T) {
	call := Always(time.Second)
	for _, c := range []struct {
		s    Settings
		says string
	}{
		{Settings{}, "how slow is the service?"},
		{Settings{Latency: Always(-1)}, "latency=0: want milliseconds from 0"},
		{Settings{Latency: call, Kind: 99}, "kind(99) is not a kind"},
		{Settings{Latency: call, MaxPollInterval: 31 * 24 * time.Hour}, "max.poll.interval.ms=2678400000: want"},
		{Settings{Latency: call, Tasks: -1}, "tasks=-1: want a number from 0"},
		{Settings{Latency: call, Arrival: -1}, "arrival=-1: want"},
		{Settings{Latency: call, Arrival: 1e-300}, "arrival=1e-300: want 0, or records a second from 0.000001"},
		{Settings{Latency: call, Tasks: 2, HandOver: 3}, "hand-over of 3 tasks: a thread has only 2"},
		{Settings{Latency: call, Overhead: 1}, "nothing is free"},
		{Settings{Latency: call, Kind: Sarama, ExactlyOnce: true}, "judged for kafka-streams only"},
		{Settings{Latency: call, Protocol: Consumer}, "group.protocol=consumer is not for kafka-streams"},
		{Settings{Latency: call, Kind: Rondo, Drain: time.Minute, MaxPollInterval: time.Minute}, "drain.timeout.ms (1m0s) must be below max.poll.interval.ms"},
		{Settings{Latency: call, Kind: Rondo, Protocol: Streams}, "group.protocol=streams is for kafka-streams"},
		{Settings{Latency: call, SessionTimeout: time.Second}, "must be below session.timeout.ms"},
		{Settings{Latency: call, ExactlyOnce: true, CommitInterval: time.Minute}, "must not be below commit.interval.ms"},
		{Settings{Latency: Latency{Shape: Ramp, To: time.Second}}, "a ramp takes time"},
		{Settings{Latency: call, Call: Call{Timeout: -5}}, "call timeout"},
	} {
		err := c.s.Check()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.says)
		}
		if _, predicted := Predict(c.s); (predicted == nil) != (err == nil) {
			t.Errorf("%+v: Predict says %v", c.s, predicted)
		}
	}
}

// TestSetZero sets what Kafka has as zero, and what no client takes it for: it
// must not be the default.
func TestSetZero(t *testing.T) {
	for _, name := range []string{"max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms", "transaction.timeout.ms", "overhead", "max.poll.records", "call.timeout"} {
		var s Settings
		if err := s.Set(name, "0"); err == nil {
			t.Errorf("%s=0 passes", name)
		}
	}
	s := Settings{Latency: Always(12 * time.Second), Queued: 40, MaxPollInterval: 30 * time.Second}
	if err := s.Set("commit.interval.ms", "0"); err != nil {
		t.Fatal(err)
	}
	full := s.complete()
	if full.CommitInterval >= time.Millisecond {
		t.Errorf("commit.interval.ms=0 is %s", full.CommitInterval)
	}
	b, _ := new(Evaluate(s)).Of(RulePollClock)
	if lost, got := loss(full.counter(b)); got != (b.Verdict == Unsafe) || b.Verdict == Unsafe {
		t.Errorf("a commit after every pass: %s, the loop loses its lease: %v, after %s", b.Verdict, got, lost)
	}
	s.CommitInterval = 0
	if Evaluate(s).Verdict != Unsafe {
		t.Error("with the default this case shows nothing")
	}
}

// TestFasterIsFaster: where the time-outs are too long, it is no advice to be as
// fast as now.
func TestFasterIsFaster(t *testing.T) {
	r, err := Predict(Settings{Kind: Rondo, Latency: Always(time.Second), Call: Call{Timeout: 2 * time.Minute, Attempts: 3}})
	if err != nil || r.Verdict != Unsafe || r.Fastest != 0 {
		t.Errorf("%v: safe with calls of %s", err, r.Fastest)
	}
}

// TestAllRecords judges the max.poll.records of those who want no bound.
func TestAllRecords(t *testing.T) {
	s := Settings{Kind: JavaConsumer, Latency: Always(time.Second)}
	if err := s.Set("max.poll.records", "2147483647"); err != nil {
		t.Fatal(err)
	}
	r, err := Predict(s)
	if err != nil || r.Verdict != Unsafe {
		t.Errorf("%v, %v", r, err)
	}
}

// TestChanges tries what is advised: with it the verdict is what was promised,
// and what is called idle does not help.
func TestChanges(t *testing.T) {
	for _, s := range []Settings{
		{Queued: 20, Latency: Always(12 * time.Second), MaxPollInterval: 30 * time.Second, SessionTimeout: 2 * time.Minute},
		{Kind: JavaConsumer, Latency: Always(time.Second)},
		{Kind: KafkaJS, Latency: Always(40 * time.Second)},
		{Kind: Rondo, Latency: Always(time.Second), Call: Call{Timeout: 2 * time.Minute, Attempts: 3}},
		{Tasks: 3, Queued: 20, Latency: Always(12 * time.Second), ExactlyOnce: true},
		{Tasks: 6, Threads: 2, Latency: Always(time.Second)},
		{Tasks: 3, Latency: Always(12 * time.Second), MaxPollInterval: 30 * time.Second},
		{Kind: Sarama, Latency: Always(70 * time.Second), Call: Call{Timeout: 5 * time.Minute, Attempts: 3}},
	} {
		r, err := Predict(s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Unsafe || r.Example == "" || len(r.Changes) == 0 {
			t.Errorf("%+v: %s, %d changes, shown by %q", s, r.Verdict, len(r.Changes), r.Shows)
		}
		if len(r.Changes) == 0 || r.Changes[0].Verdict > Safe {
			two(t, s, r)
		}
		for _, c := range r.Changes {
			if c.Verdict >= r.Verdict || c.Cost == "" || c.From == c.To {
				t.Errorf("%+v: %v", s, c)
			}
			turned := s
			if err := turned.Set(knobName(c), c.To); err != nil {
				t.Errorf("%v: %v", c, err)
			} else if got := Evaluate(turned).Verdict; got != c.Verdict {
				t.Errorf("%v: with it %s", c, got)
			}
		}
	}
}

// two tries the two changes that are advised where one is not enough.
func two(t *testing.T, s Settings, r *Report) {
	t.Helper()
	if len(r.Two) == 0 && s.ExactlyOnce {
		return // three clocks, and it takes all
	}
	if len(r.Two) != 2 {
		t.Errorf("%+v: no two changes, and no single one makes it safe", s)
	}
	for _, c := range r.Two {
		if err := s.Set(knobName(c), c.To); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if v := Evaluate(s).Verdict; v != Safe {
		t.Errorf("%v: with them %s", r.Two, v)
	}
}

// knobName is the setting of a change.
func knobName(c Change) string {
	return cmp.Or(map[string]string{"call time-out": "call.timeout", "call attempts": "call.attempts", "rebalance timeout": "rebalance.timeout.ms"}[c.Knob], c.Knob)
}

// TestSmallestChange wants the largest max.poll.records that is safe, also
// where it is far below the present one, and the shortest interval that keeps
// the lease.
func TestSmallestChange(t *testing.T) {
	for _, c := range []struct {
		s          Settings
		knob       string
		step, most int
	}{
		{Settings{Kind: JavaConsumer, Latency: JumpTo(0, time.Second, 20*time.Second)}, "max.poll.records", -1, 2},
		{Settings{Kind: JavaConsumer, Latency: Always(5 * time.Second)}, "max.poll.records", -1, 8},
		{Settings{Kind: JavaConsumer, Latency: Always(time.Second), MaxPollRecords: math.MaxInt32}, "max.poll.records", -1, 40},
		{Settings{Tasks: 3, Queued: 20, Latency: Always(12 * time.Second), MaxPollInterval: 30 * time.Second}, "max.poll.interval.ms", 1000, 37000},
	} {
		r, err := Predict(c.s)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.Changes, func(x Change) bool { return x.Knob == c.knob })
		if i < 0 || r.Changes[i].To != strconv.Itoa(c.most) {
			t.Errorf("%+v: %v, want %s=%d", c.s, r.Changes, c.knob, c.most)
			continue
		}
		short := c.s
		if err := short.Set(c.knob, strconv.Itoa(c.most-c.step)); err != nil {
			t.Fatal(err)
		}
		if v := Evaluate(short).Verdict; v <= r.Changes[i].Verdict {
			t.Errorf("%v: a step nearer it is %s", r.Changes[i], v)
		}
	}
}

// TestJSON pins the names that docs/predict.md promises.
func TestJSON(t *testing.T) {
	r, err := Predict(Settings{Latency: Always(time.Second), Call: Call{Timeout: NoTimeout}, Kind: FranzGo})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("schema verdict kind group_protocol round_ms longest_pass_ms largest_n band bounds changes knobs_that_do_nothing safe_call_ms counter_example assumed notes settings rules") {
		if _, ok := fields[name]; !ok {
			t.Errorf("no %s in %s", name, text)
		}
	}
	var schema struct {
		Defs struct {
			Report struct {
				Required   []string       `json:"required"`
				Properties map[string]any `json:"properties"`
			} `json:"report"`
		} `json:"$defs"`
	}
	if text, err := os.ReadFile("../docs/predict.schema.json"); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(text, &schema); err != nil {
		t.Error(err)
	}
	for name := range fields {
		if _, ok := schema.Defs.Report.Properties[name]; !ok || !slices.Contains(schema.Defs.Report.Required, name) {
			t.Errorf("docs/predict.schema.json has no %s", name)
		}
	}
	if n := len(schema.Defs.Report.Required); n != len(fields) {
		t.Errorf("docs/predict.schema.json has %d fields, the JSON %d", n, len(fields))
	}
	if !strings.Contains(string(text), `"rule":"no-time-out","verdict":"unsafe","worst_ms":null`) {
		t.Errorf("a call without a time-out: %s", text)
	}
}

// FuzzSettings reads anything as a property and as a topology, and judges what
// passes: nothing may panic, or run for ever.
func FuzzSettings(f *testing.F) {
	f.Add("max.poll.interval.ms", "30000", []byte(`{"operators":[{"kind":"call","worst_ns":9000000000,"timeout_ns":3000000000,"attempts":3}]}`))
	f.Add("call", "12s", []byte(`{}`))
	f.Add("arrival", "NaN", []byte(`{"operators":[{"kind":"call","worst_ns":-1}]}`))
	f.Fuzz(func(t *testing.T, name, value string, topology []byte) {
		s := Settings{Latency: Always(time.Second), Queued: 5}
		if s.Set(name, value) == nil && s.Check() == nil && s.PerThread() < 100 {
			Evaluate(s)
		}
		s = Settings{}
		if s.FromTopology(topology) == nil && s.Check() == nil {
			Evaluate(s)
		}
	})
}
