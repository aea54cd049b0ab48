package loop

import (
	"fmt"
	"slices"
	"time"
)

// State is the state of a stream thread, under Kafka Streams' names.
type State int8

// The states that the loop passes through.
const (
	Starting           State = iota // subscribed, nothing assigned yet
	PartitionsRevoked               // tasks were taken and nothing was given back yet: no passes
	PartitionsAssigned              // some tasks are still being restored
	Running                         // all tasks are ready
)

// String is the state as Kafka Streams logs it.
func (s State) String() string {
	switch s {
	case Starting:
		return "STARTING"
	case PartitionsRevoked:
		return "PARTITIONS_REVOKED"
	case PartitionsAssigned:
		return "PARTITIONS_ASSIGNED"
	case Running:
		return "RUNNING"
	}
	return fmt.Sprintf("STATE(%d)", int8(s))
}

// Streams42 is the stream thread of Kafka Streams 4.2 (StreamThread.runOnce,
// TaskExecutor, at-least-once, state updater on), as a value. Its one memory
// between polls is N, the number of records of each task in a pass:
//
//	row  records in the pass  late (more than M/2 since the poll)  committed or punctuated  N       next
//	1    none                 -                                    -                        stays   poll
//	2    some                 yes                                  -                        halves  poll
//	3    some                 no                                   yes                      halves  pass
//	4    some                 no                                   no, or -1                grows   pass
//	5    the pass or its commit failed                                                      stays   poll
//	6    state PARTITIONS_REVOKED: no pass                                                  stays   poll
//
// N has no upper bound, falls to no less than 1, and is carried over polls,
// rebalances and evictions: only a new thread begins with 1. That is the trap
// which PerCall does not have: N learned at 10 ms a call is still in force when
// a call takes 10 s, and nothing looks at a clock inside a pass.
type Streams42 struct {
	set   Settings
	state State
	waits Kind // the act that is being executed; 0 before Started

	// The two clocks count from the first Step: what a pass compares is then
	// one number with another, and not two wall clocks.
	origin     time.Time
	lastPoll   time.Duration
	lastCommit time.Duration // never until the first check, which is therefore always due

	n         int
	tasks     []task42 // ready ones, in task order
	restoring []TaskID // assigned, not handed over yet

	rebalancing bool

	// The pass that is going on.
	next      int // index of the task to look at next
	processed int
	fired     int
	requested bool // user code asked for a commit since the last one
	due       bool // the commit that is being executed restarts the clock

	act           Act      // what Step returns: it is large, and made in its place
	pause, resume []TaskID // buffers for it
	seen          Reading  // the counters
}

// never is the commit clock of a new thread.
const never = time.Duration(-1)

type task42 struct {
	id     TaskID
	queued int
	dirty  bool // processed or punctuated something since the last commit
	paused bool // the shell was told to fetch no more
}

// Reading is what can be seen of a Streams42 at a moment.
type Reading struct {
	N           int       // numIterations: records of each task in a pass
	State       State     //
	LastPoll    time.Time // when the thread last went to poll
	LastCommit  time.Time // when the commit clock was last restarted; zero: never
	Tasks       int       // tasks that are ready
	Restoring   int       // tasks assigned but not handed over
	Queued      int       // records waiting in all queues
	Rebalancing bool      // commits answer -1 for now

	Polls     int // polls since the thread began
	Passes    int // passes that processed something
	Processed int // records
	Commits   int // commits that committed something
	Blocked   int // commits that were due while a rebalance was in progress
	Fences    int // times that the thread found itself out of the group, by a commit or otherwise
}

// NewStreams42 is a new thread: N is 1, or Settings.FirstN, and the commit
// clock stands at zero.
// Its first input is Started.
func NewStreams42(set Settings) *Streams42 {
	set = set.WithDefaults()
	return &Streams42{set: set, n: set.FirstN, lastCommit: never}
}

// N is the number of records of each task in the present or next pass.
func (s *Streams42) N() int { return s.n }

// Reading shows the state and the counters.
func (s *Streams42) Reading() Reading {
	r := s.seen
	r.N, r.State = s.n, s.state
	if !s.origin.IsZero() {
		r.LastPoll = s.origin.Add(s.lastPoll)
		if s.lastCommit != never {
			r.LastCommit = s.origin.Add(s.lastCommit)
		}
	}
	r.Tasks, r.Restoring, r.Rebalancing = len(s.tasks), len(s.restoring), s.rebalancing
	for i := range s.tasks {
		r.Queued += s.tasks[i].queued
	}
	return r
}

