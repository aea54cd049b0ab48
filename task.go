package rondo

import (
	"context"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/serde"
)

type timestamp = time.Time

type origin struct{}

func (o *origin) topic() string    { return "" }
func (o *origin) partition() int32 { return 0 }
func (o *origin) offset() int64    { return 0 }

type task struct{ id loop.TaskID }

func (t *task) context() context.Context { return nil }
func (t *task) requestCommit()           {}

type callSite[K, V, W any] struct {
	spec *callSpec
	f    func(context.Context, Record[K, V]) (W, error)
	dead Topic[K, V]
}

func (c *callSite[K, V, W]) make(t *task, next []any) any { return nil }

func makeSource[K, V any](t Topic[K, V]) func(*task, []any) any { return nil }
func fixedTopic[K, V any](name string) func(Record[K, V]) string {
	return func(Record[K, V]) string { return name }
}
func makeSink[K, V any](key serde.Serde[K], value serde.Serde[V], pick func(Record[K, V]) string) func(*task, []any) any {
	return nil
}
