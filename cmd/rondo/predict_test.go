package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
		if _, _, err := springYAML(data, &s); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if variables, err := parseVariables(data); err == nil {
			if _, err := fromVariables(variables, &s, true); err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		}
		if properties, err := parseProperties(data); err == nil {
			if _, _, err := springOrPlain(properties, &s); err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		}
	})
}

// TestPredictLiveGroup watches a group that works, in both protocols of a
// consumer: its time-outs come from its records and configs, its partitions and
// rates from its offsets, and once it is closed the answer is that there is
// nothing to watch.
func TestPredictLiveGroup(t *testing.T) {
	t.Run("classic", func(t *testing.T) {
		predictLive(t, "session.timeout.ms=20000 and max.poll.interval.ms=30000, read from its records")
	})
	t.Run("consumer", func(t *testing.T) {
		predictLive(t, "max.poll.interval.ms=30000, the rebalance time-out in the records of its members", kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	})
}

func predictLive(t *testing.T, timeouts string, opts ...kgo.Opt) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := startCluster(ctx, t)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("scorers"), kgo.ConsumeTopics("facts"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(20 * time.Second), kgo.RebalanceTimeout(30 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fill(ctx, t, client)
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
	for _, want := range []string{"2 tasks on 1 thread", timeouts, "are committed, seen for 1s", "one call after the other"} {
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

func startCluster(ctx context.Context, t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(ctx, broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "0", "group.streams.initial.rebalance.delay.ms": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// fill makes the topic facts, of two partitions, with 500 records.
func fill(ctx context.Context, t *testing.T, client *kgo.Client) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopics(ctx, 2, 1, nil, "facts"); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		client.Produce(ctx, &kgo.Record{Topic: "facts", Value: []byte("fact")}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestPredictLiveStreams watches a streams group (KIP-1071): the tasks come
// from its topology, the clocks from the group's configs and members.
func TestPredictLiveStreams(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := startCluster(ctx, t)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fill(ctx, t, client)
	beat := func(epoch int32) *kmsg.StreamsGroupHeartbeatResponse {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "scorers", "m", epoch, -1
		if epoch == 0 {
			sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
			sub.SubtopologyID, sub.SourceTopics = "0", []string{"facts"}
			topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
			topology.Subtopologies = append(topology.Subtopologies, sub)
			req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = &topology, kmsg.StringPtr("p"), 70_000
			req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}
		for {
			resp, err := client.Broker(1).RetriableRequest(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			answer := resp.(*kmsg.StreamsGroupHeartbeatResponse)
			switch err := kerr.ErrorForCode(answer.ErrorCode); {
			case err == nil:
				return answer
			case !kerr.IsRetriable(err): // the coordinator comes with the first request
				t.Fatalf("heartbeat at epoch %d: %v", epoch, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for resp := beat(0); len(resp.ActiveTasks) == 0; resp = beat(resp.MemberEpoch) {
		time.Sleep(20 * time.Millisecond)
	}
	var out, talk bytes.Buffer
	code := run(&terminal{in: strings.NewReader(""), out: &out, err: &talk}, []string{"predict", "-b", b.Addr(), "--group", "scorers", "--sample", "200ms", "--call", "1s"})
	if code != 0 {
		t.Fatalf("exit %d: %s", code, talk.String())
	}
	for _, want := range []string{"2 tasks on 1 thread", "its topology has 2 active tasks, on 1 members", "streams.session.timeout.ms=45000, a config of the group", "max.poll.interval.ms=70000, the rebalance time-out"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
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

// TestPredictDocs runs the predictions that the documents show, and wants every
// line of theirs in the answer.
func TestPredictDocs(t *testing.T) {
	shown := regexp.MustCompile(`(?s)\n\$ (?:bin/)?rondo (predict [^\n]*)\n(.*?)\n` + "```")
	for _, file := range []string{"../../README.md", "../../docs/predict.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := shown.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s: no example", file)
		}
		for _, m := range found {
			var out, talk bytes.Buffer
			if code := run(&terminal{in: strings.NewReader(""), out: &out, err: &talk}, strings.Fields(m[1])); code != 0 {
				t.Errorf("%s: %s: exit %d: %s", file, m[1], code, talk.String())
			}
			for _, line := range strings.Split(m[2], "\n") {
				if line != "..." && !strings.Contains(out.String(), line+"\n") {
					t.Errorf("%s: rondo %s does not answer\n%s", file, m[1], line)
				}
			}
		}
	}
}
