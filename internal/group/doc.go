// Package group is the group coordinator as a value: all groups of one
// partition of __consumer_offsets, their members, their clocks and their
// committed offsets, without a clock, a goroutine or a byte of I/O of its own.
//
// # The model
//
// A Shard owns every group whose id hashes to one partition (PartitionFor).
// Its shell hands it one Input at a time together with the time, and carries
// out what the Output says:
//
//	out := shard.Step(now, in)   // append out.Records as one batch, send out.Replies, report out.Events
//	at, ok := shard.Next()       // then call Step(at, Tick{}) unless something comes first
//
// What must survive a crash is written before it is promised: an Output that
// carries Records has a sequence number, and the replies that depend on those
// records leave only in the Output of Step(Appended{Seq}). When the append
// failed, Appended carries the error, the shard takes back what the records
// had done, and answers the error that Kafka maps it to.
//
// On start the shell feeds the partition's records, in order, to Apply and
// ends with Step(Loaded{}): the groups are there again, with their members,
// generations and offsets, and every member gets a full session timeout.
//
// # Kinds of groups
//
// The table of groups holds one entry per group id. An entry has committed
// offsets whatever its kind, and at most one membership of a kind: classic
// (classic*.go), or none for a simple group that only stores offsets.
//
// # Two clocks, one cause
//
// Every change of a generation leaves exactly one cause.Event (story.go): which
// of the four causes it had, who triggered it, who lost their place and who
// held the rebalance open, and what the trigger's two clocks showed.
package group
