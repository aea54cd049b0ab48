package predict

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Change is one setting with another value, found by trying values and
// applying the rules to each.
type Change struct {
	Knob     string  `json:"knob"` // Kafka's name, or what to change otherwise
	From     string  `json:"from"`
	To       string  `json:"to"`
	Verdict  Verdict `json:"verdict"`
	Cost     string  `json:"cost"`
	distance float64
}

// knob is one thing that can be turned: the values to try, nearest first.
type knob struct {
	name  string
	from  string
	tries []try // with the cost of each, or:
	cost  string
	// at is the try at any factor of the present value, where there is one
	// between two tries.
	at func(factor float64) (try, bool)
}

type try struct {
	text     string
	settings Settings
	cost     string
	distance float64 // how far from the present value, as a ratio's logarithm
	factor   float64 // of the present value, where it is a number that can be turned
}

// maxSearch bounds, in steps of walks, the search for what makes settings better.
const maxSearch = 1 << 24

// search tries settings until it has taken too long.
type search struct{ steps int }

func (l *search) evaluate(s Settings) Verdict {
	j := Evaluate(s)
	l.steps += j.steps
	return j.Verdict
}

// over tells whether the search has to end before it is complete.
func (l *search) over() bool { return l.steps > maxSearch }

// changes tries every knob. It returns the nearest value of each knob that
// reaches the best verdict it can, the smallest change first, and the names
// of the knobs with which nothing gets better. When the search is over, what it
// has not tried is in neither.
func (l *search) changes(s Settings, now Judgement) (list []Change, idle []string) {
	for _, k := range knobs(s) {
		best := Change{Verdict: now.Verdict}
		passed := map[bool]float64{true: 1, false: 1} // how far up and down nothing better was found
		var from, to float64
		for _, t := range k.tries {
			if l.over() {
				break
			}
			if t.settings.Check() != nil {
				continue
			}
			if v := l.evaluate(t.settings); v < best.Verdict {
				best = Change{k.name, k.from, t.text, v, cmp.Or(t.cost, k.cost), t.distance}
				from, to = passed[t.factor > 1], t.factor
				if v == Safe {
					break
				}
			}
			passed[t.factor > 1] = t.factor
		}
		if best.Knob != "" && k.at != nil {
			l.nearer(&best, k, from, to)
		}
		switch {
		case best.Knob == "" && l.over():
			continue
		case best.Knob == "":
			idle = append(idle, k.name)
			continue
		}
		list = append(list, best)
	}
	sortChanges(list)
	return list, idle
}

// nearer looks between the last value that did not do and the one that did for
// one that does and is nearer.
func (l *search) nearer(best *Change, k knob, from, to float64) {
	for range 12 {
		t, ok := k.at(math.Sqrt(from * to))
		if !ok || l.over() || t.text == best.To || t.text == k.from {
			return
		}
		if t.settings.Check() != nil || l.evaluate(t.settings) > best.Verdict {
			from = t.factor
			continue
		}
		to = t.factor
		best.To, best.distance = t.text, t.distance
	}
}

