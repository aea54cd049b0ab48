package broker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
)

// eventsKept is how many rebalances Events remembers.
const eventsKept = 1000

// maxRetention is a century in minutes: what a duration can hold, and longer
// than any log.
const maxRetention = 100 * 365 * 24 * 60

// coordinator runs the groups: one shard, a goroutine with its own part of the
// groups, for every partition of __consumer_offsets in use.
type coordinator struct {
	b      *Broker
	config group.Config
	causes [5]atomic.Int64 // rebalances by cause
	crowd  atomic.Int64    // members of the newer protocols, in all shards
	told   *eventsTopic

	streams topicTroubles // of the internal topics of streams groups

	mu     sync.Mutex
	shards map[int32]*shard
	recent []cause.Event
	closed bool
}

// newCoordinator is called once, after the catalog has been read and before
// the first connection is accepted. It begins to load every partition that has
// something in it: the clocks of those groups run.
func newCoordinator(b *Broker) *coordinator {
	c := &coordinator{b: b, config: groupConfig(b.settings), shards: map[int32]*shard{}, told: newEventsTopic(b)}
	if t := b.catalog().topic(offsetsTopicName); t != nil {
		for _, p := range t.partitions {
			if p.log.End() > p.log.Start() {
				c.start(p)
			}
		}
	}
	return c
}

func groupConfig(s *settings) group.Config {
	c := group.Config{
		InitialRebalanceDelay: s.duration("group.initial.rebalance.delay.ms"),
		MinSession:            s.duration("group.min.session.timeout.ms"),
		MaxSession:            s.duration("group.max.session.timeout.ms"),
		MaxSize:               int(s.int("group.max.size")),
		OffsetsRetention:      time.Duration(min(s.int("offsets.retention.minutes"), maxRetention)) * time.Minute,
		RetentionCheck:        s.duration("offsets.retention.check.interval.ms"),
		ConsumerSession:       s.duration("group.consumer.session.timeout.ms"),
		ConsumerHeartbeat:     s.givenDuration("group.consumer.heartbeat.interval.ms"),
		ConsumerMaxSize:       int(s.int("group.consumer.max.size")),
		Assignors:             consumerAssignors(s),
		Migration:             strings.ToLower(s.string("group.consumer.migration.policy")),
		StreamsSession:        s.duration("group.streams.session.timeout.ms"),
		StreamsHeartbeat:      s.givenDuration("group.streams.heartbeat.interval.ms"),
		StreamsDelay:          s.duration("group.streams.initial.rebalance.delay.ms"),
		StreamsMaxSize:        int(s.int("group.streams.max.size")),
		StreamsStandbys:       int(s.int("group.streams.num.standby.replicas")),
		MetadataMaxBytes:      int(s.int("offset.metadata.max.bytes")),
	}
	if c.InitialRebalanceDelay == 0 {
		c.InitialRebalanceDelay = -1 // none
	}
	if c.StreamsDelay == 0 {
		c.StreamsDelay = -1 // none
	}
	if c.MetadataMaxBytes == 0 {
		c.MetadataMaxBytes = -1 // none at all
	}
	return c
}

// consumerAssignors are those of group.consumer.assignors by their short names;
// Kafka takes the names of its classes as well.
func consumerAssignors(s *settings) []string {
	var names []string
	for _, name := range splitList(s.string("group.consumer.assignors")) {
		name = strings.TrimPrefix(name, "org.apache.kafka.coordinator.group.assignor.")
		name = strings.ToLower(strings.TrimSuffix(name, "Assignor"))
		if (name == "uniform" || name == "range") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// start returns the shard of a partition, a new one when there is none yet.
func (c *coordinator) start(p *partition) *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shards[p.index]
	if s == nil && !c.closed {
		s = newShard(c, p)
		c.shards[p.index] = s
		go s.run()
	}
	return s
}

// shard finds the shard of a group; the code says why there is none.
func (c *coordinator) shard(rq *request, groupID string) (*shard, int16) {
	t := c.b.offsetsTopic()
	if t == nil {
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	p := t.partition(group.PartitionFor(groupID, int32(len(t.partitions))))
	if !rq.leads(p) {
		return nil, kerr.NotCoordinator.Code
	}
	s := c.start(p)
	if s == nil {
		return nil, kerr.NotCoordinator.Code
	}
	return s, 0
}

// running lists the shards in order of their partitions.
func (c *coordinator) running() []*shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*shard, 0, len(c.shards))
	for _, index := range slices.Sorted(maps.Keys(c.shards)) {
		all = append(all, c.shards[index])
	}
	return all
}

