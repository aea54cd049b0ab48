package rondo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/call"
	"github.com/rondo-streams/rondo/internal/loop"
)

// App runs a topology: num.stream.threads threads, each a member of the
// consumer group application.id. Make it with NewApp, run it once.
type App struct {
	topology   *Topology
	config     *config
	clientID   string
	policy     string // loop.policy
	streams42  bool
	maxPoll    time.Duration
	watchEvery time.Duration // between two looks at user code
	noteAge    time.Duration // age at which work is noted in commits
	delivery   time.Duration // delivery.timeout.ms
	subOf      map[string]int32
	gates      map[string]*call.Gate // by the call's name
	producer   *kgo.Client
	counts     counters
	strikes    strikes
	noNotes    atomic.Bool // the cluster refuses metadata as long as notes are
	called     called

	mu        sync.Mutex // guards the rest
	state     string
	began     time.Time
	threads   []*running
	numbers   map[int]bool  // of threads that are there
	ended     chan *running // threads that are over; nil before Run
	over      chan struct{} // closed when Run returns
	evictions []Eviction
	single    *kgo.Client // nil until an output must go in a batch of its own
}

// running is a thread that was started.
type running struct {
	*thread
	stop      func() // asks it to stop
	dismissed error  // why its static member is still in the group; read after done
}

// NewApp checks all settings and prepares a run; it opens no connection. The
// error joins everything that is wrong with the settings.
func NewApp(t *Topology, opts ...Option) (*App, error) {
	c, err := newConfig(t.app, opts)
	if err != nil {
		return nil, err
	}
	a := &App{
		topology: t, config: c, clientID: c.text("client.id"), policy: c.text("loop.policy"), streams42: c.text("loop.policy") == "streams42",
		maxPoll: c.duration("max.poll.interval.ms"), delivery: c.duration("delivery.timeout.ms"), subOf: map[string]int32{}, gates: map[string]*call.Gate{}, numbers: map[int]bool{}, state: "created",
	}
	if a.clientID == "" {
		a.clientID = c.text("application.id")
	}
	a.watchEvery = min(max(a.maxPoll/100, 10*time.Millisecond), time.Second)
	a.noteAge = a.maxPoll - noteLead(a.maxPoll, c.duration("heartbeat.interval.ms"))
	for _, sub := range t.subs {
		for _, src := range sub.sources {
			a.subOf[src.topic.name] = sub.id
		}
	}
	for _, n := range t.nodes {
		if n.call != nil {
			a.gates[n.name] = call.NewGate(n.call.gate())
		}
	}
	return a, nil
}

func (a *App) loopSettings() loop.Settings {
	c := a.config
	return loop.Settings{
		MaxPollInterval: a.maxPoll, CommitInterval: c.duration("commit.interval.ms"), PollTimeout: c.duration("poll.ms"),
		MaxPollRecords: c.number("max.poll.records"), BufferedRecords: c.number("buffered.records.per.partition"), Burst: c.duration("burst.ms"),
	}
}

// Run joins the group and processes records until ctx ends. Then it stops
// within drain.timeout.ms (plus the time of one commit): it takes no more
// records, lets calls in flight finish, commits what is finished, leaves the
// group, and answers nil. It answers an error when the application cannot go
// on: no cluster, a topic missing, a handler that said Fail. ctx is the only
// way to stop it.
func (a *App) Run(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	defer a.setState("stopped")
	defer close(a.over)
	a.warn()
	producer, err := kgo.NewClient(a.producerOptions()...)
	if err != nil {
		return fmt.Errorf("make producer: %w", err)
	}
	a.producer = producer
	defer a.closeProducers()
	if err := a.checkTopics(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	a.setState("running")
	for range a.config.number("num.stream.threads") {
		if _, err := a.startThread(); err != nil {
			a.stopAll()
			return err
		}
	}
	err = a.supervise(ctx)
	a.setState("stopping")
	a.stopAll()
	return err
}

func (a *App) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return ErrRunning
	}
	a.ended, a.over = make(chan *running), make(chan struct{})
	a.began = time.Now()
	return nil
}

func (a *App) setState(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = s
}

// warn logs settings without effect, and calls that can outlast the poll clock.
func (a *App) warn() {
	log := a.config.logger
	for _, i := range a.config.ignored {
		log.Info("setting has no effect", "name", i.Name, "value", i.Value, "reason", i.Reason)
	}
	if name, worst := a.topology.WorstCall(); worst >= a.maxPoll {
		log.Warn("a call may outlast the poll clock", "call", name, "worst", worst, "max.poll.interval.ms", a.maxPoll.Milliseconds(),
			"hint", "lower its timeout, attempts or budget, or raise max.poll.interval.ms")
	}
}

