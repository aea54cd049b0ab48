package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recorded is one record as a line of JSON, with kcat's field names. What is
// not UTF-8 text goes into the base64 fields, so that a recording gives back
// every byte.
type recorded struct {
	Topic         string   `json:"topic,omitempty"`
	Partition     int32    `json:"partition"`
	Offset        int64    `json:"offset"`
	TimestampType string   `json:"tstype,omitempty"`
	Timestamp     int64    `json:"ts"`
	Headers       []string `json:"headers,omitempty"` // name, value, name, value ...
	HeadersBase64 []string `json:"headers_base64,omitempty"`
	Key           *string  `json:"key"`
	KeyBase64     []byte   `json:"key_base64,omitempty"`
	Payload       *string  `json:"payload"`
	PayloadBase64 []byte   `json:"payload_base64,omitempty"`
}

// record makes the JSON form of r.
func record(r *kgo.Record) recorded {
	out := recorded{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampType: "create", Timestamp: r.Timestamp.UnixMilli()}
	if r.Attrs.TimestampType() == 1 {
		out.TimestampType = "logappend"
	}
	out.Key, out.KeyBase64 = textOrBytes(r.Key)
	out.Payload, out.PayloadBase64 = textOrBytes(r.Value)
	text := true
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, h.Key, string(h.Value))
		text = text && utf8.Valid(h.Value)
	}
	if !text {
		out.Headers = nil
		for _, h := range r.Headers {
			out.HeadersBase64 = append(out.HeadersBase64, h.Key, base64.StdEncoding.EncodeToString(h.Value))
		}
	}
	return out
}

func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

func bytesOf(text *string, raw []byte) []byte {
	if raw != nil {
		return raw
	}
	if text != nil {
		return []byte(*text)
	}
	return nil
}

// parseRecorded reads one line of a recording.
func parseRecorded(line []byte) (recorded, *kgo.Record, error) {
	var in recorded
	if err := json.Unmarshal(line, &in); err != nil {
		return in, nil, fmt.Errorf("not a record of rondo consume -J: %w", err)
	}
	r := &kgo.Record{Key: bytesOf(in.Key, in.KeyBase64), Value: bytesOf(in.Payload, in.PayloadBase64), Partition: in.Partition}
	headers, raw := in.Headers, false
	if len(in.HeadersBase64) > 0 {
		headers, raw = in.HeadersBase64, true
	}
	if len(headers)%2 != 0 {
		return in, nil, fmt.Errorf("headers: %d entries, want name and value in turn", len(headers))
	}
	for i := 0; i < len(headers); i += 2 {
		value := []byte(headers[i+1])
		if raw {
			decoded, err := base64.StdEncoding.DecodeString(headers[i+1])
			if err != nil {
				return in, nil, fmt.Errorf("headers_base64 of %s: %w", headers[i], err)
			}
			value = decoded
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: value})
	}
	if in.Timestamp > 0 {
		r.Timestamp = time.UnixMilli(in.Timestamp)
	}
	return in, r, nil
}

// keyField takes the field at a dotted path out of a JSON value: the text of
// a string, the JSON of anything else.
func keyField(value []byte, path []string) ([]byte, error) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, fmt.Errorf("no JSON object around %q: %w", name, err)
		}
		field, ok := object[name]
		if !ok {
			return nil, fmt.Errorf("no field %q", name)
		}
		value = field
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text), nil
	}
	return bytes.TrimSpace(value), nil
}
