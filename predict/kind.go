package predict

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the client whose settings are judged.
type Kind int8

// The kinds. KafkaStreams is the zero value: most of what is worth predicting
// happens there.
const (
	KafkaStreams Kind = iota // Kafka Streams 4.2
	JavaConsumer             // the Java consumer, polled in a loop that handles what a poll returned
	Librdkafka               // librdkafka and what is built on it (Python, .NET, Go, Rust, PHP)
	FranzGo                  // franz-go, polled in a loop
	Sarama                   // sarama's consumer group
	KafkaJS                  // kafkajs, eachMessage
	Rondo                    // Rondo, loop.policy=percall
)

// Kinds lists all kinds in the order of their constants.
func Kinds() []Kind {
	return []Kind{KafkaStreams, JavaConsumer, Librdkafka, FranzGo, Sarama, KafkaJS, Rondo}
}

// String is the name that ParseKind takes.
func (k Kind) String() string {
	switch k {
	case KafkaStreams:
		return "kafka-streams"
	case JavaConsumer:
		return "java-consumer"
	case Librdkafka:
		return "librdkafka"
	case FranzGo:
		return "franz-go"
	case Sarama:
		return "sarama"
	case KafkaJS:
		return "kafkajs"
	case Rondo:
		return "rondo"
	}
	return fmt.Sprintf("kind(%d)", int8(k))
}

// MarshalText is the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKind reads the name of a kind.
func ParseKind(name string) (Kind, error) {
	var known []string
	for _, k := range Kinds() {
		if k.String() == strings.ToLower(name) {
			return k, nil
		}
		known = append(known, k.String())
	}
	return 0, fmt.Errorf("kind %q is unknown: want one of %s", name, strings.Join(known, ", "))
}

// Clocks is what a kind of client has: which clocks can take its lease, and
// what happens to a handler that never returns.
type Clocks struct {
	PollClock bool // it leaves by itself when it was not polled for max.poll.interval.ms
	// HeartbeatsApart says that heartbeats go on while a record is handled.
	HeartbeatsApart bool
	// JoinsApart says that the client joins while a record is handled, so that
	// nobody waits for it. Others join only when they are polled again.
	JoinsApart bool
	Hung       string // what a handler that never returns leads to
	Source     string
}

// Clocks says which clocks a kind has under a group protocol.
func (k Kind) Clocks(p Protocol) Clocks {
	c := Clocks{PollClock: true, HeartbeatsApart: true}
	switch k {
	case KafkaStreams, JavaConsumer:
		c.JoinsApart = p != Classic
		c.Hung = "the client leaves the group after max.poll.interval.ms; the next owner hangs on the same record; a Kafka Streams client shows RUNNING for ever"
		c.Source = "Kafka 4.2 AbstractCoordinator, AbstractHeartbeatRequestManager; recorded run v1, v2"
	case Librdkafka:
		c.JoinsApart = p != Classic
		c.Hung = "the client leaves the group after max.poll.interval.ms (log line MAXPOLL); the next owner hangs on the same record"
		c.Source = "librdkafka rdkafka_cgrp.c, rd_kafka_max_poll_interval_check_tmr_cb"
	case FranzGo:
		c.PollClock, c.JoinsApart = false, true
		c.Hung = "nothing: there is no max.poll.interval.ms, heartbeats go on, the partition stands still for ever in a group that looks stable"
		c.Source = "franz-go kgo/consumer_group.go; franz-go issue 708"
	case Sarama:
		c.PollClock = false
		c.Hung = "nothing until the next rebalance: heartbeats go on; then the member is removed after Consumer.Group.Rebalance.Timeout, and the next owner hangs (MaxProcessingTime is no poll clock)"
		c.Source = "sarama consumer_group.go"
	case KafkaJS:
		c.PollClock, c.HeartbeatsApart = false, false
		c.Hung = "heartbeats are sent between messages, so the coordinator removes the member after sessionTimeout, and the next owner hangs on the same message"
		c.Source = "kafkajs src/consumer/runner.js; kafkajs issues 387, 1052"
	case Rondo:
		c.JoinsApart = true
		c.Hung = "the call is cut at its time-out, or, without one, at max.poll.interval.ms, and named in the event"
		c.Source = "docs/model.md"
	}
	return c
}

// Protocol is group.protocol.
type Protocol int8

// The protocols. Classic is what every client uses unless told otherwise.
const (
	Classic  Protocol = iota
	Consumer          // KIP-848
	Streams           // KIP-1071
)

// String is the value of group.protocol.
func (p Protocol) String() string {
	switch p {
	case Classic:
		return "classic"
	case Consumer:
		return "consumer"
	case Streams:
		return "streams"
	}
	return fmt.Sprintf("protocol(%d)", int8(p))
}

// MarshalText is the value of group.protocol.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParseProtocol reads a value of group.protocol.
func ParseProtocol(name string) (Protocol, error) {
	for _, p := range []Protocol{Classic, Consumer, Streams} {
		if p.String() == strings.ToLower(name) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("group.protocol %q is unknown: want classic, consumer or streams", name)
}

// defaults are the settings of a kind that nobody has set.
func (k Kind) defaults() Settings {
	d := Settings{
		MaxPollInterval: 5 * time.Minute, SessionTimeout: 45 * time.Second, HeartbeatInterval: 3 * time.Second,
		CommitInterval: 5 * time.Second, MaxPollRecords: 500,
	}
	switch k {
	case KafkaStreams:
		d.CommitInterval, d.MaxPollRecords = 30*time.Second, 1000
	case Librdkafka:
		d.MaxPollRecords = 1
	case FranzGo:
		d.MaxPollInterval, d.MaxPollRecords = time.Minute, 1 // its rebalance timeout
	case Sarama:
		d.MaxPollInterval, d.SessionTimeout, d.MaxPollRecords = time.Minute, 10*time.Second, 1
	case KafkaJS:
		d.MaxPollInterval, d.SessionTimeout, d.MaxPollRecords = time.Minute, 30*time.Second, 1
	case Rondo:
		d.CommitInterval, d.MaxPollRecords = 30*time.Second, 1000
	}
	return d
}
