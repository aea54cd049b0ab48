package journal

import (
	"errors"
	"log/slog"
	"math"
	"time"
)

// Errors of the log. They come wrapped, with the object and a hint.
var (
	// ErrClosed: Close was called.
	ErrClosed = errors.New("the log is closed")
	// ErrRemoved: the partition was removed, with its topic.
	ErrRemoved = errors.New("the partition was removed")
	// ErrExists: Create of a partition that is there.
	ErrExists = errors.New("the partition exists already")
	// ErrUnknown: there is no such partition.
	ErrUnknown = errors.New("no such partition")
	// ErrFull: the append could not be made durable, because the disk is full
	// or failing. Nothing of it will be read; the log goes on when the disk
	// does. Kafka's KAFKA_STORAGE_ERROR.
	ErrFull = errors.New("the log cannot be written")
	// ErrCorrupt: bytes that were durable once have changed. The log never
	// skips them by itself.
	ErrCorrupt = errors.New("the log is corrupt")
	// ErrLocked: another process has the data directory.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrOffsetOutOfRange: below the start or above the end of the log.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrOutOfOrderSequence: an idempotent producer left out a sequence number,
	// or a new epoch did not begin with 0.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrProducerFenced: the batch has an older epoch than the producer id has
	// now. Kafka's INVALID_PRODUCER_EPOCH.
	ErrProducerFenced = errors.New("invalid producer epoch")
	// ErrInvalidBatch: the bytes of an Append are not whole v2 batches.
	ErrInvalidBatch = errors.New("invalid record batch")
)

// ID names a partition. Topic is the topic's UUID, so a topic that is deleted
// and created again is another one.
type ID struct {
	Topic     [16]byte
	Partition int32
}

// Flush says when an append counts as done.
type Flush int

const (
	// FlushAlways: when it is on the disk. Survives kill -9 and power loss.
	FlushAlways Flush = iota
	// FlushInterval: when it is written; synced every Config.FlushInterval.
	// Survives kill -9; power loss takes at most that interval.
	FlushInterval
	// FlushNever: when it is written; the operating system syncs when it
	// likes. Survives kill -9.
	FlushNever
)

func (f Flush) String() string {
	switch f {
	case FlushAlways:
		return "always"
	case FlushInterval:
		return "interval"
	}
	return "never"
}

