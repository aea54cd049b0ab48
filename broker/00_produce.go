package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstProduce is the first version of Produce that is served. Lower ones are
// advertised all the same, since old librdkafka takes their absence for a
// broker without compression (KAFKA-18659).
const firstProduce = 3

// produce is a Produce request whose appends are under way, with its answer.
type produce struct {
	rq   *request
	resp kmsg.ProduceResponse
	acks int16
	left atomic.Int32 // answers still missing, and one for the handler

	// The answer to the most common request, one batch, needs no more memory.
	topics     [1]kmsg.ProduceResponseTopic
	partitions [1]kmsg.ProduceResponseTopicPartition
}

// handleProduce hands every batch that is right to the journal and answers
// when all of them are durable. The batches stay as their producer made them.
// A producer that wants no answer (acks=0) is held to the same pace, so that
// it cannot fill the memory.
func (b *Broker) handleProduce(rq *request) {
	msg := rq.msg.(*kmsg.ProduceRequest)
	p := &produce{rq: rq, acks: msg.Acks}
	resp := &p.resp
	resp.Topics = p.topics[:]
	if len(msg.Topics) != 1 {
		resp.Topics = make([]kmsg.ProduceResponseTopic, len(msg.Topics))
	}
	p.left.Store(1)
	c := b.catalog()
	for i := range msg.Topics {
		asked, answered := &msg.Topics[i], &resp.Topics[i]
		answered.Topic, answered.TopicID = asked.Topic, asked.TopicID
		answered.Partitions = p.partitions[:]
		if len(msg.Topics) != 1 || len(asked.Partitions) != 1 {
			answered.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(asked.Partitions))
		}
		var t *topic
		missing := kerr.UnknownTopicOrPartition
		if rq.version >= 13 {
			t, missing = c.byID[asked.TopicID], kerr.UnknownTopicID
		} else {
			t = c.topic(asked.Topic)
		}
		for j := range asked.Partitions {
			r := &answered.Partitions[j]
			r.Default()
			r.Partition = asked.Partitions[j].Partition
			r.BaseOffset, r.LogAppendTime, r.LogStartOffset = -1, -1, -1
			if t == nil {
				r.ErrorCode = missing.Code
				continue
			}
			b.produceTo(p, msg, t, asked.Partitions[j].Records, r)
		}
	}
	p.answered()
}

// answered counts one answer and replies with the last.
func (p *produce) answered() {
	if p.left.Add(-1) > 0 {
		return
	}
	if p.acks != 0 {
		p.rq.reply(&p.resp)
		return
	}
	for _, t := range p.resp.Topics {
		for _, r := range t.Partitions {
			if r.ErrorCode != 0 {
				p.rq.drop() // the only way to tell a producer that wants no answer
				return
			}
		}
	}
	p.rq.silence()
}

// produceTo appends one batch to one partition. In the order of Kafka: the
// request's shape, the topic, the batch as a whole, then its records.
func (b *Broker) produceTo(p *produce, msg *kmsg.ProduceRequest, t *topic, records []byte, r *kmsg.ProduceResponseTopicPartition) {
	if records == nil {
		p.left.Add(1) // Kafka never answers this (its recording: produce/errors)
		p.rq.unpay()
		return
	}
	h, bad := checkShape(records, msg.Version)
	if bad == nil {
		bad = b.checkTarget(p.rq, msg, t, r.Partition)
	}
	if bad != nil {
		r.ErrorCode = bad.code
		if bad.code == kerr.NotLeaderForPartition.Code && msg.Version >= hintedProduce {
			b.hint(&p.resp, r, t.partition(r.Partition))
		}
		if bad.text != "" {
			r.ErrorMessage = &bad.text
		}
		return
	}
	at := t.partition(r.Partition)
	log := at.log
	if int64(len(records)) > t.settings.maxMessageBytes {
		r.ErrorCode = kerr.MessageTooLarge.Code
		return
	}
	if bad := checkBatch(h, records, t, p.rq.at, r); bad != nil {
		r.ErrorCode = bad.Code
		if bad != kerr.CorruptMessage {
			r.LogStartOffset = log.Start()
		}
		return
	}
	b.stats.produceBatches.Add(1)
	b.stats.produceBytes.Add(int64(len(records)))
	p.left.Add(1)
	log.Append(journal.Append{Batches: records, LogAppendTime: t.settings.logAppendTime, LeaderEpoch: at.epoch}, func(res journal.Result) {
		r.ErrorCode, r.BaseOffset, r.LogStartOffset = errorCode(res.Err), res.Base, res.LogStart
		r.LogAppendTime = res.LogAppendTime
		if res.Duplicate && res.LogAppendTime < 0 {
			r.LogAppendTime = h.MaxTimestamp // as Kafka says it of a batch that it has already
		}
		if res.Err != nil {
			r.BaseOffset, r.LogAppendTime = -1, -1
			if r.ErrorCode == kerr.KafkaStorageError.Code {
				b.log.Error("append", "topic", t.name, "partition", r.Partition, "cause", res.Err)
			}
		}
		p.answered()
	})
}

