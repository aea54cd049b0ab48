package rondo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/call"
)

// processingFailed asks the processing handler about a record on which user
// code failed. It takes the place of the release that the run would have done.
func (t *task) processingFailed(o *origin, err error, cause string) {
	if t.fenced.Load() {
		return // it failed because its lease ended
	}
	response := Fail
	if h := t.host.app.config.processing; h != nil {
		response = h(o.describe(err))
	}
	if response != Continue {
		t.fail(o.fault("process", err, "set rondo.OnProcessingError to go on after it"))
		return
	}
	t.skipped(o, err, cause)
	o.release()
}

// struckOut gives up a record that has cost leases inside user code outside of
// calls. Such code cannot be cut if it does not look at its context, so the
// record is not run again: the processing handler decides; without one, the
// dead-letter topic takes it; without that, the thread fails.
func (t *task) struckOut(o *origin, times int) {
	err := fmt.Errorf("%w: %s on %s@%d ran until the poll clock fired, and has cost %s; it was not run again (its offset committed anew while the application is down makes it run)", ErrPollClock, t.userWork(), o.part.at, o.offset(), leases(times))
	config := t.host.app.config
	if config.processing == nil && config.text("errors.dead.letter.queue.topic.name") != "" {
		t.skipped(o, err, "poll_clock")
		o.release()
		return
	}
	t.processingFailed(o, err, "poll_clock")
}

func leases(n int) string {
	if n == 1 {
		return "1 lease"
	}
	return strconv.Itoa(n) + " leases"
}

// deserializationFailed asks about a record whose bytes could not be read. The
// run that found it releases the record.
func (t *task) deserializationFailed(o *origin, err error) {
	response := Fail
	if h := t.host.app.config.deserialization; h != nil {
		response = h(o.describe(err))
	}
	if response != Continue {
		o.hold() // so that the run's release does not finish it
		t.fail(o.fault("deserialize", err, "set rondo.OnDeserializationError to go on after it"))
		return
	}
	t.skipped(o, err, "deserialization")
}

// productionFailed asks about an output, on which o is still held.
func (t *task) productionFailed(o *origin, out output, err error) {
	if t.fenced.Load() {
		return
	}
	response := Fail
	if h := t.host.app.config.production; h != nil {
		response = h(out.topic, o.describe(err))
	}
	switch {
	case response == Retry && out.record != nil:
		t.send(o, out.again())
	case response == Continue:
		t.skipped(o, err, "production")
		o.release()
	default:
		t.fail(o.fault("produce to "+out.topic, err, productionHint(err)))
	}
}

func productionHint(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the broker did not acknowledge it within delivery.timeout.ms"
	}
	return "set rondo.OnProductionError to go on after it"
}

// skipped counts a record that a handler gave up, and keeps it in the
// application's dead-letter topic when there is one.
func (t *task) skipped(o *origin, err error, cause string) {
	t.host.app.counts.skipped.Add(1)
	t.host.log.Warn("record skipped", "task", t.id.String(), "topic", o.topic(), "partition", o.partition(), "offset", o.offset(), "cause", cause, "error", err)
	topic := t.host.app.config.text("errors.dead.letter.queue.topic.name")
	if topic == "" || topic == o.topic() {
		return
	}
	o.hold()
	t.send(o, output{topic: topic, dead: true, record: &kgo.Record{
		Topic: topic, Key: o.record.Key, Value: o.record.Value, Timestamp: o.record.Timestamp,
		Headers: append(o.record.Headers[:len(o.record.Headers):len(o.record.Headers)], deadHeaders(o, err, cause, "", 0)...),
	}})
}

// deadHeaders say why a record is dead.
func deadHeaders(o *origin, err error, cause, callName string, attempts int) []kgo.RecordHeader {
	text := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	message := err.Error()
	headers := []kgo.RecordHeader{
		text(HeaderErrorException, fmt.Sprintf("%T", root(err))),
		text(HeaderErrorMessage, strings.ToValidUTF8(message[:min(len(message), 1000)], "")),
		text(HeaderErrorTopic, o.topic()),
		text(HeaderErrorPartition, strconv.Itoa(int(o.partition()))),
		text(HeaderErrorOffset, strconv.FormatInt(o.offset(), 10)),
		text(HeaderErrorTimestamp, strconv.FormatInt(o.record.Timestamp.UnixMilli(), 10)),
		text(HeaderErrorCause, cause),
	}
	if callName != "" {
		headers = append(headers, text(HeaderErrorCall, callName), text(HeaderErrorAttempts, strconv.Itoa(attempts)))
	}
	return headers
}

// root looks through wrappers that only add words.
func root(err error) error {
	for {
		var crash *call.PanicError
		if errors.As(err, &crash) {
			return crash
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
