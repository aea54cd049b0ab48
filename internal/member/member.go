package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is the running shell around a Core.
type Member struct {
	cfg    Config
	client *kgo.Client
	works  workList

	ctx    context.Context // parent of all works; cancelled when the member ends
	cancel context.CancelCauseFunc
	inputs chan input
	events chan Event
	ended  chan struct{} // closed when the owner takes no more inputs
	done   chan struct{} // closed when everything is over

	mu  sync.Mutex // guards now; nobody waits while holding it
	now snapshot

	// What follows belongs to the owner goroutine, run.
	core    *Core
	flights map[uint64]context.CancelFunc
	sending sync.WaitGroup
	queue   []Event // not yet taken by the reader of Events
	told    int     // events ever queued
	fatal   bool
	away    time.Time // since when the coordinator has not been reached; zero: it answers
	warned  bool      // that it is away
}

// input is one step for the owner; done, when set, is closed after it.
type input struct {
	in   In
	done chan struct{}
}

// snapshot is what other goroutines may know.
type snapshot struct {
	Membership
	busy    bool
	told    int
	changed chan struct{} // closed when the snapshot is replaced
}

// errStopped is the cause of contexts after the member has ended.
var errStopped = errors.New("member has stopped")

// Start checks the configuration, connects and joins. The first Assigned
// event says that the join is done. Cancelling ctx stops the member without
// leaving the group, as a crash would; Close leaves.
func Start(ctx context.Context, cfg Config) (*Member, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("start member of group %q: %w", cfg.Group, err)
	}
	client, err := cfg.newClient()
	if err != nil {
		return nil, fmt.Errorf("start member of group %q: %w", cfg.Group, err)
	}
	m := &Member{
		cfg: cfg, client: client,
		inputs: make(chan input), events: make(chan Event),
		ended: make(chan struct{}), done: make(chan struct{}),
		core:    NewCore(cfg.core(), rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		flights: map[uint64]context.CancelFunc{},
	}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	m.publish()
	go m.run()
	return m, nil
}

// run owns the core: one timer set to what is due next, one select.
func (m *Member) run() {
	defer m.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	m.step(Started{})
	for m.core.phase != Stopped || m.core.Leaving() || m.fatal {
		timer.Reset(m.wait())
		var out chan Event
		var head Event
		if len(m.queue) > 0 {
			out, head = m.events, m.queue[0]
		} else if m.fatal {
			return
		}
		select {
		case in := <-m.inputs:
			m.step(in.in)
			if in.done != nil {
				close(in.done)
			}
			if _, closing := in.in.(Closing); closing {
				m.fatal, m.queue = false, nil
			}
		case out <- head:
			m.queue = m.queue[1:]
		case <-timer.C:
			m.tick()
		case <-m.ctx.Done():
			return
		}
	}
}

// wait is how long nothing is due. The poll clock of work that begins while we
// wait is at least max.poll.interval.ms away, so it needs no wake-up.
func (m *Member) wait() time.Duration {
	now := time.Now()
	d := m.cfg.MaxPollInterval
	if next, ok := m.core.Next(); ok {
		d = min(d, next.Sub(now))
	}
	if _, began, n := m.works.look(); n > 0 && !m.cfg.InPoll {
		d = min(d, began.Add(m.cfg.MaxPollInterval).Sub(now))
	}
	return max(d, 0)
}

// tick cuts the works whose poll clock has fired, and lets the core do what is
// due.
func (m *Member) tick() {
	oldest, _, _ := m.works.look()
	if !m.cfg.InPoll {
		now := time.Now()
		expired := m.works.takeExpired(now, m.cfg.MaxPollInterval)
		for _, w := range expired {
			w.stop(&PollClockError{Work: w.work, Age: now.Sub(w.began), Limit: m.cfg.MaxPollInterval})
		}
		m.expire(now, expired)
	}
	m.step(Tick{Oldest: oldest})
}

