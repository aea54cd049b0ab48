package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// retryAfter is how long the keeper waits after a failure of the disk.
const retryAfter = time.Second

// keeper does everything that nobody waits for, one thing at a time: it settles
// sealed journal segments, writes checkpoints, drops what is no longer needed,
// applies retention and compacts. Nothing but the keeper changes
// Partition.segments and the files of partitions.
type keeper struct {
	l       *Log
	stop    chan struct{}
	stopped chan struct{}
	wake    chan struct{}
	files   openSet

	mu        sync.Mutex
	sealed    []*journalSegment // oldest first
	removed   []*Partition      // their files can go after the next checkpoint
	trims     []*Partition      // their start has moved
	failure   error             // of the last try to settle
	looked    error             // of the last try to compact
	failedAt  time.Time
	rooms     []chan error      // committers that wait for one try
	changed   bool              // something was appended since the last look
	first     uint64            // the oldest journal segment that a start must replay
	settled   []*journalSegment // copied; dropped after the next checkpoint
	garbage   []string          // files that the next checkpoint will not name any more
	orphans   []string          // files that a start found and no checkpoint names
	known     map[string]bool   // directories of partitions that are there
	unsaved   bool              // a checkpoint is due
	nextLook  time.Time         // for retention
	nextClean time.Time         // for compaction; zero: nothing to compact
}

// take queues a sealed segment.
func (k *keeper) take(seg *journalSegment) {
	k.mu.Lock()
	k.sealed = append(k.sealed, seg)
	k.mu.Unlock()
	signal(k.wake)
}

// forget queues a removed partition.
func (k *keeper) forget(p *Partition) {
	k.mu.Lock()
	k.removed = append(k.removed, p)
	k.mu.Unlock()
	signal(k.wake)
}

// noticed says that something was appended. Only the first call after a look
// wakes the keeper, which then sets its timer.
func (k *keeper) noticed() {
	k.mu.Lock()
	first := !k.changed
	k.changed = true
	k.mu.Unlock()
	if first {
		signal(k.wake)
	}
}

// waitForRoom waits until the keeper has tried to settle what is sealed; it
// gives that try's error. It is false when there is nothing to wait for.
func (k *keeper) waitForRoom() (bool, error) {
	k.mu.Lock()
	if len(k.sealed) == 0 && len(k.settled) == 0 {
		k.mu.Unlock()
		return false, nil
	}
	if k.failure != nil && time.Since(k.failedAt) < retryAfter {
		// Not again for each append: the disk is not better yet.
		defer k.mu.Unlock()
		return true, k.failure
	}
	ch := make(chan error, 1)
	k.rooms = append(k.rooms, ch)
	k.mu.Unlock()
	signal(k.wake)
	return true, <-ch
}

func (k *keeper) run() {
	defer close(k.stopped)
	k.sweep()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		if next, ok := k.next(); ok {
			timer.Reset(time.Until(next))
		} else {
			timer.Stop()
		}
		select {
		case <-k.stop:
			return
		case <-k.wake:
		case <-timer.C:
		}
		k.work()
	}
}

// next is when the keeper must wake by itself. An idle log has nothing to wake
// for.
func (k *keeper) next() (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure != nil || k.l.ballast.spent.Load() {
		return k.failedAt.Add(retryAfter), true
	}
	next := k.nextLook
	if next.IsZero() || !k.nextClean.IsZero() && k.nextClean.Before(next) {
		next = k.nextClean
	}
	return next, !next.IsZero()
}

// work does what is due. A failure is kept until the next try has succeeded,
// logged once, and told to a committer that waits for room.
func (k *keeper) work() {
	err := k.try()
	if err == nil && !full(k.looked) {
		k.l.ballast.keep()
	}
	k.l.ballast.lack(err)
	k.mu.Lock()
	before := k.failure
	k.failure, k.failedAt = err, time.Now()
	rooms := k.rooms
	k.rooms = nil
	k.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) {
		k.l.cfg.Logger.Error("the journal cannot be settled; appends go on until it is full", "err", err,
			"unsettled", k.l.stats.unsettled.Load(), "limit", k.l.cfg.UnsettledMax)
	} else if err == nil && before != nil {
		k.l.cfg.Logger.Info("the journal can be settled again")
	}
	for _, ch := range rooms {
		ch <- err
	}
}

