package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
)

// compactChunk is how much compaction does before it looks whether a journal
// segment waits to be settled: producers must never wait for compaction.
const compactChunk = 8 << 20

// keySum stands for a key. Kafka's cleaner uses MD5 in the same way.
type keySum [16]byte

func sumOf(key []byte) (s keySum) {
	full := sha256.Sum256(key)
	copy(s[:], full[:])
	return s
}

// errKeysFull ends the reading of keys: the pass covers what was read so far.
var errKeysFull = errors.New("the table of keys is full")

// compactAll compacts what is dirty enough. It says whether something is left
// for later.
func (k *keeper) compactAll(parts []*Partition, now time.Time) (again bool, err error) {
	for _, p := range parts {
		if k.stopping() {
			return false, nil
		}
		if k.l.ballast.spent.Load() {
			return true, err // it writes before it frees: not on a full disk
		}
		p.mu.Lock()
		plan := p.compaction(now.UnixMilli())
		p.mu.Unlock()
		if !plan.due {
			again = again || plan.dirty > 0 || plan.young
			continue
		}
		done, e := k.compact(p, plan, now.UnixMilli())
		if e != nil { // the others have their turn nevertheless
			err = errors.Join(err, fmt.Errorf("compact %s: %w", p.id, e))
		}
		again = again || !done || plan.young
	}
	return again, err
}

// compactionPlan is which segments a pass reads.
type compactionPlan struct {
	segments []segment // all that may be rewritten, oldest first
	from     int       // the first one of them that is dirty
	dirty    int64     // bytes
	due      bool
	young    bool // a segment waits for min.compaction.lag.ms
	start    int64
	cleaned  int64
	settings Settings
}

// compaction decides, under the lock, by Kafka's rules: never the active
// segment, none with records younger than min.compaction.lag.ms, and only when
// min.cleanable.dirty.ratio or max.compaction.lag.ms says so.
func (p *Partition) compaction(now int64) compactionPlan {
	c := compactionPlan{start: p.start, cleaned: p.cleaned, settings: p.settings}
	if !p.settings.Compact || p.removed || len(p.segments) < 2 {
		return c
	}
	c.segments = p.segments[:len(p.segments)-1]
	var clean int64
	late := false
	for i, s := range c.segments {
		if s.last < p.cleaned {
			clean += s.size
			c.from = i + 1
			continue
		}
		if lag := p.settings.MinCompactionLagMs; lag > 0 && s.age(now) < lag {
			c.segments, c.young = c.segments[:i], true
			break
		}
		c.dirty += s.size
		late = late || now-s.created > p.settings.MaxCompactionLagMs
	}
	if c.dirty > 0 {
		c.due = late || float64(c.dirty)/float64(c.dirty+clean) >= p.settings.MinDirtyRatio
	}
	return c
}

// compact rewrites the segments of a plan, so that of each key only the last
// record stays, and a tombstone only for delete.retention.ms. Offsets stay as
// they are. It is not done when the table of keys was too small for one pass.
func (k *keeper) compact(p *Partition, c compactionPlan, now int64) (done bool, err error) {
	keys := map[keySum]int64{}
	end := c.segments[len(c.segments)-1].last + 1
	for _, s := range c.segments[c.from:] {
		err := k.eachBatch(p, s, func(h wire.Header, batch []byte) error {
			if h.LastOffset() < c.cleaned {
				return nil // an earlier pass has seen it
			}
			if len(keys) >= k.l.cfg.CleanerKeys {
				end = h.BaseOffset
				return errKeysFull
			}
			return noteKeys(keys, h, batch)
		})
		if errors.Is(err, errKeysFull) {
			break
		}
		if err != nil {
			return false, err
		}
	}
	w := compactor{k: k, p: p, plan: c, keys: keys, end: end, now: now}
	if err := w.rewrite(); err != nil {
		w.abort()
		if errors.Is(err, ErrRemoved) || errors.Is(err, ErrClosed) {
			return true, nil
		}
		return false, err
	}
	p.mu.Lock()
	if p.removed {
		p.mu.Unlock()
		w.abort()
		return true, nil
	}
	p.segments = append(slices.Clone(w.out), p.segments[len(c.segments):]...)
	p.cleaned = end
	saved := sizeOf(c.segments) - sizeOf(w.out)
	// Or readers at the tail would go on seeing what is gone. An append may have
	// batches on both sides of end.
	p.chill(c.segments[len(c.segments)-1].last + 1)
	p.mu.Unlock()
	k.l.stats.compacted.Add(saved)
	k.discard(p, c.segments)
	return end > c.segments[len(c.segments)-1].last, k.save()
}

