// Package demo is the main job of the project as something to watch: records
// that need a call of a service, a service that becomes slow, and instances
// that keep their lease all the same; and beside it the same records, the same
// service and the same settings under the loop of Kafka Streams.
//
// # Model
//
// A run has one input topic, and two sides that read it: "rondo" (the policy
// percall) and "streams" (the policy streams42). A side is a consumer group of
// two instances, a scoring service of its own, and an output topic. Each
// instance is a process of its own, the same binary again, so that killing one
// with SIGKILL is the real thing. The services live in the parent, as does the
// broker, unless the run is pointed at another cluster.
//
// A [Schedule] says when the services slow down and recover, and when one
// instance of each side is killed and replaced. Everything is scaled from
// Kafka's defaults by one factor, thirty at full length: a poll clock of 10 s
// for 300 s, a commit every second for every 30 s. The session clock is 6 s,
// the shortest that brokers allow by default: it is what frees the partitions
// of the killed instance.
//
// # What is checked
//
// A [Ledger] holds what was produced, every call that reached a service (with
// the record's partition and offset, the instance, and the time), every commit
// of the group with the broker's own time stamp, read back from
// __consumer_offsets, and what is in the output topic. From these follow
//
//	lost              records without a result in the output topic
//	scored again      calls that began after a commit that covers their record
//	repeated          further calls for a record: explained when an earlier
//	                  call was in the hands of the killed instance
//
// The rondo side must lose nothing, score nothing again that was committed,
// and have no repeat that the kill does not explain; otherwise the run failed.
// The streams side is there to be seen.
//
// The records are facts about published security advisories of the Go
// vulnerability database (golang/vulndb), Creative Commons Attribution 4.0.
package demo