// try does everything once. Settling may fail for want of space that retention
// and removed partitions are about to give back, so each has its turn.
func (k *keeper) try() error {
	var early error
	if k.l.ballast.spent.Load() {
		// What is left of the ballast is for the checkpoint, and that makes room
		// for the rest: a copy would eat it up and not be done.
		k.applyTrims()
		early = k.save()
		// And what was removed may be in the active segment. A closed log needs
		// no seal.
		_ = k.l.enqueue(pending{seal: true})
	}
	settled, saved := k.round()
	if full(errors.Join(settled, saved, k.looked)) && k.l.spares.clear(k.l) {
		settled, saved = k.round()
	}
	if full(saved) && k.l.ballast.spend() {
		saved = k.save()
	}
	if saved == nil {
		early = nil
	}
	return errors.Join(early, settled, saved)
}

func (k *keeper) round() (settled, saved error) {
	settled = k.settleAll()
	k.look()
	return settled, k.save()
}

// note logs an error of compaction, once. No append waits for compaction, so
// none fails with it.
func (k *keeper) note(err error) {
	if err != nil && (k.looked == nil || k.looked.Error() != err.Error()) {
		k.l.cfg.Logger.Error("a partition cannot be compacted; its records stay, and it is tried again", "err", err)
	}
	k.looked = err
}

// stopping says that Close was called: long work ends early.
func (k *keeper) stopping() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

// settleAll settles every sealed segment and drops it.
func (k *keeper) settleAll() error {
	for !k.stopping() {
		k.mu.Lock()
		if len(k.sealed) == 0 {
			k.mu.Unlock()
			return nil
		}
		seg := k.sealed[0]
		k.mu.Unlock()
		if err := k.settle(seg); err != nil {
			return fmt.Errorf("settle journal segment %s: %w", journalName(seg.seq), err)
		}
		k.mu.Lock()
		k.sealed = k.sealed[1:]
		k.settled = append(k.settled, seg)
		k.first = seg.seq + 1
		k.unsaved = true
		k.mu.Unlock()
		if err := k.save(); err != nil {
			return err
		}
	}
	return nil
}

// save writes a checkpoint when one is due, and then takes away what no start
// needs any more.
func (k *keeper) save() error {
	k.mu.Lock()
	removed := k.removed
	k.removed = nil
	due := k.unsaved || len(removed) > 0
	k.mu.Unlock()
	if !due {
		return nil
	}
	if err := k.l.writeCheckpoint(k.first); err != nil {
		k.mu.Lock()
		k.removed = append(removed, k.removed...)
		k.mu.Unlock()
		return err
	}
	k.mu.Lock()
	k.unsaved = false
	settled, garbage := k.settled, k.garbage
	k.settled, k.garbage = nil, nil
	k.mu.Unlock()
	for _, seg := range settled {
		path := k.l.journalPath(seg.seq)
		if closed := k.l.segments.drop(seg); !closed || seg.suspect || !k.l.spares.keep(k.l, path, seg.length) {
			k.removeFile(path)
		}
		k.l.stats.unsettled.Add(-seg.size)
		k.l.stats.settled.Add(1)
	}
	for _, path := range garbage {
		k.files.drop(path)
		k.removeFile(path)
	}
	for _, p := range removed {
		k.removeDir(k.l.path(partitionsDir, p.dir()))
		delete(k.known, p.dir())
	}
	return nil
}

// sweep removes what a start found that nothing names. It comes before the
// first settling, which may make files of the same names.
func (k *keeper) sweep() {
	for _, path := range k.orphans {
		k.removeFile(path)
	}
	k.orphans = nil
}

// removeFile removes a file that nothing refers to. When that fails it costs
// space until the next start, which removes it; nobody has to be failed.
func (k *keeper) removeFile(path string) {
	if err := k.l.fs.Remove(path); err != nil && !gone(err) {
		k.l.cfg.Logger.Warn("a file that is no longer needed could not be removed; the next start will", "err", err)
	}
}

func (k *keeper) removeDir(dir string) {
	files, err := k.l.fs.List(dir)
	if gone(err) {
		return // nothing of it was ever settled
	}
	if err != nil {
		k.l.cfg.Logger.Warn("a removed partition's directory could not be read; the next start will remove it", "err", err)
		return
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		k.files.drop(path)
		k.removeFile(path)
	}
	k.removeFile(dir)
}

