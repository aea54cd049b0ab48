package main

import "slices"

// foreignSettings are settings of Kafka's clients (AdminClientConfig,
// ConsumerConfig and ProducerConfig of Kafka 4.2) that a verb may have no part
// for. A file that is made for Kafka's tools has them too. None of them is about
// security: such a setting is obeyed or refused.
func foreignSettings() []string {
	return []string{
		"allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "auto.offset.reset", "bootstrap.controllers",
		"buffer.memory", "check.crcs", "client.dns.lookup", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
		"connections.max.idle.ms", "default.api.timeout.ms", "enable.auto.commit", "enable.metrics.push", "exclude.internal.topics",
		"group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes",
		"key.deserializer", "key.serializer", "max.block.ms", "max.in.flight.requests.per.connection", "max.poll.interval.ms",
		"max.poll.records", "max.request.size", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
		"metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
		"partition.assignment.strategy", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
		"partitioner.class", "partitioner.ignore.keys", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries",
		"retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
		"socket.connection.setup.timeout.ms", "transaction.timeout.ms", "value.deserializer", "value.serializer",
	}
}

// withoutForeign leaves out of a file what only others read, and lists it. A name
// that nobody knows stays, and is refused: it may be a misspelt one.
func withoutForeign(file map[string]string, settings map[string]clientSetting) (kept map[string]string, foreign []string) {
	kept = map[string]string{}
	for _, name := range sortedNames(file) {
		if settings[name] == nil && slices.Contains(foreignSettings(), name) {
			foreign = append(foreign, name)
			continue
		}
		kept[name] = file[name]
	}
	return kept, foreign
}
