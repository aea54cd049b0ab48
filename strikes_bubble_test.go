//go:build synctests

package rondo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
)

// TestNotesRefused: a cluster that takes no metadata. Records are committed all
// the same, and the record that holds the poll clock is given up once an
// instance has met it twice, as far as each knows by itself.
func TestNotesRefused(t *testing.T) {
	ownBubbleWith(t, map[string]string{"offset.metadata.max.bytes": "8"}, func(w *world) {
		forever := make(chan struct{})
		defer close(forever)
		svc := hung(fullPace, forever)
		s := w.scorer("refused", 2, svc)
		d := w.pair(w.build(s), fullPace)
		d.balance(time.Minute, 1)
		w.fill(s.in, 2, 0, 20, one)
		d.struck(10 * time.Minute)
		eventually(t, 20*time.Minute, "all committed", func() bool { return sum(w.committed(s.group, s.in)) == 20 })
		if n := d.pollClock(); n > 2 {
			t.Errorf("the poll clock took %d leases, want one of each instance at most", n)
		}
		if c := d.apps[0].Stats().Counts.CommitErrors + d.apps[1].Stats().Counts.CommitErrors; c == 0 || c > 4 {
			t.Errorf("%d commits failed: notes are not written again once one was refused", c)
		}
	})
}

// TestHandOverIsNoStrike: a call has run for nearly all of the poll clock when
// its instance stops in an orderly way. That is not the call's fault: the next
// owner runs it in full, and it succeeds.
func TestHandOverIsNoStrike(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
			return value, wait(ctx, p.poll*95/100)
		}}
		s := w.scorer("handover", 1, svc)
		w.fill(s.in, 1, 0, 1, one)
		first := w.run(w.build(s), p.options()...)
		eventually(t, p.poll, "a note", func() bool { return w.notes(s.group, s.in)[0] == "rondo held 0 call:model 1" })
		first.stop()
		if note := w.notes(s.group, s.in)[0]; note != "" {
			t.Errorf("after an orderly stop the last commit says %q", note)
		}
		second := w.run(w.build(s), p.options()...)
		eventually(t, 2*p.poll, "done", func() bool { return sum(w.committed(s.group, s.in)) == 1 })
		if c := second.Stats().Counts; c.Produced != 1 || c.DeadLetters != 0 || c.PollClock != 0 {
			t.Errorf("produced %d, dead letters %d, leases lost %d", c.Produced, c.DeadLetters, c.PollClock)
		}
		if note := w.notes(s.group, s.in)[0]; note != "" {
			t.Errorf("at the end the last commit says %q", note)
		}
	})
}

// TestCountTravels: with Evictions 2 a record may cost two leases, over all
// processes: each of three runs meets it for the first time.
func TestCountTravels(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		forever := make(chan struct{})
		defer close(forever)
		svc := hung(p, forever)
		s := w.scorer("travels", 2, svc)
		s.policy = rondo.CallPolicy{Evictions: 2}
		w.fill(s.in, 2, 0, 20, one)
		lost := int64(0)
		for run := range 3 {
			plug := &plug{world: w}
			app := w.run(w.build(s), p.options(rondo.WithDialer(plug.dial))...)
			eventually(t, 3*p.poll, "the end of the lease, or of the work", func() bool {
				return app.Stats().Counts.PollClock > 0 || sum(w.committed(s.group, s.in)) == 20
			})
			lost += app.Stats().Counts.PollClock
			if want := []string{"rondo held 2 call:model 1", "rondo held 2 call:model 2", ""}[run]; w.notes(s.group, s.in)[1] != want {
				t.Errorf("after run %d the last commit says %q, want %q", run, w.notes(s.group, s.in)[1], want)
			}
			plug.pull()
		}
		if lost != 2 || sum(w.committed(s.group, s.in)) != 20 {
			t.Errorf("%d leases lost, %d committed", lost, sum(w.committed(s.group, s.in)))
		}
	})
}

// TestHungCodeFailsThread: without a handler and a dead-letter topic a record
// that hung in user code ends the thread of its next owner, which names it, and
// evicts nobody.
func TestHungCodeFailsThread(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		forever := make(chan struct{})
		defer close(forever)
		in, out := w.topic("fatal-in", 2), w.topic("fatal-out", 2)
		svc := hung(p, forever)
		b := rondo.New("fatal" + w.suffix)
		b.From(text(in)).MapValues(func(value string) string {
			answer, _ := svc.ask(context.Background(), "", value)
			return answer
		}).To(text(out))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		w.fill(in, 2, 0, 20, one)
		first := &plug{world: w}
		app := w.run(topology, p.options(rondo.WithDialer(first.dial))...)
		eventually(t, 2*p.poll, "an eviction", func() bool { return app.Stats().Counts.PollClock == 1 })
		first.pull()
		next, err := rondo.NewApp(topology, append(p.options(), rondo.Bootstrap(w.boot...), rondo.WithDialer(w.dial), rondo.WithLogger(w.log), rondo.Set("compression.type", "none"))...)
		if err != nil {
			t.Fatal(err)
		}
		var failed *rondo.RecordError
		if err := next.Run(context.Background()); !errors.As(err, &failed) || failed.Offset != 2 || failed.Partition != 1 || !errors.Is(err, rondo.ErrPollClock) {
			t.Errorf("Run: %v", err)
		} else {
			t.Log(err)
		}
		if c := next.Stats().Counts; c.PollClock != 0 || svc.count("5") != 1 {
			t.Errorf("%d leases lost, the code was run %d times", c.PollClock, svc.count("5"))
		}
	})
}
