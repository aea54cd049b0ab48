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
