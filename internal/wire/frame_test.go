package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFrameSize(t *testing.T) {
	for _, c := range []struct {
		bytes [4]byte
		want  int
	}{
		{[4]byte{0, 0, 0, 1}, 1},
		{[4]byte{0x06, 0x40, 0, 0}, 104857600},
		{[4]byte{0x06, 0x40, 0, 1}, 0},
		{[4]byte{0, 0, 0, 0}, 0},
		{[4]byte{0xff, 0xff, 0xff, 0xff}, 0},
		{[4]byte{0x7f, 0xff, 0xff, 0xff}, 0},
	} {
		got, err := FrameSize(c.bytes, 104857600)
		if got != c.want || (err != nil) != (c.want == 0) || err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("FrameSize(%x) = %d, %v; want %d", c.bytes, got, err, c.want)
		}
	}
}

// What the codec writes, the header reads back, in every version of every API.
func TestPeekHeader(t *testing.T) {
	for _, a := range Kafka42() {
		req := kmsg.RequestForKey(a.Key)
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			for _, client := range []string{"", "rondo"} {
				f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client))
				if client == "" {
					f = kmsg.NewRequestFormatter()
				}
				frame := f.AppendRequest(nil, req, 42)
				h, rest, err := PeekHeader(frame[SizeBytes:], "rondo")
				want := RequestHeader{Key: a.Key, Version: v, CorrelationID: 42, ClientID: client}
				if err != nil || h != want {
					t.Fatalf("%v version %d: %+v, %v; want %+v", a, v, h, err, want)
				}
				if v >= a.Flexible {
					if rest, err = SkipTags(rest); err != nil {
						t.Fatalf("%v version %d: %v", a, v, err)
					}
				}
				if body := req.AppendTo(nil); !bytes.Equal(rest, body) {
					t.Fatalf("%v version %d: %x is left of the frame, want %x", a, v, rest, body)
				}
			}
		}
	}
}

func TestResponseHeader(t *testing.T) {
	for _, c := range []struct {
		key      int16
		flexible bool
		want     string
	}{
		{Fetch, false, "\x00\x00\x00\x07"},
		{Fetch, true, "\x00\x00\x00\x07\x00"},
		{APIVersions, true, "\x00\x00\x00\x07"},
	} {
		if got := AppendResponseHeader(nil, c.key, 7, c.flexible); string(got) != c.want {
			t.Errorf("API %d, flexible %v: %x, want %x", c.key, c.flexible, got, c.want)
		}
	}
}

// Whatever the bytes are, the header parsers return an error or a rest that
// lies within them.
func FuzzHeader(f *testing.F) {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(12)
	f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, 1)[SizeBytes:])
	f.Add([]byte{0, 18, 0, 0, 0, 0, 0, 1, 0x0f, 0xff, 'a'})
	f.Add([]byte{0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, err := PeekHeader(b, "c")
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("error %v is not ErrFrame", err)
			}
			return
		}
		if len(h.ClientID)+len(rest) > len(b) {
			t.Fatalf("%d bytes became a client id of %d and a rest of %d", len(b), len(h.ClientID), len(rest))
		}
		body, err := SkipTags(rest)
		if err == nil && !bytes.HasSuffix(b, body) {
			t.Fatalf("the body %x is not the end of %x", body, b)
		}
	})
}
