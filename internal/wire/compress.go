package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxDecompressed bounds what the records of one batch may decompress to: 64
// MiB, against compression bombs. Kafka has no such bound; a batch over it is
// stored and delivered like any other, only what must look inside refuses it.
const MaxDecompressed = 64 << 20

// xerialMagic opens the framing of snappy-java, which Kafka's clients write.
const xerialMagic = "\x82SNAPPY\x00"

// Decompress gives the records of a batch with the given codec, at most
// MaxDecompressed bytes of them.
func Decompress(codec int8, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return src, nil
	case CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %v", ErrCorrupt, err)
		}
		return readBounded("gzip", r)
	case CodecSnappy:
		return unsnappy(src)
	case CodecLZ4:
		return readBounded("lz4", lz4.NewReader(bytes.NewReader(src)))
	case CodecZstd:
		return unzstd(src)
	}
	return nil, fmt.Errorf("%w: compression codec %d", ErrCorrupt, codec)
}

func readBounded(name string, r io.Reader) ([]byte, error) {
	var out bytes.Buffer
	if _, err := out.ReadFrom(io.LimitReader(r, MaxDecompressed+1)); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, name, err)
	}
	if out.Len() > MaxDecompressed {
		return nil, fmt.Errorf("%w: %s: over %d bytes", ErrTooLarge, name, MaxDecompressed)
	}
	return out.Bytes(), nil
}

func unzstd(src []byte) ([]byte, error) {
	// One decoder without workers: no goroutine outlives the call.
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxDecompressed),
		zstd.WithDecoderMaxWindow(MaxDecompressed), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("%w: zstd: %v", ErrCorrupt, err)
	}
	defer r.Close()
	out, err := r.DecodeAll(src, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, fmt.Errorf("%w: zstd: over %d bytes", ErrTooLarge, MaxDecompressed)
	case err != nil:
		return nil, fmt.Errorf("%w: zstd: %v", ErrCorrupt, err)
	}
	return out, nil
}

// unsnappy takes both forms that clients send: snappy-java's framing of
// length-prefixed blocks, and one bare block.
func unsnappy(src []byte) ([]byte, error) {
	if len(src) < 16 || string(src[:8]) != xerialMagic {
		return unsnappyBlock(nil, src)
	}
	var out []byte
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, fmt.Errorf("%w: snappy: block length is cut short", ErrCorrupt)
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(len(src)) {
			return nil, fmt.Errorf("%w: snappy: block of %d bytes, %d are left", ErrCorrupt, n, len(src))
		}
		var err error
		if out, err = unsnappyBlock(out, src[:n]); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return out, nil
}

// unsnappyBlock appends one block to out.
func unsnappyBlock(out, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", ErrCorrupt, err)
	}
	if n > MaxDecompressed-len(out) {
		return nil, fmt.Errorf("%w: snappy: over %d bytes", ErrTooLarge, MaxDecompressed)
	}
	// A block says its own size. Snappy reaches at most 64 bytes from 3, so a
	// claim above that is a lie, and is refused before memory is taken for it.
	if n > 32*len(block)+64 {
		return nil, fmt.Errorf("%w: snappy: %d bytes claim to be %d", ErrCorrupt, len(block), n)
	}
	decoded, err := s2.Decode(nil, block)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", ErrCorrupt, err)
	}
	if out == nil {
		return decoded, nil
	}
	return append(out, decoded...), nil
}

// Compress appends src to dst in the form that Kafka's own clients write.
func Compress(dst []byte, codec int8, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return writeAll(out, gzip.NewWriter(out), src)
	case CodecSnappy:
		return snappy(dst, src), nil
	case CodecLZ4:
		return writeAll(out, lz4.NewWriter(out), src)
	case CodecZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("compress with zstd: %w", err)
		}
		return w.EncodeAll(src, dst), w.Close()
	}
	return nil, fmt.Errorf("compress: unknown codec %d", codec)
}

func writeAll(out *bytes.Buffer, w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

// snappy writes snappy-java's framing: magic, version 1, lowest compatible
// version 1, then blocks of 32 KiB.
func snappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), 32<<10)
		block := s2.EncodeSnappy(nil, src[:n])
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = append(dst, block...)
		src = src[n:]
	}
	return dst
}