// expire gives up the lease under which works ran. When there is something to
// say before, that is done first; the owner goes on meanwhile, so that
// heartbeats leave in time, and nothing is waited for longer than
// FarewellLimit.
func (m *Member) expire(now time.Time, works []*workContext) {
	at := slices.IndexFunc(works, func(w *workContext) bool { return m.core.costs(w.work, w.began) })
	if at < 0 || m.cfg.Farewell == nil {
		for _, w := range works {
			m.step(Expired{Work: w.work, Age: now.Sub(w.began)})
		}
		return
	}
	m.sending.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, m.FarewellLimit())
		defer cancel()
		said := make(chan struct{})
		go func() {
			defer close(said)
			m.cfg.Farewell(ctx, works[at].work)
		}()
		select {
		case <-said:
		case <-ctx.Done():
		}
		for _, w := range works {
			m.post(Expired{Work: w.work, Age: time.Since(w.began)})
		}
	})
}

func (m *Member) step(in In) {
	out := m.core.Step(time.Now(), in)
	for _, seq := range out.Cancels {
		if cancel := m.flights[seq]; cancel != nil {
			cancel()
		}
	}
	if r, ok := in.(Replied); ok {
		delete(m.flights, r.Seq)
		m.noteReach(r.Err)
	}
	for _, s := range out.Sends {
		m.send(s)
	}
	for _, e := range out.Events {
		m.tell(e)
	}
	m.publish()
}

// awayWarn is how long a coordinator may be away before that is worth a
// warning. A group's first members always find it away for a moment: it is
// about to be made, or moves.
const awayWarn = 5 * time.Second

// noteReach logs when the coordinator cannot be reached for a while, and when
// it can be again; the core retries in between.
func (m *Member) noteReach(err error) {
	log := m.cfg.Logger.With("group", m.cfg.Group, "member", m.core.memberID)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil && m.away.IsZero():
		m.away = time.Now()
		log.Debug("coordinator does not answer, trying again", "err", err)
	case err != nil && !m.warned && time.Since(m.away) >= awayWarn:
		m.warned = true
		log.Warn("coordinator cannot be reached, trying again", "for", time.Since(m.away).Round(time.Millisecond), "err", err)
	case err == nil && m.warned:
		log.Info("coordinator answers again", "after", time.Since(m.away).Round(time.Millisecond))
		fallthrough
	case err == nil:
		m.away, m.warned = time.Time{}, false
	}
}

func (m *Member) tell(e Event) {
	log := m.cfg.Logger.With("group", m.cfg.Group, "member", m.core.memberID)
	switch ev := e.(type) {
	case Assigned:
		log.Info("assigned", "generation", ev.Generation, "new", len(ev.Partitions), "owned", len(ev.Owned))
	case Revoke:
		log.Info("revoke", "generation", ev.Generation, "partitions", ev.Partitions)
		id := ev.id
		ev.Done = func() { m.post(Drained{ID: id}) }
		e = ev
	case Lost:
		log.Warn("lost", "partitions", ev.Partitions, "cause", ev.Cause)
	case Evicted:
		log.Warn("evicted", "work", ev.Work.String(), "age", ev.Age, "times", ev.Times)
	case Fatal:
		log.Error("member cannot go on", "err", ev.Err)
		m.fatal = true
	}
	m.queue = append(m.queue, e)
	m.told++
}

