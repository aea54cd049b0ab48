package group

import (
	"encoding/binary"
	"errors"
)

// Kafka's flexible encoding, in which the values of the newer records are
// written: lengths are varints of the length plus one, 0 is null, and what a
// version has added stands in tagged fields at the end. A Kafka client library
// has messages for requests only.

var errCutShort = errors.New("the value ends in the middle of a field")

// flexWriter writes a value, which begins with its version.
type flexWriter struct{ b []byte }

func newFlexWriter(version int16) *flexWriter {
	return &flexWriter{binary.BigEndian.AppendUint16(make([]byte, 0, 64), uint16(version))}
}

func (w *flexWriter) int8(v int8)     { w.b = append(w.b, byte(v)) }
func (w *flexWriter) int32(v int32)   { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *flexWriter) int64(v int64)   { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *flexWriter) count(n int)     { w.b = binary.AppendUvarint(w.b, uint64(n)+1) }
func (w *flexWriter) string(s string) { w.count(len(s)); w.b = append(w.b, s...) }
func (w *flexWriter) bytes(p []byte)  { w.count(len(p)); w.b = append(w.b, p...) }
func (w *flexWriter) id(id TopicID)   { w.b = append(w.b, id[:]...) }

func (w *flexWriter) nullable(s *string) {
	if s == nil {
		w.b = append(w.b, 0)
		return
	}
	w.string(*s)
}

func (w *flexWriter) strings(list []string) {
	w.count(len(list))
	for _, s := range list {
		w.string(s)
	}
}

func (w *flexWriter) int32s(list []int32) {
	w.count(len(list))
	for _, v := range list {
		w.int32(v)
	}
}

// noTags ends a structure that has no tagged fields.
func (w *flexWriter) noTags() { w.b = append(w.b, 0) }

// tag ends a structure that has one tagged field, its first.
func (w *flexWriter) tag(field []byte) {
	w.b = append(w.b, 1, 0)
	w.b = binary.AppendUvarint(w.b, uint64(len(field)))
	w.b = append(w.b, field...)
}

func (w *flexWriter) partitions(p partitionSet) {
	w.count(len(p))
	for _, id := range p.sortedTopics() {
		w.id(id)
		w.int32s(p[id])
		w.noTags()
	}
}

// flexReader reads a value. Its first failure stays, and every read after it
// gives zeros, so that one look at the end is enough. A length is believed only
// as far as there are bytes for it.
type flexReader struct {
	b   []byte
	err error
}

func (r *flexReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errCutShort
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *flexReader) int8() int8 {
	if p := r.take(1); p != nil {
		return int8(p[0])
	}
	return 0
}

func (r *flexReader) int16() int16 {
	if p := r.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (r *flexReader) int32() int32 {
	if p := r.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (r *flexReader) int64() int64 {
	if p := r.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

func (r *flexReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.err != nil || n <= 0 {
		r.err = errCutShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a length of things that have at least size bytes each; null says
// that there is none.
func (r *flexReader) count(size int) (n int, null bool) {
	v := r.uvarint()
	if v == 0 {
		return 0, true
	}
	if v-1 > uint64(len(r.b)/size) {
		r.err = errCutShort
		return 0, false
	}
	return int(v - 1), false
}

func (r *flexReader) string() string {
	n, _ := r.count(1)
	return string(r.take(n))
}

func (r *flexReader) nullable() *string {
	n, null := r.count(1)
	if null {
		return nil
	}
	s := string(r.take(n))
	return &s
}

func (r *flexReader) bytes() []byte {
	n, _ := r.count(1)
	return append([]byte{}, r.take(n)...)
}

func (r *flexReader) strings() []string {
	n, _ := r.count(1)
	list := make([]string, n)
	for i := range list {
		list[i] = r.string()
	}
	return list
}

func (r *flexReader) int32s() []int32 {
	n, _ := r.count(4)
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

func (r *flexReader) id() (id TopicID) {
	copy(id[:], r.take(len(id)))
	return id
}

// tags reads the tagged fields that end a structure. Those that this version
// does not know are passed over.
func (r *flexReader) tags(known func(tag uint64, field *flexReader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.uvarint()
		field := flexReader{b: r.take(int(min(r.uvarint(), 1<<31)))}
		if known != nil && r.err == nil {
			known(tag, &field)
			r.err = field.err
		}
	}
}

// maxPartitionIndex is more than any topic has (1 << 20): what says otherwise
// is damaged, and must not size a table.
const maxPartitionIndex = 1<<20 - 1

func (r *flexReader) partitions() partitionSet {
	n, _ := r.count(18)
	p := make(partitionSet, n)
	for range n {
		id, list := r.id(), r.int32s()
		r.tags(nil)
		for _, index := range list {
			if index < 0 || index > maxPartitionIndex {
				r.err = errors.New("a partition number is out of range")
				return nil
			}
		}
		p.add(id, list)
	}
	return p.sorted()
}

// end says whether the value could be read. Bytes that are left over belong to
// nobody and are no error, as in Kafka.
func (r *flexReader) end() error { return r.err }

// coordinatorKey is the key of a record: its type, and the names that the type
// has, in Kafka's older encoding.
func coordinatorKey(kind int16, names ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(kind))
	for _, n := range names {
		b = binary.BigEndian.AppendUint16(b, uint16(len(n)))
		b = append(b, n...)
	}
	return b
}

// readKey reads the names of a key.
func readKey(key []byte, names ...*string) error {
	r := flexReader{b: key}
	r.int16()
	for _, n := range names {
		*n = string(r.take(int(uint16(r.int16()))))
	}
	return r.end()
}
