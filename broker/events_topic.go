package broker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

const (
	// eventsQueue is how many events may wait for the writer.
	eventsQueue = 4096
	// eventsBatch is how many go into one batch.
	eventsBatch = 256
	// eventsAgain is how soon what could not be written is tried again.
	eventsAgain = time.Second
)

// eventsTopic writes the events of the groups to cause.HistoryTopic, where
// every client can read them. That an event has begun, and its cause, is appended
// with the generation that it makes, so that no client ever sees a generation
// without a cause in the history. How it ended a coordinator hands in and goes on:
// it waits neither for the writer nor for the disk. What cannot be written waits
// until the disk is well. What does not fit into the queue meanwhile is counted and
// left out of the history; it is in the log all the same.
type eventsTopic struct {
	b     *Broker
	queue chan *cause.Event
	quit  chan struct{} // closed: nothing is tried again
	ended chan struct{}
	lost  atomic.Int64
}

func newEventsTopic(b *Broker) *eventsTopic {
	e := &eventsTopic{b: b, queue: make(chan *cause.Event, eventsQueue), quit: make(chan struct{}), ended: make(chan struct{})}
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

// begun is the append of events that have begun, and where it goes: it is to be made
// together with that of their generations. Where there is no topic yet, as in a
// directory of an older version, the queue makes it.
func (e *eventsTopic) begun(events []cause.Event) (*partition, journal.Append) {
	t := e.b.catalog().topic(cause.HistoryTopic)
	if t == nil {
		for _, event := range events {
			e.put(event)
		}
		return nil, journal.Append{}
	}
	var records []wire.Record
	for i := range events {
		records = e.record(records, &events[i])
	}
	if len(records) == 0 {
		return nil, journal.Append{}
	}
	return t.partition(0), journal.Append{Batches: wire.AppendBatch(nil, wire.BatchOptions{}, records...), Internal: true}
}

// takenBack notes that generations could not be written.
func (e *eventsTopic) takenBack(writes []group.Output) {
	for _, w := range writes {
		for _, event := range w.Begun {
			event.Stage = cause.TakenBack
			e.put(event)
		}
	}
}

// written is called when events have begun, or could not be written. The
// generations stand by themselves: nobody is refused one because of its history.
func (e *eventsTopic) written(r journal.Result) {
	if r.Err != nil {
		e.b.log.Error("that a group event has begun is not in the history", "topic", cause.HistoryTopic, "cause", r.Err)
	}
}

// close writes what waits. Nothing may be handed in afterwards; the metadata
// and the journal must still be open.
func (e *eventsTopic) close() {
	close(e.quit)
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
		e.persist(records)
	}
}

// persist writes records, again and again if it must, until the broker closes.
func (e *eventsTopic) persist(records []wire.Record) {
	for first := true; ; first = false {
		err := e.write(records)
		if err == nil {
			return
		}
		if first {
			e.b.log.Error("group events are not in the history yet, trying again", "topic", cause.HistoryTopic, "events", len(records), "cause", err)
		}
		select {
		case <-time.After(eventsAgain):
		case <-e.quit:
			e.b.log.Error("group events are not in the history", "topic", cause.HistoryTopic, "events", len(records), "cause", err)
			return
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

// topic returns the topic, which is made with __consumer_offsets, or by the first
// event: a broker without groups has none.
func (e *eventsTopic) topic() (*topic, error) {
	if t := e.b.catalog().topic(cause.HistoryTopic); t != nil {
		return t, nil
	}
	wanted := historyTopic()
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

func historyTopic() *newTopic {
	return &newTopic{name: cause.HistoryTopic, partitions: 1, configs: map[string]string{
		"cleanup.policy": "delete", "compression.type": "producer",
		"retention.ms": "604800000", "retention.bytes": "67108864", "segment.bytes": "8388608",
	}}
}
