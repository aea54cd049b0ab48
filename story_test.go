package rondo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/cause"
)

// The stories are the promises of the runtime. Each is told in virtual time
// with Kafka's default durations (bubble_test.go), and in real time, scaled
// down, on a broker over TCP (e2e_test.go).

// pace is how fast a world lives.
type pace struct {
	poll, session, beat, drain, commit time.Duration
	slack                              time.Duration // for what depends on the machine
}

func (p pace) options(more ...rondo.Option) []rondo.Option {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return append([]rondo.Option{
		rondo.Set("max.poll.interval.ms", ms(p.poll)), rondo.Set("session.timeout.ms", ms(p.session)), rondo.Set("heartbeat.interval.ms", ms(p.beat)),
		rondo.Set("drain.timeout.ms", ms(p.drain)), rondo.Set("commit.interval.ms", ms(p.commit)),
	}, more...)
}

var stories = []struct {
	name string
	tell func(w *world, p pace)
}{
	{"SlowServiceNeverEvicts", slowServiceNeverEvicts},
	{"StreamsLoopEvicts", streamsLoopEvicts},
	{"HungCallIsCutAndNamed", hungCallIsCutAndNamed},
	{"HungCallCostsOneLease", hungCallCostsOneLease},
	{"HungCallAndKillCostOneLease", hungCallAndKillCostOneLease},
	{"HungCodeCostsOneLease", hungCodeCostsOneLease},
	{"NewcomerDuringLongCall", newcomerDuringLongCall},
	{"RebalancesUnderLoad", rebalancesUnderLoad},
	{"ShutdownWithinDrain", shutdownWithinDrain},
	{"RemoveThreadWithinDrain", removeThreadWithinDrain},
	{"DeadLettersSayWhy", deadLettersSayWhy},
	{"OrderByPartition", orderByPartition},
	{"OrderByKey", orderByKey},
	{"ThroughMakesTopic", throughMakesTopic},
	{"HandlersDecide", handlersDecide},
	{"FailedThreadIsReplaced", failedThreadIsReplaced},
	{"DoneRecordsAreNotRepeated", doneRecordsAreNotRepeated},
}

// killed are stories in which a process dies in the middle of joining.
var killed = []string{"HungCallAndKillCostOneLease", "HungCodeCostsOneLease"}

func one(int) string { return "k" }

// slowServiceNeverEvicts: three tasks, each call takes four tenths of the poll
// interval. Under the Streams loop this is the band, and fatal.
func slowServiceNeverEvicts(w *world, p pace) {
	svc := &service{act: after(p.poll * 4 / 10)}
	s := w.scorer("slow", 3, svc)
	w.fill(s.in, 3, 0, 12, one)
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, 20*p.poll+time.Minute, "all scored", func() bool { return app.Stats().Counts.Finished == 12 })
	stats := app.Stats()
	app.stop()
	if stats.Counts.Evictions != 0 || stats.Counts.Rebalances != 1 {
		w.t.Errorf("%d evictions, %d rebalances, want 0 and 1: %+v", stats.Counts.Evictions, stats.Counts.Rebalances, stats.Evictions)
	}
	if svc.total() != 12 || len(w.read(s.out)) != 12 {
		w.t.Errorf("%d calls, %d outputs, want 12 and 12", svc.total(), len(w.read(s.out)))
	}
	if n := sum(w.committed(s.group, s.in)); n != 12 {
		w.t.Errorf("%d committed, want 12", n)
	}
}

