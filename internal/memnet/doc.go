// Package memnet is a network in memory, for tests of shells.
//
// A [Net] holds listeners by address. A connection is two one-way pipes; each
// pipe buffers what was written, delivers it after the latency of its [Link],
// and blocks a writer only when the buffer is full. All waiting is done on
// channels and timers that the connection itself made, so inside a
// testing/synctest bubble every wait is durable and the bubble's clock moves
// on: an hour of heartbeats takes milliseconds.
//
// A link can be slowed (latency), cut (bytes are held back, as on a network
// that lost a route: neither side learns of it) and healed, or reset (both
// sides get an error).
//
// Rules for bubbles: create the Net inside the bubble, close everything
// before it ends, no zstd (its decoder pool outlives bubbles), and build with
// the tag synctests, which franz-go needs.
package memnet
