package predict

import (
	"math"
	"slices"
	"time"
)

// What a thread's surroundings cost, as in package sim's world on a quiet
// machine: a request and its answer, the time from an assignment to the first
// fetch, poll.ms, and fetch.max.wait.ms.
const (
	roundTrip   = 2 * time.Millisecond
	settle      = 300 * time.Millisecond
	pollTimeout = 100 * time.Millisecond
	fetchWait   = 500 * time.Millisecond
	streamsWait = 3 * time.Second  // group.streams.initial.rebalance.delay.ms
	abortEvery  = 10 * time.Second // transaction.abort.timed.out.transaction.cleanup.interval.ms
	never       = time.Duration(math.MaxInt64)
)

// maxSteps bounds what a walk looks at, a task in a pass or poll being one:
// settings can ask for years of microseconds. What lies behind is not judged, and
// the verdict says so.
const maxSteps = 1 << 20

// thread adds up what one stream thread, alone in its group, does from its
// start: polls, passes, commits. It is the rule of the poll clock, row by row:
//
//	pass     sum over tasks of min(N, queued) calls
//	commit   after a pass, when commit.interval.ms has passed: N halves
//	late     more than max.poll.interval.ms/2 since the poll: N halves, poll
//	else     N grows by one, another pass
//
// Source: StreamThread.runOnce of Kafka Streams 4.2. A plain consumer is a
// thread whose pass takes all that was polled.
type thread struct {
	s     *Settings
	tasks int
	whole bool
	every time.Duration // between two arrivals; 0: none
	until time.Duration

	now        time.Duration
	n          int
	polledAt   time.Duration // the poll clock was reset
	lastCommit time.Duration
	dirty      bool
	txn        time.Duration // the open transaction began; 0: none

	task   []taskRow
	handed int // tasks below have been handed over
	buffer []chunk
	asked  int // partitions that the fetch in flight asks for
	sentAt time.Duration
	answer time.Duration

	out   outcome
	steps int // so far
	left  int // records not processed yet, when none arrive
}

type taskRow struct {
	queued, fetched int
	asked, paused   bool
	buffered        bool
	fetchAt         time.Duration
}

type chunk struct{ task, n int }

// outcome is what came of a thread.
type outcome struct {
	evicted time.Duration // when its poll clock ran out; 0: never
	aborted time.Duration // when a commit met an aborted transaction; 0: never
	gap     time.Duration // the longest from one poll to the next, in full, also when it was too long
	pass    time.Duration // the longest pass
	open    time.Duration // the longest transaction
	most    int           // the largest N at a poll
	steps   int           // what it took
}

// cut tells whether the walk ended before its time.
func (o *outcome) cut() bool { return o.steps > maxSteps }

func (o *outcome) lost() bool { return o.evicted > 0 || o.aborted > 0 }

// walk plays a thread of whose tasks the first handOver bring records at once.
// It ends with the first loss, or when until has come.
func walk(s *Settings, handOver int, until time.Duration) outcome {
	t := thread{s: s, tasks: s.PerThread(), whole: s.Kind != KafkaStreams, n: s.N, handed: handOver, until: until}
	if s.Arrival > 0 {
		t.every = time.Duration(float64(time.Second) / s.Arrival)
	}
	t.left = s.Queued * t.tasks
	t.task = make([]taskRow, t.tasks)
	begin := s.begins()
	for i := range t.task {
		t.task[i].fetchAt = begin
	}
	for at := pollTimeout; at <= begin; at += pollTimeout {
		t.now = at
		if t.lastCommit == 0 || at-t.lastCommit > s.CommitInterval {
			t.lastCommit = at
		}
	}
	t.polledAt = t.now
	for t.turn() {
	}
	t.out.steps = t.steps
	return t.out
}

// begins is when the first fetch of a thread can leave, counted from its first
// poll: JoinGroup and SyncGroup, or the heartbeats that stand for them, and the
// position of each partition.
func (s *Settings) begins() time.Duration {
	switch s.Protocol {
	case Consumer:
		return roundTrip + settle
	case Streams: // the first heartbeat after the initial delay brings the tasks
		beat := s.HeartbeatInterval
		return roundTrip + (streamsWait+beat-1)/beat*beat + roundTrip + settle
	}
	return 2*roundTrip + settle
}

// turn is one runOnce: a poll and the passes until the next. It tells whether
// to go on.
func (t *thread) turn() bool {
	if !t.reset() || t.now > t.until || t.left == 0 && t.every == 0 && !t.s.ExactlyOnce {
		return false
	}
	t.poll()
	for {
		if t.steps += t.tasks; t.steps > maxSteps {
			return false
		}
		processed, ok := t.pass()
		if !ok {
			return false
		}
		committed, ok := t.commit()
		if !ok {
			return false
		}
		switch late := t.now-t.polledAt > t.s.MaxPollInterval/2; {
		case processed == 0:
			return t.now <= t.until
		case late:
			t.halve()
			return true
		case committed:
			t.halve()
		default:
			t.n++
		}
	}
}

