// Package crash holds a promise as a test: what the broker acknowledged
// survives the death of its process, at whatever instant it comes.
//
// # The model
//
// A real process, built from cmd/rondo, serves a directory. Writers of four
// kinds work on it all the time:
//
//   - idempotent producers number the records of a partition and send them
//     again until they are acknowledged: in the end every number is there, in
//     order, once;
//   - one-shot writers send a batch once and never again: one that was
//     acknowledged is there whole, one that was not is there whole or not at all;
//   - a group member reads, and commits what it has read: a commit that was
//     acknowledged is never taken back, and neither is the member's place in
//     its group: it keeps its generation through every restart;
//   - an administrator creates and deletes topics: what it was told is so.
//
// Meanwhile the process is killed with SIGKILL, at any time, in the moment of an
// acknowledgement, and while it recovers from the kill before, and started
// again on the same directory and port. After each start what was acknowledged for commits and
// topics is compared, and after the last one the whole log.
//
// There is no code here but the test. It runs 20 kills; go test -kills 500
// ./internal/crash runs as many as wanted, -seed repeats the instants of one
// run as far as processes and disks let instants be repeated.
package crash
