package serde_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rondo-streams/rondo/serde"
)

// TestBytesAreKafkas holds every format against the bytes that Kafka's own
// serializers write for the same value.
func TestBytesAreKafkas(t *testing.T) {
	check(t, serde.String(), "h\u00e9", "68c3a9")
	check(t, serde.String(), "", "")
	check(t, serde.Int64(), -2, "fffffffffffffffe")
	check(t, serde.Int32(), 258, "00000102")
	check(t, serde.Float64(), 1.5, "3ff8000000000000")
	check(t, serde.Float32(), -2, "c0000000")
	check(t, serde.Bool(), true, "01")
	check(t, serde.UUID(), [16]byte{0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0}, hex.EncodeToString([]byte("123e4567-e89b-12d3-a456-426614174000")))
	check(t, serde.JSON[map[string]int](), map[string]int{"a": 1}, hex.EncodeToString([]byte(`{"a":1}`)))
}

func check[T any](t *testing.T, s serde.Serde[T], v T, want string) {
	t.Helper()
	data, err := s.Encode(nil, v)
	if err != nil || hex.EncodeToString(data) != want || data == nil {
		t.Errorf("%s: encode %v: %x, %v, want %s", s.Name(), v, data, err, want)
		return
	}
	back, err := s.Decode(data)
	if err != nil {
		t.Errorf("%s: decode: %v", s.Name(), err)
	}
	again, err := s.Encode([]byte("x"), back)
	if err != nil || string(again) != "x"+string(data) {
		t.Errorf("%s: encode appends %x, %v", s.Name(), again, err)
	}
	var zero T
	null, err := s.Decode(nil)
	if a, _ := s.Encode(nil, null); err != nil {
		t.Errorf("%s: null: %v", s.Name(), err)
	} else if b, _ := s.Encode(nil, zero); !bytes.Equal(a, b) {
		t.Errorf("%s: null decodes to %v, want the zero value", s.Name(), null)
	}
}

func TestNullAndEmptyBytesDiffer(t *testing.T) {
	s := serde.Bytes()
	if null, _ := s.Encode(nil, nil); null != nil {
		t.Errorf("nil encodes to %v, want null", null)
	}
	if empty, _ := s.Encode(nil, []byte{}); empty == nil || len(empty) != 0 {
		t.Errorf("empty encodes to %v, want no bytes, not null", empty)
	}
	data := []byte{1}
	kept, _ := s.Decode(data)
	data[0] = 2
	if kept[0] != 1 {
		t.Error("Decode keeps the caller's bytes")
	}
}

// TestErrorsAreBounded gives every serde a megabyte that it cannot read.
func TestErrorsAreBounded(t *testing.T) {
	bad := bytes.Repeat([]byte{0xff}, 1<<20)
	for name, decode := range map[string]func([]byte) error{
		"string": try(serde.String()), "int64": try(serde.Int64()), "int32": try(serde.Int32()), "float64": try(serde.Float64()),
		"float32": try(serde.Float32()), "bool": try(serde.Bool()), "uuid": try(serde.UUID()), "json(int)": try(serde.JSON[int]()),
	} {
		err := decode(bad)
		var about *serde.Error
		if !errors.As(err, &about) || about.Serde != name || about.Size != len(bad) || len(err.Error()) > 600 {
			t.Errorf("%s: %.700v", name, err)
		}
	}
	_, err := serde.JSON[float64]().Encode(nil, math.NaN())
	if err == nil || !strings.Contains(err.Error(), "encode json(float64)") {
		t.Errorf("encode NaN as JSON: %v", err)
	}
}

func try[T any](s serde.Serde[T]) func([]byte) error {
	return func(data []byte) error { _, err := s.Decode(data); return err }
}

// FuzzDecode: no bytes make a serde panic, and what one reads it writes back
// so that it reads the same again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("123e4567-e89b-12d3-a456-426614174000"))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte(`{"a":[1,2]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, serde.String(), data)
		again(t, serde.Bytes(), data)
		again(t, serde.Int64(), data)
		again(t, serde.Int32(), data)
		again(t, serde.Float64(), data)
		again(t, serde.Float32(), data)
		again(t, serde.Bool(), data)
		again(t, serde.UUID(), data)
		again(t, serde.JSON[any](), data)
	})
}

func again[T any](t *testing.T, s serde.Serde[T], data []byte) {
	v, err := s.Decode(data)
	if err != nil {
		return
	}
	first, err := s.Encode(nil, v)
	if err != nil {
		t.Fatalf("%s read %q and cannot write it: %v", s.Name(), data, err)
	}
	v, err = s.Decode(first)
	if err != nil {
		t.Fatalf("%s cannot read its own %q: %v", s.Name(), first, err)
	}
	if second, _ := s.Encode(nil, v); !bytes.Equal(first, second) {
		t.Fatalf("%s: %q becomes %q", s.Name(), first, second)
	}
}
