package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
		verdict := now.Verdict
		passed := map[bool]float64{true: 1, false: 1} // how far up and down nothing better was found
		var found try
		var from float64
		for _, t := range k.tries {
			if l.over() {
				break
			}
			if t.settings.Check() != nil {
				continue
			}
			if v := l.evaluate(t.settings); v < verdict {
				found, verdict, from = t, v, passed[t.factor > 1]
				if v == Safe {
					break
				}
			}
			passed[t.factor > 1] = t.factor
		}
		switch {
		case verdict < now.Verdict:
			list = append(list, k.change(l.nearer(found, k, from, verdict), verdict))
		case !l.over():
			idle = append(idle, k.name)
		}
	}
	sortChanges(list)
	return list, idle
}

// nearer looks between the last value that did not do and the one that did for
// one that does and is nearer.
func (l *search) nearer(found try, k knob, from float64, verdict Verdict) try {
	for range 12 {
		if k.at == nil || l.over() {
			break
		}
		t, ok := k.at(math.Sqrt(from * found.factor))
		if !ok || t.text == found.text || t.text == k.from {
			break
		}
		if t.settings.Check() != nil || l.evaluate(t.settings) > verdict {
			from = t.factor
			continue
		}
		found = t
	}
	return found
}

// pairTries is how many values of a knob are tried with those of another.
const pairTries = 8

// pair finds two knobs that make settings safe together, for when none does
// alone: the smallest of what a coarse look finds, and then of what lies nearer.
func (l *search) pair(s Settings) []Change {
	var a, b knob
	var ta, tb try
	var fromA, fromB float64
	best := math.Inf(1)
	first := knobs(s)
	for i, ka := range first {
		lastA := 1.0
		for _, x := range coarse(ka.tries) {
			for _, kb := range knobs(x.settings) {
				if !slices.ContainsFunc(first[i+1:], func(k knob) bool { return k.name == kb.name }) {
					continue
				}
				lastB := map[bool]float64{true: 1, false: 1}
				for _, y := range coarse(kb.tries) {
					if x.distance+y.distance >= best || l.over() {
						break
					}
					if y.settings.Check() == nil && l.evaluate(y.settings) == Safe {
						a, b, ta, tb, fromA, fromB, best = ka, kb, x, y, lastA, lastB[y.factor > 1], x.distance+y.distance
						break
					}
					lastB[y.factor > 1] = y.factor
				}
			}
			lastA = x.factor
		}
	}
	if math.IsInf(best, 1) {
		return nil
	}
	tb = l.nearer(tb, b, fromB, Safe)
	if other, ok := same(knobs(s), b.name, tb); ok {
		turned := knobs(other.settings)
		if again, ok := same(turned, a.name, ta); ok && (fromA > 1) == (ta.factor > 1) {
			k := turned[slices.IndexFunc(turned, func(k knob) bool { return k.name == a.name })]
			ta = l.nearer(again, k, fromA, Safe)
		}
	}
	return []Change{a.change(ta, Safe), b.change(tb, Safe)}
}

// same is the value of a try, of the knob of that name.
func same(list []knob, name string, as try) (try, bool) {
	for _, k := range list {
		if k.name != name {
			continue
		}
		if k.at != nil {
			return k.at(as.factor)
		}
		for _, t := range k.tries {
			if t.text == as.text {
				return t, true
			}
		}
	}
	return try{}, false
}

// coarse is a few of many tries, the last among them.
func coarse(tries []try) []try {
	if len(tries) <= pairTries {
		return tries
	}
	var few []try
	for i := 1; i <= pairTries; i++ {
		few = append(few, tries[i*len(tries)/pairTries-1])
	}
	return few
}

// change is a try as advice.
func (k knob) change(t try, v Verdict) Change {
	return Change{k.name, k.from, t.text, v, cmp.Or(t.cost, k.cost), t.distance}
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
			if call == full.Latency.Worst() {
				return 0 // its length is not what is wrong
			}
			return call
		}
	}
	return 0
}

func (c Change) String() string {
	return fmt.Sprintf("%s=%s (now %s): %s; costs: %s", c.Knob, c.To, c.From, c.Verdict, c.Cost)
}
