package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
)

// UnreachableError is a cluster that does not answer.
type UnreachableError struct {
	Bootstrap string
	Err       error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("connect to %s: %v", e.Bootstrap, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *UnreachableError) Hint() string {
	return "is a broker listening there? Without --bootstrap-server the lab brings its own"
}

// cluster is the Kafka of some runs: a broker inside of this process, or
// another one.
type cluster struct {
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
	own       *broker.Broker
	free      bool         // it takes session clocks as short as may be
	halt      func() error // ends a Kafka that openKafka started
	dir       string

	mu     sync.Mutex
	events map[string][]cause.Event // of the embedded broker, by group
}

// needs are what scenarios want of a broker. Those that want the same share one.
type needs struct {
	joinDelay time.Duration // group.initial.rebalance.delay.ms
	beat      time.Duration // group.consumer.heartbeat.interval.ms; 0: the default
	session   time.Duration // group.consumer.session.timeout.ms; 0: the default
	brokers   int
}

// needs are those of a scenario.
func (s *Scenario) needs() needs {
	n := needs{joinDelay: s.JoinDelay, brokers: 1}
	if s.Plain != nil {
		n.beat, n.session = s.Plain.BrokerBeat, cmp.Or(s.Session, 45*time.Second)
		if len(s.Plain.Moves) > 0 {
			n.brokers = 3
		}
	}
	return n
}

// properties are the needs as broker properties.
func (n needs) properties() map[string]string {
	ms := func(d time.Duration) string { return fmt.Sprint(max(d.Milliseconds(), 1)) }
	out := map[string]string{
		"group.min.session.timeout.ms":     "10",
		"group.initial.rebalance.delay.ms": fmt.Sprint(n.joinDelay.Milliseconds()),
	}
	if n.beat > 0 {
		out["group.consumer.heartbeat.interval.ms"], out["group.consumer.min.heartbeat.interval.ms"] = ms(n.beat), "1"
	}
	if n.session > 0 {
		out["group.consumer.session.timeout.ms"], out["group.consumer.min.session.timeout.ms"] = ms(n.session), "1"
	}
	return out
}

// openCluster starts an embedded broker, or connects to bootstrap.
func openCluster(ctx context.Context, bootstrap string, need needs, log *slog.Logger) (*cluster, error) {
	c := &cluster{bootstrap: bootstrap, events: map[string][]cause.Event{}}
	if bootstrap == "" {
		if err := c.embed(ctx, need, log); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, c.dial(ctx)
}

// connect is a cluster that is somebody else's.
func connect(ctx context.Context, bootstrap string) (*cluster, error) {
	return openCluster(ctx, bootstrap, needs{}, nil)
}

func (c *cluster) dial(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.ClientID("rondo-lab"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return errors.Join(fmt.Errorf("configure client of %s: %w", c.bootstrap, err), c.close())
	}
	c.client, c.admin = client, kadm.NewClient(client)
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		return errors.Join(&UnreachableError{c.bootstrap, err}, c.close())
	}
	return nil
}

func (c *cluster) embed(ctx context.Context, need needs, log *slog.Logger) error {
	dir, err := os.MkdirTemp("", "rondo-lab-")
	if err != nil {
		return fmt.Errorf("make a directory for the log: %w", err)
	}
	c.dir = dir
	own, err := broker.Start(context.WithoutCancel(ctx), broker.Config{
		Dir: dir, Listen: "127.0.0.1:0", Logger: log,
		Flush:      journal.FlushNever, // clocks are measured here, not disks
		Brokers:    need.brokers,
		Properties: need.properties(),
		OnEvent: func(e cause.Event) {
			c.mu.Lock()
			c.events[e.Group] = append(c.events[e.Group], e)
			c.mu.Unlock()
		},
	})
	if err != nil {
		return err
	}
	c.own, c.free, c.bootstrap = own, true, own.Addr()
	return nil
}

// told are the events of a group so far.
func (c *cluster) told(group string) []cause.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]cause.Event(nil), c.events[group]...)
}

func (c *cluster) close() error {
	if c.client != nil {
		c.client.Close()
	}
	var err error
	if c.own != nil {
		err = c.own.Close()
	}
	if c.halt != nil {
		err = errors.Join(err, c.halt())
	}
	if c.dir != "" {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

func (c *cluster) create(ctx context.Context, partitions int, topics ...string) error {
	created, err := c.admin.CreateTopics(ctx, int32(partitions), -1, nil, topics...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("create topics %s: %w", strings.Join(topics, ", "), err)
	}
	return nil
}

// forget removes what a run left on somebody else's cluster.
func (c *cluster) forget(group string, topics ...string) error {
	if c.own != nil {
		return nil // it goes with the directory
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.admin.DeleteTopics(ctx, topics...)
	_, err2 := c.admin.DeleteGroups(ctx, group)
	return errors.Join(err, err2)
}

const offsetsTopic = "__consumer_offsets"

// commit is one offset of an OffsetCommit, as the broker kept it.
type commit struct {
	at        time.Time
	partition int32
	offset    int64
}

// commits reads back every commit of a group.
func (c *cluster) commits(ctx context.Context, group, topic string) ([]commit, error) {
	starts, err := c.admin.ListStartOffsets(ctx, offsetsTopic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", offsetsTopic, err)
	}
	ends, err := c.admin.ListCommittedOffsets(ctx, offsetsTopic) // what was aborted was never committed
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", offsetsTopic, err)
	}
	p := offsetsPartition(group, int32(len(ends[offsetsTopic])))
	start, end := starts[offsetsTopic][p].Offset, ends[offsetsTopic][p].Offset
	if start >= end {
		return nil, nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{offsetsTopic: {p: kgo.NewOffset().At(start)}}))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", offsetsTopic, err)
	}
	defer reader.Close()
	var out []commit
	for next := start; next < end; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", offsetsTopic, err)
		}
		for r := range fetches.RecordsAll() {
			next = r.Offset + 1
			if got, ok := parseCommit(r.Key, r.Value, group, topic); ok {
				out = append(out, got)
			}
		}
	}
	return out, nil
}

// offsetsPartition is where Kafka keeps a group: the hash of a Java string,
// Utils.abs, modulo the partitions.
func offsetsPartition(group string, partitions int32) int32 {
	var hash int32
	for _, r := range group {
		hash = 31*hash + r
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % partitions
}

func parseCommit(key, value []byte, group, topic string) (c commit, ok bool) {
	if len(key) < 2 || key[0] != 0 || key[1] > 1 || value == nil {
		return c, false
	}
	var k kmsg.OffsetCommitKey
	var v kmsg.OffsetCommitValue
	if k.ReadFrom(key) != nil || v.ReadFrom(value) != nil || k.Group != group || k.Topic != topic {
		return c, false
	}
	return commit{time.UnixMilli(v.CommitTimestamp), k.Partition, v.Offset}, true
}
