package rondo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rondo-streams/rondo/internal/call"
)

// Ordering is the order in which calls run and results leave a Call.
type Ordering int

const (
	// ByPartition: calls overlap, and results leave in the order of the
	// records of each partition. The default.
	ByPartition Ordering = iota
	// ByKey: calls of one key follow each other, so the service sees them in
	// order, and results of a key leave in order; calls of different keys
	// overlap and overtake each other.
	ByKey
	// Unordered: calls overlap, and a result leaves when it is there.
	Unordered
)

// String is the ordering in two words.
func (o Ordering) String() string {
	switch o {
	case ByPartition:
		return "by partition"
	case ByKey:
		return "by key"
	case Unordered:
		return "unordered"
	}
	return fmt.Sprintf("ordering(%d)", int(o))
}

// CallPolicy bounds the stay of one record in a Call, and how hard the service
// is pushed. The zero value is one attempt, one call in flight per task, in
// the order of the partition.
//
// The time-out is a parameter of Call and not a field here: a call without one
// does not compile.
type CallPolicy struct {
	// Parallel is how many calls of one task may be in flight at once; 0 means
	// 1. A call that waits for its next attempt counts.
	Parallel int
	// Order is how calls and results of a task are ordered.
	Order Ordering
	// Attempts is how often the service is asked at most for one record; 0
	// means 1.
	Attempts int
	// Backoff is the pause before the second attempt; it doubles for each
	// further one, and up to a fifth of it is taken off at random. 0 means
	// 100 ms. A Retry-After of the service that is longer wins.
	Backoff time.Duration
	// MaxBackoff caps the doubling; 0 means 30 s.
	MaxBackoff time.Duration
	// Budget caps everything that one record may spend in the call, attempts
	// and pauses together. 0 means what attempts and pauses add up to. An
	// attempt that begins shortly before the end of the budget is cut there.
	Budget time.Duration
	// Breaker, when set, stops calling a service that keeps failing, in all
	// tasks of the application at once. Records wait meanwhile; they do not
	// fail.
	Breaker *Breaker
	// Adaptive, when set, finds out how many calls the service can take at
	// once, over all tasks of the application, from its latency. Parallel
	// stays the bound of each task.
	Adaptive *Adaptive
	// Evictions is how often one record may hold this call until the poll
	// clock fires and costs an instance its lease. The time after that, the
	// call is cut at eight tenths of max.poll.interval.ms and the record is a
	// failed one. The count travels with the partition, in the metadata of its
	// offset commits, so it holds over all instances and restarts; see
	// "Records that hold the poll clock" above. 0 means 1.
	Evictions int
}

// Breaker is a circuit breaker: closed while the service works, open (no
// calls) for Delay after Failures of the last Window attempts failed, then
// half open for one probe.
type Breaker struct {
	Failures int           // 0 means 5
	Window   int           // 0 means 10
	Delay    time.Duration // 0 means 10 s
}

// Adaptive bounds the calls in flight over all tasks by what the service can
// take: the bound grows while latency stays level and shrinks when it rises.
type Adaptive struct {
	Min, Max int // 0 means 1 and 200
	Initial  int // 0 means 20
}

func (b Breaker) withDefaults() Breaker {
	return Breaker{cmp.Or(b.Failures, 5), cmp.Or(b.Window, 10), cmp.Or(b.Delay, 10*time.Second)}
}

func (b Breaker) valid() bool {
	b = b.withDefaults()
	return b.Failures > 0 && b.Window >= b.Failures && b.Delay > 0
}

func (a Adaptive) withDefaults() Adaptive {
	return Adaptive{Min: cmp.Or(a.Min, 1), Max: cmp.Or(a.Max, 200), Initial: cmp.Or(a.Initial, 20)}
}

func (a Adaptive) valid() bool {
	a = a.withDefaults()
	return a.Min > 0 && a.Max >= a.Min && a.Initial > 0
}

// gate is what stands before the service of a call.
func (c *callSpec) gate() call.GateOptions {
	var o call.GateOptions
	if c.policy.Breaker != nil {
		b := c.policy.Breaker.withDefaults()
		o.BreakerFailures, o.BreakerWindow, o.BreakerDelay = b.Failures, b.Window, b.Delay
	}
	if c.policy.Adaptive != nil {
		l := c.policy.Adaptive.withDefaults()
		o.LimitMin, o.LimitMax, o.LimitStart = l.Min, l.Max, l.Initial
	}
	return o
}

// callSpec is what a topology knows of one Call, whatever its types.
type callSpec struct {
	name      string
	timeout   time.Duration
	policy    CallPolicy
	onFailure failurePolicy
	deadTopic string
}

// failurePolicy is what becomes of a record whose call failed for good.
type failurePolicy int

const (
	failureUnset failurePolicy = iota
	failureDead                // to a dead-letter topic
	failureSkip                // counted, logged, dropped
	failureFatal               // to the uncaught handler
)

func (c *callSpec) settings() call.Settings {
	p := c.policy
	return call.Settings{
		Timeout: c.timeout, Parallel: p.Parallel, Order: call.Order(p.Order), Attempts: p.Attempts,
		Backoff: p.Backoff, MaxBackoff: p.MaxBackoff, Budget: p.Budget,
	}.WithDefaults()
}

