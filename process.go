package rondo

import (
	"context"
	"fmt"
	"time"
)

// Processor is user code that needs more than a function: state between the
// records of a task, several outputs, headers, a commit. Each task has its own
// Processor, and one goroutine at a time calls it.
type Processor[K, V, K2, V2 any] interface {
	// Process handles one record. It may forward any number of records before
	// it returns. An error goes to the processing handler.
	Process(ctx Context[K2, V2], r Record[K, V]) error
}

// ProcessorFunc is a Processor without state.
type ProcessorFunc[K, V, K2, V2 any] func(Context[K2, V2], Record[K, V]) error

// Process calls the function.
func (f ProcessorFunc[K, V, K2, V2]) Process(ctx Context[K2, V2], r Record[K, V]) error {
	return f(ctx, r)
}

// Context is what a Processor may do while it handles a record. As a
// context.Context it ends when the task loses its lease or the poll clock
// fires; context.Cause says which.
type Context[K, V any] interface {
	context.Context
	// Forward passes a record on. A record made from nothing gets the origin
	// of the record in hand, and its time if it has none.
	Forward(Record[K, V])
	// Commit asks for a commit soon, before commit.interval.ms has passed.
	Commit()
	// Task is the task as Kafka Streams writes it, for example "0_3".
	Task() string
	// Time is the time of the record in hand.
	Time() time.Time
}

// Process runs a Processor of its own for every task. The name appears in
// errors, metrics and the poll clock's reports.
func (s Stream[K, V]) Process[K2, V2 any](name string, create func() Processor[K, V, K2, V2]) Stream[K2, V2] {
	n := &node{kind: "process", name: name, at: userLine()}
	s.b.name(n)
	if create == nil {
		s.b.fault(n.at, "process %q: the function that creates the processor is nil", name)
	}
	n.make = func(t *task, next []any) any {
		p := create()
		if p == nil {
			panic(fmt.Sprintf("process %q: the function at %s created a nil processor", name, n.at))
		}
		c := &processContext[K2, V2]{task: t, out: fan[K2, V2](next)}
		return func(r Record[K, V]) {
			c.Context, c.origin, c.at = t.context(), r.origin, r.Time
			if err := p.Process(c, r); err != nil {
				panic(processFailure{fmt.Errorf("process %q: %w", name, err)})
			}
		}
	}
	return Stream[K2, V2]{s.b, s.b.add(n, s.n)}
}

// processFailure carries an error from a processor up to the task, through the
// operators between, which have no errors of their own.
type processFailure struct{ err error }

type processContext[K, V any] struct {
	context.Context
	task   *task
	origin *origin
	at     time.Time
	out    func(Record[K, V])
}

func (c *processContext[K, V]) Forward(r Record[K, V]) { c.out(adopt(r, c.origin, c.at)) }
func (c *processContext[K, V]) Commit()                { c.task.requestCommit() }
func (c *processContext[K, V]) Task() string           { return c.task.id.String() }
func (c *processContext[K, V]) Time() time.Time        { return c.at }
