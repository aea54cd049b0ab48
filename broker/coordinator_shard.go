package broker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

const (
	// loadStep is how much of its log a shard reads at a time while it loads.
	loadStep = 1 << 20
	// batchLimit is how large a batch of several writes may become.
	batchLimit = 1 << 20
	// afterPanic is how long a shard rests before its next life.
	afterPanic = time.Second
	// loadAgain is how long a shard that cannot read its log rests before it tries
	// again, at first; it doubles up to loadAgainMax.
	loadAgain    = time.Second
	loadAgainMax = 10 * time.Second
)

// shard is the coordinator of one partition of __consumer_offsets: a goroutine
// around a group.Shard. It has one append in flight at a time; what is written
// meanwhile goes into the next batch together. So a busy shard shares its
// syncs, and when an append fails nothing is in the log that was written on
// the assumption that it would not.
type shard struct {
	c     *coordinator
	index int32
	log   *journal.Partition
	epoch int32 // leader epoch of the partition
	mail  mailbox
	quit  chan struct{}
	ended chan struct{}

	// Of the goroutine.
	core   *group.Shard
	asked  map[uint64]func(kmsg.Response) // by token
	token  uint64
	todo   []letter       // taken from the mail, not yet opened
	moved  bool           // this life is over: another begins
	queue  []group.Output // not yet appended
	flight []group.Output // in the append under way
	flying bool           // an append is under way, of this life or the one before
	crowd  int            // members that the other shards know of
	rest   time.Duration  // before the next attempt at reading the log; 0: it was read
}

// letter is what the outside sends to a shard: an input, or a question with
// the way of its answer.
type letter struct {
	in     group.Input
	answer func(kmsg.Response)
	landed *landed
	moved  bool // the partition has got another leader
}

// landed is what became of an append.
type landed struct{ err error }

func newShard(c *coordinator, p *partition) *shard {
	return &shard{
		c: c, index: p.index, log: p.log,
		mail: mailbox{ready: make(chan struct{}, 1)},
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// ask hands in a request. It does not block.
func (s *shard) ask(rq *request, req kmsg.Request, answer func(kmsg.Response)) {
	s.mail.put(letter{in: group.Request{ClientID: rq.clientID, Host: rq.host, Req: req}, answer: answer})
}

// post hands in anything else. It does not block.
func (s *shard) post(in group.Input) { s.mail.put(letter{in: in}) }

// run lives until the broker closes. Should the core panic, nothing that was
// promised is lost, for that is in the log: the shard begins again from there.
func (s *shard) run() {
	defer close(s.ended)
	defer s.count(0)
	for !s.live() {
	}
}

// live is one life of the core, from loading to the end. It reports whether
// the end was wanted.
func (s *shard) live() (wanted bool) {
	defer func() {
		if p := recover(); p != nil {
			s.c.b.log.Error("group coordinator panicked, it starts again from its log",
				"partition", s.index, "panic", p, "stack", string(debug.Stack()))
			for token, answer := range s.asked {
				delete(s.asked, token)
				answer(nil)
			}
			select { // what has panicked may do so again
			case <-time.After(afterPanic):
			case <-s.quit:
			}
		}
	}()
	if !s.landAll() {
		return true
	}
	s.core = group.New(s.c.config, newRand())
	s.asked = map[uint64]func(kmsg.Response){}
	s.queue, s.flight, s.moved = nil, nil, false
	if p := s.c.b.catalog().topic(offsetsTopicName).partition(s.index); p != nil {
		s.epoch = p.epoch
	}
	s.step(s.c.b.groupMetadata(s.c.b.catalog()))
	if err := s.load(); errors.Is(err, journal.ErrClosed) {
		return true // half of the log is nothing to act on
	} else if err != nil {
		// Without its whole log the shard must not promise anything.
		s.rest = min(max(2*s.rest, loadAgain), loadAgainMax)
		s.c.b.log.Error("group coordinator cannot read its log, refuses its groups and tries again", "partition", s.index, "in", s.rest, "cause", err)
		s.step(group.Unload{})
	} else {
		s.rest = 0
		s.step(group.Loaded{})
	}
	var again <-chan time.Time // a new life, which reads the log
	if s.rest > 0 {
		again = time.After(s.rest)
	}
	s.deliver()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if s.moved {
			s.step(group.Unload{})
			return false
		}
		s.ticks(timer)
		select {
		case <-s.mail.ready:
			s.deliver()
		case <-timer.C:
		case <-again:
			return false
		case <-s.quit:
			s.step(group.Unload{})
			return true
		}
	}
}

// landAll waits until nothing of an earlier life is on its way into the log,
// which is about to be read. It reports false when the broker closes.
func (s *shard) landAll() bool {
	for {
		s.todo = slices.DeleteFunc(append(s.todo, s.mail.take()...), func(l letter) bool {
			if l.landed != nil && l.landed.err != nil {
				s.c.told.takenBack(s.flight)
			}
			s.flying = s.flying && l.landed == nil
			return l.landed != nil || l.moved // the log is about to be read anyway
		})
		if !s.flying {
			return true
		}
		select {
		case <-s.mail.ready:
		case <-s.quit:
			return false
		}
	}
}

// ticks does what is due and sets the timer for what comes next.
func (s *shard) ticks(timer *time.Timer) {
	for {
		at, ok := s.core.Next()
		if !ok {
			timer.Stop()
			return
		}
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			return
		}
		s.step(group.Tick{})
	}
}

