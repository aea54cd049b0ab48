package rondo

import "time"

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record on its way through a topology. Topic, Partition and
// Offset say which input record it came from, also after operators changed its
// key and value.
type Record[K, V any] struct {
	Key       K
	Value     V
	Time      time.Time // the record's timestamp; operators keep it, and so does the output record
	Headers   []Header  // kept by operators and written to output topics; treat as read-only, use WithHeader
	Topic     string
	Partition int32
	Offset    int64

	origin *origin
}

// WithHeader answers a copy of the record with one more header. Other records
// that share the header slice do not see it.
func (r Record[K, V]) WithHeader(key string, value []byte) Record[K, V] {
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], Header{key, value})
	return r
}

// Header answers the last header of that key, as Kafka's lastHeader does.
func (r Record[K, V]) Header(key string) (value []byte, ok bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}

// WithValue keeps everything of a record but its value.
func WithValue[K, V, W any](r Record[K, V], value W) Record[K, W] {
	return Record[K, W]{r.Key, value, r.Time, r.Headers, r.Topic, r.Partition, r.Offset, r.origin}
}

// WithKey keeps everything of a record but its key.
func WithKey[K, V, K2 any](r Record[K, V], key K2) Record[K2, V] {
	return Record[K2, V]{key, r.Value, r.Time, r.Headers, r.Topic, r.Partition, r.Offset, r.origin}
}

// withPair keeps everything but key and value.
func withPair[K, V, K2, V2 any](r Record[K, V], key K2, value V2) Record[K2, V2] {
	return Record[K2, V2]{key, value, r.Time, r.Headers, r.Topic, r.Partition, r.Offset, r.origin}
}