// settling is one partition's share of a journal segment.
type settling struct {
	p       *Partition
	extents []extent
	before  []segment // as they were
	done    []segment // as they will be
}

// settle copies a journal segment's batches into the files of their
// partitions, each partition's in one piece, syncs each file once, and then
// shows the result to readers. Until the checkpoint names it, a start will do
// all of it again, over the same bytes.
func (k *keeper) settle(seg *journalSegment) error {
	shares := k.shares(seg)
	if len(shares) == 0 {
		return nil
	}
	src, err := sourceOf(seg, shares)
	if err != nil {
		return err
	}
	if err := k.copyAll(shares, src); err != nil {
		return err
	}
	for _, s := range shares {
		if len(s.done) > 0 { // else all of it was deleted before, and nothing was made
			k.known[s.p.dir()] = true
		}
		s.publish()
	}
	return nil
}

// copyAll writes and syncs the files of all shares. On a full disk nobody else
// has his turn until what it wrote is given back.
func (k *keeper) copyAll(shares []settling, src *source) error {
	k.l.ballast.turn <- struct{}{}
	defer func() { <-k.l.ballast.turn }()
	dirs := map[string]bool{}
	for some := range slices.Chunk(shares, settleWidth) {
		if err := k.copyShares(some, src, dirs); err != nil {
			return err
		}
	}
	return k.syncDirs(dirs)
}

// copyShares writes and syncs the files of some partitions.
func (k *keeper) copyShares(shares []settling, src *source, dirs map[string]bool) error {
	var dirty []*handle
	defer func() {
		for _, h := range dirty {
			k.files.release(h)
		}
	}()
	for i := range shares {
		opened, err := k.copyShare(&shares[i], src, dirs)
		dirty = append(dirty, opened...)
		if full(err) {
			return errors.Join(err, giveBack(dirty, shares[:i+1]))
		}
		if err != nil {
			return err
		}
	}
	return syncAll(dirty)
}

// giveBack cuts off what a copy wrote before the disk was full: it counts for
// nothing, and the space is needed for what makes room.
func giveBack(dirty []*handle, shares []settling) error {
	sizes := map[string]int64{}
	for _, s := range shares {
		for _, seg := range s.before {
			sizes[s.p.logPath(seg)], sizes[s.p.indexPath(seg)] = seg.size, seg.indexed*indexEntrySize
		}
	}
	var errs []error
	for _, h := range dirty {
		errs = append(errs, h.file.Truncate(sizes[h.path]))
	}
	return errors.Join(errs...)
}

// settleWidth is how many partitions have their files open at once.
const settleWidth = 100

// syncWidth is how many files are synced at once when there are many: a disk
// and its file system do that in little more time than one.
const syncWidth = 16

// syncAll syncs files, a few one after the other.
func syncAll(dirty []*handle) error {
	width := 1
	if len(dirty) > syncWidth {
		width = syncWidth
	}
	errs := make([]error, width)
	var next atomic.Int64
	work := func(n int) {
		for errs[n] == nil {
			i := int(next.Add(1)) - 1
			if i >= len(dirty) {
				return
			}
			errs[n] = dirty[i].file.Datasync()
		}
	}
	var group sync.WaitGroup
	for n := 1; n < width; n++ {
		group.Go(func() { work(n) })
	}
	work(0)
	group.Wait()
	return errors.Join(errs...)
}

