//go:build synctests

package rondo_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rondo-streams/rondo/internal/memnet"
)

// bubble runs a story in virtual time on a broker that is not ours.
func bubble(t *testing.T, story func(w *world)) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(n.Listen), kfake.SleepOutOfOrder())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		story(newWorld(t, c.ListenAddrs(), n.Dialer("app")))
	})
}

func TestBubbleScores(t *testing.T) {
	bubble(t, func(w *world) {
		svc := &service{act: after(20 * time.Millisecond)}
		s := w.scorer("score", 4, svc)
		w.fill(s.in, 4, 0, 100, func(i int) string { return "k" })
		app := w.run(w.build(s))
		eventually(t, time.Minute, "all scored", func() bool { return len(w.read(s.out)) == 100 })
		app.stop()
		if n := sum(w.committed(s.group, s.in)); n != 100 {
			t.Errorf("%d records committed, want 100", n)
		}
		t.Logf("%+v", app.Stats().Counts)
	})
}
