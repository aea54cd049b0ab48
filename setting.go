package rondo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// settingKey is one row of the table of settings.
type settingKey struct {
	name    string
	def     string
	check   func(string) error
	help    string
	ignored string
}

func findKey(name string) (settingKey, bool) {
	for _, k := range settingKeys() {
		if k.name == name {
			return k, true
		}
	}
	return settingKey{}, false
}

func settingKeys() []settingKey {
	return slices.Concat(ownKeys(), consumerKeys(), producerKeys(), securityKeys(), ignoredKeys())
}

func ownKeys() []settingKey {
	return []settingKey{
		{"bootstrap.servers", "", anything, "brokers to begin with, host:port, comma separated", ""},
		{"application.id", "", notEmpty, "the consumer group, and the prefix of client ids; the topology's name unless set", ""},
		{"client.id", "", anything, "prefix of the threads' client ids; application.id unless set", ""},
		{"num.stream.threads", "1", numberFrom(0, 1000), "threads at the start; each is one member of the group", ""},
		{"commit.interval.ms", "30000", milliseconds, "how often finished offsets are committed", ""},
		{"buffered.records.per.partition", "1000", numberFrom(1, 1<<30), "a partition with more records waiting is not fetched", ""},
		{"poll.ms", "100", milliseconds, "streams42: how long a poll waits for records", ""},
		{"processing.guarantee", "at_least_once", oneOf("at_least_once"), "at_least_once", ""},
		{"errors.dead.letter.queue.topic.name", "", anything, "where records go that a handler continued after (KIP-1034); a call's failures go where FailuresTo says", ""},
		{"replication.factor", "-1", numberFrom(-1, 1000), "of topics that Through creates; -1 is the broker's default", ""},
		{"loop.policy", "percall", oneOf("percall", "streams42"), "percall: every task a lane; streams42: the stream thread of Kafka Streams 4.2", ""},
		{"drain.timeout.ms", "5000", milliseconds, "how long calls in flight may go on when their partition moves, a thread is removed, or the application stops", ""},
		{"burst.ms", "100", milliseconds, "percall: how long a task runs before the clocks are looked at", ""},
		{"rebalance.protocol", "cooperative", oneOf("cooperative", "eager"), "cooperative: only partitions that move are revoked; eager: all of them, before each join", ""},
	}
}

func consumerKeys() []settingKey {
	return []settingKey{
		{"group.protocol", "classic", oneOf("classic"), "classic", ""},
		{"group.instance.id", "", anything, "static membership; the thread's number is appended, as Kafka Streams does", ""},
		{"client.rack", "", anything, "rack of this instance: fetch from the nearest replica", ""},
		{"auto.offset.reset", "earliest", oneOf("earliest", "latest", "none"), "where a partition without a committed offset begins; none is an error", ""},
		{"max.poll.interval.ms", "300000", positive, "the poll clock: how old one call, or one record in user code, may become before the lease is given up", ""},
		{"max.poll.records", "1000", numberFrom(1, 1<<30), "records taken from the client at once", ""},
		{"session.timeout.ms", "45000", positive, "the session clock: how long the coordinator waits for a heartbeat", ""},
		{"heartbeat.interval.ms", "3000", positive, "time between heartbeats", ""},
		{"metadata.max.age.ms", "300000", positive, "how often the leader looks for new partitions", ""},
		{"isolation.level", "read_uncommitted", oneOf("read_uncommitted", "read_committed"), "whether records of open and aborted transactions are read", ""},
		{"fetch.max.wait.ms", "500", positive, "how long a broker may wait for fetch.min.bytes", ""},
		{"fetch.min.bytes", "1", numberFrom(1, 1<<30), "bytes a broker waits for", ""},
		{"fetch.max.bytes", "52428800", numberFrom(1, 1<<30), "bytes of one fetch", ""},
		{"max.partition.fetch.bytes", "1048576", numberFrom(1, 1<<30), "bytes of one partition in one fetch", ""},
		{"enable.auto.commit", "false", oneOf("false"), "false: Rondo commits what is finished", ""},
	}
}

func producerKeys() []settingKey {
	return []settingKey{
		{"acks", "all", oneOf("all", "-1"), "all: an offset is committed only after its outputs are safe", ""},
		{"enable.idempotence", "true", oneOf("true"), "true", ""},
		{"linger.ms", "5", milliseconds, "how long outputs wait for company in a batch", ""},
		{"compression.type", "lz4", oneOf("none", "gzip", "snappy", "lz4", "zstd"), "of outputs", ""},
		{"delivery.timeout.ms", "120000", positive, "how long an output may take until it is acknowledged; then the production handler decides", ""},
		{"request.timeout.ms", "30000", positive, "how long a broker may take to answer a produce request", ""},
		{"buffer.memory", "33554432", numberFrom(1<<16, 1<<30), "bytes of outputs that wait to be acknowledged; a task waits when they are more", ""},
		{"max.request.size", "1048576", numberFrom(1, 1<<30), "bytes of one output record at most, and of a batch", ""},
	}
}

func ignoredKeys() []settingKey {
	const (
		noState  = "this version has no state stores"
		typed    = "topics carry their own serdes: rondo.TopicOf"
		handlers = "handlers are Go functions: rondo.OnDeserializationError and its neighbours"
		network  = "the client chooses it"
	)
	var keys []settingKey
	for reason, names := range map[string]string{
		noState:                           "state.dir statestore.cache.max.bytes cache.max.bytes.buffering num.standby.replicas max.warmup.replicas acceptable.recovery.lag probing.rebalance.interval.ms state.cleanup.delay.ms rocksdb.config.setter default.dsl.store dsl.store.suppliers.class application.server",
		typed:                             "default.key.serde default.value.serde key.deserializer value.deserializer key.serializer value.serializer default.list.key.serde.inner",
		handlers:                          "deserialization.exception.handler default.deserialization.exception.handler production.exception.handler default.production.exception.handler processing.exception.handler default.timestamp.extractor",
		network:                           "receive.buffer.bytes send.buffer.bytes reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms connections.max.idle.ms retries max.in.flight.requests.per.connection max.block.ms client.dns.lookup check.crcs",
		"Go has no class path and no JMX": "metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter interceptor.classes partitioner.class processor.wrapper.class",
		"the assignor is Rondo's own: sticky, and it keeps co-partitioned topics together": "partition.assignment.strategy task.assignor.class rack.aware.assignment.strategy rack.aware.assignment.tags upgrade.from",
		"a topology is run as it was written":                                              "topology.optimization",
		"tasks take the records of their partitions as they arrive":                        "max.task.idle.ms",
		"outputs are retried until delivery.timeout.ms":                                    "task.timeout.ms default.api.timeout.ms",
		"a batch takes the outputs that wait, up to max.request.size":                      "batch.size",
		"repartition topics are cleaned by their retention":                                "repartition.purge.interval.ms",
	} {
		for _, name := range strings.Fields(names) {
			keys = append(keys, settingKey{name: name, check: anything, ignored: reason})
		}
	}
	slices.SortFunc(keys, func(a, b settingKey) int { return strings.Compare(a.name, b.name) })
	return keys
}

func anything(string) error { return nil }

func notEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func milliseconds(s string) error {
	_, err := parseDuration(s)
	return err
}

func positive(s string) error {
	d, err := parseDuration(s)
	if err == nil && d <= 0 {
		return errors.New("must be above zero")
	}
	return err
}

func numberFrom(low, high int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return fmt.Errorf("want a whole number from %d to %d", low, high)
		}
		return nil
	}
}

func oneOf(values ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("want %s", strings.Join(values, " or "))
		}
		return nil
	}
}
