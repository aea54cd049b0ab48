package serde

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// Serde reads and writes one type. Implement it for formats that this package
// does not have.
type Serde[T any] interface {
	// Encode appends the bytes of v to dst and answers the result. It answers
	// nil for a value that stands for Kafka's null.
	Encode(dst []byte, v T) ([]byte, error)
	// Decode reads what Encode wrote. data belongs to the caller after the
	// return: an implementation copies what it keeps.
	Decode(data []byte) (T, error)
	// Name identifies the format and the type, for example "string" or
	// "json(main.Score)". Two serdes of the same name read each other's bytes.
	Name() string
}

// Error says which serde could not read or write, and shows the beginning of
// what it was given.
type Error struct {
	Serde   string // Serde.Name
	Op      string // "encode" or "decode"
	Size    int    // bytes that were given to Decode, 0 for Encode
	Preview string // at most 48 bytes of them, quoted; empty for Encode
	Cause   error
}

func (e *Error) Error() string {
	if e.Op == "encode" {
		return fmt.Sprintf("encode %s: %v", e.Serde, e.Cause)
	}
	return fmt.Sprintf("decode %s from %d bytes %s: %v", e.Serde, e.Size, e.Preview, e.Cause)
}

// Unwrap answers the cause.
func (e *Error) Unwrap() error { return e.Cause }

const previewBytes = 48

// Preview quotes at most the first 48 bytes of data, for error messages.
func Preview(data []byte) string {
	if len(data) <= previewBytes {
		return fmt.Sprintf("%q", data)
	}
	return fmt.Sprintf("%q...", data[:previewBytes])
}

func decodeError(serde string, data []byte, cause error) error {
	return &Error{Serde: serde, Op: "decode", Size: len(data), Preview: Preview(data), Cause: cause}
}

type text struct{}

// String is UTF-8 text, as Kafka's StringSerializer writes it. Bytes that are
// not UTF-8 are an error, so that a binary topic read as text by mistake is
// noticed at its first record.
func String() Serde[string] { return text{} }

func (text) Name() string                                { return "string" }
func (text) Encode(dst []byte, v string) ([]byte, error) { return append(nonNil(dst), v...), nil }
func (text) Decode(data []byte) (string, error) {
	if !utf8.Valid(data) {
		return "", decodeError("string", data, errNotUTF8)
	}
	return string(data), nil
}

type raw struct{}

// Bytes passes bytes as they are; nil stays Kafka's null.
func Bytes() Serde[[]byte] { return raw{} }

func (raw) Name() string { return "bytes" }
func (raw) Encode(dst []byte, v []byte) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return append(nonNil(dst), v...), nil
}
func (raw) Decode(data []byte) ([]byte, error) {
	if data == nil {
		return nil, nil
	}
	return append([]byte{}, data...), nil
}

// nonNil makes an empty value different from Kafka's null.
func nonNil(dst []byte) []byte {
	if dst == nil {
		return []byte{}
	}
	return dst
}

type fixed[T any] struct {
	name string
	size int
	put  func(dst []byte, v T) []byte
	get  func(data []byte) T
}

func (s fixed[T]) Name() string                           { return s.name }
func (s fixed[T]) Encode(dst []byte, v T) ([]byte, error) { return s.put(dst, v), nil }
func (s fixed[T]) Decode(data []byte) (T, error) {
	var zero T
	if data == nil {
		return zero, nil
	}
	if len(data) != s.size {
		return zero, decodeError(s.name, data, fmt.Errorf("want exactly %d bytes", s.size))
	}
	return s.get(data), nil
}

// Int64 is eight bytes, big endian, as Kafka's LongSerializer writes them.
func Int64() Serde[int64] {
	return fixed[int64]{"int64", 8,
		func(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) },
		func(data []byte) int64 { return int64(binary.BigEndian.Uint64(data)) }}
}

// Int32 is four bytes, big endian, as Kafka's IntegerSerializer writes them.
func Int32() Serde[int32] {
	return fixed[int32]{"int32", 4,
		func(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) },
		func(data []byte) int32 { return int32(binary.BigEndian.Uint32(data)) }}
}

// Float64 is eight bytes of IEEE 754, big endian, as Kafka's DoubleSerializer
// writes them.
func Float64() Serde[float64] {
	return fixed[float64]{"float64", 8,
		func(dst []byte, v float64) []byte {
			return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
		},
		func(data []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(data)) }}
}

// Float32 is four bytes of IEEE 754, big endian, as Kafka's FloatSerializer
// writes them.
func Float32() Serde[float32] {
	return fixed[float32]{"float32", 4,
		func(dst []byte, v float32) []byte {
			return binary.BigEndian.AppendUint32(dst, math.Float32bits(v))
		},
		func(data []byte) float32 { return math.Float32frombits(binary.BigEndian.Uint32(data)) }}
}

// Bool is one byte, 0 or 1, as Kafka's BooleanSerializer writes it.
func Bool() Serde[bool] { return boolean{} }

type boolean struct{}

func (boolean) Name() string { return "bool" }
func (boolean) Encode(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}
func (boolean) Decode(data []byte) (bool, error) {
	if data == nil {
		return false, nil
	}
	if len(data) != 1 || data[0] > 1 {
		return false, decodeError("bool", data, errNotBool)
	}
	return data[0] == 1, nil
}

// UUID is text of 36 characters, as Kafka's UUIDSerializer writes it; the value
// is its 16 bytes.
func UUID() Serde[[16]byte] { return uuid{} }

type uuid struct{}

func (uuid) Name() string { return "uuid" }
func (uuid) Encode(dst []byte, v [16]byte) ([]byte, error) {
	return fmt.Appendf(dst, "%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]), nil
}
func (uuid) Decode(data []byte) (v [16]byte, err error) {
	if data == nil {
		return v, nil
	}
	if !parseUUID(data, &v) {
		return [16]byte{}, decodeError("uuid", data, errNotUUID)
	}
	return v, nil
}

func parseUUID(data []byte, v *[16]byte) bool {
	if len(data) != 36 {
		return false
	}
	digits := 0
	for i, c := range data {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
			continue
		}
		d, ok := hexDigit(c)
		if !ok {
			return false
		}
		v[digits/2] = v[digits/2]<<4 | d
		digits++
	}
	return true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

type jsonSerde[T any] struct{ name string }

// JSON is encoding/json of T. Fields that T does not have are ignored, so that
// a producer may add some.
func JSON[T any]() Serde[T] {
	return jsonSerde[T]{"json(" + reflect.TypeFor[T]().String() + ")"}
}

func (s jsonSerde[T]) Name() string { return s.name }

func (s jsonSerde[T]) Encode(dst []byte, v T) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Serde: s.name, Op: "encode", Cause: err}
	}
	return append(dst, data...), nil
}

func (s jsonSerde[T]) Decode(data []byte) (T, error) {
	var v T
	if data == nil {
		return v, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, decodeError(s.name, data, err)
	}
	return v, nil
}
