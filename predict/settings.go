package predict

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Settings are what a prediction is made from: the client's settings under
// Kafka's names, how the work is spread, and how slow the service is. A zero
// field means its default, which is the kind's own unless said otherwise.
type Settings struct {
	Kind     Kind
	Protocol Protocol // group.protocol, default classic

	// Tasks is the number of tasks of the whole group: input partitions of one
	// subtopology, times subtopologies. Default 1.
	Tasks int
	// Threads is the number of members that share the tasks:
	// num.stream.threads times instances. Default 1.
	Threads int

	Latency Latency
	// Queued is how many records of each task wait at the beginning, left over
	// from before or sent at once. Default, unless Arrival is set: one poll
	// brings the records of all tasks and takes all that wait; a backlog so
	// deep that polls bring one task at a time is looked at beside it.
	Queued int
	// Arrival is the rate of new records over all tasks of one thread, records
	// a second, evenly spaced. Default 0.
	Arrival float64
	// N is how many records of each task the thread takes in a pass when the
	// prediction begins: Kafka Streams learns it while calls are fast and
	// forgets it only with a new thread. Default 1 for a fixed latency; for a
	// jump or ramp what Arrival and CommitInterval let it grow to.
	N int
	// HandOver is how many tasks bring records in the first poll after a
	// rebalance, the others following with the next. 0: every number is tried,
	// because which it is is a race between two threads; otherwise at most the
	// tasks of a thread.
	HandOver int
	// Overhead is what a record takes beside its call. Default 2 ms.
	Overhead time.Duration

	MaxPollInterval    time.Duration // max.poll.interval.ms; of clients without one: their rebalance timeout
	SessionTimeout     time.Duration // session.timeout.ms; of the newer protocols that of the group
	HeartbeatInterval  time.Duration // heartbeat.interval.ms; of the newer protocols that of the group, default 5 s
	CommitInterval     time.Duration // commit.interval.ms, or auto.commit.interval.ms; a nanosecond stands for Kafka's 0, every pass
	MaxPollRecords     int           // max.poll.records, or the batch that the application takes
	BufferedRecords    int           // buffered.records.per.partition, default 1000
	ExactlyOnce        bool          // processing.guarantee=exactly_once_v2
	TransactionTimeout time.Duration // transaction.timeout.ms, default 10 s with ExactlyOnce
	Static             bool          // group.instance.id is set

	Call  Call
	Drain time.Duration // drain.timeout.ms of Rondo, default 5 s; a nanosecond stands for 0
}

// Call is how a call is bounded.
type Call struct {
	Timeout  time.Duration // of one attempt; 0: not said, NoTimeout: there is none
	Attempts int           // at most, default 1
	Backoff  time.Duration // between attempts
	Budget   time.Duration // over all attempts; 0: none
}

// NoTimeout is the Timeout of a call that may hang for ever.
const NoTimeout = time.Duration(-1)

// Worst is the longest time that a record can spend in the call, 0 when that
// is not known or not bounded.
func (c Call) Worst() time.Duration {
	if c.Timeout <= 0 {
		return 0
	}
	n := time.Duration(max(c.Attempts, 1))
	worst := n*c.Timeout + (n-1)*c.Backoff
	if c.Budget > 0 {
		worst = min(worst, c.Budget)
	}
	return worst
}

// Limits of what Check lets pass. A larger value is a slip of the pen, and
// would only make predictions slow.
const (
	maxDuration = 30 * 24 * time.Hour
	maxTasks    = 10000
	maxRecords  = math.MaxInt32 // max.poll.records of those who want no bound
	minArrival  = 1e-6          // a record in eleven days
)

// WithDefaults fills the zero fields in.
func (s Settings) WithDefaults() Settings {
	d := s.Kind.defaults()
	if s.Protocol != Classic {
		d.HeartbeatInterval = 5 * time.Second
	}
	s.Tasks = cmp.Or(s.Tasks, 1)
	s.Threads = cmp.Or(s.Threads, 1)
	if s.ExactlyOnce && s.CommitInterval == 0 {
		s.CommitInterval = 100 * time.Millisecond
	}
	if s.ExactlyOnce {
		s.TransactionTimeout = cmp.Or(s.TransactionTimeout, 10*time.Second)
	}
	s.MaxPollInterval = cmp.Or(s.MaxPollInterval, d.MaxPollInterval)
	s.SessionTimeout = cmp.Or(s.SessionTimeout, d.SessionTimeout)
	s.HeartbeatInterval = cmp.Or(s.HeartbeatInterval, d.HeartbeatInterval)
	s.CommitInterval = cmp.Or(s.CommitInterval, d.CommitInterval)
	s.MaxPollRecords = cmp.Or(s.MaxPollRecords, d.MaxPollRecords)
	s.BufferedRecords = cmp.Or(s.BufferedRecords, 1000)
	s.Overhead = cmp.Or(s.Overhead, 2*time.Millisecond)
	s.Call.Attempts = cmp.Or(s.Call.Attempts, 1)
	s.Drain = cmp.Or(s.Drain, 5*time.Second)
	if s.Queued == 0 && s.Arrival == 0 {
		s.Queued = max(1, s.MaxPollRecords/s.PerThread())
	}
	if s.N == 0 {
		s.N = s.learned()
	}
	return s
}

// learned is the N of a thread that has been working for long before the
// service slows down: each pass adds one and each commit halves, so between
// two commits it moves between p and 2p, where p is the number of passes in a
// commit interval.
func (s *Settings) learned() int {
	if s.Latency.Shape == Fixed || s.Arrival == 0 {
		return 1
	}
	record := s.Latency.From + s.Overhead
	rate := min(s.Arrival, float64(time.Second)/float64(record))
	return max(1, min(int(2*rate*s.CommitInterval.Seconds()), maxRecords))
}

