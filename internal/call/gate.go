package call

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// GateOptions say what a Gate looks after. Zero fields switch a part off.
type GateOptions struct {
	BreakerFailures, BreakerWindow int // open after so many failures of the last so many attempts
	BreakerDelay                   time.Duration
	LimitMin, LimitMax, LimitStart int // adaptive bound of calls in flight
}

// Gate stands before one service, for all tasks of a process. It refuses
// attempts while the service asked for a pause (429 with Retry-After), while
// the circuit breaker is open, and beyond the adaptive bound. A refused record
// waits; it has not failed. Gate also keeps the counters of the call. It is
// safe for many goroutines.
type Gate struct {
	breaker circuitbreaker.CircuitBreaker[any]
	limiter adaptivelimiter.AdaptiveLimiter[any]

	mu      sync.Mutex
	hold    time.Time
	waiters map[any]func() // by who asked, so that asking again is not waiting twice

	made, failed, inFlight, latency atomic.Int64
}

// Pass is the permission for one attempt. Give it back with Done.
type Pass struct {
	permit  adaptivelimiter.Permit
	started time.Time
}

// retryFull is how long a record that met the adaptive bound waits at most
// before it asks again; a call that ends wakes it sooner.
const retryFull = 100 * time.Millisecond

// NewGate makes a gate.
func NewGate(o GateOptions) *Gate {
	g := &Gate{}
	if o.BreakerFailures > 0 {
		g.breaker = circuitbreaker.NewBuilder[any]().
			WithFailureThresholdRatio(uint(o.BreakerFailures), uint(max(o.BreakerWindow, o.BreakerFailures))).
			WithSuccessThreshold(1).
			WithDelay(o.BreakerDelay).
			Build()
	}
	if o.LimitMax > 0 {
		low := max(o.LimitMin, 1)
		start := min(max(o.LimitStart, low), o.LimitMax)
		g.limiter = adaptivelimiter.NewBuilder[any]().WithLimits(uint(low), uint(o.LimitMax), uint(start)).Build()
	}
	return g
}

// Admit asks for one attempt, on behalf of who. When it is refused, again is
// when to ask anew, and wake may be called earlier, once, from any goroutine.
func (g *Gate) Admit(now time.Time, who any, wake func()) (p Pass, ok bool, again time.Time) {
	g.mu.Lock()
	hold := g.hold
	g.mu.Unlock()
	if now.Before(hold) {
		return Pass{}, false, hold
	}
	if g.limiter != nil {
		permit, ok := g.limiter.TryAcquirePermit()
		if !ok {
			g.await(who, wake)
			return Pass{}, false, now.Add(retryFull)
		}
		p.permit = permit
	}
	if g.breaker != nil && !g.breaker.TryAcquirePermit() {
		if p.permit != nil {
			p.permit.Drop()
		}
		return Pass{}, false, now.Add(max(g.breaker.RemainingDelay(), retryFull))
	}
	p.started = now
	g.made.Add(1)
	g.inFlight.Add(1)
	return p, true, time.Time{}
}

func (g *Gate) await(who any, wake func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiters == nil {
		g.waiters = map[any]func(){}
	}
	g.waiters[who] = wake
}

// Done ends an attempt. A failure counts against the service only when another
// attempt might help: an answer that says "bad request" is an answer.
func (g *Gate) Done(p Pass, now time.Time, f Failure, retryAfter time.Duration) {
	g.inFlight.Add(-1)
	took := now.Sub(p.started)
	if p.permit != nil {
		if f == None || f == Fatal {
			p.permit.Record()
		} else {
			p.permit.Drop()
		}
	}
	if g.breaker != nil {
		switch f {
		case Service, Late:
			g.breaker.RecordFailure()
		case None, Fatal, Crash:
			g.breaker.RecordSuccess()
		case Budget, PollClock:
		}
	}
	if f == None || f == Fatal || f == Service {
		g.observe(took)
	}
	g.mu.Lock()
	if until := now.Add(retryAfter); retryAfter > 0 && until.After(g.hold) {
		g.hold = until
	}
	waiters := g.waiters
	g.waiters = nil
	g.mu.Unlock()
	for _, wake := range waiters {
		wake()
	}
}

// Drop ends an attempt of which nothing was learned, because its task lost its
// lease.
func (g *Gate) Drop(p Pass) {
	g.inFlight.Add(-1)
	if p.permit != nil {
		p.permit.Drop()
	}
	if g.breaker != nil {
		// A half-open breaker waits for the outcome of its probe.
		if g.breaker.IsHalfOpen() {
			g.breaker.RecordFailure()
		}
	}
}

// observe keeps a moving average over about the last 32 attempts.
func (g *Gate) observe(took time.Duration) {
	for {
		old := g.latency.Load()
		average := int64(took)
		if old > 0 {
			average = old + (int64(took)-old)/32
		}
		if g.latency.CompareAndSwap(old, average) {
			return
		}
	}
}

// Failed counts a record whose call failed for good.
func (g *Gate) Failed() { g.failed.Add(1) }

// GateReading is a snapshot of a Gate.
type GateReading struct {
	Made, Failed, InFlight int64
	Latency                time.Duration
	Breaker                string // closed, open, half-open; empty without one
	Limit                  int    // 0 without one
}

// Reading takes a snapshot.
func (g *Gate) Reading() GateReading {
	r := GateReading{Made: g.made.Load(), Failed: g.failed.Load(), InFlight: g.inFlight.Load(), Latency: time.Duration(g.latency.Load())}
	if g.breaker != nil {
		switch g.breaker.State() {
		case circuitbreaker.ClosedState:
			r.Breaker = "closed"
		case circuitbreaker.OpenState:
			r.Breaker = "open"
		case circuitbreaker.HalfOpenState:
			r.Breaker = "half-open"
		}
	}
	if g.limiter != nil {
		r.Limit = g.limiter.Limit()
	}
	return r
}