// Step takes the outcome of the act that Step returned last (Started at first)
// and returns the next act. It panics when the input does not belong to that
// act.
func (s *Streams42) Step(at time.Time, in In) Act {
	if s.origin.IsZero() {
		s.origin = at
	}
	return s.StepAfter(at.Sub(s.origin), in)
}

// StepAfter is Step for who counts the time since the first Step himself, as a
// simulation does.
func (s *Streams42) StepAfter(now time.Duration, in In) Act {
	switch in := in.(type) {
	case Started:
		s.expect(0, "Started")
		s.poll(now)
	case Polled:
		s.expect(Poll, "Polled")
		s.polled(&in)
		if s.state == PartitionsRevoked {
			s.poll(now) // row 6
		} else {
			s.pass(now)
		}
	case Processed:
		s.expect(Process, "Processed")
		s.ran(&in)
		s.process(now)
	case Punctuated:
		s.expect(Punctuate, "Punctuated")
		s.punctuated(&in)
		s.maybeCommit(now)
	case Committed:
		s.expect(Commit, "Committed")
		if in.Failed {
			s.fence() // row 5
		} else {
			s.committed(now, in.Tasks)
		}
	case Migrated:
		s.fence() // row 5
	case Fenced:
		s.expect(Fence, "Fenced")
		s.poll(now)
	default:
		panic("loop: Streams42 does not take " + nameOf(in))
	}
	return s.act
}

func (s *Streams42) expect(waits Kind, in string) {
	if s.waits != waits {
		panic(fmt.Sprintf("loop: Streams42 got %s while the shell executes %q", in, s.waits))
	}
}

// poll begins a turn of runOnce. The thread's own poll clock is read here,
// before the consumer is called, so it runs slightly ahead of the consumer's.
func (s *Streams42) poll(now time.Duration) {
	s.waits = Poll
	s.lastPoll = now
	s.seen.Polls++
	act := &s.act
	*act = Act{Kind: Poll, Timeout: s.set.PollTimeout}
	if s.state == PartitionsRevoked {
		act.Timeout = 0
	}
	s.pause, s.resume = s.pause[:0], s.resume[:0]
	for i := range s.tasks {
		t := &s.tasks[i]
		over := t.queued > s.set.BufferedRecords
		if over && !t.paused {
			s.pause = append(s.pause, t.id)
		} else if !over && t.paused {
			s.resume = append(s.resume, t.id)
		}
		t.paused = over
	}
	act.Pause, act.Resume = s.pause, s.resume
}

func (s *Streams42) polled(in *Polled) {
	if in.Lost {
		// onPartitionsLost closes the tasks and changes no state.
		s.tasks, s.restoring = s.tasks[:0], s.restoring[:0]
	}
	if len(in.Revoked) > 0 {
		s.drop(in.Revoked)
		s.state = PartitionsRevoked
	}
	s.restoring = append(s.restoring, in.Assigned...)
	if in.Complete || len(in.Assigned) > 0 {
		s.state = PartitionsAssigned
	}
	for _, id := range in.HandedOver {
		s.handOver(id)
	}
	s.rebalancing = in.Rebalancing
	if s.state == PartitionsAssigned && len(s.restoring) == 0 {
		s.state = Running
	}
	for _, d := range in.Records {
		t := s.find(d.Task)
		if t == nil {
			panic(fmt.Sprintf("loop: %d records for task %s, which was not handed over", d.Records, d.Task))
		}
		t.queued += d.Records
	}
}

func (s *Streams42) drop(ids []TaskID) {
	gone := func(id TaskID) bool { return slices.Contains(ids, id) }
	s.tasks = slices.DeleteFunc(s.tasks, func(t task42) bool { return gone(t.id) })
	s.restoring = slices.DeleteFunc(s.restoring, gone)
}

func (s *Streams42) handOver(id TaskID) {
	if i := slices.Index(s.restoring, id); i >= 0 {
		s.restoring = slices.Delete(s.restoring, i, i+1)
	}
	i, found := slices.BinarySearchFunc(s.tasks, id, func(t task42, id TaskID) int { return t.id.Compare(id) })
	if found {
		panic(fmt.Sprintf("loop: task %s was handed over twice", id))
	}
	s.tasks = slices.Insert(s.tasks, i, task42{id: id})
}

