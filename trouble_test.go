//go:build synctests

package rondo_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// TestSessionClock: the network of one instance is cut for two minutes. The
// other one takes over after the session clock, the first notices that it lost
// its lease, and comes back when the network does.
func TestSessionClock(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(n.Listen), kfake.SleepOutOfOrder())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		w := newWorld(t, c.ListenAddrs(), n.Dialer("watcher"))
		svc := &service{act: after(10 * time.Millisecond)}
		s := w.scorer("session", 4, svc)
		topology := w.build(s)
		first := w.run(topology, fullPace.options(rondo.WithDialer(n.Dialer("first")), rondo.Set("client.id", "first"))...)
		second := w.run(topology, fullPace.options(rondo.WithDialer(n.Dialer("second")), rondo.Set("client.id", "second"))...)
		eventually(t, time.Minute, "two tasks each", func() bool {
			return len(first.Stats().Threads) == 1 && len(second.Stats().Threads) == 1 && balanced(first, 2) && balanced(second, 2)
		})
		w.fill(s.in, 4, 0, 40, one)
		eventually(t, time.Minute, "scored", func() bool { return len(w.read(s.out)) >= 40 })
		n.Cut("first")
		began := time.Now()
		eventually(t, 2*time.Minute, "the second takes over", func() bool { return balanced(second, 4) })
		if took := time.Since(began); took < 40*time.Second || took > 55*time.Second {
			t.Errorf("taken over after %s, the session clock is 45s", took)
		}
		w.fill(s.in, 4, 40, 40, one)
		eventually(t, time.Minute, "scored without the first", func() bool { return len(w.read(s.out)) >= 80 })
		n.Heal("first")
		eventually(t, 2*time.Minute, "the first is back", func() bool { return balanced(first, 2) && balanced(second, 2) })
		stats := first.Stats()
		if len(stats.Evictions) != 1 || stats.Evictions[0].Cause != cause.SessionClock {
			t.Errorf("evictions of the first: %+v, want one by the session clock", stats.Evictions)
		}
		if second.Stats().Counts.Evictions != 0 {
			t.Errorf("evictions of the second: %+v", second.Stats().Evictions)
		}
		for i := range 80 {
			if svc.count(values(w.read(s.in))[i]) == 0 {
				t.Errorf("record %d was lost", i)
			}
		}
	})
}

// TestNewcomerAmongBusyMembers: two instances make calls of 120 s when a third
// one joins. Kafka Streams loses a member here without any clock of its own
// having expired (a busy member's heartbeats stop while its join is open). Here
// nobody loses the lease, the newcomer has its partitions within the drain
// budget, and the partitions that stay are committed all the while.
func TestNewcomerAmongBusyMembers(t *testing.T) {
	ownBubble(t, func(w *world) {
		svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
			if key == "slow" {
				return "ok", wait(ctx, 2*time.Minute)
			}
			return "ok", wait(ctx, 100*time.Millisecond)
		}}
		s := w.scorer("busy", 6, svc)
		s.policy = rondo.CallPolicy{Parallel: 2, Order: rondo.ByKey}
		topology := w.build(s)
		pace := fullPace
		pace.commit = time.Second
		start := func(name string) *instance { return w.run(topology, pace.options(rondo.Set("client.id", name))...) }
		first, second := start("first"), start("second")
		eventually(t, time.Minute, "three tasks each", func() bool {
			return len(first.Stats().Threads) == 1 && len(second.Stats().Threads) == 1 && balanced(first, 3) && balanced(second, 3)
		})
		time.Sleep(30 * time.Second)
		w.fill(s.in, 6, 0, 6, func(int) string { return "slow" })
		eventually(t, time.Minute, "six slow calls", func() bool { return first.Stats().Counts.InFlight+second.Stats().Counts.InFlight == 6 })
		third := start("third")
		began := time.Now()
		eventually(t, time.Minute, "the newcomer has two tasks", func() bool { return len(third.Stats().Threads) == 1 && balanced(third, 2) })
		if took := time.Since(began); took > pace.drain+3*pace.beat+pace.slack {
			t.Errorf("the newcomer waited %s", took)
		}
		eventually(t, 10*time.Minute, "all done", func() bool { return sum(w.committed(s.group, s.in)) == 6 })
		thrown := int64(0)
		for _, app := range []*instance{first, second, third} {
			c := app.Stats().Counts
			thrown += c.ThrownAway
			if c.Evictions != 0 || c.CommitErrors != 0 {
				t.Errorf("%d evictions, %d commits failed", c.Evictions, c.CommitErrors)
			}
		}
		if svc.total() != 6+int(thrown) || thrown > 2 {
			t.Errorf("%d calls for 6 records, %d thrown away; two partitions moved", svc.total(), thrown)
		}
	})
}