// streamsLoopEvicts: the same service under the stream thread of Kafka Streams
// 4.2 is evicted again and again and commits next to nothing.
func streamsLoopEvicts(w *world, p pace) {
	p.commit = p.poll
	svc := &service{act: after(p.poll * 4 / 10)}
	s := w.scorer("streams", 3, svc)
	w.fill(s.in, 3, 0, 60, one)
	app := w.run(w.build(s), p.options(rondo.Set("loop.policy", "streams42"))...)
	eventually(w.t, 20*p.poll+time.Minute, "two evictions", func() bool { return app.Stats().Counts.Evictions >= 2 })
	stats := app.Stats()
	app.stop()
	if stats.Evictions[0].Cause != cause.PollClock {
		w.t.Errorf("eviction by %s, want the poll clock", stats.Evictions[0].Cause)
	}
	// A first pass that had records of one task alone may commit that one.
	if stats.Counts.Committed > 1 || stats.Counts.Repeated == 0 {
		w.t.Errorf("committed %d, repeated %d: want none, and some", stats.Counts.Committed, stats.Counts.Repeated)
	}
	if stats.Threads[0].N == 0 || stats.Policy != "streams42" {
		w.t.Errorf("stats do not show the loop: %+v", stats.Threads[0])
	}
}

// hungCallIsCutAndNamed: one call hangs past the poll clock. It is cut with
// the reason, costs the lease once, and the second time the record goes where
// failures go, without another eviction. All other records are scored.
func hungCallIsCutAndNamed(w *world, p pace) {
	var mu sync.Mutex
	var causes []error
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		if value != "5" {
			return "ok", wait(ctx, p.poll/100)
		}
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		causes = append(causes, context.Cause(ctx))
		return "", ctx.Err()
	}}
	s := w.scorer("hung", 2, svc)
	w.fill(s.in, 2, 0, 20, one)
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, 10*p.poll+time.Minute, "19 scored, 1 dead", func() bool {
		c := app.Stats().Counts
		return c.DeadLetters == 1 && len(w.read(s.out)) >= 19
	})
	stats := app.Stats()
	app.stop()
	if len(stats.Evictions) != 1 || stats.Evictions[0].Cause != cause.PollClock || !strings.Contains(stats.Evictions[0].Work, "call model on "+s.in+"-1@2") {
		w.t.Errorf("evictions %+v, want one, by the poll clock, naming the record", stats.Evictions)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(causes) == 0 || !errors.Is(causes[0], rondo.ErrPollClock) {
		w.t.Errorf("the hung call was told %v", causes)
	}
	dead := w.read(s.dead)
	if len(dead) != 1 || string(dead[0].Value) != "5" || header(dead[0], rondo.HeaderErrorCause) != "poll_clock" {
		w.t.Errorf("dead letters %v", dead)
	}
	if n := sum(w.committed(s.group, s.in)); n != 20 {
		w.t.Errorf("%d committed, want 20", n)
	}
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// newcomerDuringLongCall: another instance joins while calls of four tenths of
// the poll interval run. Nobody loses the lease, and the newcomer has its
// partitions within the drain budget and a few requests.
func newcomerDuringLongCall(w *world, p pace) {
	svc := &service{act: after(p.poll * 4 / 10)}
	s := w.scorer("newcomer", 4, svc)
	w.fill(s.in, 4, 0, 8, one)
	topology := w.build(s)
	first := w.run(topology, p.options()...)
	eventually(w.t, p.poll+p.slack, "calls in flight", func() bool { return first.Stats().Counts.InFlight == 4 })
	second := w.run(topology, p.options(rondo.Set("client.id", "second"))...)
	began := time.Now()
	eventually(w.t, p.poll+p.slack, "the newcomer has tasks", func() bool {
		threads := second.Stats().Threads
		return len(threads) == 1 && len(threads[0].Tasks) == 2
	})
	if took := time.Since(began); took > p.drain+p.beat*3+p.slack {
		w.t.Errorf("the newcomer waited %s for its partitions, the drain budget is %s", took, p.drain)
	}
	eventually(w.t, 10*p.poll+time.Minute, "all done", func() bool { return sum(w.committed(s.group, s.in)) == 8 })
	for _, app := range []*instance{first, second} {
		if c := app.Stats().Counts; c.Evictions != 0 || c.CommitErrors != 0 {
			w.t.Errorf("%d evictions, %d commits failed", c.Evictions, c.CommitErrors)
		}
	}
	thrown := first.Stats().Counts.ThrownAway
	if svc.total() != 8+int(thrown) {
		w.t.Errorf("%d calls for 8 records, %d thrown away", svc.total(), thrown)
	}
}

// rebalancesUnderLoad: threads come and go while records flow. Nothing is lost,
// and no record is called for after its offset was seen committed.
func rebalancesUnderLoad(w *world, p pace) {
	const partitions, records = 6, 600
	var mu sync.Mutex
	seen := map[int32]int64{}
	svc := &service{}
	s := w.scorer("load", partitions, svc)
	violations := 0
	svc.act = func(ctx context.Context, key, value string, nth int) (string, error) {
		i, _ := strconv.Atoi(value)
		mu.Lock()
		if int64(i/partitions) < seen[int32(i%partitions)] {
			violations++
		}
		mu.Unlock()
		return "ok", wait(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	}
	s.policy = rondo.CallPolicy{Parallel: 4, Order: rondo.ByKey}
	w.fill(s.in, partitions, 0, records, func(i int) string { return fmt.Sprint(i % 50) })
	p.commit = 50 * time.Millisecond
	topology := w.build(s)
	app := w.run(topology, p.options(rondo.Set("num.stream.threads", "2"))...)
	eventually(w.t, time.Minute, "running", func() bool { return app.Stats().Counts.RecordsIn > 0 })
	for i := range 4 {
		if i%2 == 0 {
			if _, err := app.AddStreamThread(); err != nil {
				w.t.Error(err)
			}
		} else if _, err := app.RemoveStreamThread(context.Background()); err != nil {
			w.t.Error(err)
		}
		at := w.committed(s.group, s.in)
		mu.Lock()
		maps.Copy(seen, at)
		mu.Unlock()
		time.Sleep(200 * time.Millisecond)
	}
	other := w.run(topology, p.options(rondo.Set("client.id", "other"))...)
	eventually(w.t, 2*time.Minute, "all committed", func() bool { return sum(w.committed(s.group, s.in)) == records })
	counts := []rondo.Counts{app.Stats().Counts, other.Stats().Counts}
	app.stop()
	other.stop()
	if violations > 0 {
		w.t.Errorf("%d calls for records that were committed", violations)
	}
	scored := map[string]bool{}
	for _, r := range w.read(s.out) {
		scored[string(r.Key)+"/"+string(r.Value)] = true
	}
	for i := range records {
		if svc.count(strconv.Itoa(i)) == 0 {
			w.t.Errorf("record %d was never called for", i)
		}
	}
	if e := counts[0].Evictions + counts[1].Evictions; e != 0 {
		w.t.Errorf("%d evictions", e)
	}
	if extra := int64(svc.total() - records); extra > counts[0].ThrownAway+counts[1].ThrownAway {
		w.t.Errorf("%d calls too many, %d records thrown away", extra, counts[0].ThrownAway+counts[1].ThrownAway)
	}
}

// shutdownWithinDrain: a call runs for most of the poll interval; a stop takes
// no longer than the drain budget, and commits what was finished.
func shutdownWithinDrain(w *world, p pace) {
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		if value == "3" {
			return "ok", wait(ctx, p.poll*8/10)
		}
		return "ok", nil
	}}
	s := w.scorer("shutdown", 1, svc)
	w.fill(s.in, 1, 0, 10, one)
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, p.poll/2+p.slack, "the slow call", func() bool { return svc.count("3") == 1 && app.Stats().Counts.Finished == 3 })
	if took := app.stop(); took > p.drain+p.slack || took < p.drain {
		w.t.Errorf("stopped after %s, the drain budget is %s", took, p.drain)
	}
	if n := sum(w.committed(s.group, s.in)); n != 3 {
		w.t.Errorf("%d committed, want the finished prefix of 3", n)
	}
	if c := app.Stats().Counts; c.ThrownAway != 1 || c.InFlight != 0 {
		w.t.Errorf("thrown away %d, in flight %d, want 1 and 0", c.ThrownAway, c.InFlight)
	}
}

