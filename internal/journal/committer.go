package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// pending is one entry on its way to the journal. kind 0 is written nowhere:
// an append that was refused, or a duplicate, that keeps its place in the row
// so that answers leave in order, and a duplicate not before its original.
type pending struct {
	kind   kind
	seal   bool // seal the active segment
	urgent bool // written also when the disk is full, into the space of the ballast
	p      *Partition
	body   []byte
	at     int64
	base   int64 // of kindStart: the new start
	last   int64
	maxTs  int64
	pos    int64 // of the body in the segment, once written
	undo   []producerUndo
	result Result

	done    func(Result) // of an append
	control func(error)  // of all others
}

const (
	// groupBytes bounds one write to the journal.
	groupBytes = 16 << 20
	// copyBelow: a body smaller than this is copied next to its header, so
	// that the write needs fewer and longer pieces.
	copyBelow = 8 << 10
	// copyMax bounds what one write copies so, and with it the buffer that the
	// committer keeps.
	copyMax = 1 << 20
)

// committer is the one writer of the journal: it takes everything that is
// queued, writes it once, syncs once, and releases all who wait for it. There
// is no linger: what comes while it syncs is the next group.
type committer struct {
	l       *Log
	stop    chan struct{}
	stopped chan struct{}
	err     error // of the last sync, when closing

	active    *journalSegment // nil until there is something to write
	lastSeq   uint64          // the newest sequence that was used
	prev      segmentHeader   // prevSeq and prevValid of the next segment
	rest      []pending       // taken from the queue, not yet written
	spare     []pending
	arena     []byte
	zeros     []byte // what a write ends with
	bufs      [][]byte
	wakes     []*waiter
	hot       hotQueue
	syncTimer *time.Timer // FlushInterval: runs while something is not synced
}

func (c *committer) run() {
	defer close(c.stopped)
	c.syncTimer = time.NewTimer(time.Hour)
	c.syncTimer.Stop()
	for {
		select {
		case <-c.l.wake:
			c.drain()
		case <-c.syncTimer.C:
			c.syncInterval()
		case <-c.stop:
			c.drain()
			c.err = c.finish()
			return
		}
	}
}

// drain writes until the queue is empty.
func (c *committer) drain() {
	for {
		c.l.queueMu.Lock()
		c.rest, c.l.queue = c.l.queue, c.spare[:0]
		c.l.queueMu.Unlock()
		taken := c.rest
		if len(taken) == 0 {
			c.spare = taken
			return
		}
		for len(c.rest) > 0 {
			n, bytes := 0, 0
			for n < len(c.rest) && (n == 0 || bytes+len(c.rest[n].body) <= groupBytes) {
				bytes += len(c.rest[n].body) + entryHeaderSize
				n++
			}
			group := c.rest[:n]
			c.rest = c.rest[n:]
			c.commit(group, int64(bytes))
		}
		clear(taken)
		c.spare = taken
		if cap(taken) > 4096 {
			c.spare = nil
		}
	}
}

// commit makes a group durable and publishes it, or fails it.
func (c *committer) commit(group []pending, bytes int64) {
	seal := slices.ContainsFunc(group, func(e pending) bool { return e.seal })
	if slices.ContainsFunc(group, func(e pending) bool { return e.kind != 0 }) {
		err := c.admit(group)
		if err == nil {
			err = c.write(group, bytes)
		}
		if full(err) && c.l.spares.clear(c.l) {
			err = c.write(group, bytes)
		}
		if full(err) {
			group, err = c.saveUrgent(group, err)
		}
		if err != nil {
			c.failFull(group, err)
			return
		}
	}
	c.publish(group)
	if seal {
		c.seal()
	}
}

// admit refuses a group with ordinary appends while the ballast is spent.
func (c *committer) admit(group []pending) error {
	if c.l.ballast.spent.Load() && slices.ContainsFunc(group, func(e pending) bool { return e.ordinary() }) {
		return c.l.ballast.refused()
	}
	return nil
}

