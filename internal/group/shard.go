package group

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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
	ConsumerSession       time.Duration // group.consumer.session.timeout.ms, default 45 s
	ConsumerHeartbeat     time.Duration // group.consumer.heartbeat.interval.ms; 0: the shard chooses (pace.go)
	ConsumerMaxSize       int           // group.consumer.max.size, default no limit
	Assignors             []string      // group.consumer.assignors, the first is the default; default uniform, range
	Migration             string        // group.consumer.migration.policy, default bidirectional
	StreamsSession        time.Duration // group.streams.session.timeout.ms, default 45 s
	StreamsHeartbeat      time.Duration // group.streams.heartbeat.interval.ms; 0: the shard chooses
	StreamsDelay          time.Duration // group.streams.initial.rebalance.delay.ms, default 3 s; negative means none
	StreamsMaxSize        int           // group.streams.max.size, default no limit
	StreamsStandbys       int           // group.streams.num.standby.replicas, default 0
	MetadataMaxBytes      int           // offset.metadata.max.bytes, default 4096; counted in UTF-16 units, as Kafka does; negative means none
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&c.InitialRebalanceDelay, 3*time.Second)
	c.InitialRebalanceDelay = max(c.InitialRebalanceDelay, 0)
	set(&c.MinSession, 6*time.Second)
	set(&c.MaxSession, 30*time.Minute)
	set(&c.OffsetsRetention, 7*24*time.Hour)
	set(&c.RetentionCheck, 10*time.Minute)
	set(&c.ConsumerSession, 45*time.Second)
	if c.MaxSize <= 0 {
		c.MaxSize = 1<<31 - 1
	}
	set(&c.StreamsSession, 45*time.Second)
	set(&c.StreamsDelay, streamsDelayDefault)
	c.StreamsDelay = max(c.StreamsDelay, 0)
	if c.StreamsMaxSize <= 0 {
		c.StreamsMaxSize = 1<<31 - 1
	}
	if c.ConsumerMaxSize <= 0 {
		c.ConsumerMaxSize = 1<<31 - 1
	}
	if len(c.Assignors) == 0 {
		c.Assignors = []string{"uniform", "range"}
	}
	if c.Migration == "" {
		c.Migration = "bidirectional"
	}
	if c.MetadataMaxBytes == 0 {
		c.MetadataMaxBytes = 4096
	}
	c.MetadataMaxBytes = max(c.MetadataMaxBytes, 0)
	return c
}

// Record is one record of __consumer_offsets in Kafka's own schemas. A nil
// Value is a tombstone.
type Record struct{ Key, Value []byte }

// Producer names the transactional producer that a batch belongs to.
type Producer struct {
	ID    int64
	Epoch int16
}

// Input is what a shell may feed to Step: Request, Appended, Tick, Loaded,
// Unload, Metadata, TopicsDeleted or TxnEnded.
type Input interface{ input() }

// Request is one client request about one group; a shell splits those that
// name several. Token names the reply. The shard keeps no slice of the request
// beyond Step.
type Request struct {
	Token     uint64
	ClientID  string
	Host      string // as Kafka prints it, "/127.0.0.1"
	Elsewhere int    // members of the newer protocols in the broker's other shards (Shard.Crowd)
	Req       kmsg.Request
}

// Appended says what became of the records of an earlier Output. A shell
// reports in the order of the sequence numbers. When it reports a failure,
// everything that was issued later and not yet reported has failed with it and
// must not reach the log: the shard has rolled it back already.
type Appended struct {
	Seq  uint64
	Code int16 // 0: durable; else the Kafka error code of the append
}

// Tick lets the deadlines that have passed do their work.
type Tick struct{}

// Loaded ends a replay: everything in the log has been given to Apply. Until
// then every request is answered with COORDINATOR_LOAD_IN_PROGRESS.
type Loaded struct{}

