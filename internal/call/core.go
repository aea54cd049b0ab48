package call

import (
	"fmt"
	"time"
)

// ID names one record in a window: 1, 2, 3 in the order of offers.
type ID uint64

// Failure is what an attempt's outcome means for the next attempt, or why a
// record failed for good.
type Failure int8

// The failures.
const (
	None      Failure = iota // it succeeded
	Service                  // the service failed or refused: another attempt may help
	Late                     // the attempt's time-out ended it
	Fatal                    // the same request would fail again
	Crash                    // user code panicked
	Budget                   // the budget left no room for another attempt
	PollClock                // the record was cut before it could cost the lease again
)

// String is the failure as a dead letter's cause header spells it.
func (f Failure) String() string {
	switch f {
	case None:
		return "none"
	case Service:
		return "service"
	case Late:
		return "timeout"
	case Fatal:
		return "permanent"
	case Crash:
		return "panic"
	case Budget:
		return "budget"
	case PollClock:
		return "poll_clock"
	}
	return fmt.Sprintf("failure(%d)", int8(f))
}

// In is one thing that happened: Offer, Came, Refused, Hold, Drain or Tick.
type In interface{ in() }

type (
	// Offer brings the next record. It is taken even when the window is full:
	// one input record may become many, and cannot be split.
	Offer struct {
		Partition int32         // of the input record: order by partition
		Key       uint64        // hash of the key: order by key. A collision costs time, not order
		Limit     time.Duration // 0, or a cap of this record's budget that fails it as PollClock
	}
	// Came brings the outcome of an attempt. One that was cut is ignored.
	Came struct {
		ID         ID
		Attempt    int
		Failure    Failure
		RetryAfter time.Duration // what the service asked for; 0 when nothing
	}
	// Refused says that a Start was not carried out, because the service is
	// not to be called now. It counts as no attempt, and begins no budget; the
	// window asks again at At.
	Refused struct {
		ID      ID
		Attempt int
		At      time.Time
	}
	// Hold lets no first attempt start before Until.
	Hold struct{ Until time.Time }
	// Drain forgets records whose call has not begun and starts none from now
	// on. Those that have begun go on.
	Drain struct{}
	// Tick says that the time of Next has come. An early one does no harm.
	Tick struct{}
)

func (Offer) in()   {}
func (Came) in()    {}
func (Refused) in() {}
func (Hold) in()    {}
func (Drain) in()   {}
func (Tick) in()    {}

// Kind says what an Act asks for.
type Kind int8

// The acts.
const (
	// Start: make the attempt, until Deadline; answer Came or Refused.
	Start Kind = iota + 1
	// Cut: the attempt did not come back in time; cancel it and wait for it no
	// longer.
	Cut
	// Emit: the record leaves, with Failure None and its result, or as failed.
	Emit
)

// Act is what the shell has to do.
type Act struct {
	Kind     Kind
	ID       ID
	Attempt  int       // Start, Cut; Emit: attempts that were made
	Deadline time.Time // Start
	Failure  Failure   // Emit
}

// String is the act as transcripts show it.
func (a Act) String() string {
	switch a.Kind {
	case Start:
		return fmt.Sprintf("start %d attempt %d", a.ID, a.Attempt)
	case Cut:
		return fmt.Sprintf("cut %d attempt %d", a.ID, a.Attempt)
	case Emit:
		if a.Failure != None {
			return fmt.Sprintf("emit %d failed: %s after %d", a.ID, a.Failure, a.Attempt)
		}
		return fmt.Sprintf("emit %d", a.ID)
	}
	return fmt.Sprintf("kind(%d)", a.Kind)
}
