package rondo

import (
	"time"

	"github.com/rondo-streams/rondo/serde"
)

// Stream is a flow of records inside a topology: what an operator gives to the
// next. It is a description, not data; nothing runs before App.Run. A Stream
// may be used several times, and each use gets every record.
//
// A nil function, a missing name or a stream that goes nowhere is reported by
// Builder.Build with the line of the operator.
type Stream[K, V any] struct {
	b *Builder
	n *node
}

// step appends one operator that sees whole records and passes on any number.
func step[K, V, K2, V2 any](s Stream[K, V], n *node, missing bool, run func(r Record[K, V], out func(Record[K2, V2]))) Stream[K2, V2] {
	n.at = userLine()
	if missing {
		s.b.fault(n.at, "%s: the function is nil", n.kind)
	}
	n.make = func(t *task, next []any) any {
		out := fan[K2, V2](next)
		return func(r Record[K, V]) { run(r, out) }
	}
	return Stream[K2, V2]{s.b, s.b.add(n, s.n)}
}

// fan calls every child in the order of the source text.
func fan[K, V any](next []any) func(Record[K, V]) {
	switch len(next) {
	case 0:
		return func(Record[K, V]) {}
	case 1:
		return next[0].(func(Record[K, V]))
	}
	children := make([]func(Record[K, V]), len(next))
	for i, n := range next {
		children[i] = n.(func(Record[K, V]))
	}
	return func(r Record[K, V]) {
		for _, child := range children {
			child(r)
		}
	}
}

// Filter keeps the records for which keep answers true.
func (s Stream[K, V]) Filter(keep func(K, V) bool) Stream[K, V] {
	return step(s, &node{kind: "filter"}, keep == nil, func(r Record[K, V], out func(Record[K, V])) {
		if keep(r.Key, r.Value) {
			out(r)
		}
	})
}

// FilterNot drops the records for which drop answers true.
func (s Stream[K, V]) FilterNot(drop func(K, V) bool) Stream[K, V] {
	return step(s, &node{kind: "filter"}, drop == nil, func(r Record[K, V], out func(Record[K, V])) {
		if !drop(r.Key, r.Value) {
			out(r)
		}
	})
}

// Map gives every record a new key and a new value. A record whose key changed
// stays in its task: put Through between it and operators that need all
// records of a key together.
func (s Stream[K, V]) Map[K2, V2 any](f func(K, V) (K2, V2)) Stream[K2, V2] {
	return step(s, &node{kind: "map", note: "key may change"}, f == nil, func(r Record[K, V], out func(Record[K2, V2])) {
		k, v := f(r.Key, r.Value)
		out(withPair(r, k, v))
	})
}

// MapValues gives every record a new value.
func (s Stream[K, V]) MapValues[V2 any](f func(V) V2) Stream[K, V2] {
	return step(s, &node{kind: "map-values"}, f == nil, func(r Record[K, V], out func(Record[K, V2])) {
		out(WithValue(r, f(r.Value)))
	})
}

// MapRecord sees the whole record, with timestamp, headers and origin, and
// answers the one to pass on. Build the answer with WithValue, WithKey or
// WithHeader, which keep what they do not name; a record made from nothing gets
// the origin, and the time if it has none, of the input.
func (s Stream[K, V]) MapRecord[K2, V2 any](f func(Record[K, V]) Record[K2, V2]) Stream[K2, V2] {
	return step(s, &node{kind: "map", note: "whole record"}, f == nil, func(r Record[K, V], out func(Record[K2, V2])) {
		out(adopt(f(r), r.origin, r.Time))
	})
}

// adopt gives a record that user code made the origin of the record that it
// came from, on which commits depend.
func adopt[K, V any](r Record[K, V], o *origin, at time.Time) Record[K, V] {
	r.origin = o
	r.Topic, r.Partition, r.Offset = o.topic(), o.partition(), o.offset()
	if r.Time.IsZero() {
		r.Time = at
	}
	return r
}

// FlatMap turns a record into any number of records: f calls emit for each.
// emit must not be called after f has returned.
func (s Stream[K, V]) FlatMap[K2, V2 any](f func(key K, value V, emit func(K2, V2))) Stream[K2, V2] {
	return step(s, &node{kind: "flat-map", note: "key may change"}, f == nil, func(r Record[K, V], out func(Record[K2, V2])) {
		f(r.Key, r.Value, func(k K2, v V2) { out(withPair(r, k, v)) })
	})
}

// FlatMapValues turns a value into any number of values of the same key. emit
// must not be called after f has returned.
func (s Stream[K, V]) FlatMapValues[V2 any](f func(value V, emit func(V2))) Stream[K, V2] {
	return step(s, &node{kind: "flat-map-values"}, f == nil, func(r Record[K, V], out func(Record[K, V2])) {
		f(r.Value, func(v V2) { out(WithValue(r, v)) })
	})
}

