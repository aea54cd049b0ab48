package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
)

//go:embed errors.txt
var errorsText string

type schema struct {
	Name, Type   string
	ApiKey       int
	Flexible     string `json:"flexibleVersions"`
	Valid        string `json:"validVersions"`
	Fields       []*field
	CommonStruct []*field `json:"commonStructs"`
}

type field struct {
	Name, Type, Versions string
	Nullable             string `json:"nullableVersions"`
	Tagged               string `json:"taggedVersions"`
	Flexible             string `json:"flexibleVersions"`
	Tag                  int
	Default              any
	Fields               []*field
}

var (
	schemas    = map[string]*schema{}
	apiNames   = map[int]string{}            // api key -> "JoinGroup"
	coordNames = map[string]map[int]string{} // "coordinator-value" -> key type -> name
	errorNames = map[int64]string{}
	errorCodes = map[string]int64{}
)

// loadSchemas reads Kafka's own message definitions, taken from its jars by `transcript schemas`: every request,
// response, coordinator record and embedded protocol. The runner encodes and decodes from them alone, so that it
// shares no code with the broker under test.
func loadSchemas(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list []*schema
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range list {
		schemas[s.Name] = s
		if s.Type == "request" {
			apiNames[s.ApiKey] = strings.TrimSuffix(s.Name, "Request")
		}
		if strings.HasPrefix(s.Type, "coordinator-") || strings.HasPrefix(s.Name, "TransactionLog") {
			if coordNames[s.Type] == nil {
				coordNames[s.Type] = map[int]string{}
			}
			if !strings.HasPrefix(s.Name, "TransactionLog") {
				coordNames[s.Type][s.ApiKey] = s.Name
			}
		}
		bindStructs(s.Fields, s.CommonStruct)
		for _, c := range s.CommonStruct {
			bindStructs(c.Fields, s.CommonStruct)
		}
	}
	for _, l := range strings.Split(strings.TrimSpace(errorsText), "\n") {
		c, n, _ := strings.Cut(l, " ")
		code, _ := strconv.ParseInt(c, 10, 64)
		errorNames[code], errorCodes[n] = n, code
	}
	return nil
}

// bindStructs links the common structs and writes every name with a capital, which Kafka does not always do.
func bindStructs(fs, common []*field) {
	for _, f := range fs {
		f.Name = strings.ToUpper(f.Name[:1]) + f.Name[1:]
		if f.Versions == "" { // Kafka's definition of StreamsGroupMetadataValue leaves it out once
			f.Versions = f.Tagged
		}
		if len(f.Fields) == 0 {
			for _, c := range common {
				if c.Name == strings.TrimPrefix(f.Type, "[]") {
					f.Fields = c.Fields
				}
			}
			continue
		}
		bindStructs(f.Fields, common)
	}
}

// inRange tells whether version v lies in a range as Kafka writes it: "3", "0-12", "4+", "none".
func inRange(r string, v int) bool {
	if r == "" || r == "none" {
		return false
	}
	if n, ok := strings.CutSuffix(r, "+"); ok {
		lo, _ := strconv.Atoi(n)
		return v >= lo
	}
	lo, hi, two := strings.Cut(r, "-")
	l, _ := strconv.Atoi(lo)
	if !two {
		return v == l
	}
	h, _ := strconv.Atoi(hi)
	return v >= l && v <= h
}

func (s *schema) flexible(v int) bool { return inRange(s.Flexible, v) }

// A decoded message: ordered names and values. Values are int64, float64, bool, string, nil, []byte, uuid,
// list and record.
type (
	record []named
	named  struct {
		Name string
		Val  any
	}
	list []any
	uuid [16]byte
)

func (r record) get(name string) (any, bool) {
	for _, n := range r {
		if n.Name == name {
			return n.Val, true
		}
	}
	return nil, false
}

// ---- encoding: a parsed script value (node) to bytes ----

