// Command hostile shows what clients that mean no good can do to Rondo's
// broker, and that the others do not notice.
//
// # The model
//
// One honest client sends a record and reads it back, again and again, through
// all of it. Beside it come, one crowd after the other: connections that say
// nothing; clients that claim huge frames and stop in the middle; requests that
// are small on the wire and large when they are decoded; readers that ask for
// everything and take nothing; noise. After each crowd the table tells how many
// of them the broker still has, its memory, and how long the honest client
// waited. The command fails when the honest client was not served or when the
// broker took more memory than -limit.
//
// What it shows is a bound, not a speed: on a machine that does other things
// the waits are those of the machine.
package main
