package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/predict"
	"github.com/rondo-streams/rondo/serde"
)

// TestPredictTopology reads what a topology of the runtime says of itself.
func TestPredictTopology(t *testing.T) {
	facts := rondo.TopicOf("facts", serde.String(), serde.String())
	ask := func(_ context.Context, _, text string) (string, error) { return text, nil }
	build := rondo.New("scorer")
	build.From(facts).
		Call("model", 30*time.Second, ask, rondo.CallPolicy{Attempts: 3, Backoff: time.Second}).
		FailuresTo(rondo.TopicOf("facts.failed", serde.String(), serde.String())).
		To(rondo.TopicOf("scores", serde.String(), serde.String()))
	topology, err := build.Build()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(topology)
	if err != nil {
		t.Fatal(err)
	}
	var s predict.Settings
	if err := s.FromTopology(text); err != nil {
		t.Fatal(err)
	}
	if got := s.Call.Worst(); got != topology.WorstRecord() || s.Kind != predict.Rondo || s.Call.Attempts != 3 {
		t.Errorf("%+v, the topology says %s", s.Call, topology.WorstRecord())
	}
}

// FuzzPredictConfig reads anything as Spring's YAML and as properties.
func FuzzPredictConfig(f *testing.F) {
	f.Add([]byte("spring:\n  kafka:\n    properties:\n      max.poll.interval.ms: 30000\n"))
	f.Add([]byte("spring.kafka.listener.concurrency=3\nmax.poll.records = 5"))
	f.Add([]byte("a: &a [x, x]\nb: [*a, *a]\n---\n? {a: b}\n: 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s predict.Settings
		if _, err := springYAML(data, &s); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if properties, err := parseProperties(data); err == nil {
			if _, err := springOrPlain(properties, &s); err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		}
	})
}

// TestPredictLiveGroup watches a group that works: its time-outs come from its
// record, its partitions and rates from its offsets, and once it is closed the
// answer is that there is nothing to watch.
func TestPredictLiveGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := broker.Start(ctx, broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("scorers"), kgo.ConsumeTopics("facts"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(20*time.Second), kgo.RebalanceTimeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopics(ctx, 2, 1, nil, "facts"); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		client.Produce(ctx, &kgo.Record{Topic: "facts", Value: []byte("fact")}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	done := work(ctx, client)

	ask := func(args ...string) (int, string, string) {
		var out, talk bytes.Buffer
		code := run(&terminal{in: strings.NewReader(""), out: &out, err: &talk}, append([]string{"predict", "-b", b.Addr(), "--group", "scorers", "--sample", "1s"}, args...))
		return code, out.String(), talk.String()
	}
	code, out, talk := ask("--kind", "java-consumer")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, talk)
	}
	for _, want := range []string{"2 tasks on 1 thread", "session.timeout.ms=20000 and max.poll.interval.ms=30000, read from its record", "are committed, seen for 1s", "one call after the other"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	cancelWork(client)
	<-done
	if code, _, talk = ask("--call", "1s"); code != exitNotFound || !strings.Contains(talk, "no members (state Empty)") {
		t.Errorf("without members: exit %d: %s", code, talk)
	}
}

// work handles a record every 20 ms and commits each, until the client leaves.
func work(ctx context.Context, client *kgo.Client) (done chan struct{}) {
	done, first := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; {
			fetches := client.PollRecords(ctx, 1)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			for _, r := range fetches.Records() {
				if err := client.CommitRecords(ctx, r); err != nil {
					return
				}
				if n++; n == 1 {
					close(first)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}()
	select {
	case <-first:
	case <-ctx.Done():
	}
	return done
}

func cancelWork(client *kgo.Client) {
	client.LeaveGroup()
	client.Close()
}
