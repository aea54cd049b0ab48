package rondo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// thread is one stream thread: one member of the group, the partitions that it
// fetches, and the tasks that it runs. One goroutine owns it; others put work
// into its mailbox.
type thread struct {
	app    *App
	name   string
	number int
	log    *slog.Logger
	box    *mailbox
	member *member.Member
	intake *intake
	ctx    context.Context // ends when the thread is over
	cancel context.CancelFunc
	opened chan struct{} // closed when member is set
	done   chan struct{}
	err    error // why it ended; read after done

	since, until time.Time // read after done
	leaving      bool      // guarded by App.mu: RemoveStreamThread has taken it

	// Of the thread's goroutine.
	core     *loop.PerCall
	lanes    map[loop.TaskID]*lane
	starting map[loop.TaskID]*start // tasks whose positions are asked for
	revokes  []*revoke
	stopping bool
	stopped  bool
	asked    bool      // user code wants a commit
	pending  int       // commits in flight
	again    bool      // the core wants a commit while another one is in flight
	parting  []func()  // commits to begin before a lease goes
	keep     time.Time // notes stay as they are until then: a lease is about to go
	drivers  sync.WaitGroup

	mu         sync.Mutex // guards tasks and the readings, for Stats
	tasks      map[loop.TaskID]*task
	lastCommit time.Time
	reading    loop.Reading // streams42
}

// start is a task on its way: its lease is held, its positions are not known.
type start struct {
	parts  []member.TopicPartition
	cancel context.CancelFunc
}

// revoke is a request for partitions that is not answered yet.
type revoke struct {
	tasks map[loop.TaskID]bool
	done  func()
}

// watch is the poll clock's view of a record that has been inside user code
// for a while.
type watch struct {
	run    uint64
	ticket member.Ticket
}

func newThread(a *App, number int) *thread {
	name := fmt.Sprintf("%s-thread-%d", a.clientID, number)
	th := &thread{
		app: a, name: name, number: number, log: a.config.logger.With("thread", name), box: newMailbox(), opened: make(chan struct{}), done: make(chan struct{}),
		lanes: map[loop.TaskID]*lane{}, starting: map[loop.TaskID]*start{}, tasks: map[loop.TaskID]*task{},
	}
	th.ctx, th.cancel = context.WithCancel(context.Background())
	return th
}

// instance is the thread's group.instance.id; empty for a dynamic member.
func (th *thread) instance() string {
	id := th.app.config.text("group.instance.id")
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", id, th.number)
}

// open joins the group.
func (th *thread) open() error {
	client, err := kgo.NewClient(th.app.consumerOptions(th.name + "-consumer")...)
	if err != nil {
		return fmt.Errorf("thread %s: make consumer: %w", th.name, err)
	}
	th.intake = newIntake(client, th.app.config.number("max.poll.records"))
	cfg := th.app.memberConfig(th.name)
	cfg.Logger = th.log
	cfg.InstanceID = th.instance()
	if !th.app.streams42 {
		cfg.Farewell = th.farewell
	}
	if th.member, err = member.Start(th.ctx, cfg); err != nil {
		client.Close()
		return fmt.Errorf("thread %s: join group %s: %w", th.name, cfg.Group, err)
	}
	close(th.opened)
	return nil
}

// drive runs the thread until it is stopped or fails.
func (th *thread) drive(stop <-chan struct{}) {
	th.since = time.Now()
	if th.app.streams42 {
		th.runStreams42(stop)
	} else {
		th.runPerCall(stop)
	}
	th.until = time.Now()
}

// close leaves the group and ends everything that the thread began.
func (th *thread) close(reason string) {
	for _, t := range th.snapshot() {
		t.fence(leaseEnd(errors.New(reason)))
	}
	for _, l := range th.lanes {
		l.stop()
	}
	for _, s := range th.starting {
		s.cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := th.member.Close(ctx, reason); err != nil {
		th.log.Warn("leave group", "error", err)
	}
	th.cancel()
	th.intake.client.Close()
	th.awaitDrivers()
}

// closeTimeout bounds the request that leaves the group. A coordinator that
// does not answer learns of it by the session clock.
const closeTimeout = 3 * time.Second

// awaitDrivers waits for goroutines that run user code, but not for those that
// do not come back: they cannot be ended from outside, and they can do nothing
// any more.
func (th *thread) awaitDrivers() {
	back := make(chan struct{})
	go func() {
		th.drivers.Wait()
		close(back)
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-back:
	case <-timer.C:
		th.log.Warn("user code has not returned; its results will be thrown away")
	}
}

// snapshot is the tasks in their order.
func (th *thread) snapshot() []*task {
	th.mu.Lock()
	defer th.mu.Unlock()
	return slices.SortedFunc(maps.Values(th.tasks), func(a, b *task) int { return a.id.Compare(b.id) })
}

func (th *thread) setTask(t *task) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.tasks[t.id] = t
}

func (th *thread) dropTask(id loop.TaskID) {
	th.mu.Lock()
	defer th.mu.Unlock()
	delete(th.tasks, id)
}

// begin starts the poll clock of a call.
func (th *thread) begin(w member.Work) (context.Context, member.Ticket) {
	lease, ticket := th.member.Begin(w)
	if th.app.streams42 {
		// The stream thread of Kafka Streams never interrupts what it runs.
		return context.Background(), ticket
	}
	return lease, ticket
}

func (th *thread) end(t member.Ticket) (inTime bool) { return th.member.End(t) }
func (th *thread) unwatch(w *watch)                  { th.member.End(w.ticket) }
func (th *thread) recordsFinished(t *task) {
	if th.app.streams42 {
		return
	}
	th.box.put(func() {
		n := t.takeDone()
		if l := th.lanes[t.id]; l != nil && l.task == t && n > 0 {
			th.step(loop.Finished{Task: t.id, N: n})
		}
	})
}