// removeThreadWithinDrain: the same for one thread of two; the other one gets
// the partition and makes the call again.
func removeThreadWithinDrain(w *world, p pace) {
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		if nth > 1 {
			return "ok", nil
		}
		return "ok", wait(ctx, p.poll*8/10)
	}}
	s := w.scorer("remove", 2, svc)
	app := w.run(w.build(s), p.options(rondo.Set("num.stream.threads", "2"))...)
	eventually(w.t, p.poll+p.slack, "a task for each", func() bool { return len(app.Stats().Threads) == 2 && balanced(app, 1) })
	w.fill(s.in, 2, 0, 2, one)
	eventually(w.t, p.poll+p.slack, "both calls", func() bool { return app.Stats().Counts.InFlight == 2 })
	began := time.Now()
	if _, err := app.RemoveStreamThread(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if took := time.Since(began); took > p.drain+p.slack {
		w.t.Errorf("removed after %s, the drain budget is %s", took, p.drain)
	}
	eventually(w.t, p.poll+p.slack, "the other thread has both tasks", func() bool { return balanced(app, 2) })
	eventually(w.t, 2*p.poll+p.slack, "both done", func() bool { return app.Stats().Counts.Finished == 2 })
	if c := app.Stats().Counts; c.Repeated != 1 || c.ThrownAway != 1 || c.Evictions != 0 {
		w.t.Errorf("repeated %d, thrown away %d, evictions %d, want 1, 1, 0", c.Repeated, c.ThrownAway, c.Evictions)
	}
}

