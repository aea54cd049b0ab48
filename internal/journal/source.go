package journal

// source is a journal segment that is being settled.
//
// Where its extents are small they are many, and one read of everything is
// cheaper than one a piece. Where they are large they are read one by one into
// a buffer that stays in the processor's cache until it is written: a copy of
// the whole segment would be 64 MiB of fresh memory each time, to be cleared,
// faulted in and collected, which took more processor time than the copying.
type source struct {
	seg   *journalSegment
	whole []byte // nil: read piece by piece
	piece []byte
}

const (
	// largeExtent is the mean size from which extents are read one by one.
	largeExtent = 16 << 10
	// pieceBytes bounds the buffer for them, unless one extent is larger.
	pieceBytes = 512 << 10
)

func sourceOf(seg *journalSegment, shares []settling) (*source, error) {
	var bytes, count int64
	for _, s := range shares {
		count += int64(len(s.extents))
		for _, e := range s.extents {
			bytes += int64(e.size)
		}
	}
	src := &source{seg: seg}
	if bytes >= largeExtent*count {
		return src, nil
	}
	src.whole = make([]byte, seg.size)
	_, err := seg.file.ReadAt(src.whole, 0)
	return src, err
}

// copyTo writes extents one behind the other into a file.
func (s *source) copyTo(to File, off int64, extents []extent) error {
	if s.whole != nil {
		bufs := make([][]byte, len(extents))
		for i, e := range extents {
			bufs[i] = s.whole[e.pos : e.pos+e.size]
		}
		return to.WriteVec(off, bufs...)
	}
	for len(extents) > 0 {
		n, size := 0, 0
		for n < len(extents) && (n == 0 || size+int(extents[n].size) <= pieceBytes) {
			size += int(extents[n].size)
			n++
		}
		if size > len(s.piece) {
			s.piece = make([]byte, max(size, pieceBytes))
		}
		at := 0
		for _, e := range extents[:n] {
			if _, err := s.seg.file.ReadAt(s.piece[at:at+int(e.size)], int64(e.pos)); err != nil {
				return err
			}
			at += int(e.size)
		}
		if err := to.WriteVec(off, s.piece[:size]); err != nil {
			return err
		}
		off += int64(size)
		extents = extents[n:]
	}
	return nil
}