// syncDirs makes new files durable, the deepest directories first.
func (k *keeper) syncDirs(dirs map[string]bool) error {
	sorted := make([]string, 0, len(dirs))
	for dir := range dirs {
		sorted = append(sorted, dir)
	}
	slices.Sort(sorted)
	for _, dir := range slices.Backward(sorted) {
		if err := k.l.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// shares lists what a segment holds of each partition that is still there, by
// partition number.
func (k *keeper) shares(seg *journalSegment) []settling {
	var shares []settling
	for _, p := range seg.touched {
		p.mu.Lock()
		n := 0
		for n < len(p.extents) && p.extents[n].seq == uint32(seg.seq) {
			n++
		}
		if n > 0 && !p.removed {
			shares = append(shares, settling{p: p, extents: slices.Clone(p.extents[:n]), before: p.segments})
		}
		p.mu.Unlock()
	}
	slices.SortFunc(shares, func(a, b settling) int { return int(a.p.number) - int(b.p.number) })
	return shares
}

// publish shows the settled batches to readers in place of the journal's.
func (s *settling) publish() {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments = s.done
	p.settled = s.extents[len(s.extents)-1].last + 1
	p.extents = append([]extent(nil), p.extents[len(s.extents):]...)
}

// copyShare writes one partition's batches behind what it has, rolling to a new
// segment by segment.bytes and segment.ms. It gives the files that it wrote to.
func (k *keeper) copyShare(s *settling, src *source, dirs map[string]bool) (dirty []*handle, err error) {
	p := s.p
	p.mu.Lock()
	start, settings := p.start, p.settings
	p.mu.Unlock()
	s.done = slices.Clone(s.before)
	now := wallMs()
	for i := 0; i < len(s.extents); {
		if s.extents[i].last < start {
			i++ // deleted before it was settled
			continue
		}
		n := len(s.done)
		// A hole, of records that were deleted before they were settled, begins a
		// new segment too: in one segment only compaction leaves holes.
		if n == 0 || s.done[n-1].last+1 != s.extents[i].base || rolls(s.done[n-1], s.extents[i], settings, now) {
			e := s.extents[i]
			s.done = append(s.done, segment{base: e.base, last: e.base - 1, maxTs: -1, created: now})
			if err := k.makeSegment(p, s.done[n], dirs); err != nil {
				return dirty, err
			}
			n++
		}
		seg := &s.done[n-1]
		j := i
		var size int64
		for j < len(s.extents) && (j == i || seg.size+size+int64(s.extents[j].size) <= settings.SegmentBytes) {
			size += int64(s.extents[j].size)
			j++
		}
		opened, err := k.extend(p, seg, s.extents[i:j], src)
		dirty = append(dirty, opened...)
		if err != nil {
			return dirty, err
		}
		i = j
	}
	return dirty, nil
}

// rolls says whether the next batch begins a new segment, by Kafka's
// LogSegment.shouldRoll: size, age, and offsets that fit 31 bits.
func rolls(s segment, next extent, settings Settings, now int64) bool {
	if s.size == 0 {
		return false
	}
	age := min(settings.SegmentMs, 1<<62)
	if settings.Compact {
		age = min(age, settings.MaxCompactionLagMs)
	}
	return s.size+int64(next.size) > settings.SegmentBytes || now-s.created >= age || next.last-s.base > 1<<31-1
}

// makeSegment makes the two files of a segment, and the directory when they are
// the first.
func (k *keeper) makeSegment(p *Partition, s segment, dirs map[string]bool) error {
	dir := k.l.path(partitionsDir, p.dir())
	if !k.known[p.dir()] {
		if err := k.l.fs.MkdirAll(dir); err != nil {
			return err
		}
		dirs[k.l.path(partitionsDir)] = true
	}
	dirs[dir] = true
	for _, path := range []string{p.logPath(s), p.indexPath(s)} {
		k.files.drop(path)
		f, err := k.l.fs.Create(path)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// extend writes extents behind a segment, and index entries behind its index.
func (k *keeper) extend(p *Partition, s *segment, extents []extent, src *source) (dirty []*handle, err error) {
	log, err := k.files.acquire(p.logPath(*s))
	if err != nil {
		return nil, err
	}
	dirty = append(dirty, log)
	var index []byte
	entries := int64(0)
	at := s.size
	for _, e := range extents {
		if s.indexed+entries == 0 || at-s.marked >= indexStep {
			index = appendIndexEntry(index, indexEntry{offset: e.base, pos: at, before: s.maxTs})
			s.marked = at
			entries++
		}
		s.maxTs = max(s.maxTs, e.maxTs)
		s.last = e.last
		at += int64(e.size)
	}
	if err := src.copyTo(log.file, s.size, extents); err != nil {
		return dirty, err
	}
	k.l.stats.settledBytes.Add(at - s.size)
	s.size = at
	if entries == 0 {
		return dirty, nil
	}
	idx, err := k.files.acquire(p.indexPath(*s))
	if err != nil {
		return dirty, err
	}
	dirty = append(dirty, idx)
	if err := idx.file.WriteVec(s.indexed*indexEntrySize, index); err != nil {
		return dirty, err
	}
	s.indexed += entries
	return dirty, nil
}