// sortChanges puts what is safe first, then the smallest.
func sortChanges(list []Change) {
	less := func(a, b *Change) bool {
		if a.Verdict != b.Verdict {
			return a.Verdict < b.Verdict
		}
		return a.distance < b.distance
	}
	for i := range list {
		for j := i; j > 0 && less(&list[j], &list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// knobs lists what can be turned for a kind of client.
func knobs(given Settings) []knob {
	s := given.complete()
	var list []knob
	millis := func(name string, field func(*Settings) *time.Duration, up, down string) {
		now := *field(&s)
		k := knob{name: name, from: strconv.FormatInt(now.Milliseconds(), 10)}
		k.at = func(f float64) (try, bool) {
			t := try{settings: given, distance: math.Abs(math.Log(f)), cost: up, factor: f}
			if f < 1 {
				t.cost = down
			}
			d := roundTo(time.Duration(float64(now) * f))
			*field(&t.settings) = d
			t.text = strconv.FormatInt(d.Milliseconds(), 10)
			return t, d != now && d > 0
		}
		for _, f := range factors(up != "", down != "") {
			if t, ok := k.at(f); ok {
				k.tries = append(k.tries, t)
			}
		}
		list = append(list, k)
	}
	clocks := s.Kind.Clocks(s.Protocol)
	interval := "max.poll.interval.ms"
	if !clocks.PollClock {
		interval = "rebalance timeout"
	}
	shorter := ""
	if s.Kind == KafkaStreams {
		shorter = "polls come sooner, and every pass must end sooner"
	}
	millis(interval, func(s *Settings) *time.Duration { return &s.MaxPollInterval },
		"a hung call is noticed later, and a newcomer may wait longer", shorter)
	millis("session.timeout.ms", func(s *Settings) *time.Duration { return &s.SessionTimeout },
		"a dead member is noticed later; group.max.session.timeout.ms of the broker must allow it", "")
	millis("heartbeat.interval.ms", func(s *Settings) *time.Duration { return &s.HeartbeatInterval }, "", "more requests to the coordinator")
	if s.Kind == KafkaStreams {
		millis("commit.interval.ms", func(s *Settings) *time.Duration { return &s.CommitInterval }, "more is repeated after a failure", "more commits")
	}
	if s.ExactlyOnce {
		millis("transaction.timeout.ms", func(s *Settings) *time.Duration { return &s.TransactionTimeout },
			"a dead producer holds up readers longer; transaction.max.timeout.ms of the broker must allow it", "")
	}
	if s.Call.Worst() > 0 {
		millis("call time-out", func(s *Settings) *time.Duration { return &s.Call.Timeout }, "", "calls that take longer fail")
	}
	return append(list, counts(given, s)...)
}

// counts are the knobs that are not times.
func counts(given, s Settings) []knob {
	var list []knob
	if s.Kind != Rondo && s.Kind != Sarama && s.Kind != KafkaJS {
		k := knob{name: "max.poll.records", from: strconv.Itoa(s.MaxPollRecords), cost: "more polls; a small one brings records of one partition at a time"}
		k.at = func(f float64) (try, bool) {
			n := int(float64(s.MaxPollRecords) * f)
			t := try{text: strconv.Itoa(n), settings: given, distance: math.Abs(math.Log(f)), factor: f}
			t.settings.MaxPollRecords = n
			return t, n >= 1 && n != s.MaxPollRecords
		}
		last := ""
		for _, f := range append(factors(false, true), 1.5/float64(s.MaxPollRecords)) { // down to one
			if t, ok := k.at(f); ok && t.text != last {
				k.tries, last = append(k.tries, t), t.text
			}
		}
		list = append(list, k)
	}
	if s.Kind == KafkaStreams {
		k := knob{name: "num.stream.threads", from: strconv.Itoa(s.Threads), cost: "a consumer, a producer and a member of the group each; more calls at once"}
		before := s.PerThread()
		for n := s.Threads + 1; n <= s.Tasks; n++ {
			t := try{text: strconv.Itoa(n), settings: given, distance: math.Log(float64(n) / float64(s.Threads))}
			t.settings.Threads = n
			if per := t.settings.PerThread(); per < before {
				before = per
				t.settings.HandOver = min(t.settings.HandOver, per)
				k.tries = append(k.tries, t)
			}
		}
		list = append(list, k)
		if s.Protocol == Classic && !s.ExactlyOnce {
			t := given
			t.Protocol = Streams
			list = append(list, knob{name: "group.protocol", from: "classic", tries: []try{{text: "streams", settings: t, distance: 1}},
				cost: "brokers from 4.2; an eviction with records fetched and not yet polled can end the whole client (recorded runs mz)"})
		}
	}
	if s.Call.Attempts > 1 {
		k := knob{name: "call attempts", from: strconv.Itoa(s.Call.Attempts), cost: "more records fail"}
		for n := s.Call.Attempts - 1; n >= 1; n-- {
			t := try{text: strconv.Itoa(n), settings: given, distance: math.Log(float64(s.Call.Attempts) / float64(n))}
			t.settings.Call.Attempts = n
			k.tries = append(k.tries, t)
		}
		list = append(list, k)
	}
	if s.Call.Timeout == NoTimeout {
		t := given
		t.Call.Timeout = s.Latency.Worst()
		if t.Call.Timeout > 0 {
			list = append(list, knob{name: "call time-out", from: "none", cost: "calls that take longer fail",
				tries: []try{{text: strconv.FormatInt(t.Call.Timeout.Milliseconds(), 10), settings: t}}})
		}
	}
	return list
}

// factors are what a value is tried with, nearest first. Nobody waits 25 times
// as long, but a number that is far too large may have to become very small.
func factors(up, down bool) []float64 {
	var list []float64
	for f := 1.05; f < 2000; f *= min(1.05+(f-1)/20, 2) {
		if up && f < 25 {
			list = append(list, f)
		}
		if !down && f >= 25 {
			break
		}
		if down {
			list = append(list, 1/f)
		}
		if f > 8 {
			f *= 1.4
		}
	}
	return list
}

// roundTo makes a time one that a person would write.
func roundTo(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Minute:
		return (d + time.Minute - 1) / time.Minute * time.Minute
	case d >= 10*time.Second:
		return (d + time.Second - 1) / time.Second * time.Second
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// fastest is the nearest shorter call with which the settings are safe, to a
// thirtieth; 0 when there is none down to a hundredth of the present one, or the
// search is over before.
func (l *search) fastest(s Settings) time.Duration {
	full := s.complete()
	for call := full.Latency.Worst(); call > full.Latency.Worst()/100 && !l.over(); call -= max(call/30, 1) {
		t := s
		t.Call.Timeout = min(t.Call.Timeout, 0) // this is about the service, not about its time-outs
		t.Latency = full.Latency
		if t.Latency.Shape == Fixed || t.Latency.Worst() != t.Latency.To {
			t.Latency.From = call
		} else {
			t.Latency.To = call
		}
		if l.evaluate(t) == Safe {
			return call
		}
	}
	return 0
}

func (c Change) String() string {
	return fmt.Sprintf("%s=%s (now %s): %s; costs: %s", c.Knob, c.To, c.From, c.Verdict, c.Cost)
}
