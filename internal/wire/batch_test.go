package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func someRecords() []Record {
	return []Record{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []RecordHeader{{"h", []byte("x")}, {"null", nil}}},
		{Timestamp: 999, Key: nil, Value: []byte{}},
		{Timestamp: 5000, Key: []byte{}, Value: nil},
		{Timestamp: 2000, Key: []byte("long"), Value: bytes.Repeat([]byte("0123456789"), 1000)},
	}
}

func collect(t testing.TB, batch []byte) (records []Record) {
	t.Helper()
	if err := EachRecord(batch, func(r Record) error { records = append(records, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return records
}

// TestBatchAgainstKmsg holds what AppendBatch writes against franz-go's own
// reading of it.
func TestBatchAgainstKmsg(t *testing.T) {
	b := AppendBatch([]byte("before"), BatchOptions{LeaderEpoch: 3, Idempotent: true, ProducerID: 7, ProducerEpoch: 2, BaseSequence: 11, Transactional: true}, someRecords()...)
	b = b[len("before"):]
	PatchBase(b, 42, 5)
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	h, err := CheckBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	want := Header{k.FirstOffset, k.Length, k.PartitionLeaderEpoch, k.Magic, uint32(k.CRC), k.Attributes, k.LastOffsetDelta,
		k.FirstTimestamp, k.MaxTimestamp, k.ProducerID, k.ProducerEpoch, k.FirstSequence, k.NumRecords}
	if h != want {
		t.Fatalf("got  %+v\nwant %+v", h, want)
	}
	if h.BaseOffset != 42 || h.LeaderEpoch != 5 || h.MaxTimestamp != 5000 || h.LastOffset() != 45 || h.LastSequence() != 14 || !h.Transactional() || h.Control() {
		t.Fatalf("%+v", h)
	}
	rest := k.Records
	for i, r := range someRecords() {
		var kr kmsg.Record
		length, n := binary.Varint(rest)
		if err := kr.ReadFrom(rest[:n+int(length)]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n+int(length):]
		if kr.TimestampDelta64+h.BaseTimestamp != r.Timestamp || kr.OffsetDelta != int32(i) || !bytes.Equal(kr.Key, r.Key) ||
			!bytes.Equal(kr.Value, r.Value) || (kr.Value == nil) != (r.Value == nil) || len(kr.Headers) != len(r.Headers) {
			t.Fatalf("record %d: %+v, want %+v", i, kr, r)
		}
		r.Offset = 42 + int64(i)
		if got := collect(t, b)[i]; !reflect.DeepEqual(got, r) {
			t.Fatalf("record %d: %+v, want %+v", i, got, r)
		}
	}
	if len(rest) > 0 {
		t.Fatalf("%d bytes are left", len(rest))
	}
}

// TestCodecsAgainstKgo reads what franz-go compresses, and lets it read what we
// compress.
func TestCodecsAgainstKgo(t *testing.T) {
	var plain []byte
	for i := range 20000 {
		plain = fmt.Appendf(plain, "%d,", i*i)
	}
	for codec, kc := range map[int8]kgo.CompressionCodec{
		CodecGzip: kgo.GzipCompression(), CodecSnappy: kgo.SnappyCompression(), CodecLZ4: kgo.Lz4Compression(), CodecZstd: kgo.ZstdCompression(),
	} {
		compressor, err := kgo.DefaultCompressor(kc)
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		theirs, used := compressor.Compress(&buf, plain)
		if int8(used) != codec {
			t.Fatalf("codec %d: they used %d", codec, used)
		}
		if got, err := Decompress(codec, theirs); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("codec %d: reading theirs: %v", codec, err)
		}
		ours, err := Compress([]byte("before"), codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(ours) > len(plain)/2+1000 && codec != CodecSnappy && codec != CodecLZ4 {
			t.Errorf("codec %d: %d bytes became %d", codec, len(plain), len(ours))
		}
		got, err := kgo.DefaultDecompressor().Decompress(ours[len("before"):], kgo.CompressionCodecType(codec))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("codec %d: they read ours: %v", codec, err)
		}
	}
}

func compressed(t testing.TB, codec int8, records ...Record) []byte {
	t.Helper()
	b := AppendBatch(nil, BatchOptions{}, records...)
	h, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	h.Attributes |= int16(codec)
	out, err := Compress(b[:HeaderSize:HeaderSize], codec, b[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	putHeader(out, h)
	return out
}

func TestRebuild(t *testing.T) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		b := compressed(t, codec, someRecords()...)
		PatchBase(b, 100, 1)
		h, err := CheckBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		records := collect(t, b)
		kept := []Record{records[1], records[3]}
		again, err := Rebuild(h, 777, kept)
		if err != nil {
			t.Fatal(err)
		}
		g, err := CheckStored(again)
		if err != nil {
			t.Fatal(err)
		}
		if g.BaseOffset != 100 || g.LastOffset() != 103 || g.Records != 2 || g.Codec() != codec || !g.DeleteHorizon() || g.BaseTimestamp != 777 || g.MaxTimestamp != 2000 {
			t.Fatalf("codec %d: %+v", codec, g)
		}
		if got := collect(t, again); !reflect.DeepEqual(got, kept) {
			t.Fatalf("codec %d: got %+v, want %+v", codec, got, kept)
		}
		if _, err := CheckBatch(again); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("codec %d: a batch with holes passed as a produced one: %v", codec, err)
		}
	}
}

func TestAppendTime(t *testing.T) {
	b := compressed(t, CodecGzip, someRecords()...)
	PatchAppendTime(b, 123456)
	h, err := CheckBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	if !h.LogAppendTime() || h.MaxTimestamp != 123456 || h.Codec() != CodecGzip {
		t.Fatalf("%+v", h)
	}
	for _, r := range collect(t, b) {
		if r.Timestamp != 123456 {
			t.Fatalf("%+v", r)
		}
	}
}

func TestSequenceWrap(t *testing.T) {
	for _, c := range []struct{ base, delta, last int32 }{{0, 0, 0}, {5, 4, 9}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}} {
		h := Header{BaseSequence: c.base, LastOffsetDelta: c.delta}
		if got := h.LastSequence(); got != c.last {
			t.Errorf("%d and %d more: %d, want %d", c.base, c.delta, got, c.last)
		}
	}
}

