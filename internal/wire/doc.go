// Package wire is Kafka's bytes: the v2 record batch (batch*.go, records*.go,
// compress*.go), frames, and the table of API versions.
//
// A record batch is opaque to the broker. It has a header of 61 bytes, of which
// the first 21 (base offset, length, leader epoch, magic, CRC) may be changed
// without touching the rest, because the CRC-32C covers only what follows. So a
// produced batch is checked once (CheckBatch), given its offset in place
// (PatchBase) and from then on copied as it came; nobody looks at its records
// but compaction, look-ups by time, and log-append time's single CRC.
//
// Everything here is pure: bytes in, values out. Whatever the bytes are, no
// function panics, and none allocates more than its input's size or a stated
// bound.
package wire
