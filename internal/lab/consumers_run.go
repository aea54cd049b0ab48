package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/sim"
)

// gathering is one measured run of plain consumers: members of franz-go, of any
// of the three protocols, each with connections of its own.
type gathering struct {
	s     *Scenario // scaled
	scale int
	trial *trial // writes the records
	c     *cluster
	log   *slog.Logger
	run   context.Context

	finished sync.WaitGroup
	mu       sync.Mutex // guards what follows
	err      error
	holds    []sampledOwner
	owned    map[int][]int
	dead     map[int]bool
	stopped  []stopped
	refused  []time.Time
	read     int
	distinct map[[2]int64]bool
}

// stopped is how many partitions a member gave back at a moment.
type stopped struct {
	at time.Time
	n  int
}

// measureConsumers runs a scenario of plain consumers to its end.
func measureConsumers(ctx context.Context, full *Scenario, policy string, scale int, c *cluster, _ *Java, log *slog.Logger) (f *Facts, err error) {
	s := full.Scaled(scale)
	tag := fmt.Sprintf("lab-%s-%s-%x", full.Name, policy, time.Now().UnixNano())
	g := &gathering{s: s, scale: scale, c: c, log: log, owned: map[int][]int{}, dead: map[int]bool{}, distinct: map[[2]int64]bool{},
		trial: &trial{s: s, cluster: c, group: tag, in: tag, scale: scale}}
	if len(s.Plain.Moves) > 0 && c.own == nil {
		return nil, errors.New("the coordinator is moved between the brokers of the lab's own process; on another cluster the lab moves nothing")
	}
	if err := c.create(ctx, s.Partitions, tag); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.forget(tag, g.topics()...)) }()
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	g.run = run
	g.trial.began = time.Now().Add(lead)
	end := g.trial.began.Add(s.Zero + s.For)
	over := time.AfterFunc(time.Until(end), cancel)
	defer over.Stop()
	feeding := make(chan error, 1)
	go func() { feeding <- g.trial.feed(run) }()
	for i := range s.Members {
		g.finished.Add(1)
		go func() {
			defer g.finished.Done()
			g.drive(i)
		}()
	}
	g.finished.Add(1)
	go func() {
		defer g.finished.Done()
		g.happen()
	}()
	<-run.Done()
	events := c.told(tag)
	g.finished.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(<-feeding, g.err); err != nil {
		return nil, fmt.Errorf("scenario %s, %s: %w", full.Name, policy, err)
	}
	read, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	commits, err := c.commits(read, tag, tag)
	if err != nil {
		return nil, err
	}
	return g.facts(full, events, commits), nil
}

// topics are the topic and, where there is one, the other.
func (g *gathering) topics() []string {
	if g.s.Plain.pattern() {
		return []string{g.trial.in, g.trial.in + "-other"}
	}
	return []string{g.trial.in}
}

// happen does to the cluster what the scenario says.
func (g *gathering) happen() {
	type act struct {
		at time.Duration
		do func() error
	}
	var acts []act
	for _, grow := range g.s.Plain.Growths {
		acts = append(acts, act{grow.At, func() error { return g.grow(grow) }})
	}
	for i, at := range g.s.Plain.Moves {
		acts = append(acts, act{at, func() error { return g.move(int32(i+1)%3 + 1) }})
	}
	slices.SortStableFunc(acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	for _, a := range acts {
		if !sleepUntil(g.run, g.trial.began.Add(a.at)) {
			return
		}
		if err := a.do(); err != nil && g.run.Err() == nil {
			g.fail(err)
		}
	}
}

func (g *gathering) fail(err error) {
	g.mu.Lock()
	g.err = errors.Join(g.err, err)
	g.mu.Unlock()
}

func (g *gathering) grow(to sim.Growth) error {
	if to.Other {
		return g.c.create(g.run, to.To, g.trial.in+"-other")
	}
	got, err := g.c.admin.UpdatePartitions(g.run, to.To, g.trial.in)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		return fmt.Errorf("add partitions to %s: %w", g.trial.in, err)
	}
	return nil
}