// PerThread is the number of tasks of the busiest member.
func (s Settings) PerThread() int {
	return (max(s.Tasks, 1) + max(s.Threads, 1) - 1) / max(s.Threads, 1)
}

// Round is the time of one record of each task of a thread when the service
// is at its slowest.
func (s Settings) Round() time.Duration {
	return time.Duration(s.PerThread()) * (s.Latency.Worst() + s.Overhead)
}

// Check refuses settings that make no sense, each with what to do about it.
// The zero value is sensible.
func (s Settings) Check() error {
	if s.Kind < 0 || s.Kind > Rondo {
		return fmt.Errorf("%s is not a kind of client: use one of the constants", s.Kind)
	}
	for _, d := range s.durations() {
		if d.value < 0 || d.value > maxDuration {
			return fmt.Errorf("%s=%d: want milliseconds from 0 to %d (30 days)", d.name, d.value.Milliseconds(), maxDuration.Milliseconds())
		}
	}
	for _, n := range s.numbers() {
		if n.value < 0 || n.value > n.most {
			return fmt.Errorf("%s=%d: want a number from 0 to %d", n.name, n.value, n.most)
		}
	}
	if s.Overhead > 0 && s.Overhead < time.Microsecond {
		return fmt.Errorf("overhead=%s: want at least a microsecond, nothing is free", s.Overhead)
	}
	if !(s.Arrival == 0 || s.Arrival >= minArrival && s.Arrival <= 1e6) {
		return fmt.Errorf("arrival=%g: want 0, or records a second from %f to 1000000", s.Arrival, minArrival)
	}
	if s.Call.Timeout < NoTimeout || s.Call.Timeout > maxDuration {
		return fmt.Errorf("call timeout %s: want a duration from 0 to 30 days, or none", s.Call.Timeout)
	}
	d := s.WithDefaults()
	switch {
	case d.HeartbeatInterval >= d.SessionTimeout:
		return fmt.Errorf("heartbeat.interval.ms (%s) must be below session.timeout.ms (%s): clients refuse to start, brokers refuse it for a group; a third of it is usual", d.HeartbeatInterval, d.SessionTimeout)
	case d.ExactlyOnce && d.TransactionTimeout < d.CommitInterval:
		return fmt.Errorf("transaction.timeout.ms (%s) must not be below commit.interval.ms (%s): Kafka Streams refuses to start", d.TransactionTimeout, d.CommitInterval)
	case d.HandOver > d.PerThread():
		return fmt.Errorf("hand-over of %d tasks: a thread has only %d", d.HandOver, d.PerThread())
	case d.Kind == Rondo && d.Drain >= d.MaxPollInterval:
		return fmt.Errorf("drain.timeout.ms (%s) must be below max.poll.interval.ms (%s): Rondo refuses to start", d.Drain, d.MaxPollInterval)
	case d.Protocol == Streams && d.Kind != KafkaStreams:
		return fmt.Errorf("group.protocol=streams is for kafka-streams, not for %s", d.Kind)
	case d.Protocol == Streams && d.Static:
		return fmt.Errorf("group.instance.id does not go with group.protocol=streams: Kafka Streams 4.2 refuses to start")
	case d.Protocol == Consumer && (d.Kind == KafkaJS || d.Kind == Rondo):
		return fmt.Errorf("group.protocol=consumer is not for %s: it joins with the classic protocol only", d.Kind)
	case d.Protocol == Consumer && d.Kind == KafkaStreams:
		return fmt.Errorf("group.protocol=consumer is not for kafka-streams: classic or streams")
	case d.ExactlyOnce && d.Kind != KafkaStreams:
		return fmt.Errorf("processing.guarantee=exactly_once_v2 is judged for kafka-streams only, not for %s", d.Kind)
	case d.Latency.Worst() == 0 && d.Call.Worst() == 0:
		return fmt.Errorf("how slow is the service? give the length of a call, or its time-out")
	}
	return s.Latency.check()
}

type namedDuration struct {
	name  string
	value time.Duration
}

func (s *Settings) durations() []namedDuration {
	return []namedDuration{
		{"max.poll.interval.ms", s.MaxPollInterval}, {"session.timeout.ms", s.SessionTimeout},
		{"heartbeat.interval.ms", s.HeartbeatInterval}, {"commit.interval.ms", s.CommitInterval},
		{"transaction.timeout.ms", s.TransactionTimeout}, {"overhead", s.Overhead}, {"drain.timeout.ms", s.Drain},
		{"call backoff", s.Call.Backoff}, {"call budget", s.Call.Budget},
		{"latency", s.Latency.From}, {"latency", s.Latency.To}, {"latency at", s.Latency.At}, {"latency over", s.Latency.Over},
	}
}

type namedNumber struct {
	name        string
	value, most int
}

func (s *Settings) numbers() []namedNumber {
	return []namedNumber{
		{"tasks", s.Tasks, maxTasks}, {"num.stream.threads", s.Threads, maxTasks}, {"max.poll.records", s.MaxPollRecords, maxRecords},
		{"buffered.records.per.partition", s.BufferedRecords, maxRecords}, {"queued", s.Queued, maxRecords}, {"n", s.N, maxRecords},
		{"hand-over", s.HandOver, maxTasks}, {"call attempts", s.Call.Attempts, 10000},
	}
}
