// Command cost measures what a broker costs: Rondo's, and Apache Kafka 4.2.0
// beside it, with the same clients and the same requests.
//
// # The model
//
// A cell is one workload: durable acknowledgements of single records, large
// batches, fetching, commits, groups of raw members (group.go). It runs for a few seconds against one broker,
// then against the other, and so on in turn, so that what the machine does
// meanwhile falls on both. The clients cost next to nothing: frames are encoded
// once and sent again, answers are decoded only as far as their errors. What is
// charged to a broker is the CPU time of its own process; rates and latencies
// are what client and broker reach together on this machine, and say nothing
// about another.
//
// A JVM is given work to warm up before it is measured. Its start is over when
// its log says so, which is looked at twice a second.
//
// The table shows the median of the repetitions, the smallest and the largest
// value, and how many times better Rondo is. Under one repetition a broker's
// CPU time is trusted, its rate is not.
package main
