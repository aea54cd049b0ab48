package rondo

import (
	"sync"
	"sync/atomic"

	"github.com/rondo-streams/rondo/internal/member"
)

// counters are the counters of an App, over all threads.
type counters struct {
	recordsIn, finished, committed, produced, deadLetters, skipped atomic.Int64
	callsMade, retries, repeated, callsFailed, inFlight            atomic.Int64
	thrownAway, abandoned, commits, commitErrors                   atomic.Int64
	rebalances, evictions, pollClock                               atomic.Int64
}

func (c *counters) snapshot() Counts {
	return Counts{
		RecordsIn: c.recordsIn.Load(), Finished: c.finished.Load(), Committed: c.committed.Load(), Produced: c.produced.Load(),
		DeadLetters: c.deadLetters.Load(), Skipped: c.skipped.Load(), CallsMade: c.callsMade.Load(), Retries: c.retries.Load(),
		Repeated: c.repeated.Load(), CallsFailed: c.callsFailed.Load(), InFlight: c.inFlight.Load(), ThrownAway: c.thrownAway.Load(),
		Abandoned: c.abandoned.Load(), Commits: c.commits.Load(), CommitErrors: c.commitErrors.Load(),
		Rebalances: c.rebalances.Load(), Evictions: c.evictions.Load(), PollClock: c.pollClock.Load(),
	}
}

// strikes remembers which records held the poll clock until it fired, over all
// threads of the process: the record may come back to another one of them. The
// oldest of more than 1,024 are forgotten.
type strikes struct {
	mu    sync.Mutex
	times map[member.Work]int
	order []member.Work
}

const maxStrikes = 1024

func (s *strikes) add(w member.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == nil {
		s.times = map[member.Work]int{}
	}
	if s.times[w] == 0 {
		if len(s.order) == maxStrikes {
			delete(s.times, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, w)
	}
	s.times[w]++
}

// of is how often the work of that name on a record held the poll clock.
func (s *strikes) of(at member.TopicPartition, offset int64, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.times) == 0 {
		return 0
	}
	return s.times[member.Work{Topic: at.Topic, Partition: at.Partition, Offset: offset, Name: name}]
}

// called remembers how far each call has come in each partition, so that calls
// made again after a lost lease can be counted.
type called struct {
	mu  sync.Mutex
	far map[calledKey]*progress
}

type calledKey struct {
	call string
	at   member.TopicPartition
}

// progress is the furthest offset called for, now and by the tasks before the
// present one.
type progress struct {
	task        *task
	now, before int64
}

// again notes a first attempt for a record and says whether an earlier task of
// this process had come as far.
func (c *called) again(call string, o *origin) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.far == nil {
		c.far = map[calledKey]*progress{}
	}
	key := calledKey{call, o.part.at}
	p := c.far[key]
	if p == nil {
		p = &progress{task: o.task, now: -1, before: -1}
		c.far[key] = p
	}
	if p.task != o.task {
		p.task, p.before = o.task, p.now
	}
	p.now = max(p.now, o.offset())
	return o.offset() <= p.before
}
