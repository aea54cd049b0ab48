package journal

import (
	"fmt"
	"math"

	"github.com/rondo-streams/rondo/internal/wire"
)

// keptBatches is how many batches of a producer are remembered, so that a
// retried one is recognized: a producer has at most five requests in flight
// (Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const keptBatches = 5

// producer is what the log knows of one producer id in one partition. It is a
// plain value: a copy taken before an append undoes it.
type producer struct {
	epoch   int16
	count   int8 // batches in use
	seen    int64
	batches [keptBatches]producerBatch // oldest first
}

type producerBatch struct {
	firstSeq, lastSeq int32
	base, last        int64
	timestamp         int64 // what the append answered: log append time or -1
}

func (s *producer) newest() (producerBatch, bool) {
	if s.count == 0 {
		return producerBatch{}, false
	}
	return s.batches[s.count-1], true
}

// add remembers a batch. A new epoch forgets the batches of the one before.
func (s *producer) add(epoch int16, b producerBatch, now int64) {
	if s.count > 0 && s.epoch != epoch {
		s.count = 0
	}
	s.epoch, s.seen = epoch, now
	if s.count == keptBatches {
		copy(s.batches[:], s.batches[1:])
		s.count--
	}
	s.batches[s.count] = b
	s.count++
}

// check holds a batch against what is known, by the rules of Kafka 4.2's
// ProducerAppendInfo and ProducerStateEntry. It gives the remembered batch when
// this one is a retry of it.
func (s *producer) check(h wire.Header) (duplicate producerBatch, is bool, err error) {
	if s == nil {
		// Nothing is known, perhaps because retention or DeleteRecords took it:
		// any sequence number is a beginning.
		return producerBatch{}, false, nil
	}
	last := h.LastSequence()
	if h.ProducerEpoch == s.epoch {
		for _, b := range s.batches[:s.count] {
			if b.firstSeq == h.BaseSequence && b.lastSeq == last {
				return b, true, nil
			}
		}
	}
	if h.ProducerEpoch < s.epoch {
		return producerBatch{}, false, fmt.Errorf("%w: producer id %d has epoch %d, the batch has %d", ErrProducerFenced, h.ProducerID, s.epoch, h.ProducerEpoch)
	}
	if h.ProducerEpoch > s.epoch {
		if h.BaseSequence != 0 {
			return producerBatch{}, false, fmt.Errorf("%w: producer id %d begins epoch %d with %d, want 0", ErrOutOfOrderSequence, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
		return producerBatch{}, false, nil
	}
	if b, ok := s.newest(); ok && !follows(b.lastSeq, h.BaseSequence) {
		return producerBatch{}, false, fmt.Errorf("%w: producer id %d epoch %d sends %d after %d", ErrOutOfOrderSequence, h.ProducerID, h.ProducerEpoch, h.BaseSequence, b.lastSeq)
	}
	return producerBatch{}, false, nil
}

// follows says whether a sequence number comes right after another: after
// 2^31-1 comes 0.
func follows(last, next int32) bool {
	return next == 0 && last == math.MaxInt32 || last != math.MaxInt32 && next == last+1
}

// producers is the table of one partition: nil until an idempotent producer
// comes.
type producers map[int64]*producer

// producerUndo takes one change of the table back.
type producerUndo struct {
	id     int64
	before producer
	known  bool

	forgot int64 // was forgotten for it
	was    *producer
}

// add remembers a batch that gets the given offsets.
func (t *producers) add(h wire.Header, base, last, timestamp, now int64) producerUndo {
	if *t == nil {
		*t = producers{}
	}
	s := (*t)[h.ProducerID]
	undo := producerUndo{id: h.ProducerID}
	if s == nil {
		s = &producer{}
		(*t)[h.ProducerID] = s
	} else {
		undo.before, undo.known = *s, true
	}
	s.add(h.ProducerEpoch, producerBatch{h.BaseSequence, h.LastSequence(), base, last, timestamp}, now)
	return undo
}

// undo takes changes back, the last first.
func (t producers) undo(changes []producerUndo) {
	for i := len(changes) - 1; i >= 0; i-- {
		c := changes[i]
		if c.was != nil {
			t[c.forgot] = c.was
		}
		if !c.known {
			delete(t, c.id)
		} else if s := t[c.id]; s != nil {
			*s = c.before
		} else {
			s := c.before
			t[c.id] = &s
		}
	}
}

// expire forgets producers that were last seen before the given time.
func (t producers) expire(before int64) {
	for id, s := range t {
		if s.seen < before {
			delete(t, id)
		}
	}
}

// below is a copy of what is known from batches below an offset. Replaying the
// log from there makes the table whole again: a batch that a newer one pushed
// out of the last five is pushed out again.
func (t producers) below(end int64) producers {
	kept := producers{}
	for id, s := range t {
		c := producer{epoch: s.epoch, seen: s.seen}
		for _, b := range s.batches[:s.count] {
			if b.last < end {
				c.batches[c.count] = b
				c.count++
			}
		}
		if c.count > 0 {
			kept[id] = &c
		}
	}
	return kept
}

// ProducerState is one idempotent producer as DescribeProducers shows it.
type ProducerState struct {
	ID            int64
	Epoch         int16
	LastSequence  int32 // -1: none
	LastOffset    int64 // -1: none
	LastTimestamp int64 // wall clock of its last append, milliseconds
	// TxnStart is the first offset of its open transaction, -1 when it has none.
	TxnStart int64
}
