package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxElements is how many topics and partitions together a large Produce
// request may name.
const MaxElements = 100_000

// WalkProduce steps through the body of a Produce request (v3 and above)
// without allocating anything, and complains about one whose arrays are longer
// than its bytes or than MaxElements. A decoder that trusts the length of an
// array takes up to a hundred times the frame in memory; this comes first when
// a frame is large.
func WalkProduce(b []byte, version int16, flexible bool) error {
	w := walker{b: b, flexible: flexible}
	w.skip(w.length(2, true)) // transactional id
	w.skip(2 + 4)             // acks, timeout
	elements := 0
	for range w.array(&elements) {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.length(2, false))
		}
		for range w.array(&elements) {
			w.skip(4)
			w.skip(w.length(4, true))
			w.tags()
		}
		w.tags()
		if w.err != nil {
			return fmt.Errorf("walk Produce version %d: %w", version, w.err)
		}
	}
	w.tags()
	if w.err != nil {
		return fmt.Errorf("walk Produce version %d: %w", version, w.err)
	}
	return nil
}

// walker steps over fields. After an error every step is empty.
type walker struct {
	b        []byte
	flexible bool
	err      error
}

func (w *walker) fail() {
	if w.err == nil {
		w.err = ErrFrame
	}
	w.b = nil
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.fail()
		return
	}
	w.b = w.b[n:]
}

// length reads the length of a string (2 bytes) or of bytes (4 bytes), or the
// compact form of both; null is 0 where it is allowed.
func (w *walker) length(size int, nullable bool) int {
	n := int64(-1)
	switch {
	case w.flexible:
		v, rest, err := uvarint(w.b)
		if err != nil {
			w.fail()
			return 0
		}
		w.b, n = rest, int64(v)-1
	case len(w.b) < size:
		w.fail()
		return 0
	case size == 2:
		n = int64(int16(binary.BigEndian.Uint16(w.b)))
		w.b = w.b[2:]
	default:
		n = int64(int32(binary.BigEndian.Uint32(w.b)))
		w.b = w.b[4:]
	}
	if n < 0 && nullable {
		return 0
	}
	if n < 0 || n > int64(len(w.b)) {
		w.fail()
		return 0
	}
	return int(n)
}

// array reads the length of an array and adds it to the elements so far.
func (w *walker) array(elements *int) int {
	n := w.length(4, true)
	if *elements += n; *elements > MaxElements {
		w.fail()
		return 0
	}
	return n
}

func (w *walker) tags() {
	if !w.flexible || w.err != nil {
		return
	}
	rest, err := SkipTags(w.b)
	if err != nil {
		w.fail()
		return
	}
	w.b = rest
}