// TestHungUserCode: a processor hangs until its context ends. The poll clock
// ends it, names the record, and the record is not run a second time: the
// processing handler decides.
func TestHungUserCode(t *testing.T) {
	ownBubble(t, func(w *world) {
		in, out, dead := w.topic("code-in", 1), w.topic("code-out", 1), w.topic("code-dead", 1)
		w.fill(in, 1, 0, 10, one)
		var mu sync.Mutex
		var told []error
		b := rondo.New("code" + w.suffix)
		b.From(text(in)).Process("hangs", func() rondo.Processor[string, string, string, string] {
			return rondo.ProcessorFunc[string, string, string, string](func(ctx rondo.Context[string, string], r rondo.Record[string, string]) error {
				if r.Value == "4" {
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					told = append(told, context.Cause(ctx))
					return ctx.Err()
				}
				ctx.Forward(r)
				return nil
			})
		}).To(text(out))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app := w.run(topology, fullPace.options(rondo.Set("errors.dead.letter.queue.topic.name", dead),
			rondo.OnProcessingError(func(rondo.FailedRecord) rondo.Response { return rondo.Continue }))...)
		eventually(t, 20*time.Minute, "all committed", func() bool { return sum(w.committed("code"+w.suffix, in)) == 10 })
		stats := app.Stats()
		app.stop()
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || !errors.Is(told[0], rondo.ErrPollClock) {
			t.Errorf("the processor was told %v", told)
		}
		if len(stats.Evictions) != 1 || !strings.Contains(stats.Evictions[0].Work, "user code of task 0_0 on "+in+"-0@4") {
			t.Errorf("evictions %+v", stats.Evictions)
		}
		letters := w.read(dead)
		if len(letters) != 1 || header(letters[0], rondo.HeaderErrorCause) != "poll_clock" || header(letters[0], rondo.HeaderErrorOffset) != "4" {
			t.Errorf("dead letters %v", letters)
		}
	})
}

// TestBreakerHoldsRecords: the service fails for a minute. The breaker opens;
// records wait and are not wasted on it.
func TestBreakerHoldsRecords(t *testing.T) {
	ownBubble(t, func(w *world) {
		began := time.Now()
		svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
			if time.Since(began) < time.Minute {
				return "", errors.New("down")
			}
			return "ok", nil
		}}
		s := w.scorer("breaker", 2, svc)
		s.timeout = 10 * time.Second
		s.policy = rondo.CallPolicy{Attempts: 2, Breaker: &rondo.Breaker{Failures: 5, Window: 5, Delay: 5 * time.Second}}
		w.fill(s.in, 2, 0, 100, one)
		app := w.run(w.build(s), fullPace.options()...)
		eventually(t, 10*time.Minute, "all finished", func() bool { return app.Stats().Counts.Finished == 100 })
		c := app.Stats().Counts
		app.stop()
		// Without the breaker all hundred records would have failed twice in
		// the first seconds.
		if c.DeadLetters > 15 || c.DeadLetters == 0 {
			t.Errorf("%d records failed while the service was down for a minute", c.DeadLetters)
		}
	})
}

// TestStaticMember: a static instance that restarts within the session timeout
// gets its partitions back, and the other one notices nothing.
func TestStaticMember(t *testing.T) {
	ownBubble(t, func(w *world) {
		svc := &service{act: after(time.Millisecond)}
		s := w.scorer("static", 4, svc)
		topology := w.build(s)
		start := func(name string) *instance {
			return w.run(topology, fullPace.options(rondo.Set("client.id", name), rondo.Set("group.instance.id", name))...)
		}
		first, second := start("first"), start("second")
		eventually(t, time.Minute, "two tasks each", func() bool {
			return len(first.Stats().Threads) == 1 && len(second.Stats().Threads) == 1 && balanced(first, 2) && balanced(second, 2)
		})
		time.Sleep(30 * time.Second) // the last generation of the start is over
		before := second.Stats().Threads[0].Generation
		first.stop()
		time.Sleep(20 * time.Second)
		first = start("first")
		eventually(t, time.Minute, "the first has its tasks back", func() bool { return len(first.Stats().Threads) == 1 && balanced(first, 2) })
		if th := second.Stats().Threads[0]; th.Generation != before || len(th.Tasks) != 2 {
			t.Errorf("the second saw generation %d and has %d tasks; it was %d and 2", th.Generation, len(th.Tasks), before)
		}
	})
}