// Unload ends the life of a shard: every parked reply leaves with
// NOT_COORDINATOR and nothing is written any more.
type Unload struct{}

// TopicsDeleted removes the committed offsets of topics that are gone.
type TopicsDeleted struct{ Topics []string }

// TxnEnded says that the marker that ends a producer's transaction is durable
// in this partition: its pending offsets become visible, or vanish.
type TxnEnded struct {
	Producer int64
	Commit   bool
}

func (Request) input()       {}
func (Appended) input()      {}
func (Tick) input()          {}
func (Loaded) input()        {}
func (Unload) input()        {}
func (TopicsDeleted) input() {}
func (TxnEnded) input()      {}

// Reply answers the request with the same token.
type Reply struct {
	Token uint64
	Resp  kmsg.Response
}

// Output is what the shell must do after a Step.
type Output struct {
	Seq     uint64          // names Records in Appended; 0 when there are none
	Records []Record        // append as one batch, in order
	Txn     *Producer       // set: the batch is transactional and this producer's
	Replies []Reply         // send now
	Begun   []cause.Event   // whose generations are in Records: write them before, or with them
	Events  []cause.Event   // finished rebalances, one for each change of a generation
	Topics  []InternalTopic // make these when they are not there yet
}

// Shard is the coordinator of one partition of __consumer_offsets. It is a
// value: one goroutine at a time may use it.
type Shard struct {
	cfg     Config
	rng     *rand.Rand
	phase   shardPhase
	topics  *Image
	configs map[string]map[string]string // of groups
	groups  map[string]*group
	leaving map[string]*group // deleted, but the tombstones are not durable yet: reads still see them
	alarms  alarms
	sweep   sweep
	// cleaning is under way or due when offsets of topics that are gone may be left.
	cleaning sweep
	txns     map[int64]*txn
	gone     []string // topics deleted while the shard was loading

	crowd     int       // members of the newer protocols
	counted   time.Time // when they were
	elsewhere int       // those of other shards, as the last request said

	now      time.Time // of the Step at hand
	out      Output    // of the Step at hand
	settle   []settle  // of the records in out
	seq      uint64
	writes   []write // issued, not yet reported, in order
	position int64   // of the record applied last, counted from the start of the replay
	skipped  int     // records of the replay that this version does not know
}

type shardPhase int8

const (
	loading shardPhase = iota
	running
	unloaded
)

// New makes an empty shard that waits to be loaded. The source of randomness
// makes member ids.
func New(cfg Config, rng *rand.Rand) *Shard {
	s := &Shard{
		cfg:     cfg.withDefaults(),
		rng:     rng,
		topics:  NewImage(-1, nil),
		groups:  map[string]*group{},
		leaving: map[string]*group{},
		txns:    map[int64]*txn{},
	}
	s.sweep.alarm.ring = s.startSweep
	s.cleaning.alarm.ring = s.startCleaning
	return s
}

// Step takes one input at the time now and says what to do. Times must not go
// back from one Step to the next.
func (s *Shard) Step(now time.Time, in Input) Output {
	s.now, s.out, s.settle = now, Output{}, nil
	switch in := in.(type) {
	case Request:
		s.request(in)
	case Appended:
		s.appended(in)
	case Tick:
		s.tick()
	case Loaded:
		s.loaded()
	case Unload:
		s.unload()
	case Metadata:
		s.metadata(in)
	case TopicsDeleted:
		if s.phase != unloaded {
			s.topicsDeleted(in.Topics)
		}
	case TxnEnded:
		if s.phase != unloaded {
			s.endTxn(in.Producer, in.Commit)
		}
	}
	s.seal()
	return s.out
}

// Next is the earliest time at which Step(Tick) has something to do.
func (s *Shard) Next() (time.Time, bool) { return s.alarms.next() }

// Skipped counts the records of the replay that this version does not know:
// other kinds of groups, or newer ones. They stay in the log untouched.
func (s *Shard) Skipped() int { return s.skipped }

