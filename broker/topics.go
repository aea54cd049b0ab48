package broker

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
)

// maxPartitions bounds the partitions that one request may make; what Kafka
// allows in one batch of its metadata log is the same (ReplicationControlManager).
const maxPartitions = 10_000

// failure is an error on its way to a client: a code of the protocol and a
// text, in Kafka's words where Kafka has some.
type failure struct {
	code int16
	text string
}

func fail(e *kerr.Error, format string, args ...any) *failure {
	return &failure{code: e.Code, text: fmt.Sprintf(format, args...)}
}

// errorCode maps errors of the journal to codes of the protocol.
func errorCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, journal.ErrOutOfOrderSequence):
		return kerr.OutOfOrderSequenceNumber.Code
	case errors.Is(err, journal.ErrProducerFenced):
		return kerr.InvalidProducerEpoch.Code
	case errors.Is(err, journal.ErrOffsetOutOfRange):
		return kerr.OffsetOutOfRange.Code
	case errors.Is(err, journal.ErrInvalidBatch):
		return kerr.InvalidRecord.Code
	case errors.Is(err, journal.ErrRemoved), errors.Is(err, journal.ErrUnknown):
		return kerr.UnknownTopicOrPartition.Code
	default:
		return kerr.KafkaStorageError.Code
	}
}

func storageFailure(err error) *failure { return &failure{code: errorCode(err), text: err.Error()} }

// isInternal tells the topics that the broker keeps for itself.
func isInternal(name string) bool {
	return name == offsetsTopicName || name == "__transaction_state" || name == cause.HistoryTopic
}

// checkTopicName says what is wrong with the name of a topic (Topic.java), or "".
func checkTopicName(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == "." || name == "..":
		return prefix + "'" + name + "' is not allowed"
	case len(name) > 249:
		return prefix + "the length of '" + name + "' is longer than the max allowed length 249"
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}

// collision returns an existing topic whose name differs only in . and _,
// which metrics could not tell apart.
func (c *catalog) collision(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	plain := strings.ReplaceAll(name, ".", "_")
	for other := range c.byName {
		if other != name && strings.ReplaceAll(other, ".", "_") == plain {
			return other
		}
	}
	return ""
}

// createTopics makes the topics that are right and publishes them together:
// their partitions first, then one batch with all their records, so that many
// topics cost a few syncs. It runs on the metadata goroutine.
func (m *metadata) createTopics(wanted []*newTopic) {
	c := m.edit()
	var made []*newTopic
	for _, w := range wanted {
		if w.failed == nil {
			w.failed = m.admit(c, w)
		}
		if w.failed != nil || w.dry {
			continue
		}
		t := &topic{name: w.name, id: w.id, internal: isInternal(w.name), configs: w.configs, replication: w.replication, born: c.starts, places: w.places}
		t.settings = m.b.viewOf(c).settingsOf(w.configs)
		c.byName[t.name], c.byID[t.id] = t, t
		w.topic = t
		made = append(made, w)
	}
	made = m.createPartitionsOf(made)
	if len(made) == 0 {
		return
	}
	records := make([]wire.Record, 0, len(made))
	for _, w := range made {
		m.b.settle(c, w.topic)
		records = append(records, w.topic.record())
	}
	if err := m.write(records...); err != nil {
		m.b.log.Error("create topics", "topics", len(made), "cause", err)
		var all []*partition
		for _, w := range made {
			w.failed = storageFailure(err)
			all = append(all, w.topic.partitions...)
		}
		m.removePartitions(all)
		return
	}
	for _, w := range wanted {
		if w.failed != nil && w.topic != nil { // its partitions could not be made
			delete(c.byName, w.name)
			delete(c.byID, w.id)
		}
	}
	m.publish(c)
}

// createPartitionsOf makes the partitions of new topics, those with the same
// settings together, and returns the topics that have theirs.
func (m *metadata) createPartitionsOf(topics []*newTopic) (made []*newTopic) {
	alike := map[journal.Settings][]*newTopic{}
	for _, w := range topics {
		alike[w.topic.settings.journal] = append(alike[w.topic.settings.journal], w)
	}
	for settings, group := range alike {
		var ids []journal.ID
		for _, w := range group {
			for i := range w.partitions {
				ids = append(ids, journal.ID{Topic: w.id, Partition: int32(i)})
			}
		}
		logs, err := m.b.journal.CreateAll(ids, settings)
		if err != nil {
			m.b.log.Error("create partitions", "partitions", len(ids), "cause", err)
			for _, w := range group {
				w.failed = storageFailure(err)
			}
			continue
		}
		for _, w := range group {
			for i := range w.partitions {
				w.topic.partitions = append(w.topic.partitions, &partition{index: int32(i), log: logs[i]})
			}
			logs = logs[w.partitions:]
		}
		made = append(made, group...)
	}
	return made
}

// newTopic is a topic that somebody wants, and what became of it.
type newTopic struct {
	name       string
	partitions int
	configs    map[string]string
	dry        bool // only see whether it could be made

	replication int             // see topic
	places      map[int32]place // see topic

	id     topicID
	topic  *topic
	failed *failure
}