// TestBacklogIsPaused: a backlog far above buffered.records.per.partition is
// worked off in order without more than a few fetches of it in memory.
func TestBacklogIsPaused(t *testing.T) {
	ownBubble(t, func(w *world) {
		svc := &service{act: after(time.Millisecond)}
		s := w.scorer("backlog", 1, svc)
		w.fill(s.in, 1, 0, 600, one)
		app := w.run(w.build(s), fullPace.options(rondo.Set("buffered.records.per.partition", "50"), rondo.Set("max.poll.records", "25"))...)
		most := 0
		eventually(t, 10*time.Minute, "all finished", func() bool {
			stats := app.Stats()
			for _, th := range stats.Threads {
				for _, task := range th.Tasks {
					most = max(most, task.Queued)
				}
			}
			return stats.Counts.Finished == 600
		})
		app.stop()
		if most > 100 {
			t.Errorf("%d records in memory, the bound is 50 and a fetch is 25", most)
		}
		if svc.total() != 600 {
			t.Errorf("%d calls for 600 records", svc.total())
		}
	})
}

// TestPositionIsGone: the committed offset lies before the log's start, because
// retention was faster. auto.offset.reset decides.
func TestPositionIsGone(t *testing.T) {
	for _, policy := range []string{"earliest", "latest", "none"} {
		t.Run(policy, func(t *testing.T) {
			ownBubble(t, func(w *world) {
				svc := &service{act: after(time.Millisecond)}
				s := w.scorer("gone", 1, svc)
				w.fill(s.in, 1, 0, 10, one)
				topology := w.build(s)
				app := w.run(topology, fullPace.options()...)
				eventually(t, time.Minute, "ten", func() bool { return app.Stats().Counts.Finished == 10 })
				app.stop()
				w.fill(s.in, 1, 10, 10, one)
				admin := kadm.NewClient(w.client)
				cut := kadm.Offsets{}
				cut.AddOffset(s.in, 0, 15, -1)
				if _, err := admin.DeleteRecords(context.Background(), cut); err != nil {
					t.Fatal(err)
				}
				app = w.run(topology, fullPace.options(rondo.Set("auto.offset.reset", policy))...)
				if policy == "none" {
					<-app.ended
					if app.err == nil || !strings.Contains(app.err.Error(), "auto.offset.reset is none") {
						t.Errorf("Run: %v", app.err)
					}
					return
				}
				want := int64(5)
				if policy == "latest" {
					time.Sleep(10 * time.Second)
					w.fill(s.in, 1, 20, 3, one)
					want = 3
				}
				eventually(t, time.Minute, "the rest", func() bool { return app.Stats().Counts.Finished == want })
				time.Sleep(time.Second)
				if n := app.Stats().Counts.Finished; n != want {
					t.Errorf("%d records, want %d", n, want)
				}
			})
		})
	}
}

// TestEagerProtocol: with rebalance.protocol=eager everything is revoked before
// each join; nothing is lost or repeated for it.
func TestEagerProtocol(t *testing.T) {
	ownBubble(t, func(w *world) {
		svc := &service{act: after(200 * time.Millisecond)}
		s := w.scorer("eager", 4, svc)
		w.fill(s.in, 4, 0, 200, one)
		topology := w.build(s)
		app := w.run(topology, fullPace.options(rondo.Set("rebalance.protocol", "eager"))...)
		time.Sleep(300 * time.Millisecond)
		other := w.run(topology, fullPace.options(rondo.Set("rebalance.protocol", "eager"), rondo.Set("client.id", "other"))...)
		eventually(t, 5*time.Minute, "all committed", func() bool { return sum(w.committed(s.group, s.in)) == 200 })
		a, b := app.Stats().Counts, other.Stats().Counts
		if svc.total() != 200 || a.ThrownAway+b.ThrownAway != 0 || b.Finished == 0 {
			t.Errorf("%d calls for 200 records, %d thrown away, the other one did %d", svc.total(), a.ThrownAway+b.ThrownAway, b.Finished)
		}
	})
}

// TestOutputsOldAndLate: outputs carry the timestamps of their inputs, however
// old, and are not timed out for it.
func TestOutputsOldAndLate(t *testing.T) {
	ownBubble(t, func(w *world) {
		svc := &service{act: after(time.Millisecond)}
		s := w.scorer("old", 1, svc)
		at := time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC)
		if err := w.client.ProduceSync(context.Background(), &kgo.Record{Topic: s.in, Value: []byte("x"), Timestamp: at}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		app := w.run(w.build(s), fullPace.options()...)
		eventually(t, time.Minute, "scored", func() bool { return len(w.read(s.out)) == 1 })
		app.stop()
		if got := w.read(s.out)[0].Timestamp; !got.Equal(at) {
			t.Errorf("the output is of %s, its input of %s", got, at)
		}
	})
}