// saveUrgent fails what need not be written to a full disk, and writes the
// rest into the space of the ballast. It answers what is left of the group.
//
// An urgent append goes down with an ordinary one of its partition, whose
// offsets it may continue. The other urgent entries stand on no offset that is
// not durable: a producer that goes on trying cannot keep its topic from being
// removed.
func (c *committer) saveUrgent(group []pending, cause error) ([]pending, error) {
	hit := map[*Partition]bool{}
	for _, e := range group {
		hit[e.p] = hit[e.p] || e.kind == kindData && !e.urgent
	}
	var urgent, others []pending
	worth := false
	for _, e := range group {
		if e.ordinary() || hit[e.p] && e.numbered() {
			others = append(others, e)
			continue
		}
		urgent = append(urgent, e)
		worth = worth || e.kind != 0
	}
	if !worth {
		return group, cause
	}
	b := &c.l.ballast
	b.turn <- struct{}{} // so that the keeper does not fill what is given up
	defer func() { <-b.turn }()
	if !b.spend() {
		return group, cause
	}
	if len(others) > 0 {
		c.failFull(others, cause)
	}
	// Without makeRoom: what cannot be settled for want of space must not keep
	// away what makes space. The ballast bounds it.
	err := c.put(urgent)
	signal(c.l.k.wake)
	return urgent, err
}

// ordinary says that an entry is not written to a full disk.
func (e *pending) ordinary() bool { return e.kind != 0 && !e.urgent }

// numbered says that an entry stands on offsets: an append, or the answer to
// one that may be the repetition of an append in the same group.
func (e *pending) numbered() bool { return e.kind == kindData || e.kind == 0 && e.p != nil }

func (c *committer) failFull(group []pending, err error) {
	c.l.stats.failures.Add(1)
	c.fail(group, fmt.Errorf("%w: %w: free space, or replace the disk, under %s", ErrFull, err, c.l.cfg.Dir))
}

// write puts the group into the active segment, as durable as the policy
// wants. After an error nothing of the group counts.
func (c *committer) write(group []pending, bytes int64) error {
	if err := c.makeRoom(bytes); err != nil {
		return err
	}
	return c.put(group)
}

// put is write without looking for room in the journal.
func (c *committer) put(group []pending) error {
	if c.active != nil && c.active.size >= c.l.cfg.SegmentBytes {
		c.seal()
	}
	if c.active == nil {
		if err := c.create(); err != nil {
			return err
		}
	}
	seg := c.active
	end := c.encode(group)
	err := c.writeOut(end)
	clear(c.bufs)
	if err != nil {
		seg.length = min(seg.length, seg.size)
		if truncErr := seg.file.Truncate(seg.size); truncErr != nil {
			c.abandon()
			return errors.Join(err, truncErr)
		}
		return err
	}
	c.l.stats.groups.Add(1)
	if err := c.settleDurability(end); err != nil {
		c.abandon()
		return err
	}
	c.l.stats.unsettled.Add(end - seg.size)
	seg.size = end
	return nil
}

// writeOut writes what encode has laid out, and zeros behind it.
func (c *committer) writeOut(end int64) error {
	seg := c.active
	if more := c.ahead(end); more > 0 {
		err := seg.file.WriteVec(seg.size, append(c.bufs, c.zeros[:more])...)
		if err == nil {
			seg.length = max(seg.length, end+more)
		}
		if !full(err) {
			return err
		}
		// Once more without the zeros, which need not be there.
	}
	err := seg.file.WriteVec(seg.size, c.bufs...)
	if err == nil {
		seg.length = max(seg.length, end)
	}
	return err
}

// settleDurability does what the policy asks for after a write up to end.
func (c *committer) settleDurability(end int64) error {
	seg := c.active
	switch c.l.cfg.Flush {
	case FlushAlways:
		if err := c.sync(end); err != nil {
			return err
		}
	case FlushInterval:
		if seg.durable == seg.size {
			c.syncTimer.Reset(c.l.cfg.FlushInterval)
		}
	}
	if !seg.linked {
		if err := c.l.fs.SyncDir(c.l.path(journalDir)); err != nil {
			return err
		}
		seg.linked = true
	}
	return nil
}

// sync makes the active segment durable up to end.
func (c *committer) sync(end int64) error {
	c.l.stats.syncs.Add(1)
	if err := c.active.file.Datasync(); err != nil {
		return err
	}
	c.active.durable = end
	return nil
}

// syncInterval is FlushInterval's sync. A failure fails nobody: those appends
// were acknowledged when they were written. But the segment is not trusted
// with more.
func (c *committer) syncInterval() {
	if c.active == nil || c.active.durable == c.active.size {
		return
	}
	if err := c.sync(c.active.size); err != nil {
		c.l.cfg.Logger.Error("records of the last flush interval may not be on the disk", "err", err)
		c.retire(c.active.size)
	}
}

// seal ends the active segment and hands it to the keeper. It is durable
// before the next segment exists, whatever the policy, so that only the last
// segment can ever be torn.
func (c *committer) seal() {
	if c.active == nil || c.active.size == 0 {
		return
	}
	c.retire(c.active.size)
}

