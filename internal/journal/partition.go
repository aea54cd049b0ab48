package journal

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/rondo-streams/rondo/internal/wire"
)

// Partition is one partition's log. Its methods are safe from many goroutines.
// Those that wait for the disk are DeleteRecords, reads behind the tail, and
// look-ups by time.
type Partition struct {
	l      *Log
	id     ID
	number uint32 // its name in the journal, never used again

	mu             sync.Mutex
	settings       Settings
	start          int64 // first offset, moved by retention and DeleteRecords
	hw             int64 // end of what is acknowledged; readers see up to here
	leo            int64 // end of what has an offset
	removed        bool
	ended          bool // the log was closed
	hot            []hotBatch
	extents        []extent  // in the journal: from the end of the segments to hw
	unsettledSince int64     // wall clock of the oldest extent
	segments       []segment // settled; replaced, never changed in place
	settled        int64     // end of the segments
	cleaned        int64     // compaction has seen everything below
	producers      producers
	uses           []use // oldest first; nil while nobody asks for the order
	counted        int   // producers in the log's count
	displaced      []displaced
	epochs         epochs
	waiters        []*waiter
}

// hotBatch is one append kept in memory.
type hotBatch struct {
	base, last int64
	data       []byte
}

// extent is where one append stands in the journal.
type extent struct {
	base, last int64
	maxTs      int64
	seq        uint32
	pos        uint32
	size       uint32
}

type waiter struct {
	from int64
	wake func()
}

func newPartition(l *Log, id ID, number uint32, s Settings) *Partition {
	return &Partition{l: l, id: id, number: number, settings: s}
}

// ID names the partition.
func (p *Partition) ID() ID { return p.id }

// Start is the offset of the first record.
func (p *Partition) Start() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start
}

// End is the log end offset: the offset that the next record gets.
func (p *Partition) End() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leo
}

// HighWatermark is the end of what was acknowledged, and so of what can be
// read.
func (p *Partition) HighWatermark() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hw
}

// Size is the size of all batches in bytes.
func (p *Partition) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var n int64
	for _, s := range p.segments {
		n += s.size
	}
	for _, e := range p.extents {
		n += int64(e.size)
	}
	return n
}

// Settings are the topic's settings as the log knows them.
func (p *Partition) Settings() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// Configure changes the settings at once. They are noted in the journal, but
// nobody waits for it: the topic's owner keeps them too, and sets them again
// when it starts.
func (p *Partition) Configure(s Settings) {
	s = s.withDefaults()
	p.mu.Lock()
	same := p.settings == s
	p.settings = s
	p.mu.Unlock()
	if same {
		return
	}
	// A closed log has nobody left to tell.
	_ = p.l.enqueue(pending{kind: kindSettings, p: p, body: appendSettings(nil, s), control: func(error) {}})
	signal(p.l.k.wake)
}

// Producers lists the idempotent producers that are remembered, by id.
func (p *Partition) Producers() []ProducerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := make([]ProducerState, 0, len(p.producers))
	for id, s := range p.producers {
		st := ProducerState{ID: id, Epoch: s.epoch, LastSequence: -1, LastOffset: -1, LastTimestamp: s.seen, TxnStart: -1}
		if b, ok := s.newest(); ok {
			st.LastSequence, st.LastOffset = b.lastSeq, b.last
		}
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b ProducerState) int { return compareInts(a.ID, b.ID) })
	return states
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// EpochAt is the leader epoch of the record at an offset or of the last one
// before it; false when the log has none.
func (p *Partition) EpochAt(offset int64) (int32, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epochs.at(offset)
}

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch that is not above
// the asked one, and the offset after its last record; -1, -1 when the epoch is
// newer than the log.
func (p *Partition) EpochEnd(epoch int32) (atEpoch int32, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epochs.end(epoch, p.leo)
}

// Wait calls wake once as soon as there is something to read at from: when the
// high watermark is above it, at once if it is already; or when the partition
// is removed, the log closed, or somebody stirs. wake must not block. cancel takes the order
// back; wake may be running by then.
func (p *Partition) Wait(from int64, wake func()) (cancel func()) {
	p.mu.Lock()
	if p.hw > from || p.removed || p.ended {
		p.mu.Unlock()
		wake()
		return func() {}
	}
	w := &waiter{from, wake}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.waiters, w); i >= 0 {
			p.waiters = slices.Delete(p.waiters, i, i+1)
		}
	}
}

