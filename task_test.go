package rondo

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/serde"
)

// benchTask is a task that no thread drives.
func benchTask(tb testing.TB, build func(*Builder)) *task {
	b := New("bench")
	build(b)
	topology, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	app, err := NewApp(topology, Bootstrap("127.0.0.1:1"), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		tb.Fatal(err)
	}
	t, err := newTask(newThread(app, 1), loop.TaskID{}, map[member.TopicPartition]member.Offset{{Topic: "in"}: {}})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// BenchmarkRecord is the cost of one record through four operators, from its
// bytes to the end of the task, without produce and fetch.
func BenchmarkRecord(b *testing.B) {
	seen := 0
	t := benchTask(b, func(builder *Builder) {
		builder.From(TopicOf("in", serde.String(), serde.Int64())).
			Filter(func(_ string, n int64) bool { return n >= 0 }).
			MapValues(func(n int64) int64 { return n + 1 }).
			SelectKey(func(k string, n int64) int64 { return n }).
			Foreach(func(Record[int64, int64]) { seen++ })
	})
	record := &kgo.Record{Topic: "in", Key: []byte("key"), Value: make([]byte, 8), Timestamp: time.Now()}
	run := make([]*kgo.Record, 1000)
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		if len(t.queue) == 0 {
			for i := range run {
				r := *record
				r.Offset = offset
				offset++
				run[i] = &r
			}
			t.add(t.parts[0], append([]*kgo.Record(nil), run...))
		}
		t.one()
		if offset%1000 == 0 {
			t.takeDone()
			t.host.box.items = nil
		}
	}
	if seen == 0 {
		b.Fatal("no record arrived")
	}
}

// TestOneRecordAllocates holds the cost of a record against a bound, so that a
// change that makes every record more expensive is noticed: its origin, its
// decoded key, and half a place in the list of offsets.
func TestOneRecordAllocates(t *testing.T) {
	task := benchTask(t, func(builder *Builder) {
		builder.From(TopicOf("in", serde.String(), serde.Int64())).
			Filter(func(_ string, n int64) bool { return n >= 0 }).
			MapValues(func(n int64) int64 { return n + 1 }).
			Foreach(func(Record[string, int64]) {})
	})
	records := make([]*kgo.Record, 1100)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Key: []byte("key"), Value: make([]byte, 8), Offset: int64(i)}
	}
	task.add(task.parts[0], records)
	allocs := testing.AllocsPerRun(1000, func() { task.one() })
	if allocs > 3 {
		t.Errorf("%v allocations for a record, want at most 3", allocs)
	}
}

// TestRebuildsNothingShared: two tasks of one topology have operators of their
// own.
func TestRebuildsNothingShared(t *testing.T) {
	made := 0
	build := func(b *Builder) {
		b.From(TopicOf("in", serde.String(), serde.String())).
			Process("count", func() Processor[string, string, string, string] {
				made++
				return ProcessorFunc[string, string, string, string](func(ctx Context[string, string], r Record[string, string]) error {
					if ctx.Task() != "0_0" || context.Cause(ctx) != nil {
						t.Errorf("task %s, cause %v", ctx.Task(), context.Cause(ctx))
					}
					return nil
				})
			})
	}
	task := benchTask(t, build)
	task.add(task.parts[0], []*kgo.Record{{Topic: "in"}, {Topic: "in", Offset: 1}})
	for task.one() {
	}
	if made != 1 || task.takeDone() != 2 {
		t.Errorf("%d processors made for one task, want 1", made)
	}
}