// deliver takes the mail to the core.
func (s *shard) deliver() {
	s.todo = append(s.todo, s.mail.take()...)
	for len(s.todo) > 0 && !s.moved {
		l := s.todo[0]
		s.todo = s.todo[1:]
		s.open(l)
	}
	if len(s.todo) == 0 {
		s.todo = nil
	}
}

func (s *shard) open(l letter) {
	if l.moved {
		s.moved = true
		return
	}
	switch in := l.in.(type) {
	case group.Request:
		s.token++
		in.Token, in.Elsewhere = s.token, int(s.c.crowd.Load())-s.crowd
		s.asked[in.Token] = func(resp kmsg.Response) {
			if resp == nil {
				resp = group.ErrorResponse(in.Req, kerr.UnknownServerError.Code)
			}
			l.answer(resp)
		}
		s.step(in)
	case nil:
		s.land(l.landed)
	default:
		s.step(in)
	}
}

func (s *shard) step(in group.Input) {
	out := s.core.Step(time.Now(), in)
	s.count(s.core.Crowd())
	for _, r := range out.Replies {
		answer := s.asked[r.Token]
		delete(s.asked, r.Token)
		answer(r.Resp)
	}
	for _, e := range out.Events {
		s.c.event(e)
	}
	if len(out.Topics) > 0 {
		s.c.makeInternalTopics(out.Topics)
	}
	if out.Seq != 0 {
		s.queue = append(s.queue, out)
		s.append()
	}
}

// count tells the other shards how many members of the newer protocols are here.
func (s *shard) count(crowd int) {
	s.c.crowd.Add(int64(crowd - s.crowd))
	s.crowd = crowd
}

// append sends the next batch on its way, if none is.
func (s *shard) append() {
	if s.flying || len(s.queue) == 0 {
		return
	}
	n, size := 0, 0
	for ; n < len(s.queue) && (n == 0 || size < batchLimit && sameTxn(s.queue[n].Txn, s.queue[0].Txn)); n++ {
		for _, r := range s.queue[n].Records {
			size += len(r.Key) + len(r.Value)
		}
	}
	s.flight, s.queue = s.queue[:n:n], s.queue[n:]
	s.flying = true
	records := journal.Append{Batches: batchOf(s.flight, time.Now().UnixMilli()), LeaderEpoch: s.epoch, Internal: true}
	done := func(r journal.Result) { s.mail.put(letter{landed: &landed{r.Err}}) }
	var events []cause.Event
	for _, w := range s.flight {
		events = append(events, w.Begun...)
	}
	if len(events) > 0 {
		if p, begun := s.c.told.begun(events); p != nil {
			journal.AppendPair(p.log, begun, s.c.told.written, s.log, records, done)
			return
		}
	}
	s.log.Append(records, done)
}