// move gives the group's partition of the offsets topic to another broker.
func (g *gathering) move(to int32) error {
	ends, err := g.c.admin.ListEndOffsets(g.run, offsetsTopic)
	if err != nil {
		return fmt.Errorf("look for the coordinator: %w", err)
	}
	rq := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	rq.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: offsetsTopic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{
		Partition: offsetsPartition(g.trial.group, int32(len(ends[offsetsTopic]))), Replicas: []int32{to},
	}}}}
	resp, err := rq.RequestWith(g.run, g.c.client)
	if err != nil {
		return fmt.Errorf("move the coordinator to broker %d: %w", to, err)
	}
	if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 {
		return fmt.Errorf("move the coordinator to broker %d: error code %d", to, got.ErrorCode)
	}
	return nil
}

// drive is the life of one consumer.
func (g *gathering) drive(i int) {
	set := g.s.Members[i]
	if !sleepUntil(g.run, g.trial.began.Add(set.Start)) {
		return
	}
	w := newWire()
	w.lossFrom, w.loss = g.trial.began.Add(g.s.Zero), g.s.Plain.Loss
	client, err := kgo.NewClient(g.options(i, w)...)
	if err != nil {
		g.fail(fmt.Errorf("member %d: %w", i, err))
		return
	}
	life, stop := context.WithCancel(g.run)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.consume(life, client)
	}()
	switch {
	case set.Kill > 0 && sleepUntil(g.run, g.trial.began.Add(set.Kill)):
		w.cut()
		g.own(i, nil)
		g.mu.Lock()
		g.dead[i] = true
		g.mu.Unlock()
	case set.Close > 0 && sleepUntil(g.run, g.trial.began.Add(set.Close)):
	default:
		<-g.run.Done()
		w.cut() // nothing of the end of the run reaches the group
	}
	stop()
	<-ended
	client.CloseAllowingRebalance()
}

