// Package serde turns typed keys and values into the bytes of a Kafka record
// and back.
//
// A Serde belongs to a boundary: a topic (or, later, a store) names its two
// serdes once, and no operator of a topology mentions bytes again. A Serde is a
// value without state, safe for use by many goroutines at once, and it answers
// a Name, so that a topology can print what lies in a topic and Build can
// refuse two readings of one topic.
//
// Two rules hold for every serde of this package:
//
//   - nil bytes are a null key or a null value in Kafka (a tombstone). Decode
//     answers the zero value for them and never fails, since only the caller
//     knows whether a null is welcome; Encode of a nil slice answers nil again.
//   - an error is bounded: it shows at most the first 48 bytes of what could not
//     be read, however large the record was.
package serde
