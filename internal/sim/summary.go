package sim

import "time"

// Moment is something that happened to a member.
type Moment struct {
	At     time.Duration
	Member int
}

// Removal is a member that the coordinator took out of the group.
type Removal struct {
	Moment
	Why Why
}

// Why says how a member left the group.
type Why int8

// The ways out of a group. The first is the poll clock seen by the member
// itself, the second the session clock, the third the poll clock seen by the
// coordinator (the rebalance timeout), the last an orderly leave.
const (
	PollClock Why = iota + 1
	SessionClock
	RebalanceTimeout
	Left
)

// String names the clock.
func (w Why) String() string {
	switch w {
	case PollClock:
		return "poll clock"
	case SessionClock:
		return "session clock"
	case RebalanceTimeout:
		return "rebalance timeout"
	case Left:
		return "left"
	}
	return "none"
}

// Assignment is what a member was given at a moment: all that it owns then.
type Assignment struct {
	Moment
	Partitions []int
}

// Change is a new value of N.
type Change struct {
	Moment
	N int
}

// Pass is one pass of a stream thread that processed something.
type Pass struct {
	Begin, End time.Duration
	Member     int
	N, Records int
}

// Summary is what came of a run. The slices are filled only when
// Scenario.Trace is set; the numbers always.
type Summary struct {
	Evictions  []Moment  // a member's poll clock ran out
	Fenced     []Moment  // a member's commit was refused: it threw its tasks away
	Lost       []Moment  // a member's poll found out the same
	Removed    []Removal // a member left the group, as the coordinator saw it
	Assigned   []Assignment
	Commits    []Moment // commits that committed something
	Failed     []Moment // commits that were refused
	N          []Change
	Passes     []Pass
	Generation int // of the group at the end

	// FirstLoss is when a member was first evicted, or removed other than by
	// leaving, or had a commit refused; 0: never.
	FirstLoss time.Duration

	EvictionCount  int
	FenceCount     int
	LostCount      int
	RemovalCount   int
	CommitCount    int
	FailedCount    int
	Blocked        int // commits that were due while a rebalance was in progress
	Polls          int // polls (idle ones are not all counted)
	Calls          int // calls that began
	Ended          int // calls that ended: the records that were put out
	Distinct       int // different records among those
	NeverCommitted int // calls made for records that are not committed at the end
	CutCalls       int // calls cut by their time-out or by the end of the drain budget
	Abandoned      int // hand-overs that threw away what ended after the drain budget, PerCall
	Committed      []int
	LongestPoll    time.Duration // Streams42: the longest time from one poll to the next that the poll clock saw
	NAtEnd         []int         // of each member, Streams42
}

// Repeated is the number of calls that ended for a record that had been done
// already.
func (s *Summary) Repeated() int { return s.Ended - s.Distinct }

// removed notes that the coordinator took a member out of the group.
func (w *world) removed(m *member, why Why) {
	w.sum.RemovalCount++
	if why != Left {
		w.lost()
	}
	if w.sc.Trace {
		w.sum.Removed = append(w.sum.Removed, Removal{Moment{w.now, m.idx}, why})
	}
	w.note(m, Remove, int(why))
}

// What is a kind of Event.
type What int8

// The kinds of events in a trace.
const (
	Poll What = iota + 1
	CallBegin
	CallEnd
	CallCut
	CommitOK
	CommitFailed
	CommitBlocked
	Evicted
	Fence
	Remove
	JoinSent
	Joined
	Assign
	NewN
	Start
	Die
	Stop
)

// Event is one line of a trace.
type Event struct {
	At        time.Duration
	Member    int
	What      What
	Partition int // calls
	Offset    int // calls
	N         int // Poll: records; NewN: N; Assign: partitions owned; Joined: generation; Remove: Why
}
