//go:build synctests

package rondo_test

import (
	"context"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
)

// TestFinishedCallIsNotBlamed: a call comes back in half of the poll interval,
// while its task is inside slow user code with another record. The result waits
// there until the call would have been too old; but it is finished, and the
// user code is within its own time, so nobody loses a lease.
func TestFinishedCallIsNotBlamed(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		svc := &service{act: after(p.poll / 2)}
		in, out := w.topic("blame-in", 1), w.topic("blame-out", 1)
		b := rondo.New("blame" + w.suffix)
		b.From(text(in)).
			Peek(func(r rondo.Record[string, string]) {
				if r.Value == "1" {
					time.Sleep(p.poll * 7 / 10)
				}
			}).
			Call("model", time.Hour, svc.ask, rondo.CallPolicy{Parallel: 2, Order: rondo.Unordered}).
			Values().To(text(out))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app := w.run(topology, p.options()...)
		w.fill(in, 1, 0, 1, one)
		eventually(t, time.Minute, "the call", func() bool { return svc.total() == 1 })
		time.Sleep(p.poll * 4 / 10)
		w.fill(in, 1, 1, 1, one)
		eventually(t, 4*p.poll, "both committed", func() bool { return sum(w.committed("blame"+w.suffix, in)) == 2 })
		if c := app.Stats(); c.Counts.Evictions != 0 || svc.total() != 2 {
			t.Errorf("%d calls for 2 records, evictions %+v", svc.total(), c.Evictions)
		}
	})
}

// TestTimeoutMeetsPollClock: a call hangs, and its time-out is exactly the poll
// interval. Whichever of the two is first, the record is a dead letter once: at
// the end of the time-out, with the lease kept, or by the next owner.
func TestTimeoutMeetsPollClock(t *testing.T) {
	for range 5 {
		ownBubble(t, func(w *world) {
			svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}}
			s := w.scorer("meet", 1, svc)
			s.timeout = fullPace.poll
			w.fill(s.in, 1, 0, 1, one)
			app := w.run(w.build(s), fullPace.options()...)
			eventually(t, 5*fullPace.poll, "committed", func() bool { return sum(w.committed(s.group, s.in)) == 1 })
			if n := len(w.read(s.dead)); n != 1 {
				t.Errorf("%d dead letters after %d evictions", n, app.Stats().Counts.Evictions)
			}
		})
	}
}
