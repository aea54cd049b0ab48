package rondo

import "github.com/rondo-streams/rondo/serde"

// Topic names a Kafka topic and says how its bytes are read and written. It is
// a value: declare it once and use it as source, sink or both.
type Topic[K, V any] struct {
	Name  string
	Key   serde.Serde[K]
	Value serde.Serde[V]
	// Partitions is used only when Rondo itself creates the topic, which it
	// does for Through. Zero means as many as the widest topic upstream.
	Partitions int32
}

// TopicOf describes a topic.
func TopicOf[K, V any](name string, key serde.Serde[K], value serde.Serde[V]) Topic[K, V] {
	return Topic[K, V]{Name: name, Key: key, Value: value}
}

func (t Topic[K, V]) note() string {
	k, v := "?", "?"
	if t.Key != nil {
		k = t.Key.Name()
	}
	if t.Value != nil {
		v = t.Value.Name()
	}
	return k + " / " + v
}
