// Package member is one member's side of a Kafka consumer group.
//
// # The model
//
// A member holds a lease on some partitions. Two clocks can end it. The
// session clock is the coordinator's: it fires when session.timeout.ms passes
// without a heartbeat; the member counts along, from the sending of the last
// beat that was acknowledged, and says Lost when it must assume that its
// partitions are given away. The poll clock is the member's own: it is the age
// of the oldest work (a call, or a record inside user code) that has begun and
// not ended, and it fires at max.poll.interval.ms. Finished work resets it; a
// loop that comes round does not. When it fires, the work's context is cut with
// a cause that names it, the member leaves the group saying so (KIP-800), and
// joins again at once.
//
// # Core and shell
//
// The rules are a value, [Core] (core*.go): Step(now, in) gives what to send
// and what to tell the application, Next() gives the instant at which it wants
// to be asked again. It reads no clock and does no I/O. [Member] is its shell:
// one goroutine owns the core, one timer is set to Next, one select waits.
// Group requests go over a kgo client of its own, used as raw transport; kgo's
// own group logic has no poll clock and is not used.
//
//	core.go           state, inputs, outputs, what is due
//	core_join.go      join, sync, taking and giving back partitions
//	core_beat.go      heartbeats, the session clock, ends of a membership
//	core_evict.go     the poll clock's consequences; leaving; the InPoll mode
//	core_watch.go     the leader: placing, withholding, watching the topics
//	core_sticky.go    the default assignor
//	core_event.go     what the application is told
//	member.go         the shell; config.go its settings and its transport
//	commit.go         offsets
//	work.go           work under the poll clock, and its contexts
//
// # A rebalance
//
// Heartbeats, joins and syncs go on in every state, whatever the records are
// doing. A join is answered at once. Under the cooperative protocol (KIP-429,
// the default) nothing is revoked before the new assignment is known, and only
// what moves is revoked: the application drains it, commits, calls Done, and
// the member joins again to hand it over. Everything else keeps running and
// committing all the while. A member that is slow to drain holds up its own
// partitions and nobody else, and for no longer than the rebalance timeout.
//
// # In poll
//
// With Config.InPoll the member behaves as the classic Java consumer does, for
// the Streams42 loop: joins are sent and answers applied only inside Poll, the
// poll clock is reset by Poll, and heartbeats stop while a join is
// outstanding. It exists to repeat what that design costs
// (testdata/java_newcomer.txt).
//
// # Sources
//
// ConsumerCoordinator, AbstractCoordinator and Heartbeat of Apache Kafka 4.2.0
// (clients/src/main/java/org/apache/kafka/clients/consumer/internals), and
// recordings of what they do. Deviations are explained where they are made;
// the largest is that the session clock is heeded on this side too.
package member