// TestEveryByteMatters changes each byte of a batch: nothing passes but changes
// of the fields that the broker writes itself.
func TestEveryByteMatters(t *testing.T) {
	good := AppendBatch(nil, BatchOptions{}, Record{Timestamp: 1, Value: []byte("value")})
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x40
		_, err := CheckBatch(b)
		free := i < 8 || i >= 12 && i < 16 // base offset, leader epoch
		if (err == nil) != free {
			t.Errorf("byte %d: %v", i, err)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMagic) && !errors.Is(err, ErrShort) {
			t.Errorf("byte %d: untyped error %v", i, err)
		}
	}
	for n := range good {
		if _, err := CheckBatch(good[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestBombs feeds small inputs that claim, or really are, enormous.
func TestBombs(t *testing.T) {
	zeros := make([]byte, MaxDecompressed+1)
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		bomb, err := Compress(nil, codec, zeros)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decompress(codec, bomb); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: %d bytes: %v", codec, len(bomb), err)
		}
	}
	claim := binary.AppendUvarint(nil, 1<<30)
	if _, err := Decompress(CodecSnappy, claim); err == nil {
		t.Error("a snappy block of 5 bytes may claim a gigabyte")
	}
}

func TestEachBatch(t *testing.T) {
	a := AppendBatch(nil, BatchOptions{}, someRecords()...)
	b := AppendBatch(bytes.Clone(a), BatchOptions{}, someRecords()[0])
	var sizes []int
	note := func(h Header, batch []byte) error { sizes = append(sizes, len(batch)); return nil }
	if err := EachBatch(b, note); err != nil || len(sizes) != 2 || sizes[0] != len(a) || sizes[0]+sizes[1] != len(b) {
		t.Fatalf("%v %v", sizes, err)
	}
	if err := EachBatch(b[:len(b)-1], note); !errors.Is(err, ErrShort) || len(sizes) != 3 {
		t.Fatalf("%v %v", sizes, err)
	}
}

func FuzzBatch(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		b := compressed(f, codec, someRecords()[:3]...)
		f.Add(b)
		f.Add(AppendBatch(b, BatchOptions{}, Record{}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = EachBatch(b, func(h Header, batch []byte) error {
			if len(batch) != h.Size() || h.Size() < HeaderSize {
				t.Fatalf("%d bytes for %+v", len(batch), h)
			}
			return nil
		})
		h, err := CheckBatch(b)
		if err != nil {
			return
		}
		var kept []Record
		if err := EachRecord(b, func(r Record) error {
			if r.Offset < h.BaseOffset || r.Offset > h.LastOffset() {
				t.Fatalf("offset %d in %+v", r.Offset, h)
			}
			kept = append(kept, r)
			return nil
		}); err != nil {
			return
		}
		again, err := Rebuild(h, -1, kept)
		if err != nil {
			t.Fatal(err)
		}
		var read []Record
		if err := EachRecord(again, func(r Record) error { read = append(read, r); return nil }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(kept, read) {
			t.Fatalf("wrote %+v, read %+v", kept, read)
		}
	})
}

// FuzzRecords seals arbitrary bytes as the records of a batch, which a checksum
// would keep the other fuzz target from.
func FuzzRecords(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		b := compressed(f, codec, someRecords()[:3]...)
		f.Add(codec, int32(3), b[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, codec int8, count int32, body []byte) {
		b := append(make([]byte, HeaderSize), body...)
		putHeader(b, Header{Attributes: int16(codec) & attrCodec, Records: count, LastOffsetDelta: max(count-1, 0), ProducerID: -1})
		n := int32(0)
		err := EachRecord(b, func(Record) error { n++; return nil })
		if err == nil && n != max(count, 0) {
			t.Fatalf("%d records of %d", n, count)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("untyped error %v", err)
		}
	})
}

func BenchmarkCheckBatch(b *testing.B) {
	batch := AppendBatch(nil, BatchOptions{}, Record{Value: make([]byte, 1024)})
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CheckBatch(batch); err != nil {
			b.Fatal(err)
		}
	}
}