// options are the settings of one consumer, those of the Java one as far as
// there are such.
func (g *gathering) options(i int, w *wire) []kgo.Opt {
	pl := g.s.Plain
	session, beat := cmp.Or(g.s.Session, 45*time.Second/time.Duration(g.scale)), cmp.Or(g.s.Heartbeat, 3*time.Second/time.Duration(g.scale))
	if !g.c.free {
		session = max(session, foreignSession)
	}
	out := []kgo.Opt{
		kgo.SeedBrokers(regexp.MustCompile(",").Split(g.c.bootstrap, -1)...), kgo.ClientID(fmt.Sprintf("m%d", i)), kgo.Dialer(w.dial),
		kgo.ConsumerGroup(g.trial.group), kgo.ConsumeTopics(g.trial.in), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(beat), kgo.RebalanceTimeout(g.s.Settings.WithDefaults().MaxPollInterval),
		kgo.MetadataMaxAge(pl.MetadataAge), kgo.MetadataMinAge(min(pl.MetadataAge/2, 5*time.Second)),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(100 * time.Millisecond), kgo.RetryTimeout(10 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { g.taken(i, parts) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, c *kgo.Client, parts map[string][]int32) {
			g.commit(c)
			g.gone(i, parts, true)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { g.gone(i, parts, false) }),
	}
	switch {
	case pl.Protocols[i] == sim.Range:
		out = append(out, kgo.Balancers(kgo.RangeBalancer()))
	case pl.Protocols[i] == sim.Cooperative:
		out = append(out, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case pl.Assignor == "range":
		out = append(out, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	default:
		out = append(out, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if pl.pattern() {
		out = append(out, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(g.trial.in)))
	}
	if id := g.s.Threads[i]; id != "" {
		out = append(out, kgo.InstanceID(id))
	}
	return out
}

// consume reads, and commits as the virtual consumers do.
func (g *gathering) consume(ctx context.Context, client *kgo.Client) {
	every := 500 * time.Millisecond / time.Duration(g.scale)
	for due := time.Now().Add(every); ctx.Err() == nil; {
		until, cancel := context.WithDeadline(ctx, due)
		fetches := client.PollFetches(until)
		cancel()
		g.mu.Lock()
		for r := range fetches.RecordsAll() {
			g.read++
			g.distinct[[2]int64{int64(r.Partition), r.Offset}] = true
		}
		g.mu.Unlock()
		if now := time.Now(); !now.Before(due) {
			due = now.Add(every)
			g.commit(client)
		}
	}
}

// commit commits what was read. One that a client holds back until it has
// found the coordinator again is late and not refused.
func (g *gathering) commit(client *kgo.Client) {
	if g.s.Plain.NoCommits || len(client.UncommittedOffsets()) == 0 {
		return
	}
	failed := false
	ctx, cancel := context.WithTimeout(g.run, 10*time.Second)
	defer cancel()
	client.CommitOffsetsSync(ctx, client.UncommittedOffsets(), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err != nil
		if resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				failed = failed || p.ErrorCode != 0
			}
		}
	})
	if failed && g.run.Err() == nil {
		g.mu.Lock()
		g.refused = append(g.refused, time.Now())
		g.mu.Unlock()
	}
}

// numbers are partitions as package sim counts them.
func (g *gathering) numbers(parts map[string][]int32) (list []int) {
	most := g.s.Partitions
	for _, grow := range g.s.Plain.Growths {
		if !grow.Other {
			most = max(most, grow.To)
		}
	}
	for topic, some := range parts {
		for _, p := range some {
			if topic != g.trial.in {
				p += int32(most)
			}
			list = append(list, int(p))
		}
	}
	slices.Sort(list)
	return list
}

func (g *gathering) taken(i int, parts map[string][]int32) {
	g.mu.Lock()
	has := append(slices.Clone(g.owned[i]), g.numbers(parts)...)
	g.mu.Unlock()
	slices.Sort(has)
	g.own(i, slices.Compact(has))
}

func (g *gathering) gone(i int, parts map[string][]int32, orderly bool) {
	list := g.numbers(parts)
	g.mu.Lock()
	if g.dead[i] {
		g.mu.Unlock()
		return // what its client does now, no process does
	}
	if orderly && len(list) > 0 {
		g.stopped = append(g.stopped, stopped{time.Now(), len(list)})
	}
	has := slices.DeleteFunc(slices.Clone(g.owned[i]), func(p int) bool { return slices.Contains(list, p) })
	g.mu.Unlock()
	g.own(i, has)
}

func (g *gathering) own(i int, has []int) {
	if g.run.Err() != nil {
		return // the end of the run is none of the group's affairs
	}
	g.mu.Lock()
	g.owned[i] = has
	g.holds = append(g.holds, sampledOwner{time.Now(), i, slices.Clone(has)})
	g.mu.Unlock()
}

// facts puts together what was observed.
func (g *gathering) facts(full *Scenario, events []cause.Event, commits []commit) *Facts {
	f := newFacts(full, ColumnConsumers, g.scale)
	f.At = g.trial.began
	r := real{g.trial.began.Add(g.s.Zero), float64(g.scale)}
	f.eventFacts(events, func(e cause.Event) float64 { return r.at(e.At) })
	f.Holds = consumerMetrics()
	if g.c.own == nil { // another cluster does not say what its groups go through
		f.Holds = slices.DeleteFunc(f.Holds, func(name string) bool {
			return slices.Contains([]string{"generations", "first-rebalance", "expired", "expired-at"}, name)
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		f.Owners = append(f.Owners, Owner{r.at(h.at), h.member, h.partitions})
	}
	g.trial.commitFacts(f, r, commits)
	n := 0
	for _, s := range g.stopped {
		if at := r.at(s.at); at >= 0 && at <= f.Length {
			n += s.n
		}
	}
	f.Given["stopped"] = one(n)
	for _, at := range g.refused {
		if r.at(at) >= 0 {
			f.Failed++
		}
	}
	f.Records, f.Distinct = g.read, len(g.distinct)
	return f
}
