package broker

import (
	"fmt"
	"sync/atomic"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

const (
	// eventsQueue is how many events may wait for the writer.
	eventsQueue = 4096
	// eventsBatch is how many go into one batch.
	eventsBatch = 256
)

// eventsTopic writes the events of the groups to cause.HistoryTopic, where
// every client can read them. A coordinator hands an event in and goes on: it
// waits neither for the writer nor for the disk. What does not fit into the
// queue is counted and left out of the history; it is in the log all the same.
type eventsTopic struct {
	b     *Broker
	queue chan *cause.Event
	ended chan struct{}
	lost  atomic.Int64
}

func newEventsTopic(b *Broker) *eventsTopic {
	e := &eventsTopic{b: b, queue: make(chan *cause.Event, eventsQueue), ended: make(chan struct{})}
	go e.run()
	return e
}

// put hands in an event. It does not block.
func (e *eventsTopic) put(event cause.Event) {
	select {
	case e.queue <- &event:
	default:
		if e.lost.Add(1) == 1 {
			e.b.log.Error("group events come faster than they can be written, the history has gaps", "topic", cause.HistoryTopic)
		}
	}
}

// close writes what waits. Nothing may be handed in afterwards; the metadata
// and the journal must still be open.
func (e *eventsTopic) close() {
	close(e.queue)
	<-e.ended
}

func (e *eventsTopic) run() {
	defer close(e.ended)
	for event := range e.queue {
		records := e.record(nil, event)
		for more := true; more && len(records) < eventsBatch; {
			select {
			case event, more = <-e.queue:
				if more {
					records = e.record(records, event)
				}
			default:
				more = false
			}
		}
		if err := e.write(records); err != nil {
			e.b.log.Error("group events are not in the history", "topic", cause.HistoryTopic, "events", len(records), "cause", err)
		}
	}
}

func (e *eventsTopic) record(to []wire.Record, event *cause.Event) []wire.Record {
	value, err := event.Record()
	if err != nil {
		e.b.log.Error("group event is not in the history", "topic", cause.HistoryTopic, "cause", err)
		return to
	}
	return append(to, wire.Record{Timestamp: event.At.UnixMilli(), Key: []byte(event.Group), Value: value})
}

// write appends records as one batch and waits until they are durable.
func (e *eventsTopic) write(records []wire.Record) error {
	if len(records) == 0 {
		return nil
	}
	t, err := e.topic()
	if err != nil {
		return err
	}
	done := make(chan journal.Result, 1)
	t.partition(0).log.Append(journal.Append{Batches: wire.AppendBatch(nil, wire.BatchOptions{}, records...), Internal: true},
		func(r journal.Result) { done <- r })
	return (<-done).Err
}

// topic returns the topic, which the first event makes: a broker without
// groups has none.
func (e *eventsTopic) topic() (*topic, error) {
	if t := e.b.catalog().topic(cause.HistoryTopic); t != nil {
		return t, nil
	}
	wanted := &newTopic{name: cause.HistoryTopic, partitions: 1, configs: map[string]string{
		"cleanup.policy": "delete", "compression.type": "producer",
		"retention.ms": "604800000", "retention.bytes": "67108864", "segment.bytes": "8388608",
	}}
	made := make(chan struct{})
	e.b.meta.do(func() {
		e.b.meta.createTopics([]*newTopic{wanted})
		close(made)
	})
	select {
	case <-made:
	case <-e.b.meta.ended:
		return nil, journal.ErrClosed
	}
	if t := e.b.catalog().topic(cause.HistoryTopic); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("create the topic: %s", wanted.failed.text)
}
