package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rondo-streams/rondo/internal/wire"
)

const lockName = "lock"

// Open opens the log of a directory, which it makes when it is not there, and
// brings it back to where it was: the checkpoint first, then what the journal
// has since. A torn tail of the journal, which is what a crash leaves of
// appends that nobody was told about, is cut off and logged. ErrLocked when
// another process has the directory; ErrCorrupt when bytes that were durable
// have changed: nothing is skipped by itself.
func Open(cfg Config) (*Log, error) {
	cfg = cfg.withDefaults()
	if cfg.Dir == "" {
		return nil, errors.New("open the log: no directory given")
	}
	l := &Log{
		cfg: cfg, fs: cfg.FS, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		parts: map[ID]*Partition{}, numbers: map[uint32]*Partition{}, creating: map[ID]bool{},
	}
	l.c = committer{l: l, stop: make(chan struct{}), stopped: make(chan struct{})}
	l.ballast = ballast{l: l, size: cfg.Ballast, turn: make(chan struct{}, 1)}
	l.k = keeper{l: l, stop: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		files: openSet{fs: cfg.FS}, known: map[string]bool{}}
	if err := l.makeDirs(); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", cfg.Dir, hint(err))
	}
	lock, err := l.fs.Lock(l.path(lockName))
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", cfg.Dir, hint(err))
	}
	l.lock = lock
	if err := l.recover(); err != nil {
		l.segments.close()
		l.k.files.close()
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", cfg.Dir, hint(err)), lock.Close())
	}
	go l.c.run()
	go l.k.run()
	signal(l.k.wake)
	return l, nil
}

// hint says what to do about an error that people cause.
func hint(err error) error {
	if errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "read-only file system") {
		return fmt.Errorf("%w: the directory must be writable by this user", err)
	}
	return err
}

// makeDirs makes what is missing of the directories. Their entries are made
// durable even when nothing is missing: a process that was killed may have left
// directories, or a renamed checkpoint, that a power cut would take back after
// this process relied on them.
func (l *Log) makeDirs() error {
	for _, sub := range []string{journalDir, partitionsDir} {
		_, err := l.fs.List(l.path(sub))
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := l.fs.MkdirAll(l.path(sub)); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.cfg.Dir); err != nil {
		return err
	}
	err := l.fs.SyncDir(filepath.Dir(filepath.Clean(l.cfg.Dir)))
	if errors.Is(err, fs.ErrPermission) {
		return nil // a parent that we may not even read: nothing of ours is new in it
	}
	return err
}

func (l *Log) recover() error {
	if err := l.ballast.open(); err != nil {
		return err
	}
	c, err := l.readCheckpoint()
	if err != nil {
		return err
	}
	l.nextNumber = max(c.nextNumber, 1)
	for _, st := range c.parts {
		p := newPartition(l, st.id, st.number, st.settings)
		p.start, p.settled, p.cleaned, p.segments = st.start, st.settled, st.cleaned, st.segments
		p.epochs, p.producers = st.epochs, st.producers
		p.countProducers()
		p.leo = max(p.settled, p.start)
		p.hw = p.leo
		if l.parts[p.id] != nil || l.numbers[p.number] != nil {
			return fmt.Errorf("%w: the checkpoint has partition %s twice", ErrCorrupt, p.id)
		}
		l.parts[p.id], l.numbers[p.number] = p, p
	}
	chain, orphans, err := l.chain(c.first)
	if err != nil {
		return err
	}
	for i, seg := range chain {
		if err := l.replay(seg, i == len(chain)-1); err != nil {
			return err
		}
	}
	for _, p := range l.numbers {
		p.leo = max(p.leo, p.start)
		p.hw = p.leo
		if len(p.segments) > 0 && p.segments[0].last < p.start {
			l.k.trims = append(l.k.trims, p) // the log ended before it gave the space back
		}
	}
	if err := l.checkFiles(); err != nil {
		return err
	}
	l.k.first = c.first
	for _, seg := range chain {
		l.c.prev = segmentHeader{prevSeq: seg.seq, prevValid: uint64(seg.size)}
		l.stats.unsettled.Add(seg.size)
		l.k.sealed = append(l.k.sealed, seg.journalSegment)
	}
	l.c.lastSeq = max(l.c.lastSeq, c.first-1)
	for _, o := range orphans {
		if path := l.path(journalDir, o.Name); !l.spares.keep(l, path, o.Size) {
			l.k.orphans = append(l.k.orphans, path)
		}
	}
	return nil
}

// chained is a journal segment on its way through recovery.
type chained struct {
	*journalSegment
	header segmentHeader
	limit  int64 // bytes that count, by the next segment's header; -1: all that are valid
	bytes  int64 // size of the file
}

