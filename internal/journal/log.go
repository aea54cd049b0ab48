package journal

import (
	"errors"
	"log/slog"
	"time"
)

var (
	ErrClosed             = errors.New("the log is closed")
	ErrRemoved            = errors.New("the partition was removed")
	ErrExists             = errors.New("the partition exists already")
	ErrFull               = errors.New("the log cannot be written")
	ErrCorrupt            = errors.New("the log is corrupt")
	ErrLocked             = errors.New("the data directory is in use by another process")
	ErrOffsetOutOfRange   = errors.New("offset out of range")
	ErrOutOfOrderSequence = errors.New("out of order sequence")
	ErrProducerFenced     = errors.New("invalid producer epoch")
)

type ID struct {
	Topic     [16]byte
	Partition int32
}

type Flush int

const (
	FlushAlways Flush = iota
	FlushInterval
	FlushNever
)

type FS interface{}

type Config struct {
	Dir           string
	FS            FS
	Flush         Flush
	FlushInterval time.Duration
	SegmentBytes  int64
	UnsettledMax  int64
	Logger        *slog.Logger
}

type Settings struct {
	RetentionMs, RetentionBytes            int64
	SegmentBytes, SegmentMs                int64
	Compact, Delete                        bool
	DeleteRetentionMs                      int64
	MinCompactionLagMs, MaxCompactionLagMs int64
	MinDirtyRatio                          float64
}

type Append struct {
	Batches       []byte
	LogAppendTime bool
	LeaderEpoch   int32
	Internal      bool
}

type Result struct {
	Base, Last    int64
	LogAppendTime int64
	LogStart      int64
	Duplicate     bool
	Err           error
}

type Stats struct{ Appends, Syncs, Bytes, SettledBytes, UnsettledBytes int64 }

type ProducerState struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastOffset       int64
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnStart         int64
}

type Log struct{}
type Partition struct{}

func Open(Config) (*Log, error)                             { return nil, ErrClosed }
func (*Log) Close() error                                   { return nil }
func (*Log) Create(ID, Settings) (*Partition, error)        { return nil, ErrClosed }
func (*Log) CreateAll([]ID, Settings) ([]*Partition, error) { return nil, ErrClosed }
func (*Log) Partition(ID) *Partition                        { return nil }
func (*Log) Partitions() []ID                               { return nil }
func (*Log) Remove(ID) error                                { return ErrClosed }
func (*Log) Stats() Stats                                   { return Stats{} }
func (*Partition) ID() ID                                   { return ID{} }
func (*Partition) Append(a Append, done func(Result))       {}
func (*Partition) Read(from int64, maxBytes int, minOne bool) ([][]byte, error) {
	return nil, ErrClosed
}
func (*Partition) Start() int64                                 { return 0 }
func (*Partition) End() int64                                   { return 0 }
func (*Partition) HighWatermark() int64                         { return 0 }
func (*Partition) Size() int64                                  { return 0 }
func (*Partition) Wait(from int64, wake func()) (cancel func()) { return func() {} }
func (*Partition) OffsetForTime(ms int64) (offset, ts int64, epoch int32, ok bool, err error) {
	return 0, 0, 0, false, nil
}
func (*Partition) MaxTimestamp() (offset, ts int64, ok bool, err error) { return 0, 0, false, nil }
func (*Partition) EpochEnd(epoch int32) (atEpoch int32, end int64)      { return -1, -1 }
func (*Partition) DeleteRecords(before int64) (low int64, err error)    { return 0, ErrClosed }
func (*Partition) Producers() []ProducerState                           { return nil }
func (*Partition) Configure(Settings)                                   {}
