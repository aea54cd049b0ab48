// Package rondo runs stream processing on Apache Kafka, or on Rondo's own
// broker, and keeps its place in the consumer group while it waits on slow
// services.
//
// # A topology is a value
//
// A program describes what becomes of records with typed operators and builds
// a [Topology]:
//
//	b := rondo.New("scorer")
//	b.From(advisories).
//		Filter(hasText).
//		Call("model", 30*time.Second, ask, rondo.CallPolicy{Parallel: 3, Attempts: 3}).
//		FailuresTo(dead).
//		To(scores)
//	t, err := b.Build()
//
// Build reports every mistake with file and line. A topology prints itself,
// each operator with its line and with the longest time one record may spend
// in it; that number is what max.poll.interval.ms is held against.
//
// # Tasks and lanes
//
// Operators that records reach without a topic in between form a
// subtopology; one partition number of all its source topics is a task. Tasks
// are shared among the threads of all instances by a Kafka consumer group. An
// instance has num.stream.threads threads, each a member of the group with a
// lease on its partitions and two clocks that can end it: the session clock
// (session.timeout.ms without a heartbeat) and the poll clock
// (max.poll.interval.ms without finished work).
//
// Every task is a lane of its own: one goroutine runs its operators, so user
// code of one task never runs twice at once, and no task waits for another.
// A call leaves the lane and comes back to it:
//
//	fetch -> lane: filter, map ... -> call window -> lane: map ... -> produce -> acknowledged
//	            |                        |  |  |                                    |
//	            +-- offset is unfinished +--+--+------------------------------------+-- offset is finished
//
// An input record is finished when its calls have come back and the broker has
// acknowledged everything that was made of it. What is committed is the lowest
// unfinished offset of each partition, at any time at which the lease is
// valid, also in the middle of a rebalance. When partitions move, their intake
// stops, what is in flight may finish for drain.timeout.ms, the finished
// prefix is committed, and the rest is cancelled, fenced and counted.
//
// Delivery is at least once: a record whose call had been paid for but not
// committed when the process died is called again.
//
// # Records that hold the poll clock
//
// A record that is inside a call, or inside user code, when max.poll.interval.ms
// is over costs its owner the lease: the context is cut, the member leaves,
// says which record and call it was, and joins again. The same record would
// cost the next owner its lease too, and so one instance after the other. So
// its count travels with the partition. When work has held the poll clock for
// nine tenths (and at least one heartbeat before the end), the finished prefix
// of its partition is committed with a note in the commit's metadata, which
// every Kafka keeps:
//
//	rondo held 41 call:model 1, 47 code 2
//
// an offset, what held it (a call, its name escaped as in a URL; or user code
// outside of calls), and how many leases it has cost with this one, for every
// record that is held; 2,000 bytes at most. The next owner reads the note with
// its position. It stays in the commits until the record is finished; it is
// taken back when the work ends in time, or when the partition is handed over
// in an orderly way. A process that is killed in the last tenth counts as one
// that lost its lease.
//
// A call that has cost CallPolicy.Evictions leases (1 unless said otherwise)
// is cut at eight tenths of max.poll.interval.ms, and its record is a failed
// one: FailuresTo, SkipFailures or Values say what becomes of it. User code
// outside of calls cannot be cut when it does not look at its context (its
// goroutine is left behind; what it returns is thrown away), so after one lease
// the record is not run again: the handler of OnProcessingError decides;
// without one it goes to errors.dead.letter.queue.topic.name; without that the
// thread fails with a RecordError that names it. To have such a record run
// again, after the code was mended, commit its offset anew while the
// application is down, which drops the note (kafka-consumer-groups
// --reset-offsets --to-current).
//
// When the commit does not succeed in time, or the cluster refuses metadata of
// that length, an instance knows only what happened to itself, and the record
// may cost each of them one lease. Under loop.policy=streams42 there are no
// notes, as in Kafka Streams.
//
// # Two policies
//
// loop.policy=percall, the default, is described above. loop.policy=streams42
// runs the stream thread of Kafka Streams 4.2 instead, with N, passes, and a
// poll clock that only a poll resets; calls run inside the thread. It exists
// to show what that loop does when a service becomes slow.
package rondo