func (s *Streams42) find(id TaskID) *task42 {
	if len(s.tasks) == 1 && s.tasks[0].id == id {
		return &s.tasks[0]
	}
	i, found := slices.BinarySearchFunc(s.tasks, id, func(t task42, id TaskID) int { return t.id.Compare(id) })
	if !found {
		return nil
	}
	return &s.tasks[i]
}

// pass begins a pass: up to N records of each task in task order.
func (s *Streams42) pass(now time.Duration) {
	s.next, s.processed, s.fired = 0, 0, 0
	s.process(now)
}

func (s *Streams42) process(now time.Duration) {
	for s.next < len(s.tasks) {
		t := &s.tasks[s.next]
		s.next++
		if t.queued > 0 {
			s.waits = Process
			s.act = Act{Kind: Process, Task: t.id, Max: s.most(t), Pass: s.seen.Passes + 1}
			return
		}
	}
	if s.processed > 0 {
		s.seen.Passes++
	}
	if s.set.Punctuates {
		s.waits = Punctuate
		s.act = Act{Kind: Punctuate}
		return
	}
	s.maybeCommit(now)
}

// most is how many records of a task a pass may take.
func (s *Streams42) most(t *task42) int {
	if s.set.Whole {
		return t.queued
	}
	return s.n
}

func (s *Streams42) ran(in *Processed) {
	t := s.find(in.Task)
	if t == nil || in.Records > s.most(t) || in.Records+in.Left != t.queued {
		panic(fmt.Sprintf("loop: task %s ran %d and has %d left, contrary to what was delivered", in.Task, in.Records, in.Left))
	}
	t.queued = in.Left
	if in.Records > 0 {
		t.dirty = true
	}
	s.processed += in.Records
	s.seen.Processed += in.Records
	s.requested = s.requested || in.CommitRequested
}

func (s *Streams42) punctuated(in *Punctuated) {
	s.fired = in.Fired
	s.requested = s.requested || in.CommitRequested
	for i := range s.tasks {
		s.tasks[i].dirty = s.tasks[i].dirty || in.Fired > 0
	}
}

// maybeCommit asks for a commit when the commit clock has passed
// commit.interval.ms, or when user code wants one. A commit that nobody needs
// still restarts the clock; one that meets a rebalance does not.
func (s *Streams42) maybeCommit(now time.Duration) {
	s.due = s.lastCommit == never || now-s.lastCommit > s.set.CommitInterval
	needed := false
	for i := range s.tasks {
		needed = needed || s.tasks[i].dirty
	}
	switch {
	case !s.due && !(s.requested && needed):
		s.decide(now, 0)
	case s.rebalancing:
		s.seen.Blocked++
		s.decide(now, -1)
	case !needed:
		s.lastCommit = now
		s.decide(now, 0)
	default:
		s.waits = Commit
		s.act = Act{Kind: Commit}
	}
}

func (s *Streams42) committed(now time.Duration, tasks int) {
	if tasks < 0 {
		s.seen.Blocked++
		s.decide(now, tasks)
		return
	}
	if tasks > 0 {
		s.seen.Commits++
		for i := range s.tasks {
			s.tasks[i].dirty = false
		}
		s.requested = false
	}
	if s.due {
		s.lastCommit = now // also after a commit that timed out
	}
	s.decide(now, tasks)
}

// decide is the table above: what becomes of N, and whether to poll.
func (s *Streams42) decide(now time.Duration, committed int) {
	switch {
	case s.processed == 0:
		s.poll(now) // row 1
	case now-s.lastPoll > s.set.MaxPollInterval/2:
		s.halve()
		s.poll(now) // row 2
	case committed > 0 || s.fired > 0:
		s.halve()
		s.pass(now) // row 3
	default:
		s.n++
		s.pass(now) // row 4
	}
}

func (s *Streams42) halve() {
	if s.n > 1 {
		s.n /= 2
	}
}

// fence forgets the tasks. N, the commit clock and the state stay as they are.
func (s *Streams42) fence() {
	s.waits = Fence
	s.seen.Fences++
	s.tasks, s.restoring = s.tasks[:0], s.restoring[:0]
	s.requested = false
	s.act = Act{Kind: Fence}
}
