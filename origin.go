package rondo

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// origin is one input record of a task until all that came of it is done. It
// counts what is open: the run through the operators, each call, each output
// without acknowledgement.
type origin struct {
	task      *task
	part      *inputPartition
	record    *kgo.Record
	open      atomic.Int32
	forgotten atomic.Bool // part of it was given up while the task drained: it will be read again
	worked    atomic.Bool // a call was made or an output sent for it
}

func (o *origin) topic() string    { return o.part.at.Topic }
func (o *origin) partition() int32 { return o.part.at.Partition }
func (o *origin) offset() int64    { return o.record.Offset }

// hold says that one more thing is open.
func (o *origin) hold() { o.open.Add(1) }

// work says that a call is made or an output sent: what is lost with the lease.
func (o *origin) work() {
	if !o.worked.Swap(true) {
		o.task.mu.Lock()
		o.part.working++
		o.task.mu.Unlock()
	}
}

// release says that one thing is done. The last one finishes the record.
func (o *origin) release() {
	if o.open.Add(-1) == 0 {
		o.task.finished(o)
	}
}

// forget gives one thing up: the record stays unfinished.
func (o *origin) forget() {
	o.forgotten.Store(true)
	o.release()
}

// describe is the record as handlers see it.
func (o *origin) describe(err error) FailedRecord {
	return FailedRecord{
		Task: o.task.id.String(), Topic: o.topic(), Partition: o.partition(), Offset: o.offset(),
		Time: o.record.Timestamp, Key: o.record.Key, Value: o.record.Value, Err: err,
	}
}

func (o *origin) fault(op string, err error, hint string) error {
	return &RecordError{Op: op, Task: o.task.id.String(), Topic: o.topic(), Partition: o.partition(), Offset: o.offset(), Err: err, Hint: hint}
}
