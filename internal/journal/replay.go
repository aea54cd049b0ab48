package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// replayWindow is how much of a segment is read at once.
const replayWindow = 1 << 20

// window is a part of a file that slides over it.
type window struct {
	file File
	end  int64 // where the file ends for us
	pos  int64 // of buf[0]
	buf  []byte
}

// at gives n bytes at a position, or fewer where the file ends. They are valid
// until the next call.
func (w *window) at(pos int64, n int64) ([]byte, error) {
	n = min(n, w.end-pos)
	if n <= 0 {
		return nil, nil
	}
	if pos < w.pos || pos+n > w.pos+int64(len(w.buf)) {
		size := min(max(n, replayWindow), w.end-pos)
		if int64(cap(w.buf)) < size {
			w.buf = make([]byte, size)
		}
		w.buf = w.buf[:size]
		got, err := w.file.ReadAt(w.buf, pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.buf, w.pos = w.buf[:got], pos
		n = min(n, int64(got))
	}
	return w.buf[pos-w.pos:][:n], nil
}

// replay applies the entries of a segment. In all but the last one, the bytes
// that count were durable before the next segment was made, so all must be
// valid. The last one may have a torn tail.
func (l *Log) replay(seg chained, last bool) error {
	end := seg.limit
	if end < 0 {
		end = seg.bytes
	}
	w := &window{file: seg.file, end: end}
	pos := int64(segmentHeaderSize)
	for pos < end {
		h, body, err := readEntry(w, pos, seg.seq)
		if errors.Is(err, errTorn) {
			if last {
				err = seg.mustBeTornAt(pos)
			} else {
				err = seg.damaged(pos)
			}
			if err != nil {
				return err
			}
			if mark, err := w.at(pos, markBytes); err != nil || !allZero(mark) {
				l.cfg.Logger.Warn("cut off a torn tail of the journal: appends that were never acknowledged",
					"segment", journalName(seg.seq), "at", pos)
			}
			break
		}
		if err != nil {
			return fmt.Errorf("read journal segment %s: %w", l.journalPath(seg.seq), err)
		}
		if err := l.apply(seg, pos+entryHeaderSize, h, body); err != nil {
			return fmt.Errorf("replay journal segment %s at byte %d: %w", l.journalPath(seg.seq), pos, err)
		}
		pos += entryHeaderSize + int64(h.length)
	}
	seg.size, seg.durable = pos, pos
	if last {
		// What a killed process wrote but did not sync is readable now, and will
		// be given to readers. It must not go away later.
		if err := seg.file.Datasync(); err != nil {
			return fmt.Errorf("sync journal segment %s: %w", l.journalPath(seg.seq), err)
		}
		if err := l.fs.SyncDir(l.path(journalDir)); err != nil {
			return fmt.Errorf("sync the journal's directory: %w", err)
		}
	}
	return nil
}

// readEntry reads and verifies the entry at a position; errTorn when there is
// no valid one.
func readEntry(w *window, pos int64, seq uint64) (entryHeader, []byte, error) {
	b, err := w.at(pos, entryHeaderSize)
	if err != nil {
		return entryHeader{}, nil, err
	}
	h, err := parseEntryHeader(b, seq)
	if err != nil {
		return h, nil, err
	}
	if int64(h.length) > w.end-pos-entryHeaderSize {
		return h, nil, errTorn
	}
	b, err = w.at(pos, entryHeaderSize+int64(h.length))
	if err != nil {
		return h, nil, err
	}
	if len(b) < entryHeaderSize+int(h.length) {
		return h, nil, errTorn
	}
	body := b[entryHeaderSize:]
	return h, body, checkBody(h, body)
}

// damaged is the error for bytes that were durable and are not valid any more.
func (seg chained) damaged(pos int64) error {
	return fmt.Errorf("%w: journal segment %s has changed at byte %d, after it was written and synced: "+
		"restore it from a copy; records from there on would be lost", ErrCorrupt, journalName(seg.seq), pos)
}

// mustBeTorn is mustBeTornAt for a segment whose header is not valid.
func (seg chained) mustBeTorn() error { return seg.mustBeTornAt(0) }

// mustBeTornAt decides whether what is not valid at a position is a torn tail.
// A crash can leave any part of the last group that was written, since the
// parts of one write reach the disk in any order. But every entry tells how
// many bytes were durable before it was written. One that says so of this
// position proves that it was whole once: then bytes have changed, and cutting
// off what follows would lose what was acknowledged.
func (seg chained) mustBeTornAt(pos int64) error {
	w := &window{file: seg.file, end: seg.bytes}
	magic := binary.LittleEndian.AppendUint32(nil, entryMagic)
	for at := pos; ; {
		b, err := w.at(at, replayWindow)
		if err != nil {
			return fmt.Errorf("read journal segment %s: %w", journalName(seg.seq), err)
		}
		if len(b) < entryHeaderSize {
			return nil
		}
		from := 0
		for from <= len(b)-entryHeaderSize {
			i := bytes.Index(b[from:], magic)
			if i < 0 {
				break
			}
			from += i
			if h, err := parseEntryHeader(b[from:], seg.seq); err == nil && int64(h.synced) > pos {
				return seg.damaged(pos)
			}
			from++
		}
		// A header may begin in this piece and end in the next.
		at += int64(len(b) - entryHeaderSize + 1)
	}
}

func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