func (c *callSpec) worst() time.Duration { return c.settings().Worst() }

func (c *callSpec) note() string {
	s := c.settings()
	note := fmt.Sprintf("timeout %v, parallel %d, %s", c.timeout, s.Parallel, c.policy.Order)
	if s.Attempts > 1 {
		note += fmt.Sprintf(", %d attempts, backoff %v", s.Attempts, s.Backoff)
	}
	if c.policy.Budget > 0 {
		note += fmt.Sprintf(", budget %v", c.policy.Budget)
	}
	return note
}

// CallStream is what comes out of a Call: results and failures. Say what
// becomes of the failures with FailuresTo, SkipFailures or Values, and go on
// with the results. Build reports a CallStream that was not told.
type CallStream[K, V, W any] struct {
	b    *Builder
	n    *node
	site *callSite[K, V, W]
}

// Call asks a remote service about every record. The call runs beside the
// task, not in it: a slow service holds no lease, no other partition, and no
// commit of records that are done.
//
// Each attempt gets a context that ends after timeout, and an attempt that has
// not come back a moment later is given up, whether it looks at its context or
// not. context.Cause says what cut it: context.DeadlineExceeded for the
// time-out or the budget, an error that matches ErrPollClock when
// max.poll.interval.ms was over, ErrLeaseLost when the partition went
// elsewhere. f is called from many goroutines at once.
//
// An error makes a new attempt, unless it is Permanent, an *HTTPError whose
// status promises the same answer again, or a panic of f.
func (s Stream[K, V]) Call[W any](name string, timeout time.Duration, f func(context.Context, K, V) (W, error), p CallPolicy) CallStream[K, V, W] {
	var g func(context.Context, Record[K, V]) (W, error)
	if f != nil {
		g = func(ctx context.Context, r Record[K, V]) (W, error) { return f(ctx, r.Key, r.Value) }
	}
	return newCall(s, name, timeout, g, p)
}

// CallRecord is Call for functions that need headers, timestamp or origin.
func (s Stream[K, V]) CallRecord[W any](name string, timeout time.Duration, f func(context.Context, Record[K, V]) (W, error), p CallPolicy) CallStream[K, V, W] {
	return newCall(s, name, timeout, f, p)
}

func newCall[K, V, W any](s Stream[K, V], name string, timeout time.Duration, f func(context.Context, Record[K, V]) (W, error), p CallPolicy) CallStream[K, V, W] {
	spec := &callSpec{name: name, timeout: timeout, policy: p}
	site := &callSite[K, V, W]{spec: spec, f: f}
	n := &node{kind: "call", name: name, at: userLine(), call: spec, make: site.make}
	s.b.name(n)
	if f == nil {
		s.b.fault(n.at, "call %q: the function is nil", name)
	}
	if timeout <= 0 {
		s.b.fault(n.at, "call %q: timeout must be above zero: it is what keeps a hanging service from holding the record for ever", name)
	}
	s.b.checkPolicy(n, p)
	n.note = spec.note()
	return CallStream[K, V, W]{s.b, s.b.add(n, s.n), site}
}

func (b *Builder) checkPolicy(n *node, p CallPolicy) {
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"Parallel", p.Parallel < 0}, {"Attempts", p.Attempts < 0}, {"Backoff", p.Backoff < 0}, {"MaxBackoff", p.MaxBackoff < 0},
		{"Budget", p.Budget < 0}, {"Evictions", p.Evictions < 0}, {"Order", p.Order < ByPartition || p.Order > Unordered},
		{"Breaker", p.Breaker != nil && !p.Breaker.valid()}, {"Adaptive", p.Adaptive != nil && !p.Adaptive.valid()},
	} {
		if f.bad {
			b.fault(n.at, "call %q: policy field %s is out of range", n.name, f.name)
		}
	}
}

func (c CallStream[K, V, W]) decide(p failurePolicy) Stream[K, W] {
	spec := c.n.call
	if spec.onFailure != failureUnset && spec.onFailure != p {
		c.b.fault("", "call %q: it was already told what becomes of its failures: use the stream that the first one answered", c.n.name)
	}
	spec.onFailure = p
	return Stream[K, W]{c.b, c.n}
}

// FailuresTo writes every record whose call failed for good to a topic, with
// its original key and value, timestamp and headers, and further headers that
// say why (see DeadLetter), and answers the results. A failed record is
// finished when that write is acknowledged.
func (c CallStream[K, V, W]) FailuresTo(dead Topic[K, V]) Stream[K, W] {
	at := userLine()
	useTopic(c.b, dead, at)
	c.n.call.deadTopic = dead.Name
	c.site.dead = dead
	return c.decide(failureDead)
}

// SkipFailures counts and logs records whose call failed for good, drops them,
// and answers the results.
func (c CallStream[K, V, W]) SkipFailures() Stream[K, W] { return c.decide(failureSkip) }

// Values answers the results; a record whose call failed for good is an
// uncaught error: its offset is not committed, and the uncaught handler
// decides whether the thread is replaced or the application stops.
func (c CallStream[K, V, W]) Values() Stream[K, W] { return c.decide(failureFatal) }
