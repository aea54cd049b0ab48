package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// Config is the part of a broker's settings that groups obey. The names are
// Kafka's broker properties (GroupCoordinatorConfig.java of Kafka 4.2); a zero
// field means Kafka's default.
type Config struct {
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms, default 3 s; negative means none
	MinSession            time.Duration // group.min.session.timeout.ms, default 6 s
	MaxSession            time.Duration // group.max.session.timeout.ms, default 30 min
	MaxSize               int           // group.max.size, default no limit
	OffsetsRetention      time.Duration // offsets.retention.minutes, default 7 days
	RetentionCheck        time.Duration // offsets.retention.check.interval.ms, default 10 min
	MetadataMaxBytes      int           // offset.metadata.max.bytes, default 4096, counted in UTF-16 units as Kafka does
}

// Record is one record of __consumer_offsets in Kafka's own schemas. A nil
// Value is a tombstone.
type Record struct{ Key, Value []byte }

// Input is what a shell may feed to Step: Request, Appended, Tick, Loaded,
// Unload or TopicsDeleted.
type Input interface{ input() }

// Request is one client request about one group; a shell splits those that
// name several groups. Token names the reply.
type Request struct {
	Token    uint64
	ClientID string
	Host     string // as Kafka prints it, "/127.0.0.1"
	Req      kmsg.Request
}

// Appended says what became of the records of an earlier Output.
type Appended struct {
	Seq  uint64
	Code int16 // 0: durable; else the Kafka error code of the append
}

// Tick lets the deadlines that have passed do their work.
type Tick struct{}

// Loaded ends a replay: everything in the log has been given to Apply.
type Loaded struct{}

// Unload ends the life of a shard: every parked reply leaves with
// NOT_COORDINATOR and nothing is written.
type Unload struct{}

// TopicsDeleted removes the committed offsets of topics that are gone.
type TopicsDeleted struct{ Topics []string }

func (Request) input()       {}
func (Appended) input()      {}
func (Tick) input()          {}
func (Loaded) input()        {}
func (Unload) input()        {}
func (TopicsDeleted) input() {}

// Reply answers the request with the same token.
type Reply struct {
	Token uint64
	Resp  kmsg.Response
}

// Output is what the shell must do after a Step.
type Output struct {
	Seq     uint64        // names Records in Appended; 0 when there are none
	Records []Record      // append as one batch, in order
	Replies []Reply       // send now
	Events  []cause.Event // finished rebalances, one for each change of a generation
}

// Shard is the coordinator of one partition of __consumer_offsets.
type Shard struct {
	cfg Config
	rng *rand.Rand
}

// New makes an empty shard. The source of randomness makes member ids.
func New(cfg Config, rng *rand.Rand) *Shard { return &Shard{cfg: cfg, rng: rng} }

// Step takes one input at the time now and says what to do.
func (s *Shard) Step(now time.Time, in Input) Output { return Output{} }

// Next is the earliest time at which Step(Tick) has something to do.
func (s *Shard) Next() (time.Time, bool) { return time.Time{}, false }

// Apply replays one record of the log.
func (s *Shard) Apply(r Record) error { return nil }

// PartitionFor is the partition of __consumer_offsets that holds a group:
// Java's hash of the id, as Kafka computes it, modulo the partition count.
func PartitionFor(groupID string, partitions int32) int32 { return 0 }
