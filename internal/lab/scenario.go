package lab

import (
	"cmp"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/sim"
)

// The groups that scenarios come in.
const (
	First      = "first"      // runs of the article on max.poll.interval.ms in Kafka Streams
	Unmeasured = "unmeasured" // what it said it had not measured
	Second     = "second"     // claims of the article on rebalances and the two clocks
	Own        = "own"        // of this project, or of a file from a path
)

// Scenario is one experiment. Times are since its zero, unless said otherwise.
type Scenario struct {
	Name   string
	Title  string
	Place  int      // in lists
	Of     string   // First, Unmeasured, Second or Own
	Claims []string // what the article says, in our words
	Source []byte   // the file

	Settings   loop.Settings
	Session    time.Duration
	Heartbeat  time.Duration
	Exactly    bool          // processing.guarantee=exactly_once_v2
	Txn        time.Duration // transaction.timeout.ms of exactly-once, default 10 s
	JoinDelay  time.Duration // group.initial.rebalance.delay.ms of the broker
	Eager      bool          // rebalance.protocol=eager
	Partitions int
	Members    []sim.Member // times since the beginning of the run
	Threads    []string     // per member: group.instance.id, or ""
	Feeds      []sim.Feed   // times since the beginning of the run
	Service    []Step
	Hang       *Hang
	HandOvers  []sim.HandOver
	Movable    bool
	Warm       Warm
	Costs      sim.Costs
	Zero       time.Duration // where the times of facts begin
	For        time.Duration // length, from zero on

	Parallel    int
	CallTimeout time.Duration
	Drain       time.Duration

	Plain *Plain // the members are plain consumers

	Scale    int      // what --scaled divides by
	CI       bool     // one of --set ci
	Measured []string // "streams42", "percall", "consumers": what can be measured; empty: nothing
	ByRule   []Expect // predictions that no core makes
	Article  []Expect
	Recorded []Expect // numbers of a recording that has no line in recorded.jsonl
	Runs     []string // names of recordings in recorded.jsonl
	Because  []Because
	Show     []string // metrics that the table has in any case
	Rules    []string // the mechanism, a sentence each
}

// Step is a change of the service's latency.
type Step struct {
	At   time.Duration
	Over time.Duration // the change takes this long, in a straight line
	To   time.Duration
}

// Hang is a record whose call never returns.
type Hang struct{ Partition, Record int }

// Warm is a thread that has worked on fast records until its N was this, has
// been idle since, and gets one record whose call is held until zero while
// others gather behind it.
type Warm struct {
	N       int
	Waiting int
	Hold    time.Duration // default 13 s
	Begin   time.Duration // since the beginning of the run, default 2 s
	Every   time.Duration // the pace of the fast records, default 80 ms
	Gap     time.Duration // from the held record to those that wait, default 1 s
}

// Expect is a number of an article or a recording.
type Expect struct {
	Metric string
	Values []float64
	Approx bool // the article rounds: 10 % are enough
	Line   int
}

// Columns in the order of the table.
const (
	ColumnArticle   = "article"
	ColumnPredicted = "predicted"
	ColumnStreams42 = "streams42"
	ColumnPerCall   = "percall"
	ColumnStreams   = "kafka-streams" // Kafka Streams 4.2.0, measured
	ColumnReplayed  = "replayed"      // predicted for the hand-overs that Kafka Streams had when it was measured
	ColumnConsumers = "consumers"     // plain consumers
	ColumnRecorded  = "recorded"
)

// Measures says whether a policy can be measured.
func (s *Scenario) Measures(policy string) bool { return slices.Contains(s.Measured, policy) }

// latency is the service as the cores ask for it; time is since the beginning.
func (s *Scenario) latency() sim.Latency {
	zero := s.Zero
	hold := s.Warm.Hold
	usual := func(c sim.Call) time.Duration {
		at := c.At - zero
		if s.Warm.N > 0 && at < 0 {
			if at < -hold {
				return 0
			}
			return -at
		}
		return s.at(at)
	}
	if s.Hang != nil {
		return sim.Hang(s.Hang.Partition, s.Hang.Record, usual)
	}
	return usual
}

