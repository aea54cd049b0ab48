package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrFrame is wrapped by every complaint about a frame that breaks the
// protocol: a negative or absurd size, or a header that is cut off. The
// protocol has no answer to it; the connection is closed, as Kafka does.
var ErrFrame = errors.New("malformed frame")

// SizeBytes is the length of the size that precedes a frame.
const SizeBytes = 4

// FrameSize reads the size of the frame that follows and refuses what is
// negative, zero (no frame is smaller than its header) or above max, which is
// Kafka's socket.request.max.bytes.
func FrameSize(b [SizeBytes]byte, max int32) (int, error) {
	size := int32(binary.BigEndian.Uint32(b[:]))
	switch {
	case size <= 0:
		return 0, fmt.Errorf("read frame: size %d is not positive: %w", size, ErrFrame)
	case size > max:
		return 0, fmt.Errorf("read frame: size %d is above socket.request.max.bytes=%d: %w", size, max, ErrFrame)
	}
	return int(size), nil
}

// RequestHeader is what precedes every request.
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" for null, too: no rule tells them apart
}

// PeekHeader reads the first four fields without the flexible part, which
// needs the table of versions. It returns what follows the client id. A client
// repeats its id with every request: last is the one before, which is used
// again if it is the same.
func PeekHeader(b []byte, last string) (h RequestHeader, rest []byte, err error) {
	if len(b) < 10 {
		return h, nil, fmt.Errorf("read request header: %d bytes: %w", len(b), ErrFrame)
	}
	h.Key = int16(binary.BigEndian.Uint16(b))
	h.Version = int16(binary.BigEndian.Uint16(b[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(b[4:]))
	n := int16(binary.BigEndian.Uint16(b[8:]))
	b = b[10:]
	if n < 0 {
		return h, b, nil
	}
	if int(n) > len(b) {
		return h, nil, fmt.Errorf("read request header: a client id of %d bytes in %d: %w", n, len(b), ErrFrame)
	}
	if h.ClientID = last; string(b[:n]) != last {
		h.ClientID = string(b[:n])
	}
	return h, b[n:], nil
}

// SkipTags steps over a section of tagged fields (KIP-482).
func SkipTags(b []byte) ([]byte, error) {
	n, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for range n {
		if _, b, err = uvarint(b); err != nil { // the tag
			return nil, err
		}
		var size uint32
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("read tagged field: %d bytes of %d: %w", size, len(b), ErrFrame)
		}
		b = b[size:]
	}
	return b, nil
}

func uvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 {
		return 0, nil, fmt.Errorf("read unsigned varint: %w", ErrFrame)
	}
	return uint32(v), b[n:], nil
}

// AppendResponseHeader appends a response header; the caller puts the size in
// front. An ApiVersions response never has tags in its header, whatever its
// version, so that a client that speaks no newer version can read it (KIP-511).
func AppendResponseHeader(dst []byte, key int16, correlationID int32, flexible bool) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible && key != APIVersions {
		dst = append(dst, 0)
	}
	return dst
}