func sizeOf(segments []segment) (n int64) {
	for _, s := range segments {
		n += s.size
	}
	return n
}

// noteKeys remembers the offset of each key's last record.
func noteKeys(keys map[keySum]int64, h wire.Header, batch []byte) error {
	if h.Control() {
		return nil
	}
	var records []keyedRecord
	err := wire.EachRecord(batch, func(r wire.Record) error {
		if r.Key != nil {
			records = append(records, keyedRecord{sumOf(r.Key), r.Offset})
		}
		return nil
	})
	if opaque(err) {
		return nil // nor does it take the place of anything
	}
	for _, r := range records {
		keys[r.key] = r.offset
	}
	return err
}

type keyedRecord struct {
	key    keySum
	offset int64
}

// opaque says that the records of a batch, whose checksum is right, cannot be
// looked at: they decompress to too much, or their producer wrote nonsense,
// which only a topic that was compacted then refuses. It is kept as it is.
func opaque(err error) bool {
	return errors.Is(err, wire.ErrTooLarge) || errors.Is(err, wire.ErrCorrupt)
}

// compactor writes the segments of one pass.
type compactor struct {
	k    *keeper
	p    *Partition
	plan compactionPlan
	keys map[keySum]int64
	end  int64 // keys has what is below
	now  int64

	out   []segment
	buf   []byte
	index []byte
	since int // bytes since the last look for other work
}

func (w *compactor) rewrite() error {
	var gen uint32
	for _, s := range w.plan.segments {
		gen = max(gen, s.gen)
	}
	for _, s := range w.plan.segments {
		n := len(w.out)
		if n == 0 || w.out[n-1].size+s.size > w.plan.settings.SegmentBytes {
			if err := w.finish(); err != nil {
				return err
			}
			next := segment{base: s.base, gen: gen + 1, last: s.last, maxTs: -1, created: s.created}
			dirs := map[string]bool{}
			if err := w.k.makeSegment(w.p, next, dirs); err != nil {
				return err
			}
			w.out = append(w.out, next)
		}
		err := w.k.eachBatch(w.p, s, func(h wire.Header, batch []byte) error {
			if err := w.yield(len(batch)); err != nil {
				return err
			}
			kept, err := w.filter(h, batch)
			if err != nil || len(kept) == 0 {
				return err
			}
			return w.add(kept)
		})
		if err != nil {
			return err
		}
		w.out[len(w.out)-1].last = s.last
	}
	return w.finish()
}

// yield lets a journal segment be settled that waits.
func (w *compactor) yield(n int) error {
	if w.since += n; w.since < compactChunk {
		return nil
	}
	w.since = 0
	w.p.mu.Lock()
	removed := w.p.removed
	w.p.mu.Unlock()
	if removed {
		return ErrRemoved
	}
	if w.k.stopping() {
		return ErrClosed
	}
	return w.k.settleAll()
}

// filter gives what stays of a batch: the batch itself when that is all.
func (w *compactor) filter(h wire.Header, batch []byte) ([]byte, error) {
	if h.LastOffset() < w.plan.start {
		return nil, nil
	}
	// Behind the keys of this pass nothing goes: not a tombstone, which would leave
	// the values that it deletes.
	if h.Control() || h.BaseOffset >= w.end {
		return batch, nil
	}
	var kept []wire.Record
	total, tombstones := 0, false
	err := wire.EachRecord(batch, func(r wire.Record) error {
		total++
		if w.keeps(h, r) {
			kept = append(kept, r)
			tombstones = tombstones || r.Value == nil
		}
		return nil
	})
	if opaque(err) {
		return batch, nil
	}
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	horizon := int64(-1)
	switch {
	case h.DeleteHorizon():
		horizon = h.BaseTimestamp
	case tombstones:
		horizon = w.now + w.plan.settings.DeleteRetentionMs
	}
	if len(kept) == total && (horizon < 0 || h.DeleteHorizon()) {
		return batch, nil
	}
	return wire.Rebuild(h, horizon, kept)
}

// keeps says whether a record stays: it has a key, nothing newer has the same,
// and it is no tombstone whose time is over. A tombstone's time begins when
// compaction first meets it (KIP-534).
func (w *compactor) keeps(h wire.Header, r wire.Record) bool {
	if r.Key == nil || r.Offset < w.plan.start {
		return false
	}
	if newest, ok := w.keys[sumOf(r.Key)]; ok && newest > r.Offset {
		return false
	}
	return r.Value != nil || !h.DeleteHorizon() || w.now < h.BaseTimestamp
}

