package rondo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/serde"
)

// output is one record on its way to the broker. record is nil when it could
// not be encoded.
type output struct {
	topic  string
	record *kgo.Record
	dead   bool // a dead letter
	alone  bool // it is sent in a batch of its own
}

// send produces an output on which o is held already, and releases it when the
// broker has acknowledged it.
func (t *task) send(o *origin, out output) {
	if t.fenced.Load() {
		return
	}
	producer := t.host.app.producer
	if out.alone {
		var err error
		if producer, err = t.host.app.singles(); err != nil {
			t.productionFailed(o, out, err)
			return
		}
	}
	o.work()
	producer.Produce(t.deliveryContext(time.Now()), out.record, func(_ *kgo.Record, err error) {
		counts := &t.host.app.counts
		if err == nil {
			counts.produced.Add(1)
			if out.dead {
				counts.deadLetters.Add(1)
			}
			o.release()
			return
		}
		if !t.fenced.Load() {
			// Handlers are user code: they run where all user code of the
			// task runs.
			t.box.put(func() { t.sendFailed(o, out, err) })
		}
	})
}

// sendFailed asks the production handler, unless the batch may have been too
// large for the topic, or another record in it: then each of its records is
// sent again by itself, as Java's producer splits such a batch.
func (t *task) sendFailed(o *origin, out output, err error) {
	if t.fenced.Load() {
		return
	}
	if errors.Is(err, kerr.MessageTooLarge) && !out.alone {
		out.alone = true
		t.send(o, out.again())
		return
	}
	t.productionFailed(o, out, err)
}

// again is the output as it was before kgo filled in partition and offset.
func (out output) again() output {
	r := *out.record
	r.Partition, r.Offset = 0, 0
	out.record = &r
	return out
}

// deliveryContext ends delivery.timeout.ms from now, or a twentieth of it
// sooner: outputs of about the same time share one. kgo's own record timeout is
// not used, since it counts from the record's timestamp, and outputs carry the
// timestamps of their inputs.
func (t *task) deliveryContext(now time.Time) context.Context {
	limit := t.host.app.delivery
	if t.delivery == nil || now.Sub(t.deliveryFrom) > limit/20 {
		ctx, cancel := context.WithDeadlineCause(t.ctx, now.Add(limit), errDelivery)
		context.AfterFunc(ctx, cancel)
		t.delivery, t.deliveryFrom = ctx, now
	}
	return t.delivery
}

var errDelivery = errors.New("not acknowledged within delivery.timeout.ms")

func fixedTopic[K, V any](name string) func(Record[K, V]) string {
	return func(Record[K, V]) string { return name }
}

// makeSink encodes records and sends them to the topic that pick names.
func makeSink[K, V any](key serde.Serde[K], value serde.Serde[V], pick func(Record[K, V]) string) func(*task, []any) any {
	return func(t *task, _ []any) any {
		return func(r Record[K, V]) {
			topic := pick(r)
			if topic == "" {
				return
			}
			emit(t, r, topic, key, value, nil)
		}
	}
}

// emit encodes one record and sends it. Further headers make it a dead letter.
func emit[K, V any](t *task, r Record[K, V], topic string, key serde.Serde[K], value serde.Serde[V], dead []kgo.RecordHeader) {
	o := r.origin
	o.hold()
	out := output{topic: topic, dead: dead != nil}
	k, err := key.Encode(nil, r.Key)
	if err != nil {
		t.productionFailed(o, out, fmt.Errorf("encode key: %w", err))
		return
	}
	v, err := value.Encode(nil, r.Value)
	if err != nil {
		t.productionFailed(o, out, fmt.Errorf("encode value: %w", err))
		return
	}
	out.record = &kgo.Record{Topic: topic, Key: k, Value: v, Timestamp: r.Time, Headers: kgoHeaders(r.Headers, dead)}
	t.send(o, out)
}

func kgoHeaders(headers []Header, more []kgo.RecordHeader) []kgo.RecordHeader {
	if len(headers) == 0 {
		return more
	}
	out := make([]kgo.RecordHeader, 0, len(headers)+len(more))
	for _, h := range headers {
		out = append(out, kgo.RecordHeader(h))
	}
	return append(out, more...)
}

// makeSource decodes records and hands them to the operators below.
func makeSource[K, V any](topic Topic[K, V]) func(*task, []any) any {
	return func(t *task, next []any) any {
		out := fan[K, V](next)
		return func(o *origin) {
			k, err := topic.Key.Decode(o.record.Key)
			if err != nil {
				t.deserializationFailed(o, fmt.Errorf("key: %w", err))
				return
			}
			v, err := topic.Value.Decode(o.record.Value)
			if err != nil {
				t.deserializationFailed(o, fmt.Errorf("value: %w", err))
				return
			}
			r := Record[K, V]{Key: k, Value: v, Time: o.record.Timestamp, Topic: o.topic(), Partition: o.partition(), Offset: o.offset(), origin: o}
			if len(o.record.Headers) > 0 {
				r.Headers = make([]Header, len(o.record.Headers))
				for i, h := range o.record.Headers {
					r.Headers[i] = Header(h)
				}
			}
			out(r)
		}
	}
}