// at is the latency of a call that begins at a time since zero.
func (s *Scenario) at(at time.Duration) time.Duration {
	now := time.Duration(0)
	for _, step := range s.Service {
		if at < step.At {
			break
		}
		if age := at - step.At; age < step.Over {
			return now + time.Duration(float64(step.To-now)*float64(age)/float64(step.Over))
		}
		now = step.To
	}
	return now
}

// feeds are all feeds, those of the warm-up included, in virtual time.
func (s *Scenario) feeds() []sim.Feed {
	if s.Warm.N == 0 {
		return s.Feeds
	}
	return append([]sim.Feed{
		{At: s.Warm.Begin, Every: s.Warm.Every, Total: s.Warm.N - 1},
		{At: s.Zero - s.Warm.Hold, Total: 1},
		{At: s.Zero - s.Warm.Hold + s.Warm.Gap, Total: s.Warm.Waiting},
	}, s.Feeds...)
}

// virtual is the scenario for package sim.
func (s *Scenario) virtual(policy sim.Policy) sim.Scenario {
	txn := time.Duration(0)
	if s.Exactly {
		txn = cmp.Or(s.Txn, 10*time.Second)
	}
	return sim.Scenario{
		Transaction: txn,
		Name:        s.Name, Policy: policy, Settings: s.Settings, Session: s.Session, Heartbeat: s.Heartbeat, JoinDelay: s.JoinDelay,
		Partitions: s.Partitions, Members: s.Members, Feeds: s.feeds(), Latency: s.latency(), Costs: s.Costs,
		For: s.Zero + s.For, HandOvers: s.HandOvers, Movable: s.Movable,
		Parallel: s.Parallel, CallTimeout: s.CallTimeout, Drain: s.Drain, Trace: true,
	}
}

// Scaled is the scenario with every duration divided by k, and with the costs
// of a machine, which do not scale.
func (s *Scenario) Scaled(k int) *Scenario {
	if k <= 1 {
		return s
	}
	c := *s
	by := func(d time.Duration) time.Duration { return d / time.Duration(k) }
	set := s.Settings.WithDefaults()
	set.MaxPollInterval, set.CommitInterval = by(set.MaxPollInterval), by(set.CommitInterval)
	set.PollTimeout = max(by(set.PollTimeout), 5*time.Millisecond)
	c.Settings = set
	c.Session, c.Heartbeat = by(cmp.Or(s.Session, 45*time.Second)), by(cmp.Or(s.Heartbeat, 3*time.Second))
	c.Txn = by(cmp.Or(s.Txn, 10*time.Second))
	c.JoinDelay, c.CallTimeout, c.Drain = by(s.JoinDelay), by(s.CallTimeout), by(cmp.Or(s.Drain, 30*time.Second))
	c.Zero, c.For = by(s.Zero), by(s.For)
	c.Costs.Start = 0                                    // measured members have their tasks when the run begins
	c.Costs.Record, c.Costs.Commit = time.Millisecond, 0 // those of the file are of the machine that was recorded
	c.Costs.Settle = cmp.Or(by(s.Costs.Settle), 20*time.Millisecond)
	c.Members = slices.Clone(s.Members)
	for i := range c.Members {
		m := &c.Members[i]
		m.Start, m.Kill, m.Close = by(m.Start), by(m.Kill), by(m.Close)
	}
	c.Feeds = slices.Clone(s.Feeds)
	for i := range c.Feeds {
		c.Feeds[i].At, c.Feeds[i].Every = by(c.Feeds[i].At), by(c.Feeds[i].Every)
	}
	c.Service = slices.Clone(s.Service)
	for i := range c.Service {
		st := &c.Service[i]
		st.At, st.Over, st.To = by(st.At), by(st.Over), by(st.To)
	}
	c.HandOvers = slices.Clone(s.HandOvers)
	for i := range c.HandOvers {
		c.HandOvers[i].Settle = by(c.HandOvers[i].Settle)
	}
	c.Plain = s.Plain.scaled(by)
	w := &c.Warm
	w.Hold, w.Begin, w.Every, w.Gap = by(w.Hold), by(w.Begin), by(w.Every), by(w.Gap)
	return &c
}
