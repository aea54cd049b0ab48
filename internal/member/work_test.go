package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// The list always knows its oldest work, in whatever order work ends.
func TestWorkListOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l workList
		rng := rand.New(rand.NewPCG(1, 1))
		var open []*workContext
		for i := range 2000 {
			time.Sleep(time.Millisecond)
			if len(open) > 0 && rng.IntN(2) == 0 {
				k := rng.IntN(len(open))
				if first, second := l.end(open[k]), l.end(open[k]); !first || !second {
					t.Fatal("a work that ended in time did not")
				}
				open = append(open[:k], open[k+1:]...)
			} else {
				open = append(open, l.begin(context.Background(), Work{Offset: int64(i)}))
			}
			w, began, n := l.look()
			if n != len(open) {
				t.Fatalf("%d open, list says %d", len(open), n)
			}
			if n > 0 && (w != open[0].work || !began.Equal(open[0].began)) {
				t.Fatalf("oldest is %v, list says %v", open[0].work, w)
			}
		}
		time.Sleep(time.Second)
		if got := l.takeExpired(time.Now(), time.Second); len(got) != len(open) {
			t.Errorf("%d expired, want all %d", len(got), len(open))
		}
		for _, w := range open {
			if l.end(w) {
				t.Fatal("a work that the poll clock took ended in time")
			}
		}
		if _, _, n := l.look(); n != 0 {
			t.Errorf("%d left", n)
		}
	})
}

// A work's context is a full context, whenever it is first looked at: its
// cause is found, also through derived ones, and its parent's end ends it.
func TestWorkContext(t *testing.T) {
	clock := &PollClockError{Work: Work{Name: "call"}}
	parent, stop := context.WithCancel(context.WithValue(context.Background(), "key", "value"))
	var l workList
	early, late := l.begin(parent, Work{}), l.begin(parent, Work{})
	derived, cancel := context.WithTimeout(early, time.Hour)
	defer cancel()
	if early.Err() != nil || early.Value("key") != "value" {
		t.Error("a fresh context is not like its parent")
	}
	early.stop(clock)
	late.stop(clock) // nobody has looked at it yet
	for _, ctx := range []context.Context{early, derived, late} {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) || context.Cause(ctx) != error(clock) {
			t.Errorf("err %v, cause %v", ctx.Err(), context.Cause(ctx))
		}
	}
	early.stop(errWorkEnded)
	if context.Cause(early) != error(clock) {
		t.Errorf("the end hides the cause: %v", context.Cause(early))
	}
	orphan := l.begin(parent, Work{})
	stop()
	<-orphan.Done()
}

// BenchmarkBeginEnd is what a record pays for the poll clock: with 10,000
// others open, once with its context used and once without.
func BenchmarkBeginEnd(b *testing.B) {
	for _, used := range []bool{false, true} {
		name := map[bool]string{false: "context unused", true: "context used"}[used]
		b.Run(name, func(b *testing.B) {
			m := &Member{}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			m.ctx = ctx
			for range 10000 {
				m.Begin(Work{})
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, ticket := m.Begin(Work{Topic: "in", Name: "call"})
				if used {
					ctx.Done()
				}
				m.End(ticket)
			}
		})
	}
}