// balanced says that every thread has n tasks.
func balanced(app *instance, n int) bool {
	for _, th := range app.Stats().Threads {
		if len(th.Tasks) != n {
			return false
		}
	}
	return true
}

// deadLettersSayWhy: permanent errors, time-outs, panics and exhausted attempts
// end in the dead-letter topic with the record and the reason.
func deadLettersSayWhy(w *world, p pace) {
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		switch value {
		case "0":
			return "", rondo.Permanent(errors.New("no such advisory"))
		case "1":
			<-ctx.Done()
			return "", context.Cause(ctx)
		case "2":
			panic("nil map")
		case "3":
			return "", errors.New("busy")
		case "4":
			if nth < 3 {
				return "", &rondo.HTTPError{Status: 429, RetryAfter: 10 * time.Millisecond}
			}
		case "5":
			return "", &rondo.HTTPError{Status: 400}
		}
		return "ok", nil
	}}
	s := w.scorer("dead", 1, svc)
	s.timeout = 100 * time.Millisecond
	s.policy = rondo.CallPolicy{Parallel: 2, Attempts: 3, Backoff: 5 * time.Millisecond}
	w.fill(s.in, 1, 0, 8, func(i int) string { return "key" + strconv.Itoa(i) })
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, time.Minute, "all finished", func() bool { return app.Stats().Counts.Finished == 8 })
	app.stop()
	want := map[string][2]string{"0": {"permanent", "1"}, "1": {"timeout", "3"}, "2": {"panic", "1"}, "3": {"service", "3"}, "5": {"permanent", "1"}}
	dead := w.read(s.dead)
	for _, r := range dead {
		v := string(r.Value)
		got := [2]string{header(r, rondo.HeaderErrorCause), header(r, rondo.HeaderErrorAttempts)}
		if got != want[v] || string(r.Key) != "key"+v {
			w.t.Errorf("dead letter %s of %s: cause and attempts %v, want %v", r.Key, v, got, want[v])
		}
		if header(r, rondo.HeaderErrorCall) != "model" || header(r, rondo.HeaderErrorTopic) != s.in || header(r, rondo.HeaderErrorOffset) != v || header(r, rondo.HeaderErrorMessage) == "" {
			w.t.Errorf("dead letter %s has headers %v", v, r.Headers)
		}
	}
	if len(dead) != len(want) || len(w.read(s.out)) != 3 {
		w.t.Errorf("%d dead letters and %d results, want %d and 3", len(dead), len(w.read(s.out)), len(want))
	}
}

