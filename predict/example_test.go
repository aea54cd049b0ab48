package predict_test

import (
	"fmt"
	"time"

	"github.com/rondo-streams/rondo/predict"
)

// Three tasks on one stream thread, twelve seconds a call: every call is far
// below max.poll.interval.ms, and the lease is lost in each round.
func ExamplePredict() {
	report, err := predict.Predict(predict.Settings{
		Tasks: 3, Queued: 20,
		Latency:         predict.Always(12 * time.Second),
		MaxPollInterval: 30 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Verdict, "by", report.Shows, "after", report.Lost)
	fmt.Print(report.Example)
	// Output:
	// unsafe by poll-clock after 30.3s
	// Streams42, 1 column = 500ms
	// time      |0s       |5s       |10s      |15s      |20s      |25s      |30s      |35s
	// 0_0       0=======================                                                 0~~~~
	// 0_1                               0=======================
	// 0_2                                                       0=======================
	// lease     J-----------------------------------------------------------E...........J-----
	// commit                                                                            !
	// N         1
	// evictions 1, generation 3, records 3 (3 different), commits 0 (refused 1, held up 0)
}

// Evaluate applies the rules alone, for many settings a second.
func ExampleEvaluate() {
	for _, call := range []time.Duration{9 * time.Second, 12 * time.Second, 17 * time.Second} {
		j := predict.Evaluate(predict.Settings{
			Queued: 20, Latency: predict.Always(call), MaxPollInterval: 30 * time.Second, SessionTimeout: 2 * time.Minute,
		})
		poll, _ := j.Of(predict.RulePollClock)
		fmt.Printf("%s: %s, margin %s\n", call, poll.Verdict, poll.Margin())
	}
	// Output:
	// 9s: tight, margin 2.892s
	// 12s: unsafe, margin -6.012s
	// 17s: safe, margin 12.896s
}

// The safe region is not one piece: raising max.poll.interval.ms from 20 to 30
// seconds costs the lease.
func ExampleSettings_Sweep() {
	s := predict.Settings{Queued: 20, Latency: predict.Always(12 * time.Second), SessionTimeout: 2 * time.Minute}
	sweep, err := s.Sweep("max.poll.interval.ms", 10_000, 60_000, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(sweep)
	// Output:
	// max.poll.interval.ms, 51 values, + safe  ~ tight  # unsafe
	//
	// ###~~~~~~~~~~~~############~~~~++++++++~~~~~~~~~~~~
	// 10000                                         60000
	//
	// unsafe  10000..12000
	// tight   13000..24000
	// unsafe  25000..36000
	// tight   37000..40000
	// safe    41000..48000
	// tight   49000..60000
}

// Settings come from a client's own configuration.
func ExampleSettings_SetAll() {
	s := predict.Settings{Latency: predict.Always(2 * time.Second), Tasks: 4}
	unused, err := s.SetAll(map[string]string{
		"application.id":                     "scorer",
		"num.stream.threads":                 "2",
		"main.consumer.max.poll.interval.ms": "60000",
		"max.poll.interval.ms":               "300000", // the more special one wins
	})
	fmt.Println(unused, err, s.MaxPollInterval, s.PerThread(), "tasks a thread")
	// Output:
	// [application.id] <nil> 1m0s 2 tasks a thread
}

// Clients differ in which clocks they have.
func ExampleKind_Clocks() {
	for _, k := range predict.Kinds() {
		c := k.Clocks(predict.Classic)
		fmt.Printf("%-13s poll clock %-5v heartbeats apart %v\n", k, c.PollClock, c.HeartbeatsApart)
	}
	// Output:
	// kafka-streams poll clock true  heartbeats apart true
	// java-consumer poll clock true  heartbeats apart true
	// librdkafka    poll clock true  heartbeats apart true
	// franz-go      poll clock false heartbeats apart true
	// sarama        poll clock false heartbeats apart true
	// kafkajs       poll clock false heartbeats apart false
	// rondo         poll clock true  heartbeats apart true
}
