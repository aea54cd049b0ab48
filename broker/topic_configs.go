package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rondo-streams/rondo/internal/journal"
)

// offsetsTopicName is where groups keep their state.
const offsetsTopicName = "__consumer_offsets"

// configSource says where a value comes from, numbered as DescribeConfigs does.
type configSource int8

const (
	sourceTopic   configSource = 1
	sourceBroker  configSource = 2 // dynamic, of one broker
	sourceBrokers configSource = 3 // dynamic, of all brokers
	sourceStatic  configSource = 4
	sourceDefault configSource = 5
	sourceGroup   configSource = 8
)

// The kinds of resources that have configs.
const (
	resourceTopic         = 2
	resourceBroker        = 4
	resourceBrokerLogger  = 8
	resourceClientMetrics = 16
	resourceGroup         = 32
)

func knownResource(kind int) bool {
	switch kind {
	case resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup:
		return true
	}
	return false
}

// topicConfigDef is one config that a topic may have (LogConfig.java).
type topicConfigDef struct {
	name   string
	kind   kind
	value  string // the default, when no broker property gives one
	broker string // the broker property that DescribeConfigs names as the synonym
	min    int64  // the smallest number
	oneOf  []string
}

// coarse is a broker property that gives a time in a coarser unit.
type coarse struct {
	name string
	unit int64 // milliseconds
}

// coarser lists the broker properties that a topic's default is taken from
// when the first one is not set.
func coarser(broker string) []coarse {
	switch broker {
	case "log.retention.ms":
		return []coarse{{"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}}
	case "log.roll.ms":
		return []coarse{{"log.roll.hours", 3_600_000}}
	case "log.roll.jitter.ms":
		return []coarse{{"log.roll.jitter.hours", 3_600_000}}
	case "log.flush.interval.ms":
		return []coarse{{"log.flush.scheduler.interval.ms", 1}}
	}
	return nil
}

// topicConfigs are the configs of topics in Kafka 4.2.0, in order of name.
func topicConfigs() []topicConfigDef {
	const forever = "9223372036854775807"
	return []topicConfigDef{
		{name: "cleanup.policy", kind: kindList, broker: "log.cleanup.policy", oneOf: []string{"compact", "delete"}},
		{name: "compression.gzip.level", kind: kindInt, broker: "compression.gzip.level", min: -1},
		{name: "compression.lz4.level", kind: kindInt, broker: "compression.lz4.level", min: 1},
		{name: "compression.type", kind: kindString, broker: "compression.type", oneOf: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}},
		{name: "compression.zstd.level", kind: kindInt, broker: "compression.zstd.level", min: -131072},
		{name: "delete.retention.ms", kind: kindLong, broker: "log.cleaner.delete.retention.ms"},
		{name: "file.delete.delay.ms", kind: kindLong, broker: "log.segment.delete.delay.ms"},
		{name: "flush.messages", kind: kindLong, broker: "log.flush.interval.messages", min: 1},
		{name: "flush.ms", kind: kindLong, value: forever, broker: "log.flush.interval.ms"},
		{name: "follower.replication.throttled.replicas", kind: kindList},
		{name: "index.interval.bytes", kind: kindInt, broker: "log.index.interval.bytes"},
		{name: "leader.replication.throttled.replicas", kind: kindList},
		{name: "local.retention.bytes", kind: kindLong, broker: "log.local.retention.bytes", min: -2},
		{name: "local.retention.ms", kind: kindLong, broker: "log.local.retention.ms", min: -2},
		{name: "max.compaction.lag.ms", kind: kindLong, broker: "log.cleaner.max.compaction.lag.ms", min: 1},
		{name: "max.message.bytes", kind: kindInt, broker: "message.max.bytes"},
		{name: "message.timestamp.after.max.ms", kind: kindLong, broker: "log.message.timestamp.after.max.ms"},
		{name: "message.timestamp.before.max.ms", kind: kindLong, broker: "log.message.timestamp.before.max.ms"},
		{name: "message.timestamp.type", kind: kindString, broker: "log.message.timestamp.type", oneOf: []string{"CreateTime", "LogAppendTime"}},
		{name: "min.cleanable.dirty.ratio", kind: kindDouble, broker: "log.cleaner.min.cleanable.ratio"},
		{name: "min.compaction.lag.ms", kind: kindLong, broker: "log.cleaner.min.compaction.lag.ms"},
		{name: "min.insync.replicas", kind: kindInt, broker: "min.insync.replicas", min: 1},
		{name: "preallocate", kind: kindBoolean, broker: "log.preallocate"},
		{name: "remote.log.copy.disable", kind: kindBoolean, value: "false"},
		{name: "remote.log.delete.on.disable", kind: kindBoolean, value: "false"},
		{name: "remote.storage.enable", kind: kindBoolean, value: "false", oneOf: []string{"false"}},
		{name: "retention.bytes", kind: kindLong, broker: "log.retention.bytes", min: -1 << 63},
		{name: "retention.ms", kind: kindLong, broker: "log.retention.ms", min: -1},
		{name: "segment.bytes", kind: kindInt, broker: "log.segment.bytes", min: 1 << 20},
		{name: "segment.index.bytes", kind: kindInt, broker: "log.index.size.max.bytes", min: 4},
		{name: "segment.jitter.ms", kind: kindLong, value: "0", broker: "log.roll.jitter.ms"},
		{name: "segment.ms", kind: kindLong, broker: "log.roll.ms", min: 1},
		{name: "unclean.leader.election.enable", kind: kindBoolean, broker: "unclean.leader.election.enable"},
	}
}

// topicConfig returns the definition of a config; its name is "" when topics
// have no such config.
func topicConfig(name string) topicConfigDef {
	for _, d := range topicConfigs() {
		if d.name == name {
			return d
		}
	}
	return topicConfigDef{}
}

// check says in Kafka's words what is wrong with a value, or "".
func (d topicConfigDef) check(value string) string {
	if msg := checkValue(d.kind, value); msg != "" {
		return msg
	}
	switch d.kind {
	case kindInt, kindLong:
		if n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64); n < d.min {
			return "Value must be at least " + strconv.FormatInt(d.min, 10)
		}
	case kindDouble:
		f, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if f < 0 {
			return "Value must be at least 0"
		}
		if f > 1 {
			return "Value must be no more than 1"
		}
	case kindList:
		for _, v := range splitList(value) {
			if d.oneOf != nil && !slices.Contains(d.oneOf, v) {
				return "String must be one of: " + strings.Join(d.oneOf, ", ")
			}
		}
	default:
		if d.oneOf != nil && !slices.Contains(d.oneOf, strings.TrimSpace(value)) {
			return "String must be one of: " + strings.Join(d.oneOf, ", ")
		}
	}
	return ""
}

