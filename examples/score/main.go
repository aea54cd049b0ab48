// Score asks a slow service about every advisory, three calls in flight per
// task, and writes the answers to a topic. It runs against any Kafka:
//
//	rondo serve --data data &
//	rondo stub --listen 127.0.0.1:8080 --latency 300ms &
//	rondo topics --create --topic advisories --topic scores --topic advisories.failed --partitions 3
//	rondo produce -t advisories --key-field cve internal/demo/advisories.jsonl
//	BOOTSTRAP=127.0.0.1:9092 SCORER=http://127.0.0.1:8080/score go run ./examples/score
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/serde"
)

type advisory struct {
	CVE     string   `json:"cve"`
	Modules []string `json:"modules"`
}

type score struct {
	Score    float64 `json:"score"`
	Severity string  `json:"severity"`
}

func main() {
	advisories := rondo.TopicOf("advisories", serde.String(), serde.JSON[advisory]())
	scores := rondo.TopicOf("scores", serde.String(), serde.JSON[score]())
	failed := rondo.TopicOf("advisories.failed", serde.String(), serde.JSON[advisory]())

	service := rondo.NewHTTP(rondo.HTTPOptions{})
	ask := func(ctx context.Context, cve string, a advisory) (score, error) {
		return service.PostJSON[advisory, score](ctx, os.Getenv("SCORER"), a)
	}

	b := rondo.New("scorer")
	b.From(advisories).
		Filter(func(_ string, a advisory) bool { return len(a.Modules) > 0 }).
		Call("model", 30*time.Second, ask, rondo.CallPolicy{Parallel: 3, Order: rondo.ByKey, Attempts: 3, Backoff: time.Second}).
		FailuresTo(failed).
		To(scores)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(topology)

	app, err := rondo.NewApp(topology, rondo.Bootstrap(os.Getenv("BOOTSTRAP")))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
