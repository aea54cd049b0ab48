package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Sizes and places of the v2 record batch (Kafka's DefaultRecordBatch, KIP-98).
const (
	// HeaderSize is what every batch has before its records, in bytes.
	HeaderSize = 61
	// BatchOverhead is what a batch has before the bytes that Header.Length
	// counts: base offset and length.
	BatchOverhead = 12
	// crcFrom is the first byte that the checksum covers (the attributes).
	crcFrom = 21
)

// Bits of Header.Attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Codecs as the attributes number them.
const (
	CodecNone   int8 = 0
	CodecGzip   int8 = 1
	CodecSnappy int8 = 2
	CodecLZ4    int8 = 3
	CodecZstd   int8 = 4
)

// Errors of batches. They are wrapped with what was seen and where.
var (
	// ErrShort: the bytes end before the batch does. Reading on may help.
	ErrShort = errors.New("record batch is cut short")
	// ErrMagic: a message set of magic 0 or 1, which Kafka stopped writing
	// with 4.0, or an unknown later format.
	ErrMagic = errors.New("record batch has an unsupported magic")
	// ErrCorrupt: the bytes contradict themselves.
	ErrCorrupt = errors.New("record batch is corrupt")
	// ErrTooLarge: the records would decompress to more than MaxDecompressed.
	ErrTooLarge = errors.New("record batch decompresses to too much")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the 61-byte header of a v2 record batch.
type Header struct {
	BaseOffset                  int64
	Length                      int32 // bytes that follow this field
	LeaderEpoch                 int32
	Magic                       int8
	CRC                         uint32
	Attributes                  int16
	LastOffsetDelta             int32
	BaseTimestamp, MaxTimestamp int64
	ProducerID                  int64 // -1: not idempotent
	ProducerEpoch               int16
	BaseSequence                int32
	Records                     int32 // fewer than LastOffsetDelta+1 after compaction
}

// ParseHeader reads the header at the start of b. It checks what must hold
// before Size can be trusted, and nothing that needs the records: use
// CheckBatch for bytes that come from outside.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < BatchOverhead+5 {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrShort, len(b), HeaderSize)
	}
	if magic := int8(b[16]); magic != 2 {
		return Header{}, fmt.Errorf("%w: %d, want 2", ErrMagic, magic)
	}
	be := binary.BigEndian
	length := int32(be.Uint32(b[8:]))
	if length < HeaderSize-BatchOverhead || length > math.MaxInt32-BatchOverhead {
		return Header{}, fmt.Errorf("%w: length field says %d", ErrCorrupt, length)
	}
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrShort, len(b), HeaderSize)
	}
	h := Header{
		BaseOffset:      int64(be.Uint64(b)),
		Length:          length,
		LeaderEpoch:     int32(be.Uint32(b[12:])),
		Magic:           2,
		CRC:             be.Uint32(b[17:]),
		Attributes:      int16(be.Uint16(b[21:])),
		LastOffsetDelta: int32(be.Uint32(b[23:])),
		BaseTimestamp:   int64(be.Uint64(b[27:])),
		MaxTimestamp:    int64(be.Uint64(b[35:])),
		ProducerID:      int64(be.Uint64(b[43:])),
		ProducerEpoch:   int16(be.Uint16(b[51:])),
		BaseSequence:    int32(be.Uint32(b[53:])),
		Records:         int32(be.Uint32(b[57:])),
	}
	if h.LastOffsetDelta < 0 || h.BaseOffset < 0 || h.BaseOffset > math.MaxInt64-math.MaxInt32-1 {
		return Header{}, fmt.Errorf("%w: base offset %d with last offset delta %d", ErrCorrupt, h.BaseOffset, h.LastOffsetDelta)
	}
	return h, nil
}

// Size is the whole batch in bytes.
func (h Header) Size() int { return int(h.Length) + BatchOverhead }

// Codec is one of CodecNone ... CodecZstd, or a number that nobody has given a
// meaning yet (5-7).
func (h Header) Codec() int8 { return int8(h.Attributes & attrCodec) }

// Transactional says that the records belong to a transaction.
func (h Header) Transactional() bool { return h.Attributes&attrTransactional != 0 }