// abandon gives up the active segment after a failure: what was acknowledged
// stays, the rest does not count. The next segment will say so.
func (c *committer) abandon() {
	valid := c.active.size
	c.active.suspect = true
	if valid == 0 {
		// Never held anything: as if it had not been there.
		seg := c.active
		c.active = nil
		c.l.segments.drop(seg)
		if err := c.l.fs.Remove(c.l.journalPath(seg.seq)); err != nil {
			c.l.cfg.Logger.Warn("an empty journal segment could not be removed; it will be at the next start", "err", err)
		}
		return
	}
	c.retire(valid)
}

func (c *committer) retire(valid int64) {
	seg := c.active
	if seg.durable < valid { // only without FlushAlways
		if err := c.sync(valid); err != nil {
			c.l.cfg.Logger.Error("records that were not yet synced may not be on the disk", "err", err)
		}
	}
	c.active = nil
	seg.size = valid
	c.prev = segmentHeader{prevSeq: seg.seq, prevValid: uint64(valid)}
	c.l.k.take(seg)
}

// create makes the file of the next segment, or takes one that was used before.
// The header goes with the first group, so a segment costs no sync of its own.
func (c *committer) create() error {
	c.lastSeq++
	seg := &journalSegment{seq: c.lastSeq}
	if err := c.reuse(seg); err != nil {
		return err
	}
	if seg.file == nil {
		f, err := c.l.fs.Create(c.l.journalPath(seg.seq))
		if err != nil {
			return err
		}
		seg.file = f
	}
	c.active = seg
	c.l.segments.add(seg)
	return nil
}

// encode lays the group out as it will stand in the segment, in c.bufs, and
// gives the position after it.
func (c *committer) encode(group []pending) int64 {
	seg := c.active
	need := segmentHeaderSize + entryHeaderSize*len(group)
	copied := 0
	for i := range group {
		if n := len(group[i].body); n < copyBelow && copied+n <= copyMax {
			copied += n
		}
	}
	need += copied
	left := copied
	// The arena must not move while c.bufs points into it.
	c.arena = slices.Grow(c.arena[:0], need)
	c.bufs = c.bufs[:0]
	from := 0
	pos := seg.size
	if pos == 0 {
		c.arena = appendSegmentHeader(c.arena, segmentHeader{seq: seg.seq, prevSeq: c.prev.prevSeq, prevValid: c.prev.prevValid})
		pos = segmentHeaderSize
	}
	for i := range group {
		e := &group[i]
		if e.kind == 0 {
			continue
		}
		if e.at == 0 {
			e.at = wallMs()
		}
		c.arena = appendEntryHeader(c.arena, entryHeader{
			seq: uint32(seg.seq), kind: e.kind, length: uint32(len(e.body)), number: e.p.number,
			synced: uint64(seg.durable), at: e.at, body: bodySum(e.kind, e.body),
		})
		e.pos = pos + entryHeaderSize
		pos = e.pos + int64(len(e.body))
		if n := len(e.body); n < copyBelow && n <= left {
			c.arena = append(c.arena, e.body...)
			left -= n
			continue
		}
		c.bufs = append(c.bufs, c.arena[from:len(c.arena):len(c.arena)], e.body)
		from = len(c.arena)
	}
	if from < len(c.arena) {
		c.bufs = append(c.bufs, c.arena[from:])
	}
	return pos
}

// publish makes a durable group visible, then tells everybody.
func (c *committer) publish(group []pending) {
	l := c.l
	written := false
	for i := range group {
		e := &group[i]
		written = written || e.kind != 0
		switch e.kind {
		case kindData:
			c.wakes = e.p.publish(e, c.active, c.wakes)
			l.stats.appends.Add(1)
			l.stats.appendedBytes.Add(int64(len(e.body)))
			c.hot.push(hotRef{e.p, e.base, int64(len(e.body))})
			l.stats.hot.Add(int64(len(e.body)))
		case kindCreate:
			l.mu.Lock()
			l.parts[e.p.id], l.numbers[e.p.number] = e.p, e.p
			l.mu.Unlock()
		case kindRemove:
			l.mu.Lock()
			// Two Removes of one partition may be queued; an ID may be in use again.
			if l.parts[e.p.id] == e.p {
				delete(l.parts, e.p.id)
			}
			delete(l.numbers, e.p.number)
			l.mu.Unlock()
			c.wakes = e.p.remove(c.wakes)
			l.k.forget(e.p)
		case kindStart:
			e.p.raiseStart(e.base)
			l.k.trim(e.p)
		case 0:
			if e.done != nil && e.result.Err == nil {
				e.result.LogStart = e.p.Start()
			}
		}
	}
	for i := range group {
		group[i].release(nil)
	}
	for _, w := range c.wakes {
		w.wake()
	}
	clear(c.wakes)
	c.wakes = c.wakes[:0]
	for l.stats.hot.Load() > l.cfg.HotBytes {
		r, ok := c.hot.pop()
		if !ok {
			break
		}
		r.p.cool(r.base)
		l.stats.hot.Add(-r.size)
	}
	if written {
		l.k.noticed() // not of a seal: the keeper asks for those itself
	}
}