// orderByPartition: calls overlap and take random times; results leave in the
// order of their partition.
func orderByPartition(w *world, p pace) {
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		return value, wait(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
	}}
	s := w.scorer("order", 1, svc)
	s.policy = rondo.CallPolicy{Parallel: 8}
	w.fill(s.in, 1, 0, 100, one)
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, time.Minute, "all finished", func() bool { return app.Stats().Counts.Finished == 100 })
	app.stop()
	for i, r := range w.read(s.out) {
		if string(r.Value) != strconv.Itoa(i) {
			w.t.Fatalf("result %d is of record %s", i, r.Value)
		}
	}
	if svc.high < 4 || svc.high > 8 {
		w.t.Errorf("at most %d calls at once, parallel is 8", svc.high)
	}
}

// orderByKey: calls of one key never overlap, and its results leave in order;
// the whole is much faster than one after the other.
func orderByKey(w *world, p pace) {
	var mu sync.Mutex
	busy := map[string]bool{}
	overlaps := 0
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		mu.Lock()
		if busy[key] {
			overlaps++
		}
		busy[key] = true
		mu.Unlock()
		err := wait(ctx, time.Duration(1+rand.IntN(20))*time.Millisecond)
		mu.Lock()
		busy[key] = false
		mu.Unlock()
		return value, err
	}}
	s := w.scorer("keys", 1, svc)
	s.policy = rondo.CallPolicy{Parallel: 8, Order: rondo.ByKey}
	w.fill(s.in, 1, 0, 100, func(i int) string { return "k" + strconv.Itoa(i%7) })
	app := w.run(w.build(s), p.options()...)
	eventually(w.t, time.Minute, "all finished", func() bool { return app.Stats().Counts.Finished == 100 })
	app.stop()
	last := map[string]int{}
	for _, r := range w.read(s.out) {
		i, _ := strconv.Atoi(string(r.Value))
		if before, ok := last[string(r.Key)]; ok && before > i {
			w.t.Errorf("key %s: %d after %d", r.Key, i, before)
		}
		last[string(r.Key)] = i
	}
	if overlaps > 0 || svc.high < 3 {
		w.t.Errorf("%d overlaps within a key, at most %d calls at once", overlaps, svc.high)
	}
}

// throughMakesTopic: Through ends a subtopology, makes its topic, and brings
// the records of a new key together.
func throughMakesTopic(w *world, p pace) {
	in, out := w.topic("through-in", 3), w.topic("through-out", 1)
	w.fill(in, 3, 0, 60, one)
	b := rondo.New("through" + w.suffix)
	var mu sync.Mutex
	tasks := map[string]map[string]bool{} // by key
	b.From(text(in)).
		SelectKey(func(_, v string) string { return v[len(v)-1:] }).
		Through(text("through-mid"+w.suffix)).
		Process("note", func() rondo.Processor[string, string, string, string] {
			return rondo.ProcessorFunc[string, string, string, string](func(ctx rondo.Context[string, string], r rondo.Record[string, string]) error {
				mu.Lock()
				if tasks[r.Key] == nil {
					tasks[r.Key] = map[string]bool{}
				}
				tasks[r.Key][ctx.Task()] = true
				mu.Unlock()
				ctx.Forward(r.WithHeader("task", []byte(ctx.Task())))
				ctx.Commit()
				return nil
			})
		}).
		To(text(out))
	t, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	app := w.run(t, p.options()...)
	eventually(w.t, time.Minute, "all through", func() bool { return len(w.read(out)) == 60 })
	eventually(w.t, time.Minute, "committed on request", func() bool { return sum(w.committed("through"+w.suffix, "through-mid"+w.suffix)) == 60 })
	app.stop()
	mu.Lock()
	defer mu.Unlock()
	for key, in := range tasks {
		if len(in) != 1 {
			w.t.Errorf("key %s was in tasks %v", key, slices.Collect(maps.Keys(in)))
		}
		for task := range in {
			if !strings.HasPrefix(task, "1_") {
				w.t.Errorf("processor ran in task %s, want subtopology 1", task)
			}
		}
	}
}