// Config of a log. Only Dir is required.
type Config struct {
	Dir           string        // the data directory, made when it is not there
	FS            FS            // nil: OS
	Flush         Flush         // default FlushAlways
	FlushInterval time.Duration // of FlushInterval; default 1 s

	// SegmentBytes is the size at which a journal segment is sealed, and then
	// settled. Default 64 MiB.
	SegmentBytes int64
	// UnsettledMax bounds the journal in bytes, and with it the start-up after
	// a crash. An append beyond it waits until enough is settled. Default 1 GiB.
	UnsettledMax int64
	// Spares is how many files of settled journal segments are kept, to be
	// written over by later ones: a sync costs about half where no blocks have to
	// be found and no size changes. Default 2, which takes 2 x SegmentBytes of
	// disk; negative: none. A disk that is full gets them back first.
	Spares int
	// Ahead is how many zeros are written behind a small group when it reaches
	// the end of its file, for the same reason. Every write ends with zeros up to
	// the end of a page (4 KiB), so that none begins with reading one. Default
	// 256 KiB, at most a 64th of SegmentBytes; negative: no zeros at all.
	Ahead int64
	// HotBytes bounds what is kept in memory for readers at the tail, over all
	// partitions. Default 32 MiB.
	HotBytes int64
	// CheckInterval is how often retention, and the expiry of producers, are
	// looked at. Default 5 min (log.retention.check.interval.ms).
	CheckInterval time.Duration
	// CleanerBackoff is how long a compacted partition waits to be looked at
	// after it changed. Default 15 s (log.cleaner.backoff.ms).
	CleanerBackoff time.Duration
	// CleanerKeys bounds how many distinct keys one compaction pass remembers,
	// at about 50 bytes each. Default 1,000,000.
	CleanerKeys int
	// ProducerExpiration is how long an idle producer id is remembered.
	// Default 24 h (producer.id.expiration.ms).
	ProducerExpiration time.Duration
	// ProducersMax bounds how many producer ids one partition remembers: the one
	// that has not written for longest is forgotten for another, as if it had
	// expired. ProducersInAll bounds all partitions together: while it is reached a
	// partition that remembers more than 64 forgets one for each new one. Each id
	// takes about 220 bytes. Defaults 10,000 and 1,000,000.
	ProducersMax, ProducersInAll int
	// Ballast is space that is kept back in a file, so that on a full disk
	// partitions can still be removed and records deleted, which is what makes
	// room. Default 2 MiB; negative: none.
	Ballast int64

	Logger *slog.Logger // nil: slog.Default()
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = OS{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.FlushInterval, time.Second)
	setDefault(&c.SegmentBytes, 64<<20)
	setDefault(&c.UnsettledMax, 1<<30)
	setDefault(&c.Spares, 2)
	setDefault(&c.Ahead, 256<<10)
	setDefault(&c.HotBytes, 32<<20)
	setDefault(&c.CheckInterval, 5*time.Minute)
	setDefault(&c.CleanerBackoff, 15*time.Second)
	setDefault(&c.CleanerKeys, 1_000_000)
	setDefault(&c.ProducerExpiration, 24*time.Hour)
	setDefault(&c.ProducersMax, 10_000)
	setDefault(&c.ProducersInAll, 1_000_000)
	setDefault(&c.Ballast, 2<<20)
	// Positions in a segment are 32 bits, and one group may overshoot.
	c.SegmentBytes = min(c.SegmentBytes, 1<<30)
	c.Ahead = min(c.Ahead, c.SegmentBytes/64)
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Settings are a topic's, by Kafka's names. Zero of SegmentBytes, SegmentMs,
// MinDirtyRatio and MaxCompactionLagMs means Kafka's default; DefaultSettings
// has them all.
type Settings struct {
	RetentionMs        int64   // retention.ms; negative: no limit
	RetentionBytes     int64   // retention.bytes; negative: no limit
	SegmentBytes       int64   // segment.bytes
	SegmentMs          int64   // segment.ms
	Compact            bool    // cleanup.policy has compact
	Delete             bool    // cleanup.policy has delete
	DeleteRetentionMs  int64   // delete.retention.ms: how long a tombstone stays after compaction met it
	MinCompactionLagMs int64   // min.compaction.lag.ms
	MaxCompactionLagMs int64   // max.compaction.lag.ms
	MinDirtyRatio      float64 // min.cleanable.dirty.ratio
}

// DefaultSettings are the defaults of Apache Kafka 4.2.
func DefaultSettings() Settings {
	return Settings{
		RetentionMs: 7 * 24 * 3600 * 1000, RetentionBytes: -1, SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000,
		Delete: true, DeleteRetentionMs: 24 * 3600 * 1000, MaxCompactionLagMs: math.MaxInt64, MinDirtyRatio: 0.5,
	}
}

func (s Settings) withDefaults() Settings {
	d := DefaultSettings()
	setDefault(&s.SegmentBytes, d.SegmentBytes)
	setDefault(&s.SegmentMs, d.SegmentMs)
	setDefault(&s.MaxCompactionLagMs, d.MaxCompactionLagMs)
	setDefault(&s.MinDirtyRatio, d.MinDirtyRatio)
	return s
}

// Stats counts what the log did since it was opened.
type Stats struct {
	Appends       int64 // appends that were acknowledged
	AppendedBytes int64 // bytes of their batches
	Groups        int64 // writes to the journal
	Syncs         int64 // fdatasync calls on the journal
	Failures      int64 // groups that could not be written or synced
	Settled       int64 // journal segments settled and dropped
	SettledBytes  int64 // bytes written to partition segments
	Unsettled     int64 // bytes of the journal now
	HotBytes      int64 // bytes held for readers at the tail now
	HotReads      int64 // reads answered from memory
	JournalReads  int64 // reads that went to the journal
	SegmentReads  int64 // reads that went to partition segments
	Compacted     int64 // bytes that compaction took away
	Expired       int64 // bytes that retention and DeleteRecords took away
	Producers     int64 // producer ids remembered in partitions now
	Forgotten     int64 // producer ids forgotten because there were too many
	Reused        int64 // journal segments that were written into a file that was there
}
