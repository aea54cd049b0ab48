// Package sim is a world in virtual time in which the loops of package loop
// run against a service, a log and a consumer group, without any of the three
// being there. The same scenario and seed always give the same run, a virtual
// day takes about a millisecond, and nothing waits.
//
// A [Scenario] says what is set and what happens; [Run] gives a [Summary] (the
// facts that the recorded runs of Kafka Streams 4.2.0 are kept as) and, when
// asked for, a trace, which [Timeline] draws.
//
// # What is modelled
//
// The log: each partition is a list of arrivals. The fetcher is the Java
// consumer's: one request to the broker at a time for all partitions that may
// be fetched and have nothing buffered, one completed fetch emptied before the
// next, at most max.poll.records a poll.
//
// The service: a [Latency] gives the length of each call.
//
// The group: the classic protocol with its two clocks. A Streams42 member is
// the Java classic client: JoinGroup leaves from a poll, its answer is read by
// a poll, heartbeats stop in between; the poll clock runs while heartbeats do.
// A PerCall member does all that in the background. The coordinator completes
// a join when every member has joined or max.poll.interval.ms has passed, and
// then gives each member session.timeout.ms to be heard of again. Partitions
// move cooperatively: first revoked, then, in a follow-up generation, given.
//
// The coordinator is one type, group, that the members meet through six
// methods (join, sync, remove, expire, knows, accepts) and answer timers. The
// core of package group can take its place there when a scenario needs more of
// the protocol than its clocks and orders.
//
// Heartbeats are not events: while a member's heartbeats are on, its session
// clock is not armed; what a heartbeat would tell it is scheduled for the time
// of the next beat.
//
// # Plain consumers
//
// [RunConsumers] (consumers*.go) is a world of its own for what concerns
// the group alone: consumers that read and commit, by the range, the cooperative
// or the consumer protocol (KIP-848), around the real coordinator of package
// group, with its requests and answers. Partitions are added, the coordinator
// moves, heartbeats are lost, static members come back.
//
// # What is not
//
// Transactions other than their time-out, the streams protocol (and, for
// loops, that of consumer groups), state restoration other than its length, standby tasks, and a loaded machine (its effect is an
// input: [Costs] and the hand-over).
package sim
