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
// Under the protocols of KIP-848 and KIP-1071 (Scenario.Group, stream threads
// only; epochs.go) heartbeats go on whatever the thread does and nobody waits
// in a join. A partition changes hands when its owner has given it up in a poll
// and said so in a heartbeat, within max.poll.interval.ms of being told; its
// heir hears of it with its own next heartbeat. A member whose poll clock has
// run out leaves, and its late commit is taken only while the group is empty.
//
// The coordinator is one of two types, group and epochGroup, that the members
// meet through a few methods (anyGroup) and answer timers.
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
// Transactions other than their time-out, state restoration other than its
// length, standby tasks, a commit that meets an epoch which has just moved on,
// the client of the streams protocol that dies of records it fetched before an
// eviction, and a loaded machine (its effect is an input: [Costs], the hand-over
// and [Scenario.Notice]).
package sim