// ask hands a request about one group to its shard. The answer comes later, on
// another goroutine, exactly once.
func (c *coordinator) ask(rq *request, groupID string, req kmsg.Request, answer func(kmsg.Response)) {
	s, code := c.shard(rq, groupID)
	if code != 0 {
		answer(group.ErrorResponse(req, code))
		return
	}
	s.ask(rq, req, answer)
}

// moved is called from the metadata goroutine when a partition has got another
// leader: its groups are let go of and taken up again from its log.
func (c *coordinator) moved(index int32) {
	c.mu.Lock()
	s := c.shards[index]
	c.mu.Unlock()
	if s != nil {
		s.mail.put(letter{moved: true})
	}
}

// ledBy lists the running shards whose partitions a broker leads.
func (c *coordinator) ledBy(n *node) []*shard {
	t := c.b.catalog().topic(offsetsTopicName)
	return slices.DeleteFunc(c.running(), func(s *shard) bool {
		p := t.partition(s.index)
		return p == nil || p.leader != n.id
	})
}

// topicsDeleted is called after topics have been deleted, from the metadata
// goroutine; it does not block. Shards that are not running have no offsets.
func (c *coordinator) topicsDeleted(topics []*topic) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.name
	}
	for _, s := range c.running() {
		s.post(group.TopicsDeleted{Topics: names})
	}
}

// event reports a rebalance: a line in the log, a counter, the list of recent
// ones, the history topic, and whoever asked to be called.
func (c *coordinator) event(e cause.Event) {
	c.causes[e.Cause].Add(1)
	attrs := []any{
		"group", e.Group, "from", e.From, "to", e.To, "cause", e.Cause.Label(), "confidence", string(e.Confidence),
		"trigger", e.Trigger.String(), "clocks", e.Clocks.String(), "took", e.Took, "members", e.Members,
	}
	if e.Reason != "" {
		attrs = append(attrs, "reason", e.Reason)
	}
	if len(e.Casualties) > 0 {
		attrs = append(attrs, "lost", memberIDs(e.Casualties))
	}
	if len(e.HeldOpen) > 0 {
		attrs = append(attrs, "held_open", memberIDs(e.HeldOpen))
	}
	c.b.log.Info("rebalance", attrs...)
	c.mu.Lock()
	if len(c.recent) == eventsKept {
		c.recent = slices.Delete(c.recent, 0, eventsKept/10)
	}
	c.recent = append(c.recent, e)
	c.mu.Unlock()
	c.told.put(e)
	if c.b.config.OnEvent != nil {
		c.b.config.OnEvent(e)
	}
}

func memberIDs(members []cause.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return ids
}

// events returns the last rebalances, oldest first.
func (c *coordinator) events() []cause.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.recent)
}

// Rebalances counts the rebalances since the broker started, by cause.
func (b *Broker) Rebalances() map[cause.Cause]int64 {
	counts := map[cause.Cause]int64{}
	for _, by := range cause.All() {
		counts[by] = b.groups.causes[by].Load()
	}
	return counts
}

// close stops the coordinator's goroutines; connections are gone by then.
func (c *coordinator) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	shards := c.running()
	for _, s := range shards {
		close(s.quit)
	}
	for _, s := range shards {
		<-s.ended
	}
	c.told.close()
}

// newRand makes a source for member ids. They must differ between restarts.
func newRand() *rand.Rand {
	return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
}
