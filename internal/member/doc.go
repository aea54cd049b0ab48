// Package member is one member's side of a Kafka consumer group.
//
// A member holds a lease on some partitions. Two clocks can end it. The
// session clock is the coordinator's: it fires when session.timeout.ms passes
// without a heartbeat. The poll clock is ours: it is the age of the oldest
// work (a call, or a record inside user code) that has begun and not ended,
// and it fires at max.poll.interval.ms. Finished work resets it; a loop that
// comes round does not.
//
// The rules are a value, [Core]: Step(now, in) gives what to send and what to
// tell the application, Next() gives the instant at which it wants to be
// asked again. It reads no clock and does no I/O. [Member] is its shell: one
// goroutine owns the core, one timer is set to Next, one select waits. Group
// requests go over a kgo client of its own, used as raw transport; kgo's own
// group logic has no poll clock and is not used.
//
// Heartbeats, joins and syncs go on in every state, whatever the records are
// doing. A join is answered at once. Under the cooperative protocol (the
// default) nothing is revoked before the new assignment is known, and only
// what moves is revoked: the application drains it, commits, calls Done, and
// the member rejoins to hand it over. Lanes that stay keep running and
// committing all the while.
//
// With Config.InPoll the member behaves as the classic Java consumer does, for
// the Streams42 loop: joins are sent and answers applied only inside Poll, the
// poll clock is reset by Poll, and heartbeats stop while a join is
// outstanding. It exists to repeat what that design costs.
package member
