package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/rondo-streams/rondo/broker"
)

// A broker inside a program, on a free port, with a setting of Kafka's.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "rondo")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary one
	b, err := broker.Start(context.Background(), broker.Config{
		Dir:        dir,
		Listen:     "127.0.0.1:0",
		Properties: map[string]string{"num.partitions": "3"},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("give b.Addr() to any Kafka client")
	if err := b.Close(); err != nil {
		panic(err)
	}
	// Output: give b.Addr() to any Kafka client
}
