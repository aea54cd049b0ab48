// Package group is the group coordinator as a value: all groups of one
// partition of __consumer_offsets, their members, their clocks and their
// committed offsets, without a clock, a goroutine or a byte of I/O of its own.
//
// # The model
//
// A [Shard] owns every group whose id hashes to one partition ([PartitionFor]).
// Its shell hands it one [Input] at a time together with the time, and carries
// out what the [Output] says:
//
//	out := shard.Step(now, in)   // append out.Records as one batch, send out.Replies, report out.Events
//	at, ok := shard.Next()       // call Step(at, Tick{}) unless something comes first
//
// What must survive a crash is written before it is promised: an Output that
// carries Records has a sequence number, and the replies that depend on those
// records leave only in the Output of Step(Appended{Seq}). When the append
// failed, Appended carries the error; the shard takes back what the records
// had done, and answers with the error that Kafka maps it to.
//
// On start the shell feeds the partition's records, in order, to Apply and
// ends with Step(Loaded{}): the groups are there again, with their members,
// generations and offsets, and every member gets a full session timeout.
//
// # What a group is
//
// The table holds one group per id. A group is two things that live apart:
// its committed offsets (offsets.go), which every kind of group has, and its
// membership, which differs by kind and stands behind one small interface
// (group.go). classic*.go is the membership of the classic protocol; a group
// that only stores offsets is a classic group that never had a member.
//
// Committed offsets change when their record is durable, so that nobody ever
// fetches an offset that a crash could take back. The membership of a classic
// group lives in memory and is written where Kafka writes it: when the leader
// has handed in the assignment, when the last member is gone, and when a static
// member comes back under a new id. A group that is caught between two of those
// points by a crash wakes up in the last generation that was written.
//
// In the newer protocols, whose memberships are consumer*.go (KIP-848) and
// streams*.go (KIP-1071), the coordinator assigns, and members follow one by one.
// There every change is a record: it is applied when it is written, taken back
// when its append fails, and an answer waits until what it was read from is
// durable. A streams group needs topics of its own; the Output names them, and
// the shell makes them.
//
// consumer*.go is the membership of the consumer protocol (KIP-848): the
// coordinator assigns (assignor*.go), and every change is a record that is
// applied at once and taken back when its append fails. A [Metadata] input
// brings the cluster's topics, which it assigns from. migration.go turns living
// groups of one protocol into the other; members of the classic protocol live
// on in a consumer group (consumer_classic.go).
//
// How soon members of the newer protocols come again is the coordinator's word
// (pace.go). It decides how long a rebalance takes.
//
// # Two clocks, one cause
//
// Every change of a generation leaves exactly one [cause.Event] (story.go). That
// it has begun, and why, leaves with the records that make it (Output.Begun), so
// that the history cannot miss it; the whole follows when it is over. It tells
// which of the four causes it had, who triggered it, who lost their place, who
// held it open, and what the trigger's two clocks showed. The session clock is
// the coordinator's own. The poll clock is the member's; the coordinator sees
// it as the age of the member's last join or commit.
//
// # Sources
//
// The behaviour is that of Apache Kafka 4.2.0 (GroupMetadataManager.java,
// OffsetMetadataManager.java, ClassicGroup.java, and what stands in its folders
// modern and streams), held against recordings of
// it. Deviations are few, and each is explained where it is made.
package group
