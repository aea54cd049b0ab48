// Package broker is a durable single-node broker that speaks Kafka's protocol.
//
// # The model
//
// A connection is one goroutine. It reads a frame, decodes the request, calls
// the handler of its API and waits until that request has been answered before
// it reads on: one connection is served one request at a time, as in Kafka.
// (Produce requests that have already arrived are handed to the journal
// together, so that they share one sync; their answers still leave in order.)
// The same goroutine writes the answers, so a reader that is slow holds up
// nobody but itself, and an idle connection costs one parked goroutine.
//
// A handler never waits. It answers with [request.reply], at once or later and
// from any goroutine: a produce answers when its batches are durable, a fetch
// when there is enough to read or its time is up, a join when the group is
// complete.
//
// What the broker knows about topics is one immutable value, the catalog,
// replaced as a whole by the one goroutine that changes metadata. Every change
// is first a durable record in a reserved partition of the journal; at start
// that partition is read from its beginning and the catalog is there again.
//
// The table in dispatch.go says which APIs there are, and in which versions.
// What is not in the table is not advertised, and a client that asks for it
// all the same loses its connection, as it would with Kafka.
//
// The errors and their texts are those of Apache Kafka 4.2.0, which recordings
// of it under testdata hold the broker to.
package broker
