package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/broker"
)

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