func (s *Shard) tick() {
	for {
		a := s.alarms.due(s.now)
		if a == nil {
			return
		}
		a.ring()
		if len(s.out.Records) >= sweepBatch {
			return
		}
	}
}

func (s *Shard) loaded() {
	if s.phase != loading {
		return
	}
	s.phase = running
	for _, g := range s.sorted() {
		g.members.loaded()
		g.offsets.identify(s.topics)
	}
	s.topicsDeleted(s.gone)
	s.gone = nil
	if s.topics.version >= 0 {
		s.alarms.set(&s.cleaning.alarm, s.now)
	}
	s.alarms.set(&s.sweep.alarm, s.now.Add(s.cfg.RetentionCheck))
}

func (s *Shard) unload() {
	if s.phase == unloaded {
		return
	}
	s.phase = unloaded
	s.failWrites(0, kerr.NotCoordinator.Code)
	for _, g := range s.sorted() {
		g.members.unload(kerr.NotCoordinator.Code)
	}
	s.alarms.clear()
	s.out.Records, s.out.Txn, s.settle = nil, nil, nil
}

func (s *Shard) reply(token uint64, resp kmsg.Response) {
	s.out.Replies = append(s.out.Replies, Reply{Token: token, Resp: resp})
}

// request dispatches one request. Which group ids an API takes, and what it
// says while the shard is not running, is Kafka's GroupCoordinatorService.
func (s *Shard) request(rq Request) {
	if code, refused := s.refusal(rq.Req); refused {
		s.reply(rq.Token, ErrorResponse(rq.Req, code))
		return
	}
	s.elsewhere = rq.Elsewhere
	switch req := rq.Req.(type) {
	case *kmsg.JoinGroupRequest:
		s.joinGroup(rq, req)
	case *kmsg.SyncGroupRequest:
		s.syncGroup(rq, req)
	case *kmsg.HeartbeatRequest:
		s.heartbeat(rq, req)
	case *kmsg.LeaveGroupRequest:
		s.leaveGroup(rq, req)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		s.consumerHeartbeat(rq, req)
	case *kmsg.ConsumerGroupDescribeRequest:
		s.consumerDescribe(rq, req)
	case *kmsg.StreamsGroupHeartbeatRequest:
		s.streamsHeartbeat(rq, req)
	case *kmsg.StreamsGroupDescribeRequest:
		s.streamsDescribe(rq, req)
	case *kmsg.OffsetCommitRequest:
		s.offsetCommit(rq, req)
	case *kmsg.TxnOffsetCommitRequest:
		s.txnOffsetCommit(rq, req)
	case *kmsg.OffsetFetchRequest:
		s.offsetFetch(rq, req)
	case *kmsg.OffsetDeleteRequest:
		s.offsetDelete(rq, req)
	case *kmsg.DescribeGroupsRequest:
		s.describeGroups(rq, req)
	case *kmsg.ListGroupsRequest:
		s.listGroups(rq, req)
	case *kmsg.DeleteGroupsRequest:
		s.deleteGroups(rq, req)
	default:
		panic(fmt.Sprintf("group: request %T is not one of a group coordinator: the shell must not send it here", rq.Req))
	}
}

// refusal is the answer that a request gets before anybody looks at its group.
// A heartbeat passes while the shard is loading: a member must not lose its
// place only because the coordinator reads its log.
func (s *Shard) refusal(req kmsg.Request) (code int16, refused bool) {
	if needsGroupID(req) {
		return kerr.InvalidGroupID.Code, true
	}
	switch s.phase {
	case loading:
		if _, beat := req.(*kmsg.HeartbeatRequest); beat {
			return 0, true
		}
		return kerr.CoordinatorLoadInProgress.Code, true
	case unloaded:
		return kerr.NotCoordinator.Code, true
	}
	return 0, false
}