func (t *thread) halve() { t.n = max(t.n/2, 1) }

// reset is the poll clock at a poll.
func (t *thread) reset() bool {
	gap := t.now - t.polledAt
	t.out.gap = max(t.out.gap, gap)
	t.out.most = max(t.out.most, t.n)
	if due := t.polledAt + t.s.MaxPollInterval; gap >= t.s.MaxPollInterval && due <= t.until {
		t.out.evicted = due
		return false
	}
	t.polledAt = t.now
	return true
}

// pass takes up to N records of each task.
func (t *thread) pass() (processed int, ok bool) {
	begin := t.now
	for i := range t.task {
		n := t.task[i].queued
		if !t.whole {
			n = min(n, t.n)
		}
		if n == 0 {
			continue
		}
		if t.txn == 0 {
			t.txn = t.now + t.s.Latency.Of(t.now) + t.s.Overhead
		}
		t.work(n)
		t.task[i].queued -= n
		processed += n
	}
	t.left -= processed
	t.dirty = t.dirty || processed > 0
	t.out.pass = max(t.out.pass, t.now-begin)
	if t.now-t.polledAt >= t.s.MaxPollInterval {
		return processed, t.reset()
	}
	return processed, true
}

// work is n records one after the other.
func (t *thread) work(n int) {
	l := &t.s.Latency
	if l.Shape == Fixed || l.Shape == Jump && t.now >= l.At || l.Shape == Ramp && t.now >= l.At+l.Over {
		t.now += time.Duration(n) * (l.Of(t.now) + t.s.Overhead)
		return
	}
	for i := range n {
		if t.now > t.until {
			t.now += min(time.Duration(n-i), 1000) * l.Of(t.now)
			return
		}
		if t.steps++; t.steps > maxSteps {
			return
		}
		t.now += l.Of(t.now) + t.s.Overhead
	}
}

func (t *thread) commit() (committed, ok bool) {
	if t.now-t.lastCommit <= t.s.CommitInterval {
		return false, true
	}
	if !t.dirty {
		t.lastCommit = t.now
		return false, true
	}
	t.now += roundTrip
	if t.s.ExactlyOnce {
		t.out.open = max(t.out.open, t.now-t.txn)
		look := (t.txn + t.s.TransactionTimeout + abortEvery - 1) / abortEvery * abortEvery
		if look <= t.now && t.now <= t.until {
			t.out.aborted = t.now
			return false, false
		}
	}
	t.lastCommit, t.dirty, t.txn = t.now, false, 0
	return true, true
}

// poll waits for records, at most pollTimeout, or for as many idle polls as
// nothing can happen in.
func (t *thread) poll() {
	queued := 0
	for i := range t.task {
		k := &t.task[i]
		k.paused = k.queued > t.s.BufferedRecords
		queued += k.queued
	}
	end := t.now + pollTimeout
	for {
		if t.asked > 0 && t.answer <= t.now {
			t.fetched()
		}
		if len(t.buffer) > 0 || t.now >= end {
			break
		}
		t.steps += t.tasks
		next := min(end, t.fetch())
		if next == end && queued == 0 && t.handed == t.tasks {
			horizon := min(t.until, t.fetch(), t.lastCommit+t.s.CommitInterval)
			end += max(0, (horizon-end)/pollTimeout) * pollTimeout
			next = end
		}
		t.now = next
	}
	if t.now > t.polledAt+pollTimeout {
		t.polledAt = t.now - pollTimeout
	}
	t.deliver(queued)
}

// deliver takes up to max.poll.records out of the buffer, one completed fetch
// after the other, and prefetches.
func (t *thread) deliver(queued int) {
	left := t.s.MaxPollRecords
	for len(t.buffer) > 0 && left > 0 {
		c := &t.buffer[0]
		n := min(c.n, left)
		left -= n
		c.n -= n
		t.task[c.task].queued += n
		queued += n
		if c.n == 0 {
			t.task[c.task].buffered = false
			t.buffer = slices.Delete(t.buffer, 0, 1)
		}
	}
	if left < t.s.MaxPollRecords {
		t.fetch()
	}
	if t.handed < t.tasks && queued > 0 {
		for i := t.handed; i < t.tasks; i++ {
			t.task[i].fetchAt = max(t.task[i].fetchAt, t.now)
		}
		t.handed = t.tasks
	}
}