// Control says that the batch holds a transaction marker, not user records.
func (h Header) Control() bool { return h.Attributes&attrControl != 0 }

// LogAppendTime says that MaxTimestamp, set by the broker, is the timestamp of
// every record.
func (h Header) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// DeleteHorizon says that BaseTimestamp is the time, in milliseconds, from
// which compaction may drop the tombstones of this batch (KIP-534).
func (h Header) DeleteHorizon() bool { return h.Attributes&attrDeleteHorizon != 0 }

// LastOffset is the offset of the last record, also of one that compaction has
// taken out.
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// LastSequence is the sequence number of the last record; sequence numbers go
// from 2^31-1 to 0 (Kafka's DefaultRecordBatch.incrementSequence).
func (h Header) LastSequence() int32 {
	if h.ProducerID < 0 || h.BaseSequence < 0 {
		return -1
	}
	if h.BaseSequence > math.MaxInt32-h.LastOffsetDelta {
		return h.LastOffsetDelta - (math.MaxInt32 - h.BaseSequence) - 1
	}
	return h.BaseSequence + h.LastOffsetDelta
}

// CheckBatch checks one batch at the start of b as a broker must before it
// stores it: magic, length, CRC-32C, at least one record, and offsets without
// holes. What follows the batch in b is not looked at.
func CheckBatch(b []byte) (Header, error) {
	h, err := CheckStored(b)
	if err != nil {
		return h, err
	}
	if h.Records < 1 || h.LastOffsetDelta != h.Records-1 {
		return h, fmt.Errorf("%w: %d records with last offset delta %d", ErrCorrupt, h.Records, h.LastOffsetDelta)
	}
	if h.Codec() > CodecZstd {
		return h, fmt.Errorf("%w: compression codec %d", ErrCorrupt, h.Codec())
	}
	return h, nil
}

// CheckStored checks magic, length and CRC-32C, as CheckBatch does, but allows
// the holes that compaction leaves.
func CheckStored(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return h, err
	}
	if len(b) < h.Size() {
		return h, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(b), h.Size())
	}
	if sum := crc32.Checksum(b[crcFrom:h.Size()], castagnoli); sum != h.CRC {
		return h, fmt.Errorf("%w: CRC-32C is %08x, the header says %08x", ErrCorrupt, sum, h.CRC)
	}
	if h.Records < 0 || int64(h.Records) > int64(h.LastOffsetDelta)+1 {
		return h, fmt.Errorf("%w: %d records with last offset delta %d", ErrCorrupt, h.Records, h.LastOffsetDelta)
	}
	return h, nil
}

// PatchBase gives a checked batch its place in a log. The checksum does not
// cover these fields.
func PatchBase(b []byte, base int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], uint32(leaderEpoch))
}

// PatchAppendTime makes ms the timestamp of every record of a checked batch
// (message.timestamp.type=LogAppendTime) and computes the checksum again.
func PatchAppendTime(b []byte, ms int64) {
	be := binary.BigEndian
	be.PutUint16(b[21:], be.Uint16(b[21:])|attrLogAppendTime)
	be.PutUint64(b[35:], uint64(ms))
	seal(b[:BatchOverhead+int(be.Uint32(b[8:]))])
}

// seal writes the checksum of a whole batch.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[crcFrom:], castagnoli))
}

// EachBatch walks the batches of b, which must follow each other without a
// gap. It reads headers only. ErrShort, with the whole batches before already
// passed to f, means that the last one is cut off, as in a fetch response.
func EachBatch(b []byte, f func(h Header, batch []byte) error) error {
	for pos := 0; pos < len(b); {
		h, err := ParseHeader(b[pos:])
		if err != nil {
			return fmt.Errorf("batch at byte %d: %w", pos, err)
		}
		if len(b)-pos < h.Size() {
			return fmt.Errorf("batch at byte %d: %w: %d bytes of %d", pos, ErrShort, len(b)-pos, h.Size())
		}
		if err := f(h, b[pos:pos+h.Size():pos+h.Size()]); err != nil {
			return err
		}
		pos += h.Size()
	}
	return nil
}
