package rondo

import (
	"time"

	"github.com/rondo-streams/rondo/cause"
)

// Stats is a snapshot of an App: counters since Run began, and where every
// thread and task stands. All counters only grow, except those said to be
// levels.
type Stats struct {
	App     string        `json:"app"`
	Policy  string        `json:"policy"` // loop.policy: percall or streams42
	State   string        `json:"state"`  // created, running, stopping, stopped
	Uptime  time.Duration `json:"uptime_ns"`
	Counts  Counts        `json:"counts"`
	Calls   []CallStats   `json:"calls"`   // in order of the topology
	Threads []ThreadStats `json:"threads"` // in order of their number
	// Evictions are the last 64 leases that this instance lost, oldest first.
	Evictions []Eviction `json:"evictions"`
}

// Counts are the counters of an App over all threads, also those that ended.
type Counts struct {
	RecordsIn    int64 `json:"records_in"`    // input records handed to user code
	Finished     int64 `json:"finished"`      // input records whose outputs are acknowledged
	Committed    int64 `json:"committed"`     // input records covered by a commit
	Produced     int64 `json:"produced"`      // output records acknowledged, dead letters included
	DeadLetters  int64 `json:"dead_letters"`  // of these, records that failed
	Skipped      int64 `json:"skipped"`       // records dropped by a handler or by SkipFailures
	CallsMade    int64 `json:"calls_made"`    // attempts sent to services
	Retries      int64 `json:"retries"`       // of these, second and further attempts for one record
	Repeated     int64 `json:"repeated"`      // of these, first attempts for a record that this instance had called for before it lost the partition
	CallsFailed  int64 `json:"calls_failed"`  // records whose call failed for good
	InFlight     int64 `json:"in_flight"`     // level: calls in flight, waiting for their next attempt included
	ThrownAway   int64 `json:"thrown_away"`   // input records worked on (called for, or finished) but not committed when their partition went away
	Abandoned    int64 `json:"abandoned"`     // attempts that did not come back when their context ended and were given up
	Commits      int64 `json:"commits"`       // offset commits that succeeded
	CommitErrors int64 `json:"commit_errors"` // offset commits that failed
	Rebalances   int64 `json:"rebalances"`    // generations that began, over all threads
	Evictions    int64 `json:"evictions"`     // leases lost
	PollClock    int64 `json:"poll_clock"`    // of these, lost to the poll clock
}

// CallStats is one Call over all tasks of the instance.
type CallStats struct {
	Name     string        `json:"name"`
	Made     int64         `json:"made"`
	Failed   int64         `json:"failed"`
	InFlight int64         `json:"in_flight"`  // level
	Latency  time.Duration `json:"latency_ns"` // level: moving average of attempts that came back
	Breaker  string        `json:"breaker"`    // closed, open, half-open; empty without one
	Limit    int           `json:"limit"`      // level: Adaptive's present bound; 0 without one
}

// ThreadStats is one thread: one member of the group.
type ThreadStats struct {
	Name         string        `json:"name"`
	MemberID     string        `json:"member_id"`
	State        string        `json:"state"` // the member's state in its group: stable, joining ...
	Generation   int32         `json:"generation"`
	SessionLeft  time.Duration `json:"session_left_ns"` // until the session clock fires
	SessionLimit time.Duration `json:"session_limit_ns"`
	PollLeft     time.Duration `json:"poll_left_ns"` // until the poll clock fires
	PollLimit    time.Duration `json:"poll_limit_ns"`
	Oldest       string        `json:"oldest,omitempty"` // the work that runs the poll clock
	InFlight     int           `json:"in_flight"`
	LastPoll     time.Time     `json:"last_poll,omitzero"`   // streams42
	LastCommit   time.Time     `json:"last_commit,omitzero"` // when the last commit succeeded
	N            int           `json:"n,omitempty"`          // streams42: records of each task in a pass
	Pass         int           `json:"pass,omitempty"`       // streams42: passes since the thread began
	Tasks        []TaskStats   `json:"tasks"`
}

// TaskStats is one task.
type TaskStats struct {
	ID         string           `json:"id"` // "0_3"
	Queued     int              `json:"queued"`
	Unfinished int              `json:"unfinished"`
	Partitions []PartitionStats `json:"partitions"`
}

// PartitionStats is one input partition of a task.
type PartitionStats struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Fetched   int64  `json:"fetched"`   // next offset to fetch
	Finished  int64  `json:"finished"`  // lowest unfinished offset: what a commit would say
	Committed int64  `json:"committed"` // what the last commit said; -1 for none
}

// Eviction is one lease that this instance lost.
type Eviction struct {
	At     time.Time     `json:"at"`
	Thread string        `json:"thread"`
	Cause  cause.Cause   `json:"cause"`
	Work   string        `json:"work,omitempty"` // the call or record that held the poll clock
	Age    time.Duration `json:"age_ns,omitempty"`
	Times  int           `json:"times,omitempty"` // how often this record did it in this process
	Error  string        `json:"error,omitempty"`
}