// checkShape checks what can be seen without the topic: exactly one whole
// batch of magic 2, in a codec that the version may carry.
func checkShape(records []byte, version int16) (wire.Header, *failure) {
	if len(records) < 17 {
		return wire.Header{}, &failure{code: kerr.InvalidRecord.Code}
	}
	if size := int32(binary.BigEndian.Uint32(records[8:])); size < 14 {
		return wire.Header{}, fail(kerr.CorruptMessage, "Record size %d is less than the minimum record overhead (14)", size)
	}
	if magic := int8(records[16]); magic < 0 || magic > 2 {
		return wire.Header{}, fail(kerr.CorruptMessage, "Invalid magic found in record: %d", magic)
	}
	h, err := wire.ParseHeader(records)
	if errors.Is(err, wire.ErrCorrupt) {
		return wire.Header{}, nil // without records, so checkBatch refuses it
	}
	if err != nil || h.Size() != len(records) {
		return h, &failure{code: kerr.InvalidRecord.Code}
	}
	if h.Codec() == 4 && version < 7 {
		return h, &failure{code: kerr.UnsupportedCompressionType.Code}
	}
	return h, nil
}

// checkTarget checks whether the request may write to the partition.
func (b *Broker) checkTarget(rq *request, msg *kmsg.ProduceRequest, t *topic, n int32) *failure {
	e := (*kerr.Error)(nil)
	switch {
	case msg.Acks < -1 || msg.Acks > 1:
		e = kerr.InvalidRequiredAcks
	case t.internal:
		e = kerr.InvalidTopicException
	case t.partition(n) == nil:
		e = kerr.UnknownTopicOrPartition
	case !rq.leads(t.partition(n)):
		e = kerr.NotLeaderForPartition
	case msg.TransactionID != nil:
		e = kerr.TransactionalIDAuthorizationFailed // transactions are not served yet
	case msg.Acks == -1 && t.settings.minISR > 1:
		e = kerr.NotEnoughReplicas
	default:
		return nil
	}
	return &failure{code: e.Code}
}

// checkBatch checks the batch itself. The records of a compressed batch stay
// unread but for a compacted topic, which needs their keys.
func checkBatch(h wire.Header, batch []byte, t *topic, now time.Time, r *kmsg.ProduceResponseTopicPartition) *kerr.Error {
	switch {
	case h.Codec() > 4:
		return kerr.UnknownServerError // as Kafka: its table of codecs ends there
	case h.Records <= 0 || h.LastOffsetDelta != h.Records-1 || h.BaseOffset != 0:
		return kerr.InvalidRecord
	}
	if _, err := wire.CheckBatch(batch); err != nil {
		return kerr.CorruptMessage
	}
	switch {
	case h.Control(), h.ProducerID >= 0 && h.BaseSequence < 0:
		return kerr.InvalidRecord
	case h.Transactional():
		return kerr.TransactionalIDAuthorizationFailed
	case h.Codec() == 0 && !countsRight(batch[wire.HeaderSize:], h.Records):
		return kerr.InvalidRecord
	}
	var rejected []kmsg.ProduceResponseTopicPartitionErrorRecord
	code := kerr.InvalidRecord
	if t.settings.compact {
		rejected = keyless(batch, t.name, r.Partition)
	}
	if rejected == nil && !t.settings.logAppendTime {
		rejected, code = outOfTime(h, t.settings, now), kerr.InvalidTimestamp
	}
	if rejected == nil {
		return nil
	}
	r.ErrorRecords = rejected
	texts := make([]string, 0, 3)
	for _, e := range rejected[:min(3, len(rejected))] {
		texts = append(texts, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", e.RelativeOffset, *e.ErrorMessage))
	}
	text := fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]", len(rejected), strings.Join(texts, ", "))
	r.ErrorMessage = &text
	return code
}

// countsRight hops over the records of an uncompressed batch by their lengths.
func countsRight(b []byte, count int32) bool {
	for range count {
		size, n := binary.Varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return false
		}
		b = b[n+int(size):]
	}
	return len(b) == 0
}

// keyless lists the records of a batch that have no key.
func keyless(batch []byte, topic string, n int32) []kmsg.ProduceResponseTopicPartitionErrorRecord {
	var out []kmsg.ProduceResponseTopicPartitionErrorRecord
	index := int32(0)
	err := wire.EachRecord(batch, func(record wire.Record) error {
		if record.Key == nil {
			out = append(out, rejectedRecord(index, "Compacted topic cannot accept message without key in topic partition %s-%d.", topic, n))
		}
		index++
		return nil
	})
	if err != nil {
		out = append(out, rejectedRecord(index, "The record cannot be read: %v", err))
	}
	return out
}

// outOfTime complains about a batch whose timestamps are further from now than
// the topic allows.
func outOfTime(h wire.Header, s topicSettings, now time.Time) []kmsg.ProduceResponseTopicPartitionErrorRecord {
	ms := now.UnixMilli()
	low, high := int64(0), int64(1<<63-1)
	if s.beforeMax < ms {
		low = ms - s.beforeMax
	}
	if s.afterMax < high-ms {
		high = ms + s.afterMax
	}
	for _, ts := range []int64{h.BaseTimestamp, h.MaxTimestamp} {
		if ts >= 0 && (ts < low || ts > high) {
			return []kmsg.ProduceResponseTopicPartitionErrorRecord{rejectedRecord(0, "Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]", ts, h.BaseOffset, low, high)}
		}
	}
	return nil
}

func rejectedRecord(index int32, format string, args ...any) kmsg.ProduceResponseTopicPartitionErrorRecord {
	e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
	text := fmt.Sprintf(format, args...)
	e.RelativeOffset, e.ErrorMessage = index, &text
	return e
}
