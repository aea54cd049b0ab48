package sim

import (
	"cmp"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// Policy chooses the loop of a member.
type Policy int8

// PerCall is the default, as everywhere.
const (
	PerCall Policy = iota
	Streams42
)

// String is the name of the policy.
func (p Policy) String() string {
	if p == Streams42 {
		return "Streams42"
	}
	return "PerCall"
}

// GroupProtocol is group.protocol of the members of a Scenario.
type GroupProtocol int8

// The protocols. Rondo's own loop, PerCall, is always played with the classic
// one.
const (
	ClassicGroup  GroupProtocol = iota
	ConsumerGroup               // KIP-848
	StreamsGroup                // KIP-1071
)

// String is the value of group.protocol.
func (p GroupProtocol) String() string {
	return [...]string{"classic", "consumer", "streams"}[p]
}

// Scenario is one run: what is set, what is fed, how slow the service is, and
// what happens meanwhile. Times are since the beginning of the run.
type Scenario struct {
	Name       string
	Policy     Policy
	Group      GroupProtocol // Streams42 only
	Settings   loop.Settings
	Session    time.Duration // session.timeout.ms, of the group or of the client; default 45 s
	Heartbeat  time.Duration // heartbeat.interval.ms, of the group or of the client; default 3 s, of the newer protocols 5 s
	JoinDelay  time.Duration // group.initial.rebalance.delay.ms, default 0; group.streams.initial.rebalance.delay.ms, default 3 s
	Partitions int           // of the one source topic: as many tasks; default 1
	Members    []Member      // default: one that starts at 0
	Feeds      []Feed
	Latency    Latency // default: the service answers at once
	Costs      Costs
	For        time.Duration // length of the run

	// Streams42 only: how tasks come back after each assignment that brought
	// some, counted over all members. Beyond the list, and with the zero
	// HandOver, all come together.
	HandOvers []HandOver
	// Restore is how long each partition's task takes to be restored.
	Restore []time.Duration
	// Movable says that a task moves to the newest member even when the old
	// owner could have kept it, as the stateless tasks of Kafka Streams may.
	Movable bool
	// NoPollClock is a client without one (franz-go, sarama, kafkajs): it never
	// leaves by itself, but a join that it does not send in time still costs
	// it its place, after max.poll.interval.ms, which stands for its rebalance
	// timeout.
	NoPollClock bool
	// Notice is how long after max.poll.interval.ms a member of a newer
	// protocol finds out that it has passed: recorded were 0 to 4.9 s under the
	// streams protocol, whose client looks when a heartbeat is due.
	Notice time.Duration
	// Transaction is transaction.timeout.ms: a pass's outputs are in a
	// transaction from the end of its first call to its commit, which fails
	// when the coordinator has found the transaction too old by then. It looks
	// every transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s.
	// 0: no transactions.
	Transaction time.Duration

	// PerCall only.
	Parallel    int           // calls in flight per task, default 1
	CallTimeout time.Duration // a call is cut after this, its record set aside; default: never
	Drain       time.Duration // the budget on revoke and stop, default 30 s

	AtMost     int  // end the run at so many calls; 0: at none
	StopAtLoss bool // end the run when a lease is lost or a commit refused: Summary.FirstLoss

	Trace bool // record events, passes and calls, not only counts
}

// HandOver is how the tasks of one assignment reach the stream thread. All
// are restored at once, but how many the thread has drained from the state
// updater before it polls is a race, and partitions of the others bring
// nothing in that poll.
type HandOver struct {
	// Ready lists the partitions whose tasks are there before the first poll
	// that is followed by work, before the second, and so on. The others
	// follow after the last. Empty: all are there at once.
	Ready  [][]int
	Settle time.Duration // instead of Costs.Settle, when not 0
}

// Member is one member of the group: a stream thread, or a Rondo member.
type Member struct {
	Start  time.Duration
	Static bool          // group.instance.id is set
	Kill   time.Duration // dies without a word; 0: never
	Close  time.Duration // is asked to stop; 0: never
	Leaves bool          // LeaveGroup when it stops (Kafka Streams does not by default; PerCall always does)
}

// Feed is records that arrive: Burst at a time, every Every, Total in all, one
// partition after the other.
type Feed struct {
	At         time.Duration
	Every      time.Duration // 0: all at once
	Burst      int           // default 1
	Total      int
	Partitions []int // default: all
}

// Costs are the times of everything that is not a call. The defaults are
// those of a quiet machine.
type Costs struct {
	RoundTrip time.Duration // a request to the broker and back, default 2 ms
	Start     time.Duration // from the start of a member to its first JoinGroup, default 0
	Settle    time.Duration // from the assignment to the first fetch of a partition, default 300 ms
	Record    time.Duration // handling a record beside its call, default 2 ms (Streams42)
	Commit    time.Duration // a commit, default one round trip
}

func (s Scenario) withDefaults() Scenario {
	s.Settings = s.Settings.WithDefaults()
	s.Session = cmp.Or(s.Session, 45*time.Second)
	if s.Policy == PerCall {
		s.Group = ClassicGroup
	}
	switch {
	case s.Group == StreamsGroup:
		s.JoinDelay = cmp.Or(s.JoinDelay, 3*time.Second)
		fallthrough
	case s.Group == ConsumerGroup:
		s.Heartbeat = cmp.Or(s.Heartbeat, 5*time.Second)
	}
	s.Heartbeat = cmp.Or(s.Heartbeat, 3*time.Second)
	s.Partitions = cmp.Or(s.Partitions, 1)
	if s.Members == nil {
		s.Members = []Member{{}}
	}
	if s.Latency == nil {
		s.Latency = Fixed(0)
	}
	s.Costs.RoundTrip = cmp.Or(s.Costs.RoundTrip, 2*time.Millisecond)
	s.Costs.Settle = cmp.Or(s.Costs.Settle, 300*time.Millisecond)
	s.Costs.Record = cmp.Or(s.Costs.Record, 2*time.Millisecond)
	s.Costs.Commit = cmp.Or(s.Costs.Commit, s.Costs.RoundTrip)
	s.Parallel = cmp.Or(s.Parallel, 1)
	s.Drain = cmp.Or(s.Drain, 30*time.Second)
	return s
}
