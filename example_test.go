package rondo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/serde"
)

func Example() {
	type advisory struct{ Summary string }
	type score struct{ Severity float64 }
	ask := func(ctx context.Context, id string, a advisory) (score, error) { return score{9.8}, nil }

	advisories := rondo.TopicOf("advisories", serde.String(), serde.JSON[advisory]())
	scores := rondo.TopicOf("scores", serde.String(), serde.JSON[score]())
	dead := rondo.TopicOf("advisories.failed", serde.String(), serde.JSON[advisory]())

	b := rondo.New("scorer")
	b.From(advisories).
		Filter(func(_ string, a advisory) bool { return a.Summary != "" }).
		Call("model", 30*time.Second, ask, rondo.CallPolicy{Parallel: 3, Attempts: 3, Backoff: time.Second}).
		FailuresTo(dead).
		To(scores)
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("reads", topology.Sources(), "worst record", topology.WorstRecord())
	// Output:
	// reads [advisories] worst record 1m33s
}

func ExampleBuilder_Build() {
	b := rondo.New("scorer")
	in := rondo.TopicOf("advisories", serde.String(), serde.String())
	b.From(in).
		Filter(nil).
		Call("model", 0, func(ctx context.Context, id, text string) (float64, error) { return 0, nil }, rondo.CallPolicy{})
	_, err := b.Build()
	fmt.Println(err)
	// Output:
	// example_test.go:43: filter: the function is nil
	// example_test.go:44: call "model": timeout must be above zero: it is what keeps a hanging service from holding the record for ever
	// example_test.go:44: call "model": say what becomes of failed calls: FailuresTo, SkipFailures or Values
}

func ExampleNewApp() {
	b := rondo.New("upper")
	b.From(rondo.TopicOf("in", serde.String(), serde.String())).
		MapValues(strings.ToUpper).
		To(rondo.TopicOf("out", serde.String(), serde.String()))
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = rondo.NewApp(topology,
		rondo.Bootstrap("127.0.0.1:9092"),
		rondo.Set("num.stream.threads", "2"),
		rondo.Set("max.poll.interval", "2m"))
	fmt.Println(err)
	// Output:
	// setting "max.poll.interval" is unknown: did you mean "max.poll.interval.ms"?
}

func ExampleStream_Process() {
	b := rondo.New("counter")
	b.From(rondo.TopicOf("words", serde.String(), serde.String())).
		Process("count", func() rondo.Processor[string, string, string, int64] {
			seen := map[string]int64{} // of one task
			return rondo.ProcessorFunc[string, string, string, int64](
				func(ctx rondo.Context[string, int64], r rondo.Record[string, string]) error {
					if r.Value == "" {
						return errors.New("empty word")
					}
					seen[r.Value]++
					ctx.Forward(rondo.Record[string, int64]{Key: r.Value, Value: seen[r.Value]})
					return nil
				})
		}).
		To(rondo.TopicOf("counts", serde.String(), serde.Int64()))
	topology, err := b.Build()
	fmt.Println(topology.Name(), err)
	// Output:
	// counter <nil>
}

func ExampleStream_Split() {
	b := rondo.New("router")
	branches, rest := b.From(rondo.TopicOf("scores", serde.String(), serde.Float64())).Split(
		func(_ string, severity float64) bool { return severity >= 9 },
		func(_ string, severity float64) bool { return severity >= 7 },
	)
	branches[0].To(rondo.TopicOf("critical", serde.String(), serde.Float64()))
	branches[1].Merge(rest).To(rondo.TopicOf("others", serde.String(), serde.Float64()))
	topology, _ := b.Build()
	for _, o := range topology.Operators() {
		fmt.Println(o.Kind, o.Topic, o.Note, o.From)
	}
	// Output:
	// source scores string / float64 []
	// split   [0]
	// branch  branch 0 [1]
	// branch  branch 1 [1]
	// branch  rest [1]
	// sink critical string / float64 [2]
	// merge   [3 4]
	// sink others string / float64 [6]
}