// send runs one request to its end on a goroutine of its own.
func (m *Member) send(s Send) {
	if join, ok := s.Req.(*kmsg.JoinGroupRequest); ok && m.cfg.UserData != nil {
		s.Subscription.UserData = m.cfg.UserData()
		join.Protocols[0].Metadata = s.Subscription.AppendTo(nil)
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.flights[s.Seq] = cancel
	m.sending.Go(func() {
		defer cancel()
		resp, err := m.client.Request(ctx, s.Req)
		if err != nil {
			resp = nil
		}
		m.post(Replied{Seq: s.Seq, Resp: resp, Err: err})
	})
}

// publish replaces the snapshot and wakes those who wait for a change.
func (m *Member) publish() {
	next := snapshot{Membership: m.core.Membership(), busy: m.core.Busy(), told: m.told, changed: make(chan struct{})}
	m.mu.Lock()
	before := m.now.changed
	m.now = next
	m.mu.Unlock()
	if before != nil {
		close(before)
	}
}

func (m *Member) current() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// end takes everything down, in the order in which the parts use each other.
func (m *Member) end() {
	m.cancel(errStopped)
	close(m.ended)
	m.sending.Wait()
	m.client.Close()
	m.core.phase, m.core.generation = Stopped, -1
	m.publish()
	close(m.events)
	close(m.done)
}

// post hands an input to the owner; false when the member has ended.
func (m *Member) post(in In) bool {
	select {
	case m.inputs <- input{in: in}:
		return true
	case <-m.ended:
		return false
	}
}

// do hands an input to the owner and waits until its step is done.
func (m *Member) do(in In) bool {
	done := make(chan struct{})
	select {
	case m.inputs <- input{in, done}:
		<-done
		return true
	case <-m.ended:
		return false
	}
}

// Events delivers what happens to the lease, in order. The channel is closed
// after Close, after a Fatal event, and when the context of Start ends. The
// member never waits for its reader.
func (m *Member) Events() <-chan Event { return m.events }

// Poll is one poll of the classic Java consumer (InPoll mode only; otherwise
// it does nothing). It resets the poll clock, sends a join when one is due and
// applies answers. It returns when nothing is outstanding any more, when an
// event waits in Events (handle it, then poll again), or when ctx ends: give
// it the time that poll(Duration) would have, and end it early when records
// are there, as the Java client does.
func (m *Member) Poll(ctx context.Context) {
	if !m.cfg.InPoll {
		return
	}
	told := m.current().told
	oldest, _, _ := m.works.look()
	if !m.do(PollBegan{Oldest: oldest}) {
		return
	}
	defer m.do(PollEnded{})
	for {
		now := m.current()
		if !now.busy || now.told != told {
			return
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return
		case <-m.ended:
			return
		}
	}
}

// Clocks reads both clocks.
func (m *Member) Clocks() Clocks {
	now := time.Now()
	s := m.current()
	w, began, n := m.works.look()
	c := Clocks{
		SessionLimit: m.cfg.SessionTimeout, PollLimit: m.cfg.MaxPollInterval, PollLeft: m.cfg.MaxPollInterval,
		Generation: s.Generation, MemberID: s.MemberID, State: s.State, OldestWork: w, InFlight: n,
	}
	if s.Generation >= 0 {
		c.SessionLeft = max(0, s.Since.Add(m.cfg.SessionTimeout).Sub(now))
	}
	if m.cfg.InPoll {
		c.PollLeft = max(0, s.Polled.Add(m.cfg.MaxPollInterval).Sub(now))
	} else if n > 0 {
		c.PollLeft = max(0, began.Add(m.cfg.MaxPollInterval).Sub(now))
	}
	return c
}

// Rejoin asks for a rebalance, with a KIP-800 reason.
func (m *Member) Rejoin(reason string) { m.post(Asked{Reason: reason}) }

// Close ends the member. A dynamic member leaves the group with the reason
// (KIP-800; empty means the Java client's "the consumer is being closed"); a
// static one stays silent, so that its restart within the session timeout
// moves nothing. Revocation is not waited for: drain and commit first. When
// ctx ends before the coordinator has answered, the member stops anyway and
// the error says so.
func (m *Member) Close(ctx context.Context, reason string) error {
	m.post(Closing{Reason: reason})
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		m.cancel(errStopped)
		<-m.done
		return fmt.Errorf("leave group %q: %w: the coordinator will notice when the session runs out", m.cfg.Group, context.Cause(ctx))
	}
}
