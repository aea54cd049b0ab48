package cause

import "fmt"

// Cause is why a group changed its generation (or epoch).
type Cause int8

// The four causes. The zero value is not a cause: an Event always has one of
// the four.
const (
	// SessionClock: session.timeout.ms passed without a heartbeat.
	SessionClock Cause = iota + 1
	// PollClock: max.poll.interval.ms passed without the member coming back
	// for more work, or the member did not rejoin within the rebalance
	// timeout, which is the same setting seen from the coordinator.
	PollClock
	// MemberChange: a member joined, left, or changed its subscription.
	MemberChange
	// PartitionChange: partitions or topics of the subscription appeared or
	// went away.
	PartitionChange
)

// All lists the causes in the order in which they are always shown.
func All() []Cause {
	return []Cause{SessionClock, PollClock, MemberChange, PartitionChange}
}

// String is the cause as people read it: "poll clock".
func (c Cause) String() string {
	switch c {
	case SessionClock:
		return "session clock"
	case PollClock:
		return "poll clock"
	case MemberChange:
		return "join/leave"
	case PartitionChange:
		return "partition count"
	}
	return fmt.Sprintf("cause(%d)", int8(c))
}

// Label is the cause as metrics and JSON spell it: "poll_clock".
func (c Cause) Label() string {
	switch c {
	case SessionClock:
		return "session_clock"
	case PollClock:
		return "poll_clock"
	case MemberChange:
		return "member_change"
	case PartitionChange:
		return "partition_change"
	}
	return fmt.Sprintf("cause_%d", int8(c))
}

// MarshalText makes JSON and YAML show the label.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.Label()), nil }

// UnmarshalText reads a label.
func (c *Cause) UnmarshalText(text []byte) error {
	for _, known := range All() {
		if known.Label() == string(text) {
			*c = known
			return nil
		}
	}
	return fmt.Errorf("read cause %q: want one of session_clock, poll_clock, member_change, partition_change", text)
}

// Knob is the setting that helps against a cause, with Kafka's name, and those
// that people turn without effect.
func (c Cause) Knob() (helps string, doNothing []string) {
	switch c {
	case SessionClock:
		return "session.timeout.ms", []string{"max.poll.interval.ms", "max.poll.records"}
	case PollClock:
		return "max.poll.interval.ms", []string{"session.timeout.ms", "heartbeat.interval.ms"}
	case MemberChange:
		return "group.instance.id", []string{"session.timeout.ms", "max.poll.interval.ms"}
	case PartitionChange:
		return "metadata.max.age.ms", []string{"session.timeout.ms", "max.poll.interval.ms"}
	}
	return "", nil
}