// release tells the one who waits for an entry.
func (e *pending) release(err error) {
	switch {
	case e.control != nil:
		e.control(err)
	case e.done != nil:
		if err != nil && e.result.Err == nil {
			e.result = Result{Base: -1, Last: -1, LogAppendTime: -1, Err: err}
		}
		e.done(e.result)
	}
}

// fail fails a group, and with it every append queued behind it for the same
// partitions: their offsets continue those that were not written. Other
// partitions are not touched.
func (c *committer) fail(group []pending, err error) {
	hit := map[*Partition]bool{}
	for i := range group {
		if group[i].kind == kindData {
			hit[group[i].p] = true
		}
	}
	locked := make([]*Partition, 0, len(hit))
	for p := range hit {
		locked = append(locked, p)
	}
	// Only the committer ever holds two of these locks.
	slices.SortFunc(locked, func(a, b *Partition) int { return cmp.Compare(a.number, b.number) })
	for _, p := range locked {
		p.mu.Lock()
	}
	failed := slices.Clone(group)
	c.l.queueMu.Lock()
	failed, c.rest = split(failed, c.rest, hit)
	failed, c.l.queue = split(failed, c.l.queue, hit)
	c.l.queueMu.Unlock()
	for i := len(failed) - 1; i >= 0; i-- {
		if e := &failed[i]; e.kind == kindData {
			e.p.takeBack(e.undo)
		}
	}
	for _, p := range locked {
		p.leo = p.hw
		p.epochs.cut(max(p.hw, p.start+1))
		p.mu.Unlock()
	}
	for i := range failed {
		failed[i].release(err)
	}
}

// split moves the entries of some partitions from a queue behind failed.
func split(failed, queue []pending, hit map[*Partition]bool) (moved, kept []pending) {
	kept = queue[:0]
	for _, e := range queue {
		if hit[e.p] && e.numbered() {
			failed = append(failed, e)
		} else {
			kept = append(kept, e)
		}
	}
	clear(queue[len(kept):])
	return failed, kept
}

// makeRoom waits until the journal may take bytes more.
func (c *committer) makeRoom(bytes int64) error {
	l := c.l
	for l.stats.unsettled.Load()+bytes > l.cfg.UnsettledMax {
		c.seal()
		if waited, err := l.k.waitForRoom(); err != nil {
			return fmt.Errorf("the journal has %d bytes that could not be settled: %w", l.stats.unsettled.Load(), err)
		} else if !waited {
			return nil // one group larger than the bound: it must fit alone
		}
	}
	return nil
}

// finish makes everything durable and notes that the log was closed in order,
// which lets the next start tell a changed byte from a torn tail.
func (c *committer) finish() error {
	seg := c.active
	if seg == nil || seg.size == 0 {
		return nil
	}
	if seg.durable < seg.size {
		if err := c.sync(seg.size); err != nil {
			return err
		}
	}
	h := entryHeader{seq: uint32(seg.seq), kind: kindClosed, synced: uint64(seg.durable), at: wallMs(), body: bodySum(kindClosed, nil)}
	end := seg.size + entryHeaderSize
	err := seg.file.WriteVec(seg.size, appendEntryHeader(nil, h))
	if err == nil && seg.length > end {
		err = seg.file.Truncate(end)
	}
	if err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return c.sync(end)
}

// hotQueue is the order in which appends leave the memory.
type hotQueue struct {
	refs []hotRef
	head int
}

type hotRef struct {
	p    *Partition
	base int64
	size int64
}

func (q *hotQueue) push(r hotRef) { q.refs = append(q.refs, r) }

func (q *hotQueue) pop() (hotRef, bool) {
	if q.head == len(q.refs) {
		return hotRef{}, false
	}
	r := q.refs[q.head]
	q.refs[q.head] = hotRef{}
	q.head++
	if q.head == len(q.refs) || q.head > 1024 && q.head > len(q.refs)/2 {
		q.refs = slices.Delete(q.refs, 0, q.head)
		q.head = 0
	}
	return r, true
}
