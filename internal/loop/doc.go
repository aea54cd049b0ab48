// Package loop decides, for one member of a consumer group, what to do next:
// poll, run records, commit, hand a task over. A policy is a value: it is told
// what happened and when, and answers with the next act. It reads no clock and
// does no work itself, so the same code runs under the runtime, in the
// simulation and in predictions.
//
// # Words
//
// A task is one partition group of one subtopology and has a queue of fetched
// records. A round is one record of each task, a pass is up to N records of
// each task, one task after the other. The poll clock (max.poll.interval.ms)
// runs from one poll to the next; when it runs out the member is evicted. The
// commit clock (commit.interval.ms) says when a commit is due.
//
// # Two policies
//
// [Streams42] is the stream thread of Kafka Streams 4.2, rule by rule. One
// thread alternates strictly between the poll, passes over its tasks, and
// commits, and looks at its clocks only between passes. A pass is bounded by a
// count, N, which was learned when calls were fast:
//
//	poll ----> pass (N of task 0, N of task 1, ...) --> commit due? --> decide
//	  ^            ^                                                      |
//	  |            +------ more records, less than M/2 since the poll ----+
//	  +------------------- no records, or more than M/2 since the poll ---+
//
// [PerCall] is Rondo's own policy and the default. Every task is a lane, lanes
// run beside each other, and a burst of records is bounded by time, so both
// clocks are looked at after at most one burst and one call, however slow the
// calls have become.
//
// # Contract
//
// Step takes the present time and one [In]. Times never go back. Streams42 is
// strictly alternating: the shell executes the one [Act] that Step returned and
// reports it with the next Step. PerCall is concurrent: Step returns any number
// of acts, the shell starts them all, and reports each as it ends; at the time
// of Next it sends a [Tick]. Slices inside an Act, and the slice of acts, are
// valid until the next Step.
package loop