// TestStopWithHungCode: user code that looks at no context does not come back.
// The stop takes no longer than the drain budget and a moment.
func TestStopWithHungCode(t *testing.T) {
	ownBubble(t, func(w *world) {
		in, out := w.topic("stuck-in", 2), w.topic("stuck-out", 2)
		w.fill(in, 2, 0, 10, one)
		release := make(chan struct{})
		b := rondo.New("stuck" + w.suffix)
		b.From(text(in)).MapValues(func(v string) string {
			if v == "4" {
				<-release
			}
			return v
		}).To(text(out))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app := w.run(topology, fullPace.options()...)
		eventually(t, time.Minute, "seven others", func() bool { return app.Stats().Counts.Finished == 7 })
		if took := app.stop(); took > fullPace.drain+2*time.Second {
			t.Errorf("stopped after %s", took)
		}
		close(release)
		time.Sleep(time.Second)
		if n := len(w.read(out)); n != 7 {
			t.Errorf("%d outputs; what came back after the end of the lease must not leave the task", n)
		}
		if n := sum(w.committed("stuck"+w.suffix, in)); n != 7 {
			t.Errorf("%d committed, want 7", n)
		}
	})
}

// TestCallThatIgnoresItsContext: it is given up a moment after its time-out,
// the record goes on, and the goroutine that does not come back is counted.
func TestCallThatIgnoresItsContext(t *testing.T) {
	ownBubble(t, func(w *world) {
		release := make(chan struct{})
		svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
			if value == "1" {
				<-release
			}
			return "ok", nil
		}}
		s := w.scorer("deaf", 1, svc)
		s.timeout = time.Second
		s.policy = rondo.CallPolicy{Attempts: 2}
		w.fill(s.in, 1, 0, 3, one)
		app := w.run(w.build(s), fullPace.options()...)
		eventually(t, 5*time.Second, "all finished", func() bool { return app.Stats().Counts.Finished == 3 })
		c := app.Stats().Counts
		if c.Abandoned != 2 || c.DeadLetters != 1 || c.InFlight != 0 {
			t.Errorf("abandoned %d, dead letters %d, in flight %d, want 2, 1, 0", c.Abandoned, c.DeadLetters, c.InFlight)
		}
		close(release)
		app.stop()
		if dead := w.read(s.dead); header(dead[0], rondo.HeaderErrorCause) != "timeout" || header(dead[0], rondo.HeaderErrorAttempts) != "2" {
			t.Errorf("dead letter %v", dead[0].Headers)
		}
	})
}

// TestStaticThreadIsDismissed: removing a thread with static membership frees
// its partitions at once.
func TestStaticThreadIsDismissed(t *testing.T) {
	ownBubble(t, func(w *world) {
		s := w.scorer("dismiss", 2, &service{act: after(time.Millisecond)})
		app := w.run(w.build(s), fullPace.options(rondo.Set("group.instance.id", "i"), rondo.Set("num.stream.threads", "2"))...)
		eventually(t, time.Minute, "a task each", func() bool { return len(app.Stats().Threads) == 2 && balanced(app, 1) })
		if _, err := app.RemoveStreamThread(context.Background()); err != nil {
			t.Fatal(err)
		}
		eventually(t, 15*time.Second, "both tasks on the other", func() bool { return len(app.Stats().Threads) == 1 && balanced(app, 2) })
	})
}

// TestStaticThreadIsDismissedLater: the caller does not wait for the end of the
// removal. The static member is taken out of the group all the same.
func TestStaticThreadIsDismissedLater(t *testing.T) {
	ownBubble(t, func(w *world) {
		s := w.scorer("later", 2, &service{act: after(3 * time.Second)})
		app := w.run(w.build(s), fullPace.options(rondo.Set("group.instance.id", "i"), rondo.Set("num.stream.threads", "2"))...)
		eventually(t, time.Minute, "a task each", func() bool { return len(app.Stats().Threads) == 2 && balanced(app, 1) })
		w.fill(s.in, 2, 0, 2, one)
		eventually(t, time.Minute, "both calls", func() bool { return app.Stats().Counts.InFlight == 2 })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := app.RemoveStreamThread(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("RemoveStreamThread: %v, want the end of its context", err)
		}
		eventually(t, 15*time.Second, "both tasks on the other", func() bool { return len(app.Stats().Threads) == 1 && balanced(app, 2) })
		if c := app.Stats().Counts; c.Repeated != 0 {
			t.Errorf("%d calls repeated: the member was dismissed before its last commit", c.Repeated)
		}
	})
}

// TestMissingTopic: Run says which topics are missing instead of waiting.
func TestMissingTopic(t *testing.T) {
	ownBubble(t, func(w *world) {
		b := rondo.New("missing")
		b.From(text("nowhere")).To(text("nothing"))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app := w.run(topology)
		<-app.ended
		if app.err == nil || !strings.Contains(app.err.Error(), "nothing, nowhere") {
			t.Errorf("Run: %v", app.err)
		}
		if err := app.Run(context.Background()); !errors.Is(err, rondo.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		if _, err := app.AddStreamThread(); !errors.Is(err, rondo.ErrNotRunning) {
			t.Errorf("AddStreamThread: %v", err)
		}
	})
}