func appendUvarint(b []byte, n uint64) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func appendInt(b []byte, size int, n int64) []byte {
	for i := size - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

func (s *schema) encode(b []byte, in *node, v int) ([]byte, error) {
	return encodeStruct(b, s.Fields, in, v, s.flexible(v))
}

func encodeStruct(b []byte, fs []*field, in *node, v int, flex bool) ([]byte, error) {
	if in.kind != kStruct {
		return nil, fmt.Errorf("want fields, got %s", in)
	}
	for _, a := range in.fields {
		if f := findField(fs, a.name); f == nil || !inRange(f.Versions, v) {
			return nil, fmt.Errorf("no field %s in v%d", a.name, v)
		}
	}
	var err error
	var tags []*field
	for _, f := range fs {
		if !inRange(f.Versions, v) {
			continue
		}
		if inRange(f.Tagged, v) {
			tags = append(tags, f)
			continue
		}
		val := in.field(f.Name)
		if val == nil {
			val = f.defaultNode()
		}
		if b, err = f.encode(b, val, v, flex); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if !flex {
		return b, nil
	}
	sort.Slice(tags, func(i, j int) bool { return tags[i].Tag < tags[j].Tag })
	var body []byte
	n := 0
	for _, f := range tags {
		val := in.field(f.Name)
		if val == nil {
			continue
		}
		fb, err := f.encode(nil, val, v, flex)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		body = appendUvarint(body, uint64(f.Tag))
		body = append(appendUvarint(body, uint64(len(fb))), fb...)
		n++
	}
	return append(appendUvarint(b, uint64(n)), body...), nil
}

func findField(fs []*field, name string) *field {
	for _, f := range fs {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func (f *field) defaultNode() *node {
	switch d := f.Default.(type) {
	case string:
		if d == "null" {
			return &node{kind: kNull}
		}
		return &node{kind: kWord, text: d}
	case float64:
		return &node{kind: kWord, text: strconv.FormatInt(int64(d), 10)}
	case bool:
		return &node{kind: kWord, text: strconv.FormatBool(d)}
	}
	switch {
	case strings.HasPrefix(f.Type, "[]"):
		return &node{kind: kList}
	case f.Type == "string" || f.Type == "bytes" || f.Type == "records":
		return &node{kind: kString}
	case len(f.Fields) > 0:
		return &node{kind: kStruct}
	case f.Type == "bool":
		return &node{kind: kWord, text: "false"}
	}
	return &node{kind: kWord, text: "0"}
}

func (f *field) encode(b []byte, in *node, v int, flex bool) ([]byte, error) {
	if f.Flexible != "" {
		flex = inRange(f.Flexible, v)
	}
	if f.isStruct() {
		if inRange(f.Nullable, v) {
			if in.kind == kNull {
				return append(b, 0xff), nil
			}
			b = append(b, 1)
		}
		return encodeStruct(b, f.Fields, in, v, flex)
	}
	if elem, ok := strings.CutPrefix(f.Type, "[]"); ok {
		if in.kind == kNull {
			return appendLen(b, -1, 4, flex), nil
		}
		if in.kind != kList {
			return nil, fmt.Errorf("want a list, got %s", in)
		}
		b = appendLen(b, len(in.items), 4, flex)
		ef := &field{Type: elem, Fields: f.Fields, Versions: f.Versions}
		for _, it := range in.items {
			var err error
			if b, err = ef.encode(b, it, v, flex); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return f.encodeScalar(b, in, flex)
}

func (f *field) isStruct() bool { return len(f.Fields) > 0 && !strings.HasPrefix(f.Type, "[]") }

// appendLen writes the length prefix of a string (size 2), bytes or array (size 4); -1 is null.
func appendLen(b []byte, n, size int, flex bool) []byte {
	if flex {
		return appendUvarint(b, uint64(n+1))
	}
	return appendInt(b, size, int64(n))
}

func (f *field) encodeScalar(b []byte, in *node, flex bool) ([]byte, error) {
	switch f.Type {
	case "string", "bytes", "records":
		size := 4
		if f.Type == "string" {
			size = 2
		}
		if in.kind == kNull {
			return appendLen(b, -1, size, flex), nil
		}
		raw, err := in.bytes()
		if err != nil {
			return nil, err
		}
		return append(appendLen(b, len(raw), size, flex), raw...), nil
	case "uuid":
		u, err := parseUUID(in.text)
		return append(b, u[:]...), err
	case "bool":
		switch in.text {
		case "true":
			return append(b, 1), nil
		case "false":
			return append(b, 0), nil
		}
		return nil, fmt.Errorf("want true or false, got %s", in)
	case "float64":
		x, err := strconv.ParseFloat(in.text, 64)
		return appendInt(b, 8, int64(math.Float64bits(x))), err
	}
	n, err := in.int()
	if err != nil {
		return nil, err
	}
	size, ok := intSize[f.Type]
	if !ok {
		return nil, fmt.Errorf("type %s", f.Type)
	}
	return appendInt(b, size, n), nil
}

var intSize = map[string]int{"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}

// ---- decoding ----

type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = fmt.Errorf("short: want %d bytes, have %d", n, len(r.b))
		}
		return nil
	}
	x := r.b[:n]
	r.b = r.b[n:]
	return x
}

func (r *reader) int(size int) int64 {
	var n int64
	x := r.take(size)
	for i, c := range x {
		if i == 0 {
			n = int64(int8(c))
		} else {
			n = n<<8 | int64(c)
		}
	}
	return n
}

func (r *reader) uvarint() uint64 {
	var n uint64
	for s := 0; s < 64; s += 7 {
		x := r.take(1)
		if x == nil {
			return 0
		}
		n |= uint64(x[0]&0x7f) << s
		if x[0] < 0x80 {
			return n
		}
	}
	r.err = fmt.Errorf("varint too long")
	return 0
}

func (r *reader) varint() int64 { u := r.uvarint(); return int64(u>>1) ^ -int64(u&1) }

func (r *reader) len(size int, flex bool) int {
	n := 0
	if flex {
		n = int(r.uvarint()) - 1
	} else {
		n = int(r.int(size))
	}
	if n > len(r.b) && r.err == nil {
		r.err = fmt.Errorf("length %d exceeds the %d bytes left", n, len(r.b))
		return 0
	}
	return n
}

// decode reads one message; rest is what was left over.
func (s *schema) decode(b []byte, v int) (rec record, rest []byte, err error) {
	r := &reader{b: b}
	rec = decodeStruct(r, s.Fields, v, s.flexible(v))
	return rec, r.b, r.err
}

func decodeStruct(r *reader, fs []*field, v int, flex bool) record {
	var out record
	for _, f := range fs {
		if inRange(f.Versions, v) && !inRange(f.Tagged, v) && r.err == nil {
			out = append(out, named{f.Name, f.decode(r, v, flex)})
		}
	}
	if !flex || r.err != nil {
		return out
	}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := int(r.uvarint())
		body := &reader{b: r.take(int(r.uvarint()))}
		name, val := fmt.Sprintf("tag%d", tag), any(body.b)
		for _, f := range fs {
			if inRange(f.Tagged, v) && f.Tag == tag && inRange(f.Versions, v) {
				name, val = f.Name, f.decode(body, v, flex)
			}
		}
		if body.err != nil && r.err == nil {
			r.err = fmt.Errorf("tag %d: %w", tag, body.err)
		}
		out = append(out, named{name, val})
	}
	return out
}

func (f *field) decode(r *reader, v int, flex bool) any {
	if f.isStruct() {
		// Kafka marks a null struct by -1, but by 0 inside a tagged field.
		if inRange(f.Nullable, v) && r.int(1) <= 0 {
			return nil
		}
		return decodeStruct(r, f.Fields, v, flex)
	}
	if elem, ok := strings.CutPrefix(f.Type, "[]"); ok {
		n := r.len(4, flex)
		if n < 0 {
			return nil
		}
		ef := &field{Name: f.Name, Type: elem, Fields: f.Fields, Versions: f.Versions}
		out := list{}
		for ; n > 0 && r.err == nil; n-- {
			out = append(out, ef.decode(r, v, flex))
		}
		return out
	}
	switch f.Type {
	case "string":
		n := r.len(2, flex)
		if n < 0 {
			return nil
		}
		return string(r.take(n))
	case "bytes", "records":
		n := r.len(4, flex)
		if n < 0 {
			return nil
		}
		return append([]byte{}, r.take(n)...)
	case "uuid":
		var u uuid
		copy(u[:], r.take(16))
		return u
	case "bool":
		return r.int(1) != 0
	case "float64":
		return math.Float64frombits(uint64(r.int(8)))
	case "uint16":
		return int64(uint16(r.int(2)))
	case "uint32":
		return int64(uint32(r.int(4)))
	}
	return r.int(intSize[f.Type])
}
