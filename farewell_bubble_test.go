//go:build synctests

package rondo_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
)

// TestEvictionRepeatsNoFinishedCall: one call hangs until the poll clock fires,
// while the other partition goes on. What it has finished by then is committed
// before the lease goes, so that only the calls in flight are made again.
func TestEvictionRepeatsNoFinishedCall(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
			if value == "0" {
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return value, wait(ctx, time.Second)
		}}
		s := w.scorer("farewell", 2, svc)
		app := w.run(w.build(s), p.options()...)
		w.fill(s.in, 2, 0, 1000, one)
		eventually(t, 2*p.poll, "an eviction", func() bool { return app.Stats().Counts.PollClock == 1 })
		eventually(t, 2*p.poll, "the other partition", func() bool { return w.committed(s.group, s.in)[1] == 500 })
		repeated := 0
		for i := 1; i < 1000; i += 2 {
			repeated += max(svc.count(strconv.Itoa(i))-1, 0)
		}
		if repeated > 2 {
			t.Errorf("%d finished calls of the other partition were made again after the eviction", repeated)
		}
		if app.Stats().Counts.PollClock != 1 {
			t.Errorf("the record took %d leases, want 1: its note was lost", app.Stats().Counts.PollClock)
		}
	})
}

// TestFarewellHoldsNoLeave: the coordinator does not answer commits when the
// poll clock fires. The lease goes all the same, a second late.
func TestFarewellHoldsNoLeave(t *testing.T) {
	ownBubble(t, func(w *world) {
		p := fullPace
		forever := make(chan struct{})
		defer close(forever)
		s := w.scorer("silent", 2, hung(p, forever))
		n := &mute{world: w}
		app := w.run(w.build(s), p.options(rondo.WithDialer(n.dial))...)
		w.fill(s.in, 2, 0, 20, one)
		var began time.Time
		eventually(t, p.poll, "a call under way", func() bool {
			for _, th := range app.Stats().Threads {
				if th.InFlight > 0 && th.PollLeft < 10*time.Second {
					began = time.Now().Add(th.PollLeft)
					return true
				}
			}
			return false
		})
		n.silent.Store(true)
		eventually(t, p.poll, "an eviction", func() bool { return app.Stats().Counts.PollClock == 1 })
		if late := time.Since(began); late > 2*time.Second {
			t.Errorf("the lease went %s after the poll clock had fired", late)
		}
	})
}

// mute is the network of one process in which, from some moment on, nothing
// that it writes arrives, and nothing fails either.
type mute struct {
	world  *world
	silent atomic.Bool
}

type muteConn struct {
	net.Conn
	n *mute
}

func (m *mute) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.world.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return muteConn{conn, m}, nil
}

func (c muteConn) Write(b []byte) (int, error) {
	if c.n.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