func (m *metadata) admit(c *catalog, w *newTopic) *failure {
	w.id = newTopicID()
	if c.byName[w.name] != nil {
		return fail(kerr.TopicAlreadyExists, "Topic '%s' already exists.", w.name)
	}
	if other := c.collision(w.name); other != "" {
		return fail(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", w.name, other)
	}
	return nil
}

// createPartitions adds partitions to a topic.
func (m *metadata) createPartitions(t *topic, from, to int) ([]*partition, error) {
	ids := make([]journal.ID, 0, to-from)
	for i := from; i < to; i++ {
		ids = append(ids, journal.ID{Topic: t.id, Partition: int32(i)})
	}
	logs, err := m.b.journal.CreateAll(ids, t.settings.journal)
	if err != nil {
		return nil, err
	}
	partitions := make([]*partition, len(logs))
	for i, log := range logs {
		partitions[i] = &partition{index: int32(from + i), log: log}
	}
	return partitions, nil
}

// removeAgain is how soon partitions that could not be removed are tried again.
const removeAgain = 5 * time.Second

// removePartitions drops data. What cannot be dropped now is tried again until the
// broker ends, and at the next start, for no topic names it: it takes space, and a
// partition of the same topic and number cannot be made while it is there.
func (m *metadata) removePartitions(partitions []*partition) {
	for _, p := range partitions {
		m.left = append(m.left, p.log.ID())
	}
	m.removeLeft()
}

// removeLeft removes the partitions that no topic names. The first failure ends the
// attempt: on a disk that fails the others would only take time.
func (m *metadata) removeLeft() {
	m.retry = nil
	for len(m.left) > 0 {
		id := m.left[0]
		m.left = m.left[1:]
		if err := m.b.journal.Remove(id); err != nil && !errors.Is(err, journal.ErrUnknown) {
			m.left = append(m.left, id)
			m.b.log.Error("remove partitions of no topic, trying again", "partitions", len(m.left), "cause", err)
			m.retry = time.After(removeAgain)
			return
		}
	}
}

// deleteTopic removes a topic: first from the metadata, then its data.
func (m *metadata) deleteTopic(t *topic) error {
	if err := m.write(metadataRecord(keyTopic+t.name, nil)); err != nil {
		return err
	}
	c := m.edit()
	delete(c.byName, t.name)
	delete(c.byID, t.id)
	m.publish(c)
	m.removePartitions(t.partitions)
	return nil
}

// growTopic adds partitions.
func (m *metadata) growTopic(t *topic, to int, places map[int32]place) error {
	m.removeLeft() // what an earlier attempt has left would be in the way
	added, err := m.createPartitions(t, len(t.partitions), to)
	if err != nil {
		return err
	}
	c := m.edit()
	grown := *t
	grown.partitions, grown.places = added, places
	m.b.settle(c, &grown)
	grown.partitions = append(append(make([]*partition, 0, to), t.partitions...), added...)
	if err := m.write(grown.record()); err != nil {
		m.removePartitions(added)
		return err
	}
	c.byName[t.name], c.byID[t.id] = &grown, &grown
	m.publish(c)
	return nil
}

// setTopicConfigs replaces the configs of a topic.
func (m *metadata) setTopicConfigs(t *topic, configs map[string]string) error {
	if maps.Equal(t.configs, configs) {
		return nil
	}
	changed := *t
	changed.configs = configs
	if err := m.write(changed.record()); err != nil {
		return err
	}
	c := m.edit()
	changed.settings = m.b.viewOf(c).settingsOf(configs)
	c.byName[t.name], c.byID[t.id] = &changed, &changed
	m.publish(c)
	for _, p := range changed.partitions {
		p.log.Configure(changed.settings.journal)
	}
	return nil
}

// setConfigs replaces the configs of a group or a broker.
func (m *metadata) setConfigs(kind, name string, configs map[string]string) error {
	var value any
	if len(configs) > 0 {
		value = configs
	}
	if err := m.write(metadataRecord(kind+name, value)); err != nil {
		return err
	}
	c := m.edit()
	all := c.groups
	if kind == keyBroker {
		all = c.brokers
	}
	if len(configs) > 0 {
		all[name] = configs
	} else {
		delete(all, name)
	}
	if kind == keyBroker {
		m.configure(c)
	}
	m.publish(c)
	return nil
}

// createInBackground asks for a topic without waiting for it, once at a time.
func (m *metadata) createInBackground(w *newTopic) {
	m.mu.Lock()
	busy := m.creating[w.name]
	m.creating[w.name] = true
	m.mu.Unlock()
	if busy {
		return
	}
	m.do(func() {
		m.createTopics([]*newTopic{w})
		m.mu.Lock()
		delete(m.creating, w.name)
		m.mu.Unlock()
		if w.failed != nil && w.failed.code != kerr.TopicAlreadyExists.Code {
			m.b.log.Error("create topic automatically", "topic", w.name, "cause", w.failed.text)
		}
	})
}

// offsetsTopic returns __consumer_offsets. When it is not there yet its
// creation is started and nil is returned: the client is told
// COORDINATOR_NOT_AVAILABLE and asks again.
func (b *Broker) offsetsTopic() *topic {
	if t := b.catalog().topic(offsetsTopicName); t != nil {
		return t
	}
	if b.catalog().topic(cause.HistoryTopic) == nil {
		b.meta.createInBackground(historyTopic())
	}
	b.meta.createInBackground(&newTopic{
		name: offsetsTopicName, partitions: int(b.settings.int("offsets.topic.num.partitions")),
		configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer",
			"segment.bytes": b.settings.string("offsets.topic.segment.bytes"),
		},
	})
	return nil
}