// supervise waits for the end of ctx, or of a thread that is not replaced.
func (a *App) supervise(ctx context.Context) error {
	pause := 100 * time.Millisecond
	for {
		var over *running
		select {
		case <-ctx.Done():
			return nil
		case over = <-a.ended:
		}
		a.forget(over)
		if over.err == nil {
			continue // RemoveStreamThread
		}
		response := ShutdownClient
		if h := a.config.uncaught; h != nil {
			response = h(over.name, over.err)
		}
		if response != ReplaceThread {
			return over.err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
		if over.lived() > time.Minute {
			pause = 100 * time.Millisecond
		}
		pause = min(2*pause, 30*time.Second)
		if _, err := a.startThread(); err != nil {
			return errors.Join(over.err, err)
		}
	}
}

func (r *running) lived() time.Duration { return r.until.Sub(r.since) }

// startThread makes a thread and lets it run.
func (a *App) startThread() (*running, error) {
	number := a.takeNumber()
	th := newThread(a, number)
	if err := th.open(); err != nil {
		a.giveNumber(number)
		return nil, err
	}
	stop := make(chan struct{})
	r := &running{thread: th, stop: sync.OnceFunc(func() { close(stop) })}
	a.mu.Lock()
	late := a.state != "running"
	if !late {
		a.threads = append(a.threads, r)
	}
	a.mu.Unlock()
	if late {
		th.close("the application is being closed")
		a.giveNumber(number)
		return nil, ErrNotRunning
	}
	go func() {
		th.drive(stop)
		a.dismiss(r)
		close(th.done)
		select {
		case a.ended <- r:
		case <-a.over:
		}
	}()
	return r, nil
}

// takeNumber is the lowest number that no thread has: a thread that replaces
// another one takes over its client id and, with static membership, its place
// in the group.
func (a *App) takeNumber() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 1
	for a.numbers[n] {
		n++
	}
	a.numbers[n] = true
	return n
}

func (a *App) giveNumber(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.numbers, n)
}

func (a *App) forget(r *running) {
	a.giveNumber(r.number)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.threads = slices.DeleteFunc(a.threads, func(x *running) bool { return x == r })
}

// stopAll stops every thread and waits for them.
func (a *App) stopAll() {
	a.mu.Lock()
	threads := slices.Clone(a.threads)
	a.mu.Unlock()
	for _, r := range threads {
		r.stop()
	}
	for _, r := range threads {
		<-r.done
		a.forget(r)
	}
}

// AddStreamThread starts another thread and answers its name. The new member
// joins the group at once, whatever the others are doing.
func (a *App) AddStreamThread() (name string, err error) {
	if !a.isRunning() {
		return "", ErrNotRunning
	}
	r, err := a.startThread()
	if err != nil {
		return "", err
	}
	return r.name, nil
}

func (a *App) isRunning() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state == "running"
}

// RemoveStreamThread stops the youngest thread and answers its name. It
// returns when the thread has drained, for at most drain.timeout.ms, has
// committed, and has left the group, or when ctx ends; the removal goes on
// then, to its end. A static member is taken out of the group as well (KIP-663),
// after its last commit.
func (a *App) RemoveStreamThread(ctx context.Context) (name string, err error) {
	if !a.isRunning() {
		return "", ErrNotRunning
	}
	a.mu.Lock()
	var r *running
	for _, x := range slices.Backward(a.threads) {
		if !x.leaving {
			r = x
			r.leaving = true
			break
		}
	}
	a.mu.Unlock()
	if r == nil {
		return "", errors.New("remove thread: there is none")
	}
	r.stop()
	select {
	case <-r.done:
		return r.name, r.dismissed
	case <-ctx.Done():
		return r.name, fmt.Errorf("remove thread %s: %w: it goes on to stop and to leave the group", r.name, context.Cause(ctx))
	}
}

// dismiss takes a removed thread's static member out of the group, as Kafka
// Streams does: it stayed silent when it closed, and its partitions would wait
// for it until the session clock fires. It belongs to the end of the thread and
// not to the call that asked for it, which may be gone by then; and the thread's
// number, its instance id with it, is free only afterwards.
func (a *App) dismiss(r *running) {
	a.mu.Lock()
	leaving := r.leaving
	a.mu.Unlock()
	instance := r.instance()
	if instance == "" || !leaving {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	group := a.config.text("application.id")
	left, err := kadm.NewClient(a.producer).LeaveGroup(ctx, kadm.LeaveGroup(group).Reason("the stream thread was removed").InstanceIDs(instance))
	if err == nil {
		err = left.Error()
	}
	if err == nil || errors.Is(err, kerr.UnknownMemberID) {
		return // it is not there any more
	}
	r.dismissed = fmt.Errorf("take static member %s out of group %s: %w", instance, group, err)
	r.log.Warn("take static member out of the group", "instance", instance, "error", err, "hint", "its partitions wait for session.timeout.ms")
}

// Stats takes a snapshot. It is cheap enough to be asked for many times a
// second.
func (a *App) Stats() Stats {
	a.mu.Lock()
	s := Stats{App: a.config.text("application.id"), Policy: a.policy, State: a.state, Evictions: slices.Clone(a.evictions)}
	if !a.began.IsZero() {
		s.Uptime = time.Since(a.began)
	}
	threads := slices.Clone(a.threads)
	a.mu.Unlock()
	s.Counts = a.counts.snapshot()
	for _, n := range a.topology.nodes {
		if n.call == nil {
			continue
		}
		r := a.gates[n.name].Reading()
		s.Calls = append(s.Calls, CallStats{Name: n.name, Made: r.Made, Failed: r.Failed, InFlight: r.InFlight, Latency: r.Latency, Breaker: r.Breaker, Limit: r.Limit})
	}
	for _, r := range threads {
		s.Threads = append(s.Threads, r.stats())
	}
	return s
}

const maxEvictions = 64

func (a *App) evicted(e Eviction) {
	a.counts.evictions.Add(1)
	if e.Work != "" {
		a.counts.pollClock.Add(1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.evictions) == maxEvictions {
		a.evictions = a.evictions[1:]
	}
	a.evictions = append(a.evictions, e)
}

// Ignored lists settings that were set and have no effect, each with the
// reason. Run also logs them.
func (a *App) Ignored() []Ignored { return a.config.ignored }
