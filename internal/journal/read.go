package journal

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/rondo-streams/rondo/internal/wire"
)

const (
	// readGap: two extents of the journal that are not further apart are read
	// at once.
	readGap = 4 << 10
	// readRun bounds such a read.
	readRun = 1 << 20
	// readRetries: how often a read starts again because what it was about to
	// read was settled or compacted in the meantime.
	readRetries = 10
)

var errMoved = errors.New("the records have moved")

// Read gives whole batches from the one that holds the offset from, or the next
// one after it, up to the high watermark and to about maxBytes: never more,
// except that minOne asks for the first batch however large it is. Each slice
// holds one or more batches and must not be changed. Nothing to read yet is no
// error. ErrOffsetOutOfRange is for an offset outside of the log, ErrRemoved
// and ErrCorrupt are for what they say.
func (p *Partition) Read(from int64, maxBytes int, minOne bool) ([][]byte, error) {
	return p.ReadInto(fresh, from, maxBytes, minOne)
}

func fresh(n int) []byte { return make([]byte, n) }

// ReadInto is Read with memory of the caller's: space gives n bytes, whatever is
// in them, each time that something is read from the disk. Slices of the answer
// are of such memory, or of the log's own, and a space that was given may have
// no part in the answer.
func (p *Partition) ReadInto(space func(n int) []byte, from int64, maxBytes int, minOne bool) ([][]byte, error) {
	asked := from
	for try := 0; ; try++ {
		out, next, err := p.readOnce(space, from, maxBytes, minOne)
		switch {
		case (errors.Is(err, errMoved) || gone(err)) && try < readRetries:
		case errors.Is(err, errStop):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read %s at offset %d: %w", p.id, asked, err)
		case len(out) == 0 && next > from:
			from, try = next, 0 // a hole that compaction left
		default:
			return out, nil
		}
	}
}

// readOnce reads from one place: memory, the journal or one segment. next is
// where to go on when there was nothing at from.
func (p *Partition) readOnce(space func(n int) []byte, from int64, maxBytes int, minOne bool) (out [][]byte, next int64, err error) {
	stats := &p.l.stats
	p.mu.Lock()
	switch {
	case p.removed:
		p.mu.Unlock()
		return nil, 0, ErrRemoved
	case p.ended:
		p.mu.Unlock()
		return nil, 0, ErrClosed
	case from < p.start || from > p.leo:
		start, leo := p.start, p.leo
		p.mu.Unlock()
		return nil, 0, fmt.Errorf("%w: the log has %d to %d", ErrOffsetOutOfRange, start, leo)
	case from >= p.hw:
		p.mu.Unlock()
		return nil, 0, nil
	case len(p.hot) > 0 && from >= p.hot[0].base:
		out = p.readHot(from, maxBytes, minOne)
		p.mu.Unlock()
		stats.hotReads.Add(1)
		return out, 0, nil
	case len(p.extents) > 0 && from >= p.extents[0].base:
		extents := p.extentsFrom(from, maxBytes)
		p.mu.Unlock()
		stats.journalReads.Add(1)
		out, err = p.l.readExtents(space, extents, from, maxBytes, minOne)
		return out, 0, err
	}
	i := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].last >= from })
	if i == len(p.segments) {
		next = p.settled
		p.mu.Unlock()
		return nil, next, nil
	}
	s := p.segments[i]
	p.mu.Unlock()
	stats.segmentReads.Add(1)
	out, err = p.readSegment(space, s, from, maxBytes, minOne)
	return out, s.last + 1, err
}

// readHot collects from memory, under the lock.
func (p *Partition) readHot(from int64, left int, minOne bool) (out [][]byte) {
	i := sort.Search(len(p.hot), func(i int) bool { return p.hot[i].last >= from })
	for ; i < len(p.hot) && left > 0 || i < len(p.hot) && minOne; i++ {
		part, whole := cut(p.hot[i].data, from, left, minOne)
		if len(part) > 0 {
			out = append(out, part)
		}
		if !whole {
			break
		}
		left -= len(part)
		minOne = false
	}
	return out
}

// extentsFrom copies the extents that hold up to so many bytes from an offset
// on, under the lock.
func (p *Partition) extentsFrom(from int64, maxBytes int) []extent {
	i := sort.Search(len(p.extents), func(i int) bool { return p.extents[i].last >= from })
	j, n := i, 0
	for j < len(p.extents) && (j == i || n < maxBytes) {
		n += int(p.extents[j].size)
		j++
	}
	return append([]extent(nil), p.extents[i:j]...)
}

// cut gives the batches of data, which are whole, that hold records from the
// given offset on, as many as fit. It is whole when none is left out: what follows
// one that is must not be given either.
func cut(data []byte, from int64, left int, minOne bool) (part []byte, whole bool) {
	for len(data) > 0 && batchLast(data) < from {
		data = data[min(batchSize(data), len(data)):]
	}
	if len(data) <= left {
		return data, true
	}
	end := 0
	for end < len(data) {
		size := batchSize(data[end:])
		if end+size > left && !(minOne && end == 0) {
			break
		}
		end += size
	}
	return data[:end:end], end == len(data)
}