// Stir wakes everybody who waits, as if there were something to read: what they
// wait for may have changed in another way.
func (p *Partition) Stir() {
	p.mu.Lock()
	waiters := p.ready(true, nil)
	p.mu.Unlock()
	for _, w := range waiters {
		w.wake()
	}
}

// ready takes out the waiters that the high watermark has passed, or all.
func (p *Partition) ready(all bool, dst []*waiter) []*waiter {
	if len(p.waiters) == 0 {
		return dst
	}
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if all || p.hw > w.from {
			dst = append(dst, w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
	return dst
}

// end wakes everybody: the log is closed.
func (p *Partition) end() {
	p.mu.Lock()
	p.ended = true
	waiters := p.ready(true, nil)
	p.mu.Unlock()
	for _, w := range waiters {
		w.wake()
	}
}

// DeleteRecords makes before the first offset of the log; -1 means the high
// watermark. An offset below the start changes nothing. It gives the start
// offset, which is durable when it returns.
func (p *Partition) DeleteRecords(before int64) (low int64, err error) {
	p.mu.Lock()
	start, hw, removed := p.start, p.hw, p.removed
	p.mu.Unlock()
	switch {
	case removed:
		return 0, ErrRemoved
	case before == -1:
		before = hw
	case before < 0 || before > hw:
		return start, fmt.Errorf("delete records of %s before %d: %w: the high watermark is %d", p.id, before, ErrOffsetOutOfRange, hw)
	}
	if before <= start {
		return start, nil
	}
	if err := p.l.control(startEntry(p, before)); err != nil {
		return start, fmt.Errorf("delete records of %s before %d: %w", p.id, before, err)
	}
	return p.Start(), nil
}

func startEntry(p *Partition, start int64) pending {
	return pending{kind: kindStart, urgent: true, p: p, base: start, body: binary.LittleEndian.AppendUint64(nil, uint64(start))}
}

// raiseStart applies a durable start offset.
func (p *Partition) raiseStart(start int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if start <= p.start {
		return
	}
	p.start = start
	p.epochs.trim(start)
	p.chill(start)
}

// chill forgets, under the lock, the appends in memory that end before an
// offset.
func (p *Partition) chill(before int64) {
	for len(p.hot) > 0 && p.hot[0].last < before {
		p.hot[0] = hotBatch{}
		p.hot = p.hot[1:]
	}
}

// Append is one append: see Partition.Append.
type Append struct {
	// Batches are whole v2 batches that passed wire.CheckBatch. The log owns
	// them from now on: it writes offsets into them, and gives them to readers.
	Batches []byte
	// LogAppendTime gives every record the broker's time
	// (message.timestamp.type=LogAppendTime).
	LogAppendTime bool
	LeaderEpoch   int32
	// Internal appends (coordinators, metadata) are not held against the table
	// of idempotent producers.
	Internal bool
	// Urgent appends are written also when the disk is full, into the space of
	// the ballast: what has to be noted so that something can be removed.
	Urgent bool
}

// Result is what became of an append.
type Result struct {
	Base, Last    int64 // offsets of the first and the last record
	LogAppendTime int64 // milliseconds, -1 when the producer's timestamps stand
	LogStart      int64 // first offset of the log
	// Duplicate: an idempotent producer sent this batch before; Base and Last
	// are where it stands since then, and nothing was appended.
	Duplicate bool
	// Err: ErrOutOfOrderSequence, ErrProducerFenced, ErrInvalidBatch, ErrFull,
	// ErrRemoved, ErrClosed. Base is -1 then.
	Err error
}

// Append gives batches the next offsets of the partition, in the order of
// calls, and queues them. It does not wait: done is called exactly once, from
// the log's committer, in the order of Append, when the batches are as durable
// as Config.Flush wants or when that failed; only on a log that is closed it is
// called before Append returns. done must not block, since every other append
// waits behind it.
func (p *Partition) Append(a Append, done func(Result)) {
	now := wallMs()
	p.mu.Lock()
	err := p.l.enqueue(p.entry(a, done, now))
	if err != nil {
		// Closed: what assign changed will never be looked at again.
		p.mu.Unlock()
		done(failed(err))
		return
	}
	p.mu.Unlock()
}

// assign checks an append, gives it its offsets and notes what that changed.
// Nothing has changed when it fails.
func (p *Partition) assign(e *pending, a Append) (err error) {
	if p.removed {
		return fmt.Errorf("append to %s: %w", p.id, ErrRemoved)
	}
	if len(a.Batches) == 0 {
		return fmt.Errorf("append to %s: %w: no batch", p.id, ErrInvalidBatch)
	}
	leo := p.leo
	defer func() {
		if err != nil {
			p.takeBack(e.undo)
			e.undo, p.leo = nil, leo
		}
	}()
	e.base, e.maxTs = leo, -1
	e.result = Result{Base: leo, LogAppendTime: -1}
	if a.LogAppendTime {
		e.result.LogAppendTime = e.at
	}
	for rest := a.Batches; len(rest) > 0; {
		h, err := wire.ParseHeader(rest)
		if err != nil || h.Size() > len(rest) {
			return fmt.Errorf("append to %s: %w: batch at byte %d", p.id, ErrInvalidBatch, len(a.Batches)-len(rest))
		}
		if h.ProducerID >= 0 && !h.Control() && !a.Internal {
			dup, is, err := p.producers[h.ProducerID].check(h)
			if err != nil {
				return fmt.Errorf("append to %s: %w", p.id, err)
			}
			if is && len(rest) == len(a.Batches) {
				e.kind, e.undo = 0, nil
				e.result = Result{Base: dup.base, Last: dup.last, LogAppendTime: dup.timestamp, Duplicate: true}
				return nil
			}
			undo := p.remember(h, p.leo, p.leo+int64(h.LastOffsetDelta), e.result.LogAppendTime, e.at)
			e.undo = append(e.undo, undo)
			if undo.was != nil {
				p.displaced = append(p.displaced, displaced{p.leo, undo.forgot, undo.was})
			}
		}
		wire.PatchBase(rest, p.leo, a.LeaderEpoch)
		if a.LogAppendTime {
			wire.PatchAppendTime(rest, e.at)
			h.MaxTimestamp = e.at
		}
		e.maxTs = max(e.maxTs, h.MaxTimestamp)
		p.leo += int64(h.LastOffsetDelta) + 1
		rest = rest[h.Size():]
	}
	p.epochs.assign(a.LeaderEpoch, leo)
	e.kind, e.urgent, e.body, e.last = kindData, a.Urgent, a.Batches, p.leo-1
	e.result.Last = e.last
	return nil
}

// publish makes a durable append readable.
func (p *Partition) publish(e *pending, seg *journalSegment, wake []*waiter) []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.result.LogStart = p.start
	if p.removed {
		return wake
	}
	if n := len(p.extents); n == 0 || p.extents[n-1].seq != uint32(seg.seq) {
		seg.touched = append(seg.touched, p)
	}
	if len(p.extents) == 0 {
		p.unsettledSince = e.at
	}
	p.extents = append(p.extents, extent{base: e.base, last: e.last, maxTs: e.maxTs, seq: uint32(seg.seq), pos: uint32(e.pos), size: uint32(len(e.body))})
	p.hot = append(p.hot, hotBatch{e.base, e.last, e.body})
	p.hw = e.last + 1
	for len(p.displaced) > 0 && p.displaced[0].at <= e.last {
		p.displaced = p.displaced[1:]
	}
	return p.ready(false, wake)
}

// cool forgets the append at base, which is the oldest one in memory.
func (p *Partition) cool(base int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.hot) > 0 && p.hot[0].base <= base {
		p.hot[0] = hotBatch{}
		p.hot = p.hot[1:]
	}
	if len(p.hot) == 0 {
		p.hot = nil
	}
}

// remove ends the partition and wakes everybody who waits for it.
func (p *Partition) remove(wake []*waiter) []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = true
	p.hot, p.producers, p.uses, p.displaced = nil, nil, nil, nil
	p.countProducers()
	return p.ready(true, wake)
}