// fetch sends a fetch if none is in flight, or the one in flight has found
// nothing and there is more to ask for; it tells when to look again.
func (t *thread) fetch() time.Duration {
	look, fresh := never, false
	for i := range t.task[:t.handed] {
		k := &t.task[i]
		switch {
		case k.paused || k.buffered:
		case k.fetchAt > t.now:
			look = min(look, k.fetchAt)
		default:
			fresh = fresh || !k.asked
		}
	}
	if t.asked > 0 {
		expires := t.sentAt + fetchWait
		switch {
		case t.answer <= expires || !fresh && t.now < expires:
			return min(look, t.answer)
		case t.now < expires:
			return min(look, expires)
		}
	}
	t.ask()
	return min(look, t.answer)
}

func (t *thread) ask() {
	t.asked, t.sentAt, t.answer = 0, t.now, never
	data := never
	for i := range t.task {
		k := &t.task[i]
		k.asked = i < t.handed && !k.paused && !k.buffered && k.fetchAt <= t.now
		if !k.asked {
			continue
		}
		t.asked++
		if t.logEnd(i) > k.fetched {
			data = t.now
		} else {
			data = min(data, t.nextArrival(i))
		}
	}
	if data != never {
		t.answer = data + roundTrip
	}
}

func (t *thread) fetched() {
	for i := range t.task {
		k := &t.task[i]
		if !k.asked {
			continue
		}
		k.asked = false
		if n := t.logEnd(i) - k.fetched; n > 0 {
			k.fetched += n
			k.buffered = true
			t.buffer = append(t.buffer, chunk{i, n})
		}
	}
	t.asked = 0
}

// logEnd is how many records a task's partition has by now.
func (t *thread) logEnd(task int) int {
	return t.s.Queued + t.arrived(task)
}

func (t *thread) arrived(task int) int {
	if t.every == 0 {
		return 0
	}
	last := int(t.now / t.every)
	if last < task {
		return 0
	}
	return (last-task)/t.tasks + 1
}

func (t *thread) nextArrival(task int) time.Duration {
	if t.every == 0 {
		return never
	}
	return time.Duration(task+t.arrived(task)*t.tasks) * t.every
}

// horizon is how long a prediction has to look: until what waits has been
// done, or, with more to come, until every clock has had several turns.
func (s *Settings) horizon() time.Duration {
	turns := 6*s.MaxPollInterval + 3*s.CommitInterval
	if s.Latency.Shape != Fixed {
		turns += s.Latency.At + s.Latency.Over
	}
	return turns
}

// frozen is the longest time from one poll to the next while commits are held
// up by a rebalance: passes of N, N+1, ... rounds, until one is late or what is
// in hand is done. Which N the thread has then, and how many tasks the
// rebalance leaves it, is not known; fewer of either is not always back sooner,
// so all are looked at, N up to the given one or to what the late passes of
// frozen commits lead to.
func (s *Settings) frozen(most int) time.Duration {
	record := float64(s.Latency.Worst() + s.Overhead)
	half := float64(s.MaxPollInterval / 2)
	worst := 0.0
	for tasks := 1; tasks <= s.PerThread(); tasks++ {
		hand := float64(s.inHand(tasks)) * record
		if s.Kind != KafkaStreams || hand <= half {
			worst = max(worst, hand)
			continue
		}
		round := float64(tasks) * record
		n := max(float64(most), math.Ceil(math.Sqrt(2*half/(3*round)))+1)
		for from := 1.0; from <= n; from += max(1, math.Floor(n/64)) {
			worst = max(worst, min(hand, untilLate(from, round, half)))
		}
		worst = max(worst, min(hand, untilLate(n, round, half)))
	}
	return bounded(worst)
}

// untilLate is the sum of n, n+1, ..., k rounds, the first beyond half.
func untilLate(n, round, half float64) float64 {
	before := n * (n - 1)
	sum := func(k float64) float64 { return (k*(k+1) - before) / 2 * round }
	k := max(n, math.Floor((math.Sqrt(1+4*(before+2*half/round))-1)/2)-1)
	for sum(k) <= half {
		k++
	}
	return sum(k)
}

// atLeast is the shortest time from one poll to the next of a thread that has
// as much in hand as it can: half the poll interval, or one call.
func (s *Settings) atLeast() time.Duration {
	record := s.Latency.Worst() + s.Overhead
	hand := float64(s.inHand(1)) * float64(record)
	return min(max(s.MaxPollInterval/2, record), bounded(hand))
}

// inHand is how many records a thread with so many tasks can hold at a poll.
func (s *Settings) inHand(tasks int) int {
	hand := s.MaxPollRecords
	if s.Kind == KafkaStreams {
		hand += (tasks - 1) * s.BufferedRecords // what is left over of the other tasks
	}
	if s.Arrival == 0 {
		hand = min(hand, s.Queued*tasks)
	}
	return hand
}

func bounded(x float64) time.Duration {
	if x >= float64(never) {
		return never
	}
	return time.Duration(x)
}