// splitList splits a list at its commas, as Kafka's ConfigDef does.
func splitList(value string) []string {
	var out []string
	for v := range strings.SplitSeq(value, ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// configView is what a broker's properties are at one moment: dynamic ones of
// this broker over dynamic ones of all brokers over those it was started with.
type configView struct {
	static        *settings
	node, cluster map[string]string
}

// lookup returns a property's value and where it is from; null when it has
// none.
func (v configView) lookup(name string) (value string, from configSource, null bool) {
	if s, ok := v.node[name]; ok {
		return s, sourceBroker, false
	}
	if s, ok := v.cluster[name]; ok {
		return s, sourceBrokers, false
	}
	s, null := v.static.lookup(name)
	if _, ok := v.static.given[name]; ok {
		return s, sourceStatic, null
	}
	return s, sourceDefault, null
}

// topicDefault is what a topic has when it sets nothing itself.
func (v configView) topicDefault(d topicConfigDef) (value, property string) {
	if d.broker == "" {
		return d.value, ""
	}
	if s, _, null := v.lookup(d.broker); !null {
		return s, d.broker
	}
	for _, c := range coarser(d.broker) {
		s, _, null := v.lookup(c.name)
		if null {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			continue // checked when it was set
		}
		if n < 0 {
			return "-1", c.name
		}
		if n > (1<<63-1)/c.unit {
			return strconv.FormatInt(1<<63-1, 10), c.name
		}
		return strconv.FormatInt(n*c.unit, 10), c.name
	}
	return d.value, d.broker
}

// effective is the value that counts for a topic with these configs.
func (v configView) effective(d topicConfigDef, configs map[string]string) string {
	if s, ok := configs[d.name]; ok {
		return strings.TrimSpace(s)
	}
	s, _ := v.topicDefault(d)
	return strings.TrimSpace(s)
}

// topicSettings are the configs of a topic that the broker acts on.
type topicSettings struct {
	maxMessageBytes int64
	logAppendTime   bool
	compact         bool
	minISR          int64
	beforeMax       int64 // message.timestamp.before.max.ms
	afterMax        int64 // message.timestamp.after.max.ms
	journal         journal.Settings
}

// settingsOf parses the effective configs of a topic.
func (v configView) settingsOf(configs map[string]string) topicSettings {
	text := func(name string) string { return v.effective(topicConfig(name), configs) }
	number := func(name string) int64 {
		n, err := strconv.ParseInt(text(name), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("topic config %s: %v", name, err))
		}
		return n
	}
	ratio, err := strconv.ParseFloat(text("min.cleanable.dirty.ratio"), 64)
	if err != nil {
		panic(fmt.Sprintf("topic config min.cleanable.dirty.ratio: %v", err))
	}
	policy := splitList(text("cleanup.policy"))
	compact := slices.Contains(policy, "compact")
	return topicSettings{
		maxMessageBytes: number("max.message.bytes"),
		logAppendTime:   text("message.timestamp.type") == "LogAppendTime",
		compact:         compact,
		minISR:          number("min.insync.replicas"),
		beforeMax:       number("message.timestamp.before.max.ms"),
		afterMax:        number("message.timestamp.after.max.ms"),
		journal: journal.Settings{
			RetentionMs: number("retention.ms"), RetentionBytes: number("retention.bytes"),
			SegmentBytes: number("segment.bytes"), SegmentMs: number("segment.ms"),
			Compact: compact, Delete: slices.Contains(policy, "delete"),
			DeleteRetentionMs:  number("delete.retention.ms"),
			MinCompactionLagMs: number("min.compaction.lag.ms"), MaxCompactionLagMs: number("max.compaction.lag.ms"),
			MinDirtyRatio: ratio,
		},
	}
}

// checkTopicConfigs says what is wrong with the configs of a topic, in the
// words of Kafka's INVALID_CONFIG, or "".
func checkTopicConfigs(configs map[string]string) string {
	names := make([]string, 0, len(configs))
	for name := range configs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if topicConfig(name).name == "" {
			return "Unknown topic config name: " + name
		}
	}
	for _, name := range names {
		if msg := topicConfig(name).check(configs[name]); msg != "" {
			return "Invalid value " + configs[name] + " for configuration " + name + ": " + msg
		}
	}
	return ""
}
