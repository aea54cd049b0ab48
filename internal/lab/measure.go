package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/internal/sim"
	"github.com/rondo-streams/rondo/serde"
)

// lead is between the creation of everything and the beginning of a run.
const lead = 300 * time.Millisecond

// foreignSession is the shortest session.timeout.ms that brokers allow unless
// they are told otherwise (group.min.session.timeout.ms). On another Kafka a
// scaled session clock is no shorter.
const foreignSession = 6 * time.Second

// sampleEvery is how often the members are looked at.
const sampleEvery = 15 * time.Millisecond

// trial is one measured run of a scenario under one policy.
type trial struct {
	s       *Scenario // scaled
	policy  string
	scale   int
	cluster *cluster
	log     *slog.Logger
	java    *Java  // of the policy kafka-streams
	scratch string // where its processes keep their files

	group, in, out string
	ready          chan struct{} // closed when began is set
	began          time.Time
	service        *service
	client         *http.Client
	members        []*instance
	samples        sampler
	finished       sync.WaitGroup
}

// instance is one member: an App with one thread, started and ended by the
// scenario.
type instance struct {
	index int
	set   sim.Member
	app   *rondo.App
	wire  *wire
	jvm   *jvm       // of the policy kafka-streams, instead of app
	early bool       // starts before the clock of the run
	mu    sync.Mutex // guards app, stop and err
	err   error
}

// measure runs a scenario to its end and answers what happened.
func measure(ctx context.Context, full *Scenario, policy string, scale int, c *cluster, java *Java, log *slog.Logger) (f *Facts, err error) {
	t := &trial{s: full.Scaled(scale), policy: policy, scale: scale, cluster: c, java: java, log: log}
	tag := fmt.Sprintf("lab-%s-%s-%x", full.Name, policy, time.Now().UnixNano())
	t.group, t.in, t.out = tag, tag+"-in", tag+"-out"
	if err := c.create(ctx, t.s.Partitions, t.in, t.out); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.forget(t.group, t.in, t.out)) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	t.client = &http.Client{Transport: transport}
	if t.service, err = startService(t.s.latency()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.service.stop()) }()
	return t.play(ctx, full)
}

