package rondo_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo"
)

// Stories of a record that holds the poll clock wherever it comes. Kafka
// Streams loses one instance after the other to it.

// pair is two instances of an application, each with a network of its own.
type pair struct {
	w     *world
	apps  [2]*instance
	plugs [2]*plug
}

func (w *world) pair(topology *rondo.Topology, p pace, more ...rondo.Option) *pair {
	w.t.Helper()
	d := &pair{w: w}
	for i, name := range []string{"first", "second"} {
		d.plugs[i] = &plug{world: w}
		d.apps[i] = w.run(topology, append(p.options(rondo.Set("client.id", name), rondo.WithDialer(d.plugs[i].dial)), more...)...)
	}
	return d
}

// balance waits until each has n tasks.
func (d *pair) balance(limit time.Duration, n int) {
	d.w.t.Helper()
	eventually(d.w.t, limit, "tasks for both", func() bool {
		for _, app := range d.apps {
			if len(app.Stats().Threads) != 1 || !balanced(app, n) {
				return false
			}
		}
		return true
	})
}

// pollClock is how often the poll clock has taken a lease, of both together.
func (d *pair) pollClock() int64 {
	return d.apps[0].Stats().Counts.PollClock + d.apps[1].Stats().Counts.PollClock
}

// struck waits for the first eviction and answers whose it is.
func (d *pair) struck(limit time.Duration) int {
	d.w.t.Helper()
	eventually(d.w.t, limit, "an eviction", func() bool { return d.pollClock() > 0 })
	for i, app := range d.apps {
		if app.Stats().Counts.PollClock > 0 {
			return i
		}
	}
	panic("it was there a moment ago")
}

// hung is a service that never answers for record 5, which is the third one of
// partition 1 of 2, whatever becomes of its context.
func hung(p pace, forever <-chan struct{}) *service {
	return &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		if value == "5" {
			<-forever
			return value, nil
		}
		return value, wait(ctx, p.poll/100)
	}}
}

// hungCallCostsOneLease: a call never returns, at any instance. One lease is
// lost to it, over both; the next owner of the record knows of it from the
// partition's last commit and cuts the call before its own poll clock fires.
// The record is a dead letter, and everything else is done.
func hungCallCostsOneLease(w *world, p pace) { hungCall(w, p, false) }

// hungCallAndKillCostOneLease: the same, and the instance that lost its lease
// is killed right after that: what it knew in memory is gone.
func hungCallAndKillCostOneLease(w *world, p pace) { hungCall(w, p, true) }

// hungCall tells the story again when it cost a second lease on a machine that
// stood still meanwhile: the call is cut a fifth of the poll clock before its
// end, which is less than a second in real time. The third telling counts
// whatever the machine did.
func hungCall(w *world, p pace, kill bool) {
	for range 2 {
		still := stalls()
		leases := tellHungCall(w, p, kill, false)
		longest := still()
		if leases == 1 {
			return
		}
		if longest < p.poll/20 {
			w.t.Errorf("the poll clock took %d leases, want 1", leases)
			return
		}
		w.t.Logf("the poll clock took %d leases, but the machine stood still for %s: again", leases, longest)
	}
	tellHungCall(w, p, kill, true)
}

// stalls watches how late a short sleep is; what it answers ends the watch and
// says how late the latest one was.
func stalls() func() time.Duration {
	const nap = 20 * time.Millisecond
	end, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			began := time.Now()
			time.Sleep(nap)
			most = max(most, time.Since(began)-nap)
			select {
			case <-end:
				longest <- most
				return
			default:
			}
		}
	}()
	return func() time.Duration {
		close(end)
		return <-longest
	}
}

// tellHungCall answers how many leases the record has cost. Unless that is one,
// or it is final, it judges nothing else.
func tellHungCall(w *world, p pace, kill, final bool) int64 {
	forever := make(chan struct{})
	defer close(forever)
	svc := hung(p, forever)
	s := w.scorer("held"+strconv.FormatInt(time.Now().UnixNano(), 36), 2, svc)
	d := w.pair(w.build(s), p)
	d.balance(p.poll+p.slack, 1)
	w.fill(s.in, 2, 0, 20, one)
	victim := d.struck(2*p.poll + p.slack)
	if kill {
		d.plugs[victim].pull()
	}
	if note := w.notes(s.group, s.in)[1]; note != "rondo held 2 call:model 1" {
		w.t.Errorf("after the eviction the last commit says %q", note)
	}
	eventually(w.t, 4*p.poll+p.session+p.slack, "all committed", func() bool { return sum(w.committed(s.group, s.in)) == 20 })
	leases := d.pollClock()
	if leases != 1 {
		if final {
			w.t.Errorf("the poll clock took %d leases, want 1", leases)
		}
		d.apps[0].cancel()
		d.apps[1].cancel()
		return leases
	}
	if n := svc.count("5"); n != 2 {
		w.t.Errorf("the call was made %d times, want 2", n)
	}
	dead := w.read(s.dead)
	if len(dead) != 1 || string(dead[0].Value) != "5" || header(dead[0], rondo.HeaderErrorCause) != "poll_clock" || header(dead[0], rondo.HeaderErrorOffset) != "2" ||
		!strings.Contains(header(dead[0], rondo.HeaderErrorMessage), "it has cost 1 lease") {
		w.t.Errorf("dead letters %v", dead)
	}
	if done := slices.Compact(values(w.read(s.out))); len(done) != 19 {
		w.t.Errorf("%d results, want 19", len(done))
	}
	if note := w.notes(s.group, s.in)[1]; note != "" {
		w.t.Errorf("at the end the last commit says %q", note)
	}
	return leases
}

// hungCodeCostsOneLease: user code outside of calls never returns and cannot
// be cut. One lease is lost over both instances; the record is not run again,
// here or there, but goes to the application's dead-letter topic.
func hungCodeCostsOneLease(w *world, p pace) {
	forever := make(chan struct{})
	defer close(forever)
	in, out, dead := w.topic("code-in", 2), w.topic("code-out", 2), w.topic("code-dead", 1)
	svc := hung(p, forever)
	b := rondo.New("heldcode" + w.suffix)
	b.From(text(in)).MapValues(func(value string) string {
		answer, _ := svc.ask(context.Background(), "", value)
		return answer
	}).To(text(out))
	topology, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	d := w.pair(topology, p, rondo.Set("errors.dead.letter.queue.topic.name", dead))
	d.balance(p.poll+p.slack, 1)
	w.fill(in, 2, 0, 20, one)
	d.plugs[d.struck(2*p.poll+p.slack)].pull()
	eventually(w.t, 4*p.poll+p.session+p.slack, "all committed", func() bool { return sum(w.committed("heldcode"+w.suffix, in)) == 20 })
	if n := d.pollClock(); n != 1 {
		w.t.Errorf("the poll clock took %d leases, want 1", n)
	}
	if n := svc.count("5"); n != 1 {
		w.t.Errorf("the code was run %d times, want once", n)
	}
	letters := w.read(dead)
	if len(letters) != 1 || header(letters[0], rondo.HeaderErrorCause) != "poll_clock" || header(letters[0], rondo.HeaderErrorOffset) != "2" {
		w.t.Errorf("dead letters %v", letters)
	}
}