// SelectKey gives every record a new key.
func (s Stream[K, V]) SelectKey[K2 any](f func(K, V) K2) Stream[K2, V] {
	return step(s, &node{kind: "select-key", note: "key changes"}, f == nil, func(r Record[K, V], out func(Record[K2, V])) {
		out(WithKey(r, f(r.Key, r.Value)))
	})
}

// Peek shows every record to f and passes it on.
func (s Stream[K, V]) Peek(f func(Record[K, V])) Stream[K, V] {
	return step(s, &node{kind: "peek"}, f == nil, func(r Record[K, V], out func(Record[K, V])) {
		f(r)
		out(r)
	})
}

// Foreach ends a stream with a function.
func (s Stream[K, V]) Foreach(f func(Record[K, V])) {
	step(s, &node{kind: "foreach"}, f == nil, func(r Record[K, V], out func(Record[K, V])) { f(r) })
}

// Merge flows two streams together. Their order to each other is that of
// their arrival.
func (s Stream[K, V]) Merge(other Stream[K, V]) Stream[K, V] {
	n := &node{kind: "merge", at: userLine(), make: func(t *task, next []any) any { return fan[K, V](next) }}
	if other.b != s.b {
		s.b.fault(n.at, "merge: the two streams belong to different topologies")
		return Stream[K, V]{s.b, s.b.add(n, s.n)}
	}
	return Stream[K, V]{s.b, s.b.add(n, s.n, other.n)}
}

// Split answers one stream for each predicate, and one for the rest. A record
// goes to the first branch whose predicate answers true. A branch that is not
// used drops its records.
func (s Stream[K, V]) Split(predicates ...func(K, V) bool) (branches []Stream[K, V], rest Stream[K, V]) {
	at := userLine()
	if len(predicates) == 0 {
		s.b.fault(at, "split: no predicates: every record would be the rest")
	}
	for _, p := range predicates {
		if p == nil {
			s.b.fault(at, "split: a predicate is nil")
		}
	}
	split := s.b.add(&node{kind: "split", at: at, make: func(t *task, next []any) any {
		return func(r Record[K, V]) {
			for i, p := range predicates {
				if p(r.Key, r.Value) {
					next[i].(func(Record[K, V]))(r)
					return
				}
			}
			next[len(predicates)].(func(Record[K, V]))(r)
		}
	}}, s.n)
	branch := func(note string) Stream[K, V] {
		return Stream[K, V]{s.b, s.b.add(&node{kind: "branch", note: note, at: at,
			make: func(t *task, next []any) any { return fan[K, V](next) }}, split)}
	}
	for i := range predicates {
		branches = append(branches, branch(ordinal(i)))
	}
	return branches, branch("rest")
}

// To writes the stream to a topic, which must exist. An input record is
// finished, and its offset may be committed, when the broker has acknowledged
// all that came of it.
func (s Stream[K, V]) To(t Topic[K, V]) {
	at := userLine()
	tp := useTopic(s.b, t, at)
	s.b.add(&node{kind: "sink", name: t.Name, note: t.note(), at: at, topic: tp, make: makeSink(t.Key, t.Value, fixedTopic[K, V](t.Name))}, s.n)
}

// ToDynamic writes each record to the topic that pick names. An empty name
// drops the record.
func (s Stream[K, V]) ToDynamic(pick func(Record[K, V]) string, key serde.Serde[K], value serde.Serde[V]) {
	at := userLine()
	if pick == nil {
		s.b.fault(at, "sink: the function that picks a topic is nil")
	}
	if key == nil || value == nil {
		s.b.fault(at, "sink: a serde is nil")
		return
	}
	s.b.add(&node{kind: "sink", note: key.Name() + " / " + value.Name() + ", topic by record", at: at, make: makeSink(key, value, pick)}, s.n)
}

// Through writes the stream to a topic and goes on with what is read from it:
// the way to bring all records of a new key together. It ends a subtopology;
// what follows is a task of its own, with its own calls, lease and commits.
// Rondo creates the topic when it is missing.
func (s Stream[K, V]) Through(t Topic[K, V]) Stream[K, V] {
	at := userLine()
	tp := useTopic(s.b, t, at)
	tp.created = true
	s.b.add(&node{kind: "sink", name: t.Name, note: t.note(), at: at, topic: tp, make: makeSink(t.Key, t.Value, fixedTopic[K, V](t.Name))}, s.n)
	return Stream[K, V]{s.b, sourceNode(s.b, t, tp, at)}
}
