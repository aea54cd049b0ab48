// Package call runs calls to remote services beside the task that needs their
// results, and gives the results back in the order that was asked for.
//
// # The window
//
// Every task has a [Window] for every call of its topology. The window is the
// core: a value that is told what happened ([Offer], [Came], [Refused], [Tick]
// ...) and answers what to do ([Start], [Cut], [Emit]). It decides
//
//   - which calls may start: at most Parallel of a task; with order by key, one
//     of each key at a time;
//   - what an attempt that failed leads to: another attempt after a pause,
//     which doubles, is shortened at random, and is never shorter than the
//     service's own Retry-After; or failure for good, when the attempts or the
//     budget are used up or the error is permanent;
//   - when an attempt is over although it has not come back: at its time-out,
//     at the end of the budget, each with a moment of grace for code that
//     returns properly when its context ends;
//   - when a result leaves: in the order of the partition, of the key, or at
//     once.
//
// All that a record may spend in the window once its call has begun is bounded
// by [Settings.Worst], which a topology prints and max.poll.interval.ms is held
// against.
//
// # Offsets
//
// [Offsets] knows which input records of a partition are unfinished, and so
// what may be committed: the lowest unfinished offset. When a partition goes
// away it is closed, and counts what was thrown away.
//
// # Shells
//
// [Gate] is shared by all tasks that call one service: a circuit breaker and an
// adaptive bound from failsafe-go behind one small type. [HTTP] makes requests
// that end when their context does, also while a body trickles in, and that
// never read more than a bound; over plain HTTP a call that waits holds one
// goroutine and no buffer, so that ten thousand fit into 250 MB. Goroutines and
// contexts of attempts belong to the task that owns the window.
package call
