package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Record is one record of a batch. Its slices point into the batch, or into the
// buffer that the batch was decompressed to, and stay valid after the call.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte // nil and empty differ: nil is null on the wire
	Headers           []RecordHeader
}

// RecordHeader is one header of a record.
type RecordHeader struct {
	Key   string
	Value []byte
}

// BatchOptions is what AppendBatch cannot learn from the records.
type BatchOptions struct {
	LeaderEpoch int32
	// ProducerID makes the batch idempotent when Idempotent is set; otherwise
	// the batch says -1, -1, -1 whatever stands here.
	Idempotent    bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// EachRecord calls f for each record of a whole batch, in order, decompressing
// it when it must: at most to MaxDecompressed bytes, else ErrTooLarge. An error
// of f ends the walk and is returned as it is.
func EachRecord(batch []byte, f func(Record) error) error {
	h, err := ParseHeader(batch)
	if err != nil {
		return err
	}
	if len(batch) < h.Size() {
		return fmt.Errorf("%w: %d bytes of %d", ErrShort, len(batch), h.Size())
	}
	b := batch[HeaderSize:h.Size()]
	if h.Codec() != CodecNone {
		if b, err = Decompress(h.Codec(), b); err != nil {
			return err
		}
	}
	d := decoder{b: b}
	for i := int32(0); i < h.Records; i++ {
		r, err := d.record(h)
		if err != nil {
			return fmt.Errorf("record %d of %d of the batch at offset %d: %w", i, h.Records, h.BaseOffset, err)
		}
		if err := f(r); err != nil {
			return err
		}
	}
	if len(d.b) > 0 {
		return fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(d.b))
	}
	return nil
}

// decoder reads from the front of b; bad is sticky.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes reads a length and so many bytes; a length of -1 gives nil.
func (d *decoder) bytes() []byte {
	n := d.varint()
	if n == -1 {
		return nil
	}
	if d.bad || n < 0 || n > int64(len(d.b)) {
		d.bad = true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) record(h Header) (Record, error) {
	body := decoder{b: d.bytes()}
	if d.bad || len(body.b) == 0 {
		return Record{}, fmt.Errorf("%w: record length", ErrCorrupt)
	}
	body.b = body.b[1:] // attributes, unused in v2
	r := Record{Timestamp: h.BaseTimestamp + body.varint(), Offset: h.BaseOffset + body.varint()}
	if h.LogAppendTime() {
		r.Timestamp = h.MaxTimestamp
	}
	if r.Offset < h.BaseOffset || r.Offset > h.LastOffset() {
		return Record{}, fmt.Errorf("%w: offset %d is outside of the batch", ErrCorrupt, r.Offset)
	}
	r.Key, r.Value = body.bytes(), body.bytes()
	n := body.varint()
	if body.bad || n < 0 || n > int64(len(body.b)) {
		return Record{}, fmt.Errorf("%w: record body", ErrCorrupt)
	}
	if n > 0 {
		r.Headers = make([]RecordHeader, 0, min(n, 16))
	}
	for range n {
		key := body.bytes()
		if key == nil {
			return Record{}, fmt.Errorf("%w: record header key", ErrCorrupt)
		}
		r.Headers = append(r.Headers, RecordHeader{Key: string(key), Value: body.bytes()})
	}
	if body.bad || len(body.b) != 0 {
		return Record{}, fmt.Errorf("%w: record body", ErrCorrupt)
	}
	return r, nil
}

// AppendBatch appends one uncompressed v2 batch to dst. The batch starts at
// offset 0: whoever stores it gives it its place. Offsets of the records are
// ignored. It needs at least one record and at most 2 GiB of them.
func AppendBatch(dst []byte, o BatchOptions, records ...Record) []byte {
	at := len(dst)
	h := Header{LeaderEpoch: o.LeaderEpoch, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		LastOffsetDelta: int32(len(records) - 1), Records: int32(len(records))}
	if o.Idempotent {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	if o.Transactional {
		h.Attributes |= attrTransactional
	}
	if o.Control {
		h.Attributes |= attrControl
	}
	h.MaxTimestamp = math.MinInt64
	for _, r := range records {
		h.MaxTimestamp = max(h.MaxTimestamp, r.Timestamp)
	}
	if len(records) > 0 {
		h.BaseTimestamp = records[0].Timestamp
	}
	dst = append(dst, make([]byte, HeaderSize)...)
	for i, r := range records {
		r.Offset = int64(i)
		dst = appendRecord(dst, r, h.BaseTimestamp)
	}
	putHeader(dst[at:], h)
	return dst
}

// Rebuild makes a batch from some of the records of old, which keep their
// offsets and timestamps, compressed as old was. horizon, unless negative, is
// stored as the delete horizon in milliseconds. It is compaction's: offsets
// have holes afterwards and Header.Records says how many are left, which may
// be none.
func Rebuild(old Header, horizon int64, records []Record) ([]byte, error) {
	h := old
	h.Records = int32(len(records))
	if horizon >= 0 {
		h.Attributes |= attrDeleteHorizon
		h.BaseTimestamp = horizon
	}
	if !h.LogAppendTime() && len(records) > 0 {
		h.MaxTimestamp = math.MinInt64
		for _, r := range records {
			h.MaxTimestamp = max(h.MaxTimestamp, r.Timestamp)
		}
	}
	var body []byte
	for _, r := range records {
		r.Offset -= h.BaseOffset
		body = appendRecord(body, r, h.BaseTimestamp)
	}
	batch := make([]byte, HeaderSize, HeaderSize+len(body))
	if len(records) > 0 {
		var err error
		if batch, err = Compress(batch, h.Codec(), body); err != nil {
			return nil, err
		}
	} else {
		h.Attributes &^= attrCodec
	}
	putHeader(batch, h)
	return batch, nil
}

// putHeader writes h with the length and the checksum of the whole batch b.
func putHeader(b []byte, h Header) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(h.BaseOffset))
	be.PutUint32(b[8:], uint32(len(b)-BatchOverhead))
	be.PutUint32(b[12:], uint32(h.LeaderEpoch))
	b[16] = 2
	be.PutUint16(b[21:], uint16(h.Attributes))
	be.PutUint32(b[23:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[27:], uint64(h.BaseTimestamp))
	be.PutUint64(b[35:], uint64(h.MaxTimestamp))
	be.PutUint64(b[43:], uint64(h.ProducerID))
	be.PutUint16(b[51:], uint16(h.ProducerEpoch))
	be.PutUint32(b[53:], uint32(h.BaseSequence))
	be.PutUint32(b[57:], uint32(h.Records))
	seal(b)
}

// appendRecord encodes r with its offset as the delta.
func appendRecord(dst []byte, r Record, baseTimestamp int64) []byte {
	size := 1 + varintLen(r.Timestamp-baseTimestamp) + varintLen(r.Offset) + bytesLen(r.Key) + bytesLen(r.Value)
	size += varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, r.Timestamp-baseTimestamp)
	dst = binary.AppendVarint(dst, r.Offset)
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