// play starts everything, waits for the end, and stops everything.
func (t *trial) play(ctx context.Context, full *Scenario) (*Facts, error) {
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := t.begin(run); err != nil {
		return nil, fmt.Errorf("scenario %s, %s: %w", full.Name, t.policy, err)
	}
	end := t.began.Add(t.s.Zero + t.s.For)
	over := time.AfterFunc(time.Until(end), cancel)
	defer over.Stop()
	feeding := make(chan error, 1)
	go func() { feeding <- t.feed(run) }()
	t.watch(run)
	events := t.cluster.told(t.group)
	seen := t.service.seen()
	stats := t.stats()
	stopped := t.service.stop()
	t.finished.Wait()
	ended := t.closeJVMs()
	err := errors.Join(<-feeding, stopped, ended)
	for _, m := range t.members {
		err = errors.Join(err, m.err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("scenario %s, %s: %w", full.Name, t.policy, err)
	}
	read, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	commits, err := t.cluster.commits(read, t.group, t.in)
	if err != nil {
		return nil, err
	}
	return t.facts(full, events, seen, stats, commits), nil
}

// begin starts the members, and the clock of the run. When there are records
// from the beginning, the members of the beginning come first, have their
// tasks, and go round a few times, as a thread of Kafka Streams does before it
// has its first records: that is when its commit clock begins.
func (t *trial) begin(ctx context.Context) error {
	feeds := t.s.feeds()
	early := t.s.Warm.N > 0 || len(feeds) > 0 && slices.MinFunc(feeds, func(a, b sim.Feed) int { return cmp.Compare(a.At, b.At) }).At == 0
	t.ready = make(chan struct{})
	for i, set := range t.s.Members {
		t.members = append(t.members, &instance{index: i, set: set, wire: newWire(), early: early && set.Start == 0})
	}
	live := t.policy == ColumnStreams
	if live {
		if err := t.openJVMs(ctx); err != nil {
			return errors.Join(err, t.closeJVMs())
		}
	}
	t.began = time.Now().Add(lead)
	for _, m := range t.members {
		t.finished.Add(1)
		go func() {
			defer t.finished.Done()
			if live {
				t.driveJVM(ctx, m)
			} else {
				t.drive(ctx, m)
			}
		}()
	}
	if early {
		t.awaitTasks(ctx)
		if live {
			t.awaitCheck(ctx)
		}
		t.began = time.Now()
	}
	t.service.begin(t.began)
	close(t.ready)
	return nil
}

// drive is the life of one member.
func (t *trial) drive(ctx context.Context, m *instance) {
	if !m.early {
		<-t.ready
	}
	if !m.early && !sleepUntil(ctx, t.began.Add(m.set.Start)) {
		return
	}
	app, err := t.app(m)
	if err != nil {
		m.fail(err)
		return
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	m.mu.Lock()
	m.app = app
	m.mu.Unlock()
	ran := make(chan error, 1)
	go func() { ran <- app.Run(life) }()
	<-t.ready
	if m.set.Close > 0 && sleepUntil(ctx, t.began.Add(m.set.Close)) {
		stop()
	}
	if m.set.Kill > 0 && sleepUntil(ctx, t.began.Add(m.set.Kill)) {
		m.wire.cut()
		return // nobody waits for the dead: it gives up by itself
	}
	select {
	case err := <-ran: // it ended by itself, or was asked to
		if err != nil && ctx.Err() == nil {
			m.fail(err)
		}
		return
	case <-ctx.Done():
	}
	stop()
	select {
	case <-ran:
	case <-time.After(time.Minute):
		m.fail(errors.New("a member did not end"))
	}
}

func (m *instance) fail(err error) {
	m.mu.Lock()
	m.err = errors.Join(m.err, fmt.Errorf("member %d: %w", m.index, err))
	m.mu.Unlock()
}

// sleepUntil waits; false when ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// app is the application of one member: a topic, a call, a topic.
func (t *trial) app(m *instance) (*rondo.App, error) {
	b := rondo.New(t.group)
	in, out := rondo.TopicOf(t.in, serde.String(), serde.String()), rondo.TopicOf(t.out, serde.String(), serde.String())
	timeout := time.Hour
	if t.s.CallTimeout > 0 {
		timeout = t.s.CallTimeout
	}
	ask := func(ctx context.Context, r rondo.Record[string, string]) (string, error) {
		return t.service.ask(ctx, t.client, m.index, r.Partition, r.Offset)
	}
	b.From(in).CallRecord("service", timeout, ask, rondo.CallPolicy{Parallel: max(t.s.Parallel, 1)}).SkipFailures().To(out)
	topology, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	return rondo.NewApp(topology, t.options(m)...)
}

// clocks are the session time-out and the heartbeat interval of every member.
func (t *trial) clocks() (session, beat time.Duration) {
	session, beat = cmp.Or(t.s.Session, 45*time.Second), cmp.Or(t.s.Heartbeat, 3*time.Second)
	if !t.cluster.free {
		session = max(session, foreignSession)
	}
	return session, beat
}

func (t *trial) options(m *instance) []rondo.Option {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	set := t.s.Settings.WithDefaults()
	session, beat := t.clocks()
	drain := 5 * time.Second / time.Duration(t.scale)
	if t.s.Drain > 0 {
		drain = t.s.Drain
	}
	options := []rondo.Option{
		rondo.Bootstrap(t.cluster.bootstrap), rondo.WithLogger(t.log), rondo.WithDialer(m.wire.dial),
		rondo.Set("client.id", fmt.Sprintf("m%d", m.index)),
		rondo.Set("loop.policy", t.policy),
		rondo.Set("max.poll.interval.ms", ms(set.MaxPollInterval)),
		rondo.Set("commit.interval.ms", ms(set.CommitInterval)),
		rondo.Set("max.poll.records", strconv.Itoa(set.MaxPollRecords)),
		rondo.Set("poll.ms", ms(set.PollTimeout)),
		rondo.Set("session.timeout.ms", ms(session)),
		rondo.Set("heartbeat.interval.ms", ms(beat)),
		rondo.Set("drain.timeout.ms", ms(min(drain, set.MaxPollInterval/2))),
		rondo.Set("linger.ms", "0"), rondo.Set("compression.type", "none"),
	}
	if t.s.Eager {
		options = append(options, rondo.Set("rebalance.protocol", "eager"))
	}
	if id := t.s.Threads[m.index]; id != "" {
		options = append(options, rondo.Set("group.instance.id", id))
	}
	return options
}

// arrival is one record to be written.
type arrival struct {
	at        time.Duration
	partition int32
}

// feed writes the records of the scenario when they are due.
func (t *trial) feed(ctx context.Context) error {
	var list []arrival
	feeds := t.s.feeds()
	if t.s.Warm.N > 0 {
		if err := t.warmUp(ctx); err != nil {
			return err
		}
		feeds = feeds[1:]
	}
	for _, f := range feeds {
		list = append(list, arrivals(f, t.s.Partitions)...)
	}
	sortArrivals(list)
	for i := 0; i < len(list); {
		if !sleepUntil(ctx, t.began.Add(list[i].at)) {
			return nil
		}
		var batch []*kgo.Record
		for ; i < len(list) && t.began.Add(list[i].at).Before(time.Now().Add(time.Millisecond)); i++ {
			batch = append(batch, t.record(list[i].partition))
		}
		if err := t.cluster.client.ProduceSync(ctx, batch...).FirstErr(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("write to %s: %w", t.in, err)
		}
	}
	return nil
}

// awaitTasks waits until every partition has an owner, and some polls longer.
func (t *trial) awaitTasks(ctx context.Context) {
	limit := time.Now().Add(5 * time.Second)
	if t.policy == ColumnStreams {
		limit = limit.Add(25 * time.Second) // a JVM that has just begun is slow
	}
	for time.Now().Before(limit) && ctx.Err() == nil {
		owned := 0
		for _, s := range t.stats() {
			for _, th := range s.Threads {
				owned += len(th.Tasks)
			}
		}
		if owned >= t.s.Partitions && t.allStarted() {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	sleepUntil(ctx, time.Now().Add(3*t.s.Settings.WithDefaults().PollTimeout+20*time.Millisecond))
}

// allStarted says that every JVM of the beginning has tasks, as far as there
// are enough. Rondo's members need not be asked: they come within milliseconds.
func (t *trial) allStarted() bool {
	begun, with := 0, 0
	for _, m := range t.members {
		if m.jvm == nil || !m.early {
			continue
		}
		begun++
		m.jvm.mu.Lock()
		if len(m.jvm.seen.owned) > 0 {
			with++
		}
		m.jvm.mu.Unlock()
	}
	return with >= min(begun, t.s.Partitions)
}

func (t *trial) record(partition int32) *kgo.Record {
	return &kgo.Record{Topic: t.in, Partition: partition, Value: []byte("x")}
}

// warmUp feeds one record after the other until the thread's N is there.
func (t *trial) warmUp(ctx context.Context) error {
	w := t.s.Warm
	last := t.began.Add(t.s.Zero - w.Hold - w.Gap/2)
	if !sleepUntil(ctx, t.began.Add(w.Begin)) {
		return nil
	}
	for n := 0; n < w.N && time.Now().Before(last) && ctx.Err() == nil; {
		before := t.service.done()
		if err := t.cluster.client.ProduceSync(ctx, t.record(0)).FirstErr(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("write to %s: %w", t.in, err)
		}
		for give := time.Now().Add(time.Second); t.service.done() == before && time.Now().Before(give) && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		for give := time.Now().Add(20 * time.Millisecond); ; time.Sleep(time.Millisecond) {
			now := t.n()
			if now > n || time.Now().After(give) {
				n = now
				break
			}
		}
	}
	return nil
}

// n is the N of the first member.
func (t *trial) n() int {
	for _, s := range t.stats() {
		for _, th := range s.Threads {
			return th.N
		}
	}
	return 0
}

// stats are those of the members that run.
func (t *trial) stats() map[int]rondo.Stats {
	out := map[int]rondo.Stats{}
	for _, m := range t.members {
		m.mu.Lock()
		app := m.app
		m.mu.Unlock()
		if app != nil {
			out[m.index] = app.Stats()
		}
		if m.jvm != nil {
			m.jvm.mu.Lock()
			out[m.index] = m.jvm.seen.stats(t.in)
			m.jvm.mu.Unlock()
		}
	}
	return out
}

// watch samples the members until the end.
func (t *trial) watch(ctx context.Context) {
	t.samples = sampler{n: map[int]int{}, owned: map[int]string{}}
	every := sampleEvery
	if len(t.members) > 8 {
		every *= 4
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t.samples.take(now, t.stats())
		}
	}
}