// handlersDecide: records that cannot be read or processed are skipped into the
// application's dead-letter topic when the handlers say so.
func handlersDecide(w *world, p pace) {
	in, out, dead := w.topic("handlers-in", 1), w.topic("handlers-out", 1), w.topic("handlers-dead", 1)
	w.fill(in, 1, 0, 5, one)
	bad := &kgo.Record{Topic: in, Key: []byte("k"), Value: []byte{0xff, 0xfe}}
	if err := w.client.ProduceSync(context.Background(), bad).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	w.fill(in, 1, 6, 2, one)
	b := rondo.New("handlers" + w.suffix)
	b.From(text(in)).MapValues(func(v string) string {
		if v == "3" {
			panic("three")
		}
		return v
	}).To(text(out))
	t, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	app := w.run(t, p.options(
		rondo.Set("errors.dead.letter.queue.topic.name", dead),
		rondo.OnDeserializationError(func(rondo.FailedRecord) rondo.Response { return rondo.Continue }),
		rondo.OnProcessingError(func(rondo.FailedRecord) rondo.Response { return rondo.Continue }),
	)...)
	eventually(w.t, time.Minute, "all finished", func() bool { return app.Stats().Counts.Finished == 8 })
	app.stop()
	var causes []string
	for _, r := range w.read(dead) {
		causes = append(causes, header(r, rondo.HeaderErrorCause)+" "+header(r, rondo.HeaderErrorOffset))
	}
	slices.Sort(causes)
	if want := []string{"deserialization 5", "processing 3"}; !slices.Equal(causes, want) || len(w.read(out)) != 6 {
		w.t.Errorf("dead letters %q, %d results, want %q and 6", causes, len(w.read(out)), want)
	}
}

// failedThreadIsReplaced: a call whose failures stop the thread; the uncaught
// handler replaces it once, then gives up, and Run answers the error. What was
// finished before the bad record is committed.
func failedThreadIsReplaced(w *world, p pace) {
	svc := &service{act: func(ctx context.Context, key, value string, nth int) (string, error) {
		if value == "2" {
			return "", rondo.Permanent(errors.New("cursed"))
		}
		return "ok", nil
	}}
	s := w.scorer("replace", 1, svc)
	s.fail = func(c rondo.CallStream[string, string, string]) rondo.Stream[string, string] { return c.Values() }
	w.fill(s.in, 1, 0, 5, one)
	failed := 0
	app := w.run(w.build(s), p.options(rondo.OnUncaughtError(func(thread string, err error) rondo.ThreadResponse {
		failed++
		if failed == 1 {
			return rondo.ReplaceThread
		}
		return rondo.ShutdownClient
	}))...)
	select {
	case <-app.ended:
	case <-time.After(5 * time.Minute):
		w.t.Fatal("the application did not stop")
	}
	var about *rondo.RecordError
	if !errors.As(app.err, &about) || about.Offset != 2 || !strings.Contains(app.err.Error(), "cursed") || failed != 2 {
		w.t.Errorf("Run: %v (%d threads failed), want the error of record 2 from the second thread", app.err, failed)
	}
	if n := sum(w.committed(s.group, s.in)); n != 2 {
		w.t.Errorf("%d committed, want 2", n)
	}
}

// doneRecordsAreNotRepeated: an instance is stopped and started again; it goes
// on where it was, and asks the service for nothing twice.
func doneRecordsAreNotRepeated(w *world, p pace) {
	svc := &service{act: after(time.Millisecond)}
	s := w.scorer("again", 2, svc)
	w.fill(s.in, 2, 0, 40, one)
	topology := w.build(s)
	for _, n := range []int64{40, 20} {
		app := w.run(topology, p.options()...)
		eventually(w.t, time.Minute, "finished", func() bool { return app.Stats().Counts.Finished == n })
		app.stop()
		w.fill(s.in, 2, 40, 20, one)
	}
	if svc.total() != 60 {
		w.t.Errorf("%d calls for 60 records", svc.total())
	}
}

func TestStoriesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range stories {
		if s.name == "" || s.tell == nil || seen[s.name] {
			t.Errorf("story %q", s.name)
		}
		seen[s.name] = true
	}
}
