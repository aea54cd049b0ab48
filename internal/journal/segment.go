package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"sync"
)

const (
	partitionsDir = "partitions"
	// indexStep: about one index entry for so many bytes of a segment, so a
	// look-up reads at most this much too much.
	indexStep = 32 << 10
	// indexEntrySize: offset, position and running maximum of timestamps, eight
	// bytes each.
	indexEntrySize = 24
	// openFiles bounds the files that are kept open for readers.
	openFiles = 256
)

// segment is one settled file of a partition: raw batches, one behind the
// other, exactly as Kafka lays out its .log files. Beside it is an index file.
// The checkpoint says how many bytes of both count. A segment is a value: the
// keeper replaces it in Partition.segments when it grows.
type segment struct {
	base    int64 // its first offset when it was made; in its name
	gen     uint32
	size    int64
	last    int64 // last offset in it
	maxTs   int64
	created int64 // wall clock of its first batch, for segment.ms
	indexed int64 // entries of the index
	marked  int64 // position of the last index entry
}

func (s segment) name() string {
	if s.gen == 0 {
		return fmt.Sprintf("%020d", s.base)
	}
	return fmt.Sprintf("%020d.%d", s.base, s.gen)
}

func (p *Partition) dir() string { return fmt.Sprintf("%s.%d", p.id, p.number) }

func (p *Partition) logPath(s segment) string {
	return p.l.path(partitionsDir, p.dir(), s.name()+".log")
}

func (p *Partition) indexPath(s segment) string {
	return p.l.path(partitionsDir, p.dir(), s.name()+".index")
}

type indexEntry struct {
	offset, pos int64
	before      int64 // the largest timestamp of all batches before pos, -1 when there is none
}

func appendIndexEntry(dst []byte, e indexEntry) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.offset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.pos))
	return binary.LittleEndian.AppendUint64(dst, uint64(e.before))
}

// searchIndex gives the last index entry for which below holds, or the
// beginning of the segment when there is none; its offset is -1 when it is not
// known. below must be true for a prefix of the entries.
func (p *Partition) searchIndex(s segment, below func(indexEntry) bool) (indexEntry, error) {
	found := indexEntry{offset: -1}
	if s.gen == 0 {
		found.offset = s.base
	}
	if s.indexed == 0 {
		return found, nil
	}
	h, err := p.l.k.files.acquire(p.indexPath(s))
	if err != nil {
		return found, err
	}
	defer p.l.k.files.release(h)
	sort.Search(int(s.indexed), func(i int) bool {
		var b [indexEntrySize]byte
		if err != nil {
			return true
		}
		if _, err = h.file.ReadAt(b[:], int64(i)*indexEntrySize); err != nil {
			err = fmt.Errorf("read index %s: %w", h.path, err)
			return true
		}
		le := binary.LittleEndian
		e := indexEntry{int64(le.Uint64(b[:])), int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))}
		if !below(e) {
			return true
		}
		if e.pos >= found.pos {
			found = e
		}
		return false
	})
	if err == nil && (found.pos < 0 || found.pos >= s.size || found.offset != -1 && (found.offset < s.base || found.offset > s.last)) {
		err = fmt.Errorf("%w: index %s points to byte %d of %d for offset %d: restore it from a copy", ErrCorrupt, h.path, found.pos, s.size, found.offset)
	}
	return found, err
}

// order checks that batches of a segment follow each other. A batch's checksum
// does not cover its offset, but its neighbours tell: only compaction leaves
// holes.
type order struct {
	s     segment
	next  int64 // the offset of the next batch; -1: not known
	exact bool  // the next batch has just that offset
}

// orderFrom begins where an index entry points to.
func orderFrom(s segment, e indexEntry) order {
	return order{s: s, next: e.offset, exact: e.offset >= 0}
}

func (o *order) check(base, last int64) error {
	switch {
	case o.exact && base != o.next, base < o.next, base < o.s.base, last > o.s.last:
		return fmt.Errorf("%w: a batch with offsets %d to %d where %d was to come", ErrCorrupt, base, last, o.next)
	}
	o.next, o.exact = last+1, o.s.gen == 0
	return nil
}

// openSet keeps files of segments open for readers, the least recently used
// one is closed first.
type openSet struct {
	fs   FS
	mu   sync.Mutex
	open map[string]*handle
	tick int64
}

type handle struct {
	path    string
	file    File
	refs    int
	used    int64
	dropped bool
}

func (o *openSet) acquire(path string) (*handle, error) {
	o.mu.Lock()
	h := o.take(path)
	o.mu.Unlock()
	if h != nil {
		return h, nil
	}
	f, err := o.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	o.mu.Lock()
	if h = o.take(path); h != nil { // somebody was faster
		o.mu.Unlock()
		f.Close()
		return h, nil
	}
	old := o.evict()
	if o.open == nil {
		o.open = map[string]*handle{}
	}
	o.tick++
	h = &handle{path: path, file: f, refs: 1, used: o.tick}
	o.open[path] = h
	o.mu.Unlock()
	if old != nil {
		old.file.Close()
	}
	return h, nil
}

func (o *openSet) take(path string) *handle {
	h := o.open[path]
	if h != nil {
		o.tick++
		h.refs++
		h.used = o.tick
	}
	return h
}

// evict takes out the file that was not used for the longest time, when there
// are too many and one is free.
func (o *openSet) evict() (oldest *handle) {
	if len(o.open) < openFiles {
		return nil
	}
	for _, h := range o.open {
		if h.refs == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		delete(o.open, oldest.path)
	}
	return oldest
}

func (o *openSet) release(h *handle) {
	o.mu.Lock()
	h.refs--
	last := h.dropped && h.refs == 0
	o.mu.Unlock()
	if last {
		h.file.Close()
	}
}

// drop forgets a file that is about to be removed; readers in it may go on.
func (o *openSet) drop(path string) {
	o.mu.Lock()
	h := o.open[path]
	last := false
	if h != nil {
		delete(o.open, path)
		h.dropped = true
		last = h.refs == 0
	}
	o.mu.Unlock()
	if last {
		h.file.Close()
	}
}

func (o *openSet) close() {
	o.mu.Lock()
	paths := make([]string, 0, len(o.open))
	for path := range o.open {
		paths = append(paths, path)
	}
	o.mu.Unlock()
	for _, path := range paths {
		o.drop(path)
	}
}

// gone says that a file was removed between looking it up and opening it.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
