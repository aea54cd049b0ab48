// Package journal is the broker's durable log.
//
// All partitions share one journal, a row of append-only files. An append gets
// its offsets at once, waits in one queue, and is acknowledged when the journal
// has it:
//
//	Append -> queue -> [committer: take all, write once, sync once] -> done
//
// So a thousand partitions and a thousand producers cost one fdatasync a
// group, and the group is whatever came while the one before was synced. There
// is no linger, no goroutine per append and no work per record: batches are
// opaque, and the only bytes of them that change are those their checksum does
// not cover.
//
// A journal is good to write and bad to read, because the records of one
// partition lie scattered in it. Therefore a full journal segment is sealed,
// and the keeper settles it: it copies each partition's batches, in one piece,
// into that partition's own segment files with a sparse index, syncs them,
// writes a checkpoint that names them, and drops the journal segment. The
// checkpoint is replaced atomically, and what it does not name does not exist;
// retention and compaction work on partition segments by the same rule. At most
// Config.UnsettledMax bytes are not settled, which bounds what a start after a
// crash has to replay.
//
// The file of a dropped segment is not removed but kept for a later one, which
// is written over it, because a sync is cheap where blocks need not be found
// (spares.go). So a file may go on behind its last entry, with zeros or with
// what it held before. That is not read as anything: an entry carries the
// sequence of its segment, and no sequence is used twice.
//
// Readers see acknowledged records only. They are served from memory at the
// tail, from exact extents of the journal behind that, and from partition
// segments further back:
//
//	segments (settled)      journal extents       memory     not acknowledged
//	|-----------------------|---------------------|----------|.........|
//	start                   settled                          hw        leo
//
// What can go wrong has one answer each. A crash in the middle of a write
// leaves a torn tail, which nobody was told about: the next start cuts it off.
// A write or sync that fails takes its whole group back, with everything that
// was queued behind it for the same partitions, and the log goes on; a segment
// whose sync failed is never written again, and the header of the next one says
// how much of it counts. A byte that changes after it was durable is found by
// its checksum and reported, never skipped: each entry says how much of its
// segment was durable before it, which tells damage from a torn tail.
//
// Log is the shell: the committer and the keeper are its two goroutines. The
// table of idempotent producers (producers.go), the leader-epoch cache
// (epochs.go) and the formats (entry.go, checkpoint.go) are plain values.
//
// Transactions will need, per partition, the open transactions' first offsets
// (ProducerState.TxnStart, and from them a last stable offset beside hw), an
// index of aborted ones in the checkpoint, and a compaction that drops their
// records; control batches pass through everything here as they are.
package journal