// readExtents reads exact extents of the journal. Neighbours are read at once;
// there is no reading ahead, because what lies between belongs to others.
func (l *Log) readExtents(space func(n int) []byte, extents []extent, from int64, left int, minOne bool) (out [][]byte, err error) {
	for len(extents) > 0 {
		n := runOf(extents)
		datas, err := l.readRun(space, extents[:n])
		if err != nil {
			if len(out) > 0 && errors.Is(err, errMoved) {
				return out, nil
			}
			return nil, err
		}
		for _, data := range datas {
			part, whole := cut(data, from, left, minOne)
			if len(part) > 0 {
				out = append(out, part)
			}
			if !whole {
				return out, nil
			}
			left -= len(part)
			minOne = false
		}
		extents = extents[n:]
	}
	return out, nil
}

// runOf counts the extents that one read can take.
func runOf(extents []extent) int {
	first := extents[0]
	n := 1
	for ; n < len(extents); n++ {
		e, before := extents[n], extents[n-1]
		if e.seq != first.seq || e.pos-(before.pos+before.size) > readGap || e.pos+e.size-first.pos > readRun {
			break
		}
	}
	return n
}

// readRun reads neighbouring extents of one segment, and gives each one's
// bytes.
func (l *Log) readRun(space func(n int) []byte, run []extent) ([][]byte, error) {
	seg := l.segments.acquire(run[0].seq)
	if seg == nil {
		return nil, errMoved
	}
	defer l.segments.release(seg)
	first, last := run[0], run[len(run)-1]
	buf := space(int(last.pos + last.size - first.pos))
	if _, err := seg.file.ReadAt(buf, int64(first.pos)); err != nil && !(errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("read journal segment %s: %w", journalName(seg.seq), err)
	}
	datas := make([][]byte, len(run))
	for i, e := range run {
		data := buf[e.pos-first.pos:][:e.size:e.size]
		if err := wholeBatches(data); err != nil || batchBase(data) != e.base {
			return nil, fmt.Errorf("%w: journal segment %s at byte %d does not hold offset %d: restore it from a copy",
				ErrCorrupt, journalName(seg.seq), e.pos, e.base)
		}
		datas[i] = data
	}
	return datas, nil
}

// wholeBatches checks that b is a row of whole batches, by their headers.
func wholeBatches(b []byte) error {
	return wire.EachBatch(b, func(wire.Header, []byte) error { return nil })
}

// readSegment reads from a segment file: the index says where to begin.
func (p *Partition) readSegment(space func(n int) []byte, s segment, from int64, maxBytes int, minOne bool) ([][]byte, error) {
	begin, err := p.searchIndex(s, func(e indexEntry) bool { return e.offset <= from })
	if err != nil {
		return nil, err
	}
	h, err := p.l.k.files.acquire(p.logPath(s))
	if err != nil {
		return nil, err
	}
	defer p.l.k.files.release(h)
	pos, inOrder := begin.pos, orderFrom(s, begin)
	for chunk := int64(max(maxBytes, 0)) + indexStep; pos < s.size; {
		buf := space(int(min(chunk, s.size-pos)))
		if _, err := h.file.ReadAt(buf, pos); err != nil {
			return nil, fmt.Errorf("read segment %s at byte %d: %w", h.path, pos, err)
		}
		span, err := spanBatches(buf, from, s.size-pos, inOrder)
		if err != nil {
			return nil, fmt.Errorf("segment %s at byte %d: %w: restore it from a copy", h.path, pos, err)
		}
		switch {
		case span.whole > span.skipped:
			if part, _ := cut(buf[span.skipped:span.whole], from, maxBytes, minOne); len(part) > 0 {
				return [][]byte{part}, nil
			}
			return nil, errStop
		case span.skipped > 0:
			pos, inOrder = pos+int64(span.skipped), span.order
		case span.need > int64(maxBytes) && !minOne:
			return nil, errStop
		default:
			chunk = span.need
		}
	}
	return nil, nil
}

// errStop ends a read without an error: the next batch is there, but larger
// than what was asked for.
var errStop = errors.New("the next batch does not fit")

// span is what part of a segment holds.
type span struct {
	skipped int   // bytes of batches that end before the wanted offset; may pass the end of the part
	whole   int   // bytes of batches that are all there
	need    int64 // size of the first batch, when it is not all there
	order   order // after what is skipped
}

// spanBatches looks at the batches in buf. total is what is left of the
// segment, which a batch must not pass.
func spanBatches(buf []byte, from int64, total int64, inOrder order) (span, error) {
	s := span{order: inOrder}
	for s.whole < len(buf) {
		h, err := wire.ParseHeader(buf[s.whole:])
		if errors.Is(err, wire.ErrShort) && int64(len(buf)) < total {
			break
		}
		if err != nil {
			return s, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if err := inOrder.check(h.BaseOffset, h.LastOffset()); err != nil {
			return s, err
		}
		end := s.whole + h.Size()
		if int64(end) > total {
			return s, fmt.Errorf("%w: a batch of %d bytes, %d are left", ErrCorrupt, h.Size(), total-int64(s.whole))
		}
		if h.LastOffset() < from {
			s.skipped, s.whole, s.order = end, end, inOrder
			continue
		}
		if end > len(buf) {
			s.need = int64(h.Size())
			break
		}
		s.whole = end
	}
	if s.need == 0 {
		s.need = int64(len(buf)) + wire.HeaderSize
	}
	s.need = min(s.need, total)
	return s, nil
}
