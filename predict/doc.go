// Package predict says before a deploy whether a consumer of Kafka keeps its
// lease with the settings it has and the latency of the service it calls.
//
// # The model
//
// A member of a consumer group keeps its lease by two clocks: the session clock
// (session.timeout.ms, restarted by heartbeats) and the poll clock
// (max.poll.interval.ms, restarted by polls). Clients differ in which clocks
// they have and in how much work lies between two polls; a [Kind] says which
// client it is, [Kind.Clocks] what it has. In Kafka Streams the work between
// two polls is
//
//	round    one record of each task of a thread: tasks x call
//	pass     up to N records of each task; N grows by one with each pass and is
//	         halved by a commit or a late pass, but by nothing else
//	band     a round between a third and a half of max.poll.interval.ms, where
//	         a pass of one round is not late yet and the pass of two is too long
//
// so one call that is far shorter than max.poll.interval.ms may still cost the
// lease.
//
// # Rules and the core
//
// [Evaluate] applies rules: sentences with a formula and a source, listed by
// [Rules]. The rule of the poll clock adds passes up one by one; no event, no
// group and no other thread is in it, and it takes microseconds. Its verdict is
// held against the loop itself (the stream thread of Kafka Streams 4.2 in
// virtual time, with its consumer and its group) for a hundred thousand random
// settings, and against recorded runs of the real one.
//
// [Predict] adds what one wants to know next: the smallest change that makes
// an unsafe setting safe and what it costs, the knobs that do nothing, and a
// counter-example: the run of that loop in which the lease is lost, as a
// timeline.
//
// # Verdicts
//
//	unsafe  the lease is lost, or a commit refused, in a run that the settings allow
//	tight   it is not, but would be if calls took a tenth longer, or by a race that a busy machine loses
//	safe    neither
//
// A prediction is as good as the latencies that are put in. What was assumed
// because nothing was said about it is listed in [Report.Assumed].
package predict
