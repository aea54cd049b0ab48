package cause

import (
	"fmt"
	"strings"
	"time"
)

// Confidence says how a cause is known.
type Confidence string

const (
	// Stated: the coordinator's own clock fired, or the client said so.
	Stated Confidence = "stated"
	// Inferred: no reason crossed the wire; the rule that was used is in
	// Event.Reason.
	Inferred Confidence = "inferred"
)

// Member names one member of a group as an operator would look for it.
type Member struct {
	ID       string `json:"member_id"`
	ClientID string `json:"client_id,omitempty"`
	Host     string `json:"host,omitempty"`
	Instance string `json:"instance_id,omitempty"` // group.instance.id of a static member
}

func (m Member) String() string {
	var b strings.Builder
	b.WriteString(m.ID)
	if m.Instance != "" {
		fmt.Fprintf(&b, " instance=%s", m.Instance)
	}
	if m.ClientID != "" {
		fmt.Fprintf(&b, " client=%s", m.ClientID)
	}
	if m.Host != "" {
		fmt.Fprintf(&b, " host=%s", m.Host)
	}
	return b.String()
}

// Clocks is what the trigger's two clocks showed when the event began, as the
// coordinator sees them. A limit of zero means that the clock does not exist
// for this member.
type Clocks struct {
	SessionAge   time.Duration `json:"session_age_ns"`   // since its last sign of life
	SessionLimit time.Duration `json:"session_limit_ns"` // session.timeout.ms
	PollAge      time.Duration `json:"poll_age_ns"`      // since its last sign of work (join or commit)
	PollLimit    time.Duration `json:"poll_limit_ns"`    // rebalance timeout = max.poll.interval.ms
}

// String shows both readings: "session 3.1s of 45s, poll 5m0s of 5m0s".
func (c Clocks) String() string {
	return fmt.Sprintf("session %s of %s, poll %s of %s",
		round(c.SessionAge), round(c.SessionLimit), round(c.PollAge), round(c.PollLimit))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Event is one change of a group's generation (classic) or epoch (consumer and
// streams groups), from its trigger to the moment the group was stable again.
type Event struct {
	Group      string        `json:"group"`
	Protocol   string        `json:"protocol"` // classic, consumer, streams
	At         time.Time     `json:"at"`       // when the trigger happened
	From       int32         `json:"from"`     // generation or epoch before
	To         int32         `json:"to"`       // and after
	Cause      Cause         `json:"cause"`
	Confidence Confidence    `json:"confidence"`
	Trigger    Member        `json:"trigger"`
	Reason     string        `json:"reason,omitempty"`     // what the client said (KIP-800), or the rule of an inference
	Casualties []Member      `json:"casualties,omitempty"` // members that lost their place
	HeldOpen   []Member      `json:"held_open,omitempty"`  // members that everybody waited for longest, last first
	Clocks     Clocks        `json:"clocks"`
	Took       time.Duration `json:"took_ns"` // from the trigger until the group was stable or empty
	Members    int           `json:"members"` // of the new generation
	Stage      Stage         `json:"stage,omitempty"`
}

// Stage says how much of an event a record tells.
type Stage string

const (
	// Whole: from the trigger to the end.
	Whole Stage = ""
	// Begun: the cause, written with the generation itself; how long it took and
	// who held it open come with a later record, unless the broker was killed.
	Begun Stage = "begun"
	// TakenBack: the generation could not be written, and has never been.
	TakenBack Stage = "taken back"
)

// String is the one line that a rebalance leaves in a log.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group %s generation %d -> %d: %s", e.Group, e.From, e.To, e.Cause)
	if e.Confidence == Inferred {
		b.WriteString(" (inferred)")
	}
	if e.Trigger.ID != "" {
		fmt.Fprintf(&b, ", trigger %s", e.Trigger)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ", reason %q", e.Reason)
	}
	for _, m := range e.Casualties {
		fmt.Fprintf(&b, ", lost %s", m.ID)
	}
	for _, m := range e.HeldOpen {
		fmt.Fprintf(&b, ", held open by %s", m.ID)
	}
	fmt.Fprintf(&b, ", %s, took %s, %d members", e.Clocks, round(e.Took), e.Members)
	return b.String()
}
