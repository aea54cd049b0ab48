package rondo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/member"
	"github.com/rondo-streams/rondo/internal/secure"
)

func (a *App) clientOptions(id string) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(a.config.servers()...),
		kgo.ClientID(id),
		kgo.MetadataMaxAge(a.config.duration("metadata.max.age.ms")),
		kgo.MetadataMinAge(250 * time.Millisecond), // a partition that arrives is looked up at once
	}, a.config.secure.Options(a.config.dial)...)
}

// consumerOptions make a client that fetches what it is told to and nothing
// else: membership, positions and commits are not its business.
func (a *App) consumerOptions(id string) []kgo.Opt {
	c := a.config
	opts := append(a.clientOptions(id),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(c.duration("fetch.max.wait.ms")),
		kgo.FetchMinBytes(int32(c.number("fetch.min.bytes"))),
		kgo.FetchMaxBytes(int32(c.number("fetch.max.bytes"))),
		kgo.FetchMaxPartitionBytes(int32(min(c.number("max.partition.fetch.bytes"), c.number("fetch.max.bytes")))),
	)
	if c.text("isolation.level") == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if rack := c.text("client.rack"); rack != "" {
		opts = append(opts, kgo.Rack(rack))
	}
	return opts
}

func (a *App) producerOptions() []kgo.Opt {
	c := a.config
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[c.text("compression.type")]
	return append(a.clientOptions(a.clientID+"-producer"),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(c.duration("linger.ms")),
		kgo.ProducerBatchMaxBytes(int32(c.number("max.request.size"))),
		kgo.ProducerBatchCompression(codec, kgo.NoCompression()),
		kgo.MaxBufferedBytes(c.number("buffer.memory")),
		kgo.MaxBufferedRecords(1<<20), // bytes are the bound
		kgo.ProduceRequestTimeout(c.duration("request.timeout.ms")),
	)
}

// singles answers the client for records that go in a batch of their own. It
// is made when the first one comes, and Run closes it.
func (a *App) singles() (*kgo.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.single == nil {
		client, err := kgo.NewClient(append(a.producerOptions(), kgo.MaxBufferedRecords(1))...)
		if err != nil {
			return nil, fmt.Errorf("make producer of single records: %w", err)
		}
		a.single = client
	}
	return a.single, nil
}

// closeProducers ends what singles and Run made.
func (a *App) closeProducers() {
	a.producer.Close()
	a.mu.Lock()
	single := a.single
	a.mu.Unlock()
	if single != nil {
		single.Close()
	}
}

func (a *App) memberConfig(clientID string) member.Config {
	c := a.config
	cfg := member.Config{
		Bootstrap: c.servers(), KgoOpts: c.secure.Options(c.dial), Group: c.text("application.id"), ClientID: clientID, Rack: c.text("client.rack"),
		Topics: a.topology.Sources(), SessionTimeout: c.duration("session.timeout.ms"), HeartbeatInterval: c.duration("heartbeat.interval.ms"),
		MaxPollInterval: a.maxPoll, MetadataMaxAge: c.duration("metadata.max.age.ms"), Eager: c.text("rebalance.protocol") == "eager", InPoll: a.streams42,
	}
	var together [][]string
	for _, sub := range a.topology.subs {
		var topics []string
		for _, src := range sub.sources {
			topics = append(topics, src.topic.name)
		}
		if len(topics) > 1 {
			together = append(together, topics)
		}
	}
	cfg.Assignor = member.Sticky{Together: together}
	return cfg
}

// topicsTimeout bounds the first look at the cluster, and topicsPatience how
// long a missing topic is waited for: one that was just made is known to all
// brokers of a cluster a moment later.
const (
	topicsTimeout  = time.Minute
	topicsPatience = 10 * time.Second
)

// checkTopics looks at every topic of the topology: sources and sinks must
// exist, the topics of Through are made when they do not, and topics whose
// records are ordered by key together must have equal partition counts.
func (a *App) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	began := time.Now()
	for {
		missing, err := a.lookAtTopics(ctx)
		patient := time.Since(began) < topicsPatience && ctx.Err() == nil
		switch {
		case err != nil && (!kerr.IsRetriable(err) || !patient):
			return err
		case err == nil && len(missing) == 0:
			return nil
		case !patient:
			return fmt.Errorf("topics do not exist: %s: create them before the application runs", strings.Join(missing, ", "))
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// lookAtTopics answers the topics that are missing, in order.
func (a *App) lookAtTopics(ctx context.Context) (missing []string, err error) {
	admin := kadm.NewClient(a.producer)
	counts, err := a.partitionCounts(ctx, admin)
	if err != nil {
		err = fmt.Errorf("look at the topics of %s on %s: %w", a.topology.app, a.config.text("bootstrap.servers"), err)
		if hint := secure.Hint(err); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		return nil, err
	}
	for name, t := range a.topology.topics {
		if counts[name] == 0 && !t.created {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return missing, nil
	}
	if err := a.createTopics(ctx, admin, counts); err != nil {
		return nil, err
	}
	return nil, a.checkCounts(counts)
}

// partitionCounts asks for all topics of the topology. A missing one counts 0.
func (a *App) partitionCounts(ctx context.Context, admin *kadm.Client) (map[string]int32, error) {
	counts := map[string]int32{}
	names := make([]string, 0, len(a.topology.topics))
	for name := range a.topology.topics {
		names = append(names, name)
	}
	listed, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, t := range listed {
		if t.Err == nil {
			counts[t.Topic] = int32(len(t.Partitions))
		} else if !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
	}
	return counts, nil
}

// createTopics makes the topics of Through that are missing, as wide as what
// they are written from.
func (a *App) createTopics(ctx context.Context, admin *kadm.Client, counts map[string]int32) error {
	for _, sub := range a.topology.subs {
		widest := int32(0)
		for _, src := range sub.sources {
			widest = max(widest, counts[src.topic.name])
		}
		for _, n := range sub.nodes {
			if n.kind != "sink" || n.topic == nil || !n.topic.created || counts[n.topic.name] > 0 {
				continue
			}
			partitions := n.topic.partitions
			if partitions == 0 {
				partitions = max(widest, 1)
			}
			r, err := admin.CreateTopic(ctx, partitions, int16(a.config.number("replication.factor")), nil, n.topic.name)
			if err == nil {
				err = r.Err
			}
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return fmt.Errorf("create topic %s of Through with %d partitions: %w", n.topic.name, partitions, err)
			}
			counts[n.topic.name] = partitions
			a.config.logger.Info("topic created", "topic", n.topic.name, "partitions", partitions)
		}
	}
	return nil
}

// checkCounts refuses what would break the order of keys: two topics that one
// ByKey call reads, with different partition counts, have the records of a key
// in different tasks.
func (a *App) checkCounts(counts map[string]int32) error {
	var errs []error
	for _, sub := range a.topology.subs {
		for _, n := range sub.nodes {
			if n.call == nil || n.call.policy.Order != ByKey {
				continue
			}
			var said []string
			equal := true
			for i, src := range sub.sources {
				said = append(said, fmt.Sprintf("%s has %d", src.topic.name, counts[src.topic.name]))
				equal = equal && (i == 0 || counts[src.topic.name] == counts[sub.sources[0].topic.name])
			}
			if !equal {
				errs = append(errs, fmt.Errorf("%s: call %q is ordered by key over topics with different partition counts (%s): bring one of them to the other's count with Through", n.at, n.name, strings.Join(said, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}
