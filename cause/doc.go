// Package cause is the vocabulary that every other room speaks: why a group
// changed its generation, and who was there.
//
// A consumer group is a lease. A member keeps its lease by two clocks: the
// session clock (it must send a heartbeat within session.timeout.ms) and the
// poll clock (it must come back for more within max.poll.interval.ms). A group
// rebalances for exactly one of four causes:
//
//	session clock    the coordinator heard nothing from a member for too long
//	poll clock       a member was alive, but its work took too long
//	join/leave       somebody came or went on purpose
//	partition count  the topics of the group changed under it
//
// Everything else that shows up in a log (a follow-up of a cooperative
// rebalance, an echo of UNKNOWN_MEMBER_ID, a commit that fails) is a
// consequence of one of these. An [Event] keeps apart what logs mix up: the
// cause, the trigger (the one member whose clock or act it was), the
// casualties (members that lost their place) and the members that held the
// rebalance open.
//
// The package is pure data. It reads no clock and imports nothing of Rondo.
package cause
