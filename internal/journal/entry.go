package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/rondo-streams/rondo/internal/wire"
)

// The journal is a row of files, journal/<sequence>.log. Each starts with a
// segment header and goes on with entries. Integers are little-endian.
//
//	segment header              entry
//	0  8  "RNDJRNL1"            0  4  entryMagic
//	8  8  sequence              4  4  CRC-32C of bytes 8..44
//	16 8  sequence before       8  4  sequence of the segment, low 32 bits
//	24 8  bytes of the segment  12 1  kind, then 3 zero bytes
//	      before that count     16 4  length of the body
//	32 4  CRC-32C of 0..32      20 4  partition number
//	                            24 8  synced: bytes of this segment that were
//	                                  durable before this entry was written
//	                            32 8  wall clock, milliseconds
//	                            40 4  CRC-32C that pins the body
//	                            44    body
//
// What follows the last entry counts for nothing: zeros, or entries that were
// written when the file belonged to an earlier segment.
//
// The body's checksum of a data entry covers only the first 21 bytes of each
// batch. Those hold the batch's own CRC-32C, which covers the rest and was
// checked when the batch came in; so every byte is covered and the payload is
// summed once, not twice.
const (
	segmentMagic      = "RNDJRNL1"
	segmentHeaderSize = 36
	entryMagic        = 0x016a52e5
	entryHeaderSize   = 44
	batchPrefix       = 21
)

type kind uint8

const (
	kindData     kind = 1 + iota // batches, with their offsets
	kindCreate                   // an ID and its Settings; the number is new
	kindRemove                   // no body
	kindStart                    // the first offset of the log, 8 bytes
	kindSettings                 // Settings
	kindClosed                   // no body: the log was closed in order
)

func (k kind) String() string {
	names := [...]string{"none", "data", "create", "remove", "start", "settings", "closed"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn says that bytes are not a valid entry; whether that is a torn tail or
// damage is for the scan to say.
var errTorn = errors.New("not a valid journal entry")

type segmentHeader struct {
	seq, prevSeq uint64
	prevValid    uint64
}

func appendSegmentHeader(dst []byte, h segmentHeader) []byte {
	at := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, h.seq)
	dst = binary.LittleEndian.AppendUint64(dst, h.prevSeq)
	dst = binary.LittleEndian.AppendUint64(dst, h.prevValid)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

func parseSegmentHeader(b []byte) (segmentHeader, error) {
	le := binary.LittleEndian
	if len(b) < segmentHeaderSize || string(b[:8]) != segmentMagic ||
		le.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return segmentHeader{}, errTorn
	}
	return segmentHeader{seq: le.Uint64(b[8:]), prevSeq: le.Uint64(b[16:]), prevValid: le.Uint64(b[24:])}, nil
}

type entryHeader struct {
	seq    uint32
	kind   kind
	length uint32
	number uint32
	synced uint64
	at     int64
	body   uint32
}

func appendEntryHeader(dst []byte, h entryHeader) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = le.AppendUint32(dst, entryMagic)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, h.seq)
	dst = append(dst, byte(h.kind), 0, 0, 0)
	dst = le.AppendUint32(dst, h.length)
	dst = le.AppendUint32(dst, h.number)
	dst = le.AppendUint64(dst, h.synced)
	dst = le.AppendUint64(dst, uint64(h.at))
	dst = le.AppendUint32(dst, h.body)
	le.PutUint32(dst[at+4:], crc32.Checksum(dst[at+8:], castagnoli))
	return dst
}

// parseEntryHeader reads an entry's header at the start of b; seq is the
// segment it must belong to.
func parseEntryHeader(b []byte, seq uint64) (entryHeader, error) {
	le := binary.LittleEndian
	if len(b) < entryHeaderSize || le.Uint32(b) != entryMagic ||
		le.Uint32(b[4:]) != crc32.Checksum(b[8:entryHeaderSize], castagnoli) || le.Uint32(b[8:]) != uint32(seq) {
		return entryHeader{}, errTorn
	}
	return entryHeader{
		seq: le.Uint32(b[8:]), kind: kind(b[12]), length: le.Uint32(b[16:]), number: le.Uint32(b[20:]),
		synced: le.Uint64(b[24:]), at: int64(le.Uint64(b[32:])), body: le.Uint32(b[40:]),
	}, nil
}

// bodySum is the checksum that pins a body: see the table above.
func bodySum(k kind, body []byte) uint32 {
	if k != kindData {
		return crc32.Checksum(body, castagnoli)
	}
	var sum uint32
	for len(body) >= wire.HeaderSize {
		sum = crc32.Update(sum, castagnoli, body[:batchPrefix])
		size := batchSize(body)
		if size > len(body) {
			break
		}
		body = body[size:]
	}
	return sum
}

// checkBody verifies a body that was read back.
func checkBody(h entryHeader, body []byte) error {
	if bodySum(h.kind, body) != h.body {
		return errTorn
	}
	if h.kind != kindData {
		return nil
	}
	for len(body) > 0 {
		b, err := wire.CheckStored(body)
		if err != nil {
			return errTorn
		}
		body = body[b.Size():]
	}
	return nil
}

// batchSize is the size of the batch at the start of b, which has a header. It
// is at least wire.HeaderSize, so that walks end whatever the bytes are.
func batchSize(b []byte) int {
	return max(int(int32(binary.BigEndian.Uint32(b[8:])))+wire.BatchOverhead, wire.HeaderSize)
}

func batchBase(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

func batchLast(b []byte) int64 {
	return batchBase(b) + int64(int32(binary.BigEndian.Uint32(b[23:])))
}
