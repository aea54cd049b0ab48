// Package lab repeats experiments on stream threads and consumer groups: those
// of two articles, those that the articles did not make, and anybody's own.
//
// # The model
//
// A [Scenario] is data: one readable file that says what is set, what is fed
// when, how slow the service is over time, and which members join or die when;
// beside it the article's claim in our words with its numbers, and where a run
// of Apache Kafka 4.2.0 or Kafka Streams 4.2.0 was recorded. The files are in
// the binary; one from a path does as well ([Parse]; format.go has the rules).
//
// Whatever is observed of a run comes as one type, [Facts]: evictions, commits,
// N, passes, calls. There are these sources of them:
//
//	predicted      the scenario in virtual time (package sim), before the run
//	streams42      measured: real members, the loop of Kafka Streams 4.2
//	percall        measured: the same, Rondo's own loop
//	consumers      measured: plain consumers of franz-go, for scenarios about groups alone
//	kafka-streams  measured: Kafka Streams 4.2.0 itself, when it is asked for
//	replayed       predicted for the hand-overs of tasks that a run of Kafka Streams had
//	recorded       what the real thing did (recorded.jsonl, reduced)
//
// A [Metric] is a number, or a list of numbers, that can be computed from
// Facts. [Compare] sets the article's numbers, and all Facts that there are,
// side by side, one row a metric. Counts must be equal and times lie within
// [Tolerance]. A cell that differs is marked and never left out; the scenario
// says by which rule it differs (because.go): a rule names the metric, the
// direction and the size of what it explains, and whatever is beyond is shown as
// a difference without a rule. A test refuses those, and rules that are wide.
//
// What is drawn by lot (lost heartbeats, member ids) is predicted many times;
// the prediction is then a band.
//
// # A run
//
// [Run] measures. It first writes the prediction to the run's directory, with
// the time and the SHA-256 of scenario and facts, and only then starts
// anything. One embedded broker serves all scenarios that want the same broker
// properties; each scenario has its own topic, group, and service (HTTP on the
// loopback), so runs go side by side. Every duration can be divided by one
// factor: a scaled run has shorter clocks and shorter calls, and its times are
// multiplied again before they are shown. What does not scale is the machine:
// joins, commits and round trips.
//
// A directory holds what has been measured, with the scenario as it was; a run
// that was stopped goes on with what is missing. What only says something about
// a run (rules, claims, numbers to compare) may change without measuring again
// (experiment.go).
//
// # Pictures
//
// A picture (picture.go) is drawn from Facts, as SVG and as text: calls by task
// on a time axis with marks for polls, half intervals, commits and evictions;
// for plain consumers who has which partition (ownership.go).
// [Report] writes one HTML file that needs nothing else.
package lab