func (w *compactor) add(batch []byte) error {
	s := &w.out[len(w.out)-1]
	h, err := wire.ParseHeader(batch)
	if err != nil {
		return err
	}
	at := s.size + int64(len(w.buf))
	if s.indexed == 0 && len(w.index) == 0 || at-s.marked >= indexStep {
		w.index = appendIndexEntry(w.index, indexEntry{h.BaseOffset, at, s.maxTs})
		s.marked = at
	}
	w.buf = append(w.buf, batch...)
	s.maxTs = max(s.maxTs, h.MaxTimestamp)
	if len(w.buf) >= 1<<20 {
		return w.flush()
	}
	return nil
}

// flush writes what was collected.
func (w *compactor) flush() error {
	s := &w.out[len(w.out)-1]
	if err := w.write(w.p.logPath(*s), s.size, w.buf, false); err != nil {
		return err
	}
	if err := w.write(w.p.indexPath(*s), s.indexed*indexEntrySize, w.index, false); err != nil {
		return err
	}
	s.size += int64(len(w.buf))
	s.indexed += int64(len(w.index) / indexEntrySize)
	w.buf, w.index = w.buf[:0], w.index[:0]
	return nil
}

func (w *compactor) write(path string, off int64, b []byte, sync bool) error {
	h, err := w.k.files.acquire(path)
	if err != nil {
		return err
	}
	defer w.k.files.release(h)
	if len(b) > 0 {
		if err := h.file.WriteVec(off, b); err != nil {
			return err
		}
	}
	if sync {
		if err := h.file.Datasync(); err != nil {
			return err
		}
	}
	return nil
}

// finish makes the segment that is being written durable, or takes it away when
// nothing stayed.
func (w *compactor) finish() error {
	n := len(w.out)
	if n == 0 {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	s := w.out[n-1]
	if s.size == 0 {
		w.remove(s)
		w.out = w.out[:n-1]
		return nil
	}
	if err := w.write(w.p.logPath(s), 0, nil, true); err != nil {
		return err
	}
	if err := w.write(w.p.indexPath(s), 0, nil, true); err != nil {
		return err
	}
	dir := w.k.l.path(partitionsDir, w.p.dir())
	if err := w.k.l.fs.SyncDir(dir); err != nil {
		return err
	}
	return nil
}

// abort takes away what a pass wrote that did not end well.
func (w *compactor) abort() {
	for _, s := range w.out {
		w.remove(s)
	}
}

func (w *compactor) remove(s segment) {
	for _, path := range []string{w.p.logPath(s), w.p.indexPath(s)} {
		w.k.files.drop(path)
		w.k.removeFile(path)
	}
}

// eachBatch walks a segment, checking each batch against its checksum: what
// compaction writes anew must not hide that a byte has changed.
func (k *keeper) eachBatch(p *Partition, s segment, f func(wire.Header, []byte) error) error {
	begin, err := p.searchIndex(s, func(indexEntry) bool { return false })
	if err != nil {
		return err
	}
	return k.eachBatchFrom(p, s, begin, f)
}

// eachBatchFrom is eachBatch from a batch on that an index entry points to.
func (k *keeper) eachBatchFrom(p *Partition, s segment, begin indexEntry, f func(wire.Header, []byte) error) error {
	h, err := k.files.acquire(p.logPath(s))
	if err != nil {
		return err
	}
	defer k.files.release(h)
	w := &window{file: h.file, end: s.size}
	inOrder := orderFrom(s, begin)
	for pos := begin.pos; pos < s.size; {
		b, err := w.at(pos, wire.HeaderSize)
		if err == nil && len(b) == wire.HeaderSize {
			b, err = w.at(pos, int64(batchSize(b)))
		}
		if err != nil {
			return fmt.Errorf("read segment %s: %w", h.path, err)
		}
		head, err := wire.CheckStored(b)
		if err == nil {
			err = inOrder.check(head.BaseOffset, head.LastOffset())
		}
		if err != nil {
			return fmt.Errorf("segment %s at byte %d: %w: %w: restore it from a copy", h.path, pos, ErrCorrupt, err)
		}
		if err := f(head, b); err != nil {
			return err
		}
		pos += int64(head.Size())
	}
	return nil
}