func sameTxn(a, b *group.Producer) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// batchOf is the batch of several writes.
func batchOf(writes []group.Output, nowMs int64) []byte {
	var records []wire.Record
	for _, w := range writes {
		for _, r := range w.Records {
			records = append(records, wire.Record{Timestamp: nowMs, Key: r.Key, Value: r.Value})
		}
	}
	var o wire.BatchOptions
	if txn := writes[0].Txn; txn != nil {
		o = wire.BatchOptions{Idempotent: true, ProducerID: txn.ID, ProducerEpoch: txn.Epoch, BaseSequence: -1, Transactional: true}
	}
	return wire.AppendBatch(nil, o, records...)
}

// land reports an append to the core. When it has failed, so has everything
// that was queued behind it.
func (s *shard) land(l *landed) {
	s.flying = false
	first, last := s.flight[0].Seq, s.flight[len(s.flight)-1].Seq
	flight := s.flight
	s.flight = nil
	if l.err != nil {
		s.c.b.log.Error("group coordinator cannot write, its members are told", "partition", s.index, "cause", l.err)
		s.c.told.takenBack(flight)
		s.queue = nil
		s.step(group.Appended{Seq: first, Code: errorCode(l.err)})
	} else {
		s.step(group.Appended{Seq: last})
	}
	s.append()
}

// load reads the partition from its beginning, a step at a time, and answers
// who asks meanwhile. A panic here is an error of the log: another life would
// meet the same.
func (s *shard) load() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read %s-%d: panic: %v\n%s", offsetsTopicName, s.index, p, debug.Stack())
		}
	}()
	end := s.log.HighWatermark()
	for offset := s.log.Start(); offset < end; {
		select {
		case <-s.quit:
			return journal.ErrClosed
		default:
		}
		chunks, err := s.log.Read(offset, loadStep, true)
		if err != nil {
			return fmt.Errorf("read %s-%d at offset %d: %w", offsetsTopicName, s.index, offset, err)
		}
		from := offset
		for _, chunk := range chunks {
			err := wire.EachBatch(chunk, func(h wire.Header, batch []byte) error {
				offset = h.LastOffset() + 1
				return s.replay(h, batch)
			})
			if err != nil {
				return fmt.Errorf("read %s-%d after offset %d: %w", offsetsTopicName, s.index, from, err)
			}
		}
		if offset == from {
			break // compaction has left nothing of the end
		}
		s.deliver()
	}
	if n := s.core.Skipped(); n > 0 {
		s.c.b.log.Warn("group coordinator left records alone that it does not know", "partition", s.index, "records", n)
	}
	return nil
}

// replay gives a batch to the core: committed offsets, those of an open
// transaction, or the marker that ends one.
func (s *shard) replay(h wire.Header, batch []byte) error {
	return wire.EachRecord(batch, func(r wire.Record) error {
		switch {
		case h.Control():
			// The key of a marker: version, then 0 for abort or 1 for commit.
			if len(r.Key) >= 4 && r.Key[2] == 0 && r.Key[3] <= 1 {
				s.core.ApplyMarker(h.ProducerID, r.Key[3] == 1)
			}
			return nil
		case h.Transactional():
			return s.core.ApplyTxn(h.ProducerID, group.Record{Key: r.Key, Value: r.Value})
		}
		return s.core.Apply(group.Record{Key: r.Key, Value: r.Value})
	})
}

// mailbox is a queue without an end. Each connection has one request in it at
// most (or the parts of one), which bounds it.
type mailbox struct {
	ready chan struct{}

	mu   sync.Mutex
	mail []letter
}

func (m *mailbox) put(l letter) {
	m.mu.Lock()
	m.mail = append(m.mail, l)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	mail := m.mail
	m.mail = nil
	return mail
}
