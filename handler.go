package rondo

import (
	"fmt"
	"time"
)

// Response is what a handler wants done with a record that failed.
type Response int

const (
	// Fail stops the thread with the error; the uncaught handler decides what
	// comes next. The record's offset is not committed.
	Fail Response = iota
	// Continue drops the record, counts it, and goes on. When
	// errors.dead.letter.queue.topic.name is set, the input record goes there
	// first (KIP-1034).
	Continue
	// Retry produces the record again. Only a production handler may answer it
	// (KIP-1065).
	Retry
)

// FailedRecord describes the input record that a handler is asked about, with
// the bytes that were read.
type FailedRecord struct {
	Task      string // "0_3"
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Err       error
}

// DeserializationHandler decides about an input record whose key or value
// could not be read (Kafka Streams: deserialization.exception.handler). The
// default is Fail, as in Kafka Streams.
type DeserializationHandler func(FailedRecord) Response

// ProcessingHandler decides about an input record on which user code outside
// of calls returned an error or panicked (KIP-1033:
// processing.exception.handler), and about one that has cost a lease there
// (ErrPollClock). The default is Fail; for the latter, Continue when
// errors.dead.letter.queue.topic.name is set.
type ProcessingHandler func(FailedRecord) Response

// ProductionHandler decides about an output record that could not be encoded
// or that the broker refused (production.exception.handler). topic is where it
// was to go. The default is Fail.
type ProductionHandler func(topic string, r FailedRecord) Response

// ThreadResponse is what happens after a thread ended with an error.
type ThreadResponse int

const (
	// ShutdownClient stops the application; Run returns the error. The
	// default.
	ShutdownClient ThreadResponse = iota
	// ReplaceThread starts another thread in its place. A record that always
	// fails makes this an endless loop, so replacements back off up to 30 s.
	ReplaceThread
)

// UncaughtHandler decides what happens after a thread ended with an error
// (Kafka Streams: StreamsUncaughtExceptionHandler). Losing the lease is not an
// error and is not reported here.
type UncaughtHandler func(thread string, err error) ThreadResponse

// Headers of a dead letter. Those of KIP-1034 carry Kafka Streams' names;
// what a call adds begins with __rondo.errors.
const (
	HeaderErrorException = "__streams.errors.exception" // type of the error
	HeaderErrorMessage   = "__streams.errors.message"   // its text, at most 1,000 bytes
	HeaderErrorTopic     = "__streams.errors.topic"     // input topic
	HeaderErrorPartition = "__streams.errors.partition" // input partition, decimal
	HeaderErrorOffset    = "__streams.errors.offset"    // input offset, decimal
	HeaderErrorTimestamp = "__rondo.errors.timestamp"   // input timestamp, ms since 1970, decimal
	HeaderErrorCall      = "__rondo.errors.call"        // name of the call that failed
	HeaderErrorAttempts  = "__rondo.errors.attempts"    // attempts made, decimal
	HeaderErrorCause     = "__rondo.errors.cause"       // service, timeout, budget, poll_clock, permanent, panic, deserialization, processing, production
)

// RecordError is an error about one input record: what a thread ends with when
// a handler answered Fail, or when a call without FailuresTo and SkipFailures
// failed for good.
type RecordError struct {
	Op        string // "deserialize", "process", "produce to scores", "call model"
	Task      string
	Topic     string
	Partition int32
	Offset    int64
	Err       error
	Hint      string
}

func (e *RecordError) Error() string {
	s := fmt.Sprintf("%s %s-%d@%d (task %s): %v", e.Op, e.Topic, e.Partition, e.Offset, e.Task, e.Err)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap answers the cause.
func (e *RecordError) Unwrap() error { return e.Err }
