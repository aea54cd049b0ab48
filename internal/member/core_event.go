package member

import (
	"fmt"
	"time"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the usual form: "topic-3".
func (t TopicPartition) String() string { return fmt.Sprintf("%s-%d", t.Topic, t.Partition) }

// Offset is a position to commit: the next offset to read.
type Offset struct {
	At          int64
	LeaderEpoch int32 // of the last record, -1 when unknown
	Metadata    string
}

// Work names one piece of work under the poll clock: a call, or a record
// inside user code.
type Work struct {
	Topic     string
	Partition int32
	Offset    int64
	Name      string // of the call or operator
}

// String names the work as an operator would look for it:
// "call model on advisories-3@1207".
func (w Work) String() string {
	if w.Topic == "" {
		return w.Name
	}
	return fmt.Sprintf("%s on %s-%d@%d", w.Name, w.Topic, w.Partition, w.Offset)
}

// State is where the member stands in its group.
type State int8

// The states of a member.
const (
	Unjoined  State = iota // in no group, about to join
	Joining                // JoinGroup sent
	Syncing                // joined, waiting for the assignment
	Stable                 // holds an assignment
	Revoking               // holds an assignment, draining what moves
	Preparing              // eager or InPoll: told to rejoin, has not yet
	Stopped                // closed or fatal
)

// String is the state in lower case.
func (s State) String() string {
	return [...]string{"unjoined", "joining", "syncing", "stable", "revoking", "preparing", "stopped"}[s]
}

// Clocks is a reading of both clocks of a member.
type Clocks struct {
	SessionLeft  time.Duration // until the coordinator gives the lease away; what resets it is an acknowledged heartbeat
	PollLeft     time.Duration // until the poll clock fires; what resets it is finished work (InPoll: a poll)
	SessionLimit time.Duration // session.timeout.ms
	PollLimit    time.Duration // max.poll.interval.ms
	Generation   int32         // -1 when in no group
	MemberID     string
	State        State
	OldestWork   Work // the zero Work when nothing is unfinished
	InFlight     int  // unfinished works
}

// Event is what happens to the lease: one of Assigned, Revoke, Lost, Evicted
// and Fatal.
type Event interface{ event() }

// Assigned says that a generation is complete. Partitions is what is new;
// Owned is all that the member owns now. Both may be empty.
type Assigned struct {
	Generation int32
	Partitions []TopicPartition
	Owned      []TopicPartition
}

// Revoke asks for partitions back: stop their intake, drain, commit, then call
// Done, from any goroutine. The partitions are the member's until then, but
// at most for the rebalance timeout (max.poll.interval.ms).
type Revoke struct {
	Generation int32
	Partitions []TopicPartition
	Done       func()

	id uint64 // what the core knows it by; the shell makes Done of it
}

// Lost says that partitions are gone, now: another member may own them
// already. Work on them must not be committed; its contexts are the
// application's to cut (the poll clock cuts them at their own age, without
// costing another lease).
type Lost struct {
	Partitions []TopicPartition
	Cause      error
}

// Evicted says that the poll clock fired: Work held it for Age. A Lost event
// for all partitions follows, and the member rejoins. Times counts how often
// this (topic, partition, offset) has held the poll clock until it fired, in
// this process: policies use it to put a record aside instead of evicting one
// instance after the other.
type Evicted struct {
	Work   Work
	Age    time.Duration
	Times  int
	Clocks Clocks
}

// Fatal says that the member cannot go on (not authorised, fenced by another
// process with the same group.instance.id, protocol mismatch).
type Fatal struct{ Err error }

func (Assigned) event() {}
func (Revoke) event()   {}
func (Lost) event()     {}
func (Evicted) event()  {}
func (Fatal) event()    {}

// PollClockError is the cause of a context that the poll clock cancelled.
type PollClockError struct {
	Work  Work
	Age   time.Duration
	Limit time.Duration // max.poll.interval.ms
	// InPoll says that Age is the time since the last poll, and Work only what
	// the member was busy with when that was too long.
	InPoll bool
}

// Error names the work, the age of what the clock counts, and the knob.
func (e *PollClockError) Error() string {
	hint := "give the call a shorter timeout"
	if e.InPoll {
		hint = "do less between two polls"
	}
	return fmt.Sprintf("poll clock: %s, max.poll.interval.ms is %s: %s, or raise max.poll.interval.ms", e.held(), e.Limit, hint)
}

func (e *PollClockError) held() string {
	age := e.Age.Round(time.Millisecond)
	switch {
	case !e.InPoll:
		return fmt.Sprintf("%s has run for %s", e.Work, age)
	case e.Work == Work{}:
		return fmt.Sprintf("no poll for %s", age)
	}
	return fmt.Sprintf("no poll for %s, now in %s", age, e.Work)
}
