package loop

import "time"

// In is one thing that happened. Which policy takes which is said at each type;
// a policy panics on an input it does not take, and on one that contradicts
// what it was told before, since either is a fault of the shell.
type In interface{ in() }

// Inputs of Streams42.
type (
	// Started is the first input: the thread has subscribed.
	Started struct{}

	// Polled ends an act Poll. What is in it is taken in this order: tasks are
	// lost or revoked, new ones assigned, tasks handed over, records
	// delivered. When more than one rebalance went through in one poll, the
	// shell reports their sum: a task that was given and taken again is not
	// mentioned.
	Polled struct {
		Lost        bool       // all tasks were lost: the poll found that the member had been evicted
		Revoked     []TaskID   // tasks taken away; the shell has committed and closed them
		Assigned    []TaskID   // tasks given, not handed over yet: they are being restored
		Complete    bool       // an assignment was applied, even if it brought nothing: onPartitionsAssigned ran
		HandedOver  []TaskID   // tasks that are ready from now on
		Records     []Delivery // what was fetched, of tasks handed over
		Rebalancing bool       // a rebalance that this poll began or found is not over: commits answer -1
	}

	// Processed ends an act Process.
	Processed struct {
		Task            TaskID
		Records         int  // how many were run, at most Act.Max
		Left            int  // how many are still queued
		CommitRequested bool // the user code asked for a commit
	}

	// Punctuated ends an act Punctuate.
	Punctuated struct {
		Fired           int // how many punctuations ran
		CommitRequested bool
	}

	// Committed ends an act Commit.
	Committed struct {
		Tasks  int  // tasks committed; 0: nothing to commit, or it timed out; -1: a rebalance is in progress
		Failed bool // the member is not in the group any more: the work since the last commit is lost
	}

	// Migrated ends any act but Poll when the thread finds out, other than by
	// a commit, that its tasks belong to somebody else (a fenced producer).
	Migrated struct{}

	// Fenced ends an act Fence.
	Fenced struct{}
)

// Inputs of PerCall.
type (
	// Assigned adds lanes.
	Assigned struct{ Tasks []TaskID }

	// Fetched adds records to the queue of a lane. Records of a lane that is
	// unknown or draining are ignored: the shell drops them.
	Fetched struct {
		Task TaskID
		N    int
	}

	// BurstEnded ends an act Burst: Ran records left the queue. Finished of the
	// lane's records are done and were not reported by Finished; the others
	// that left the queue have calls in flight.
	BurstEnded struct {
		Task     TaskID
		Ran      int
		Finished int
		Blocked  bool // the lane may have no more calls in flight: the next burst waits for a Finished
	}

	// Finished says that N more records of the lane are done, in any order.
	// The shell knows which offset may be committed.
	Finished struct {
		Task TaskID
		N    int
	}

	// Revoking asks to hand lanes over: no new bursts, and what is running may
	// go on for at most Budget.
	Revoking struct {
		Tasks  []TaskID
		Budget time.Duration
	}

	// Lost says that lanes belong to somebody else already. What they were
	// doing must be thrown away; nothing is committed for them. The shell
	// reports nothing more about them.
	Lost struct{ Tasks []TaskID }

	// CommitDone ends an act Commit. After an error what was to be committed
	// is still due.
	CommitDone struct{ Err bool }

	// Stopping asks to hand all lanes over and to stop.
	Stopping struct{ Budget time.Duration }

	// Tick says that the time of Next has come. An early one does no harm.
	Tick struct{}
)

func (Started) in()    {}
func (Polled) in()     {}
func (Processed) in()  {}
func (Punctuated) in() {}
func (Committed) in()  {}
func (Migrated) in()   {}
func (Fenced) in()     {}
func (Assigned) in()   {}
func (Fetched) in()    {}
func (BurstEnded) in() {}
func (Finished) in()   {}
func (Revoking) in()   {}
func (Lost) in()       {}
func (CommitDone) in() {}
func (Stopping) in()   {}
func (Tick) in()       {}

// nameOf is the type of an input. It is not left to fmt, so that an In handed
// to Step need not live on the heap.
func nameOf(in In) string {
	switch in.(type) {
	case Started:
		return "Started"
	case Polled:
		return "Polled"
	case Processed:
		return "Processed"
	case Punctuated:
		return "Punctuated"
	case Committed:
		return "Committed"
	case Migrated:
		return "Migrated"
	case Fenced:
		return "Fenced"
	case Assigned:
		return "Assigned"
	case Fetched:
		return "Fetched"
	case BurstEnded:
		return "BurstEnded"
	case Finished:
		return "Finished"
	case Revoking:
		return "Revoking"
	case Lost:
		return "Lost"
	case CommitDone:
		return "CommitDone"
	case Stopping:
		return "Stopping"
	case Tick:
		return "Tick"
	}
	return "an unknown input"
}
