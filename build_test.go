package rondo_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/serde"
)

var rewriteGolden = flag.Bool("golden", false, "rewrite testdata/*.golden")

// golden holds text against testdata/name.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *rewriteGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -golden after a change on purpose); got:\n%s\nwant:\n%s", path, got, want)
	}
}

type advisory struct{ ID, Summary string }
type score struct{ Severity float64 }

var (
	advisories = rondo.TopicOf("advisories", serde.String(), serde.JSON[advisory]())
	scores     = rondo.TopicOf("scores", serde.String(), serde.JSON[score]())
	failed     = rondo.TopicOf("advisories.failed", serde.String(), serde.JSON[advisory]())
)

func model(ctx context.Context, id string, a advisory) (score, error) { return score{9.8}, ctx.Err() }

// everything uses every operator.
func everything(t *testing.T) *rondo.Topology {
	t.Helper()
	b := rondo.New("everything")
	source := b.From(advisories)
	scored := source.
		Filter(func(_ string, a advisory) bool { return a.Summary != "" }).
		FilterNot(func(_ string, a advisory) bool { return a.ID == "" }).
		Call("model", 30*time.Second, model, rondo.CallPolicy{Parallel: 3, Order: rondo.ByKey, Attempts: 3, Backoff: time.Second}).
		FailuresTo(failed)
	branches, rest := scored.Split(func(_ string, s score) bool { return s.Severity > 7 })
	branches[0].
		CallRecord("page", 5*time.Second, func(ctx context.Context, r rondo.Record[string, score]) (score, error) { return r.Value, nil }, rondo.CallPolicy{Budget: 4 * time.Second}).
		SkipFailures().
		Merge(rest).
		To(scores)
	source.
		Map(func(id string, a advisory) (string, int64) { return id[:3], 1 }).
		SelectKey(func(k string, n int64) string { return strings.ToLower(k) }).
		Through(rondo.TopicOf("by-year", serde.String(), serde.Int64())).
		MapValues(func(n int64) float64 { return float64(n) }).
		FlatMapValues(func(v float64, emit func(float64)) { emit(v); emit(-v) }).
		FlatMap(func(k string, v float64, emit func(string, float64)) { emit(k, v) }).
		Peek(func(rondo.Record[string, float64]) {}).
		MapRecord(func(r rondo.Record[string, float64]) rondo.Record[string, float64] { return r.WithHeader("seen", nil) }).
		Process("sum", func() rondo.Processor[string, float64, string, float64] { return nil }).
		ToDynamic(func(r rondo.Record[string, float64]) string { return "sums-" + r.Key }, serde.String(), serde.Float64())
	source.Foreach(func(rondo.Record[string, advisory]) {})
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestTopologyPrints(t *testing.T) {
	topology := everything(t)
	data, err := json.MarshalIndent(topology, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "topology", topology.String())
	golden(t, "topology.json", string(data)+"\n")
	golden(t, "topology.mermaid", topology.Mermaid())
	if w := topology.WorstRecord(); w != 97*time.Second {
		t.Errorf("worst record %s, want 3 x 30s + 1s + 2s, and 4s of the second call's budget", w)
	}
	if name, w := topology.WorstCall(); name != "model" || w != 93*time.Second {
		t.Errorf("worst call %s %s, want model 1m33s", name, w)
	}
}

// TestBuildReportsEverything makes every mistake once. Build names each with
// its line.
func TestBuildReportsEverything(t *testing.T) {
	b := rondo.New("")
	source := b.From(advisories)
	source.Filter(nil).To(rondo.TopicOf("", serde.String(), serde.JSON[advisory]()))
	source.To(rondo.Topic[string, advisory]{Name: "no-serdes"})
	source.MapValues(func(a advisory) string { return a.ID })
	call := source.Call("model", 0, model, rondo.CallPolicy{Parallel: -1, Breaker: &rondo.Breaker{Failures: 3, Window: 2}})
	call.FailuresTo(failed)
	call.SkipFailures()
	source.Call("model", time.Second, model, rondo.CallPolicy{Order: 9}).Values()
	source.Call("", time.Second, model, rondo.CallPolicy{}).Values()
	source.Call[score]("nothing", time.Second, nil, rondo.CallPolicy{Adaptive: &rondo.Adaptive{Min: 5, Max: 1}})
	source.Process[string, score]("model", nil)
	b.From(rondo.TopicOf("advisories", serde.String(), serde.Bytes()))
	b.From(rondo.TopicOf("scores!", serde.String(), serde.String())).Peek(nil)
	source.Split()
	source.Split(nil)
	source.Merge(rondo.New("other").From(advisories))
	source.ToDynamic(nil, serde.String(), nil)
	_, err := b.Build()
	if err == nil {
		t.Fatal("Build found nothing")
	}
	golden(t, "build-errors", err.Error()+"\n")
	var first *rondo.BuildError
	if !errors.As(err, &first) || !strings.HasPrefix(first.At, "build_test.go:") {
		t.Errorf("the errors are no BuildErrors with a place: %v", err)
	}
	if _, err := rondo.New("empty").Build(); err == nil || !strings.Contains(err.Error(), "reads no topic") {
		t.Errorf("empty topology: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	topology := everything(t)
	_, err := rondo.NewApp(topology,
		rondo.Set("max.pol.interval.ms", "1000"), rondo.Set("consumer.session.timeout", "6s"), rondo.Set("num.stream.threads", "many"),
		rondo.Set("loop.policy", "fast"), rondo.Set("drain.timeout.ms", "10m"), rondo.Set("heartbeat.interval.ms", "60000"), rondo.Set("commit.interval.ms", "soon"),
		rondo.Set("security.protocol", "TLS"), rondo.Set("processing.guarantee", "exactly_once_v2"))
	if err == nil {
		t.Fatal("NewApp took everything")
	}
	golden(t, "setting-errors", err.Error()+"\n")
	app, err := rondo.NewApp(topology, rondo.Bootstrap("a:1", "b:2"), rondo.Properties(map[string]string{"state.dir": "/tmp", "main.consumer.max.poll.records": "20", "default.key.serde": "x", "producer.linger.ms": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	var ignored strings.Builder
	for _, i := range app.Ignored() {
		fmt.Fprintf(&ignored, "%s=%s: %s\n", i.Name, i.Value, i.Reason)
	}
	golden(t, "settings-ignored", ignored.String())
	for _, s := range rondo.Settings() {
		if s.Name == "" || (s.Help == "") == (s.Ignored == "") {
			t.Errorf("setting %+v needs a name, and help or a reason", s)
		}
	}
}