func (th *thread) commitRequested(t *task) {
	if th.app.streams42 {
		return // the loop asks after each pass
	}
	th.box.put(func() {
		t.committed.Store(false)
		th.asked = true
		th.commitIfAsked()
	})
}

// taskFailed ends the thread because a handler said Fail. What other records
// and tasks have finished is committed first.
func (th *thread) taskFailed(t *task, err error) {
	if th.app.streams42 {
		th.err = errors.Join(th.err, err) // the thread itself drives the task
		return
	}
	th.box.put(func() {
		if th.err == nil {
			th.err = err
			th.log.Error("thread fails", "error", err)
		}
		if l := th.lanes[t.id]; l != nil && l.task == t {
			// The lane will never be drained. Its finished prefix stays part
			// of commits until the thread ends.
			delete(th.lanes, t.id)
			l.stop()
			th.step(loop.Lost{Tasks: []loop.TaskID{t.id}})
		}
		th.stop()
	})
}

// positions is where each partition of a task begins: its committed offset,
// with what was committed beside it, or what auto.offset.reset says.
func (th *thread) positions(ctx context.Context, parts []member.TopicPartition) (map[member.TopicPartition]member.Offset, error) {
	committed, err := th.member.Committed(ctx, parts)
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets of %v: %w", parts, err)
	}
	out := map[member.TopicPartition]member.Offset{}
	var missing []member.TopicPartition
	for _, p := range parts {
		if o, ok := committed[p]; ok && o.At >= 0 {
			out[p] = o
		} else {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	begin, err := th.intake.reset(ctx, th.app.config.text("auto.offset.reset"), missing)
	if err != nil {
		return nil, err
	}
	for p, at := range begin {
		out[p] = member.Offset{At: at, LeaderEpoch: -1}
	}
	return out, nil
}

// said is positions for a log line.
func said(positions map[member.TopicPartition]member.Offset) string {
	at := map[member.TopicPartition]int64{}
	for p, o := range positions {
		at[p] = o.At
	}
	return fmt.Sprint(at)
}

// byTask sorts partitions into tasks.
func (th *thread) byTask(parts []member.TopicPartition) map[loop.TaskID][]member.TopicPartition {
	out := map[loop.TaskID][]member.TopicPartition{}
	for _, p := range parts {
		if sub, ok := th.app.subOf[p.Topic]; ok {
			id := loop.TaskID{Sub: sub, Part: p.Partition}
			out[id] = append(out[id], p)
		}
	}
	return out
}

// evicted notes a lease that the poll clock ended.
func (th *thread) evicted(e member.Evicted) {
	times := max(th.app.strikes.add(e.Work), e.Times)
	th.app.evicted(Eviction{
		At: time.Now(), Thread: th.name, Cause: cause.PollClock, Work: e.Work.String(), Age: e.Age, Times: times,
		Error: (&member.PollClockError{Work: e.Work, Age: e.Age, Limit: e.Clocks.PollLimit, InPoll: th.app.streams42}).Error(),
	})
	th.log.Error("lease lost to the poll clock", "work", e.Work.String(), "age", e.Age, "max.poll.interval.ms", e.Clocks.PollLimit.Milliseconds(), "times", times)
}

// lost notes a lease that was lost otherwise. A loss to the poll clock was
// noted when it fired.
func (th *thread) lost(e member.Lost) {
	var clock *member.PollClockError
	if errors.As(e.Cause, &clock) || len(e.Partitions) == 0 {
		return
	}
	text := ""
	if e.Cause != nil {
		text = e.Cause.Error()
	}
	th.app.evicted(Eviction{At: time.Now(), Thread: th.name, Cause: cause.SessionClock, Error: text})
	th.log.Error("lease lost", "partitions", len(e.Partitions), "error", e.Cause)
}

func (th *thread) stats() ThreadStats {
	s := ThreadStats{Name: th.name, State: "starting", Generation: -1}
	select {
	case <-th.done:
		s.State = "ended"
	default:
		if c, ok := th.clocks(); ok {
			s.MemberID, s.State, s.Generation = c.MemberID, c.State.String(), c.Generation
			s.SessionLeft, s.SessionLimit, s.PollLeft, s.PollLimit = c.SessionLeft, c.SessionLimit, c.PollLeft, c.PollLimit
			if c.OldestWork != (member.Work{}) {
				s.Oldest = c.OldestWork.String()
			}
			s.InFlight = c.InFlight
		}
	}
	th.mu.Lock()
	s.LastCommit = th.lastCommit
	if th.app.streams42 {
		s.N, s.Pass, s.LastPoll = th.reading.N, th.reading.Passes, th.reading.LastPoll
	}
	th.mu.Unlock()
	for _, t := range th.snapshot() {
		s.Tasks = append(s.Tasks, t.stats())
	}
	return s
}

// clocks reads the member's clocks once it exists.
func (th *thread) clocks() (member.Clocks, bool) {
	select {
	case <-th.opened:
		return th.member.Clocks(), true
	default:
		return member.Clocks{}, false
	}
}

func (t *task) stats() TaskStats {
	s := TaskStats{ID: t.id.String(), Queued: int(t.queued.Load())}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.parts {
		lowest, _ := p.offsets.Lowest()
		s.Unfinished += p.offsets.Open()
		s.Partitions = append(s.Partitions, PartitionStats{Topic: p.at.Topic, Partition: p.at.Partition, Fetched: p.fetched, Finished: lowest, Committed: p.committed})
	}
	return s
}