// chain finds the journal segments that count, oldest first: from the newest
// one back, each by the header of the one after it. Files that are not in the
// chain are orphans.
func (l *Log) chain(first uint64) (chain []chained, orphans []Info, err error) {
	files, err := l.fs.List(l.path(journalDir))
	if err != nil {
		return nil, nil, fmt.Errorf("read the journal: %w", err)
	}
	left := map[uint64]Info{}
	var seqs []uint64
	for _, f := range files {
		var seq uint64
		if _, err := fmt.Sscanf(f.Name, "%016x.log", &seq); err != nil || journalName(seq) != f.Name {
			continue // not ours
		}
		left[seq] = f
		seqs = append(seqs, seq)
		l.c.lastSeq = max(l.c.lastSeq, seq)
	}
	slices.Sort(seqs)
	for len(seqs) > 0 && len(chain) == 0 && seqs[len(seqs)-1] >= first {
		seq := seqs[len(seqs)-1]
		seqs = seqs[:len(seqs)-1]
		seg, err := l.openSegment(seq, left[seq].Size)
		if err != nil {
			return nil, nil, err
		}
		if seg.header.seq != seq {
			if err := seg.mustBeTorn(); err != nil {
				return nil, nil, err
			}
			l.segments.drop(seg.journalSegment)
			continue // never became durable: an orphan
		}
		seg.limit = -1
		chain = append(chain, seg)
		delete(left, seq)
	}
	for len(chain) > 0 && chain[len(chain)-1].header.prevSeq >= first {
		next := chain[len(chain)-1].header
		info, ok := left[next.prevSeq]
		if !ok {
			return nil, nil, fmt.Errorf("%w: journal segment %s is missing: restore it from a copy", ErrCorrupt, l.journalPath(next.prevSeq))
		}
		seg, err := l.openSegment(next.prevSeq, info.Size)
		if err != nil {
			return nil, nil, err
		}
		seg.limit = int64(next.prevValid)
		if seg.header.seq != next.prevSeq || seg.limit > seg.bytes {
			return nil, nil, fmt.Errorf("%w: journal segment %s has %d bytes of %d, or a wrong header: restore it from a copy",
				ErrCorrupt, l.journalPath(seg.seq), seg.bytes, seg.limit)
		}
		chain = append(chain, seg)
		delete(left, next.prevSeq)
	}
	slices.Reverse(chain)
	for _, info := range left {
		orphans = append(orphans, info)
	}
	slices.SortFunc(orphans, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return chain, orphans, nil
}

// openSegment opens a segment and reads its header, which stays empty when it
// is not valid.
func (l *Log) openSegment(seq uint64, size int64) (chained, error) {
	f, err := l.fs.Open(l.journalPath(seq))
	if err != nil {
		return chained{}, fmt.Errorf("open journal segment: %w", err)
	}
	seg := chained{journalSegment: &journalSegment{seq: seq, file: f, linked: true, length: size}, bytes: size}
	l.segments.add(seg.journalSegment)
	b := make([]byte, min(size, segmentHeaderSize))
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		return chained{}, fmt.Errorf("read journal segment %s: %w", l.journalPath(seq), err)
	}
	if h, err := parseSegmentHeader(b); err == nil {
		seg.header = h
	}
	return seg, nil
}

// checkFiles makes sure that every segment of a partition is there, and finds
// files that no checkpoint names: what was being written, or about to be
// removed, when the log ended.
func (l *Log) checkFiles() error {
	dirs, err := l.fs.List(l.path(partitionsDir))
	if err != nil {
		return fmt.Errorf("read the partitions: %w", err)
	}
	byDir := map[string]*Partition{}
	for _, p := range l.numbers {
		byDir[p.dir()] = p
	}
	for _, d := range dirs {
		if !d.Dir {
			continue
		}
		p := byDir[d.Name]
		var id ID
		var number uint32
		if p == nil && !parseDir(d.Name, &id, &number) {
			continue // not ours
		}
		files, err := l.fs.List(l.path(partitionsDir, d.Name))
		if err != nil {
			return fmt.Errorf("read partition %s: %w", d.Name, err)
		}
		sizes := map[string]int64{}
		for _, f := range files {
			sizes[f.Name] = f.Size
		}
		if p == nil {
			for _, f := range files {
				l.k.orphans = append(l.k.orphans, l.path(partitionsDir, d.Name, f.Name))
			}
			l.k.orphans = append(l.k.orphans, l.path(partitionsDir, d.Name))
			continue
		}
		if err := p.checkSegments(sizes); err != nil {
			return err
		}
		// A directory that no checkpoint needs may not be durable yet.
		l.k.known[d.Name] = len(p.segments) > 0
		delete(byDir, d.Name)
	}
	for _, p := range byDir {
		if err := p.checkSegments(nil); err != nil {
			return err
		}
	}
	return nil
}

func parseDir(name string, id *ID, number *uint32) bool {
	var topic []byte
	if _, err := fmt.Sscanf(name, "%32x-%d.%d", &topic, &id.Partition, number); err != nil || len(topic) != len(id.Topic) {
		return false
	}
	copy(id.Topic[:], topic)
	return (&Partition{id: *id, number: *number}).dir() == name
}

// checkSegments takes the files that the checkpoint names out of sizes, and
// gives the rest away.
func (p *Partition) checkSegments(sizes map[string]int64) error {
	for _, s := range p.segments {
		for name, want := range map[string]int64{s.name() + ".log": s.size, s.name() + ".index": s.indexed * indexEntrySize} {
			size, ok := sizes[name]
			if !ok || size < want {
				return fmt.Errorf("%w: %s has %d bytes of %d: restore it from a copy",
					ErrCorrupt, p.l.path(partitionsDir, p.dir(), name), size, want)
			}
			delete(sizes, name)
		}
	}
	for name := range sizes {
		if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".index") {
			p.l.k.orphans = append(p.l.k.orphans, p.l.path(partitionsDir, p.dir(), name))
		}
	}
	return nil
}

// apply replays one journal entry.
func (l *Log) apply(seg chained, pos int64, h entryHeader, body []byte) error {
	p := l.numbers[h.number]
	switch h.kind {
	case kindClosed:
		return nil
	case kindCreate:
		return l.applyCreate(h, body)
	case kindData, kindRemove, kindStart, kindSettings:
		if p == nil && h.number >= l.nextNumber {
			return fmt.Errorf("%w: an entry of kind %s for a partition that was never created", ErrCorrupt, h.kind)
		}
		if p == nil {
			return nil // removed since
		}
	default:
		return fmt.Errorf("%w: an entry of kind %s: it was written by a later version, use that", ErrCorrupt, h.kind)
	}
	switch h.kind {
	case kindData:
		return p.applyData(seg.journalSegment, pos, h, body)
	case kindRemove:
		p.removed = true
		delete(l.numbers, h.number)
		if l.parts[p.id] == p {
			delete(l.parts, p.id)
		}
	case kindStart:
		if len(body) != 8 {
			return fmt.Errorf("%w: a start offset of %d bytes", ErrCorrupt, len(body))
		}
		p.raiseStart(int64(binary.LittleEndian.Uint64(body)))
	case kindSettings:
		r := reader{b: body}
		s := r.settings()
		if r.bad {
			return fmt.Errorf("%w: settings of %s", ErrCorrupt, p.id)
		}
		p.settings = s
	}
	return nil
}

func (l *Log) applyCreate(h entryHeader, body []byte) error {
	r := reader{b: body}
	id, s := r.create()
	if r.bad {
		return fmt.Errorf("%w: the creation of partition number %d", ErrCorrupt, h.number)
	}
	if h.number < l.nextNumber && l.numbers[h.number] == nil && l.parts[id] != nil {
		return nil // removed and created again since
	}
	l.nextNumber = max(l.nextNumber, h.number+1)
	if l.numbers[h.number] != nil {
		return nil // the checkpoint has it
	}
	if l.parts[id] != nil {
		return fmt.Errorf("%w: partition %s was created twice", ErrCorrupt, id)
	}
	p := newPartition(l, id, h.number, s)
	l.parts[id], l.numbers[h.number] = p, p
	return nil
}

// applyData notes where batches stand, and what they say about producers and
// epochs. Those below the settled end are in the checkpoint already.
func (p *Partition) applyData(seg *journalSegment, pos int64, h entryHeader, body []byte) error {
	if len(body) < wire.HeaderSize {
		return fmt.Errorf("%w: an entry without a batch", ErrCorrupt)
	}
	base := batchBase(body)
	if base < p.settled {
		return nil
	}
	// A hole may end at the start: a power cut took records that were not synced,
	// and not their deletion, which the checkpoint had.
	if (base != p.leo && len(p.extents) > 0 || base > p.leo) && (base < p.leo || base != p.start) {
		return fmt.Errorf("%w: partition %s goes on at offset %d, want %d", ErrCorrupt, p.id, base, p.leo)
	}
	e := extent{base: base, maxTs: -1, seq: uint32(seg.seq), pos: uint32(pos), size: uint32(len(body))}
	next := base
	err := wire.EachBatch(body, func(b wire.Header, _ []byte) error {
		if b.BaseOffset != next {
			return fmt.Errorf("%w: partition %s goes on at offset %d, want %d", ErrCorrupt, p.id, b.BaseOffset, next)
		}
		if b.ProducerID >= 0 && !b.Control() {
			ts := int64(-1)
			if b.LogAppendTime() {
				ts = b.MaxTimestamp
			}
			p.remember(b, b.BaseOffset, b.LastOffset(), ts, h.at)
		}
		p.epochs.assign(b.LeaderEpoch, b.BaseOffset)
		e.maxTs, e.last = max(e.maxTs, b.MaxTimestamp), b.LastOffset()
		next = e.last + 1
		return nil
	})
	if err != nil {
		return err
	}
	if len(p.extents) == 0 {
		p.unsettledSince = h.at
	}
	if n := len(p.extents); n == 0 || p.extents[n-1].seq != e.seq {
		seg.touched = append(seg.touched, p)
	}
	p.extents = append(p.extents, e)
	p.leo = e.last + 1
	return nil
}
