package broker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

// metadata owns the catalog. One goroutine makes every change: it writes the
// records of the change as one batch to the metadata partition, waits until
// they are durable, and only then replaces the catalog. Whoever reads the
// catalog takes no lock and sees one state.
type metadata struct {
	b       *Broker
	log     *journal.Partition
	current atomic.Pointer[catalog]
	changes chan func()
	quit    chan struct{}
	ended   chan struct{}

	// Of the goroutine.
	left  []journal.ID     // partitions of no topic that could not be removed
	retry <-chan time.Time // when to try again; nil when none is left

	mu       sync.Mutex
	creating map[string]bool // topics whose creation was asked for without waiting
}

// metadataID is the reserved partition: Kafka's own id of __cluster_metadata.
func metadataID() journal.ID {
	return journal.ID{Topic: [16]byte{15: 1}, Partition: 0}
}

// maxTopicPartitions is more than any topic gets: see maxPartitions.
const maxTopicPartitions = 1 << 20

// The kinds of metadata records, which start their keys.
const (
	keyCluster = "cluster"
	keyPIDs    = "producer-ids"
	keyStarts  = "starts"
	keyTopic   = "topic:"
	keyGroup   = "group:"
	keyBroker  = "broker:"
)

// The values of metadata records.
type (
	clusterRecord struct {
		ID string `json:"id"`
	}
	pidRecord struct {
		Next int64 `json:"next"`
	}
	startsRecord struct {
		Count int64 `json:"count"`
	}
	topicRecord struct {
		ID          topicID           `json:"id"`
		Partitions  int               `json:"partitions"`
		Configs     map[string]string `json:"configs,omitempty"`
		Replication int               `json:"replication,omitempty"`
		Born        int64             `json:"born,omitempty"`
		Places      map[int32]place   `json:"places,omitempty"`
	}
)

// String is the id as Kafka writes it: 22 characters of URL-safe base64.
func (id topicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText makes JSON show the id as Kafka writes it.
func (id topicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads an id as Kafka writes it.
func (id *topicID) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != len(id) {
		return fmt.Errorf("read topic id %q: want 22 characters of base64", text)
	}
	copy(id[:], b)
	return nil
}

// newTopicID makes an id as Kafka does: random, neither reserved nor starting
// with a dash, which command lines take for a flag.
func newTopicID() topicID {
	var id topicID
	for {
		rand.Read(id[:]) //nolint:errcheck // crypto/rand never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// openMetadata reads the metadata partition, or makes it at the first start,
// and drops what a crash left half done.
func openMetadata(b *Broker) (*metadata, error) {
	m := &metadata{
		b: b, changes: make(chan func(), 64), quit: make(chan struct{}), ended: make(chan struct{}),
		creating: map[string]bool{},
	}
	c := &catalog{
		byName: map[string]*topic{}, byID: map[topicID]*topic{},
		groups: map[string]map[string]string{}, brokers: map[string]map[string]string{},
	}
	var err error
	if m.log = b.journal.Partition(metadataID()); m.log == nil {
		if m.log, err = b.journal.Create(metadataID(), metadataSettings()); err != nil {
			return nil, fmt.Errorf("create the metadata partition: %w", err)
		}
	} else if err = m.load(c); err != nil {
		return nil, err
	}
	if err := m.dropOrphans(c); err != nil {
		return nil, err
	}
	if err := m.begin(c); err != nil {
		return nil, err
	}
	m.configure(c)
	for _, t := range c.byName {
		b.settle(c, t)
	}
	m.current.Store(c)
	go m.run()
	return m, nil
}

func metadataSettings() journal.Settings {
	return journal.Settings{
		RetentionMs: -1, RetentionBytes: -1, SegmentBytes: 16 << 20, SegmentMs: 7 * 24 * 3_600_000,
		Compact: true, DeleteRetentionMs: 24 * 3_600_000, MaxCompactionLagMs: 1<<63 - 1, MinDirtyRatio: 0.5,
	}
}

// load replays the metadata partition.
func (m *metadata) load(c *catalog) error {
	for offset := m.log.Start(); offset < m.log.HighWatermark(); {
		chunks, err := m.log.Read(offset, 1<<20, true)
		if err != nil {
			return fmt.Errorf("read metadata at offset %d: %w", offset, err)
		}
		from := offset
		for _, chunk := range chunks {
			err := wire.EachBatch(chunk, func(h wire.Header, batch []byte) error {
				offset = h.LastOffset() + 1
				return wire.EachRecord(batch, func(r wire.Record) error { return c.apply(m.b, string(r.Key), r.Value) })
			})
			if err != nil {
				return fmt.Errorf("read metadata after offset %d: %w", from, err)
			}
		}
		if offset == from {
			break // nothing but what compaction has left of the last batch
		}
	}
	return nil
}

// apply changes the catalog by one record. The catalog is not shared yet.
func (c *catalog) apply(b *Broker, key string, value []byte) error {
	kind, name, _ := strings.Cut(key, ":")
	var err error
	switch kind + ":" {
	case keyCluster + ":":
		var r clusterRecord
		err = json.Unmarshal(value, &r)
		c.clusterID = r.ID
	case keyPIDs + ":":
		var r pidRecord
		err = json.Unmarshal(value, &r)
		c.nextPID = r.Next
	case keyStarts + ":":
		var r startsRecord
		err = json.Unmarshal(value, &r)
		c.starts = r.Count
	case keyTopic:
		err = c.applyTopic(b, name, value)
	case keyGroup:
		err = applyConfigs(c.groups, name, value)
	case keyBroker:
		err = applyConfigs(c.brokers, name, value)
	default:
		err = errors.New("unknown kind of record: the data was written by a newer version")
	}
	if err != nil {
		return fmt.Errorf("metadata record %q: %w", key, err)
	}
	return nil
}

func (c *catalog) applyTopic(b *Broker, name string, value []byte) error {
	if old := c.byName[name]; old != nil {
		delete(c.byID, old.id)
		delete(c.byName, name)
	}
	if value == nil {
		return nil
	}
	var r topicRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	if r.Partitions < 1 || r.Partitions > maxTopicPartitions {
		return fmt.Errorf("%d partitions", r.Partitions)
	}
	t := &topic{name: name, id: r.ID, internal: isInternal(name), configs: r.Configs, replication: r.Replication, born: r.Born, places: r.Places}
	for i := range int32(r.Partitions) {
		p := b.journal.Partition(journal.ID{Topic: r.ID, Partition: i})
		// None is there when the topic was deleted later in this log: the
		// tombstone follows. dropOrphans looks when all is read.
		t.partitions = append(t.partitions, &partition{index: i, log: p})
	}
	c.byName[name], c.byID[r.ID] = t, t
	return nil
}

func applyConfigs(all map[string]map[string]string, name string, value []byte) error {
	if value == nil {
		delete(all, name)
		return nil
	}
	var configs map[string]string
	if err := json.Unmarshal(value, &configs); err != nil {
		return err
	}
	all[name] = configs
	return nil
}

// dropOrphans removes partitions that belong to no topic: their creation was
// not completed, or the topic is deleted. A topic without its partitions is
// an error: data is missing.
func (m *metadata) dropOrphans(c *catalog) error {
	for _, id := range m.b.journal.Partitions() {
		if id == metadataID() {
			continue
		}
		if t := c.byID[id.Topic]; t != nil && int(id.Partition) < len(t.partitions) {
			continue
		}
		if err := m.b.journal.Remove(id); err != nil {
			return fmt.Errorf("remove a partition that belongs to no topic: %w", err)
		}
	}
	for _, t := range c.byName {
		for _, p := range t.partitions {
			if p.log == nil {
				return fmt.Errorf("topic %s: partition %d is in the metadata but not in the log: part of the data directory is missing, restore it", t.name, p.index)
			}
		}
	}
	return nil
}

// begin counts this start, for leader epochs rise with each. A new cluster gets
// its id, that of an old one is checked.
func (m *metadata) begin(c *catalog) error {
	named := c.clusterID != ""
	if err := m.nameCluster(c); err != nil {
		return err
	}
	records := make([]wire.Record, 0, 2)
	if named {
		c.starts++
	} else {
		records = append(records, metadataRecord(keyCluster, clusterRecord{ID: c.clusterID}))
	}
	return m.write(append(records, metadataRecord(keyStarts, startsRecord{Count: c.starts}))...)
}

func (m *metadata) nameCluster(c *catalog) error {
	want := m.b.config.ClusterID
	if c.clusterID != "" {
		if want != "" && want != c.clusterID {
			return fmt.Errorf("the data belongs to cluster %q, not to %q: leave Config.ClusterID empty or use another directory", c.clusterID, want)
		}
		return nil
	}
	if want == "" {
		want = newTopicID().String()
	}
	c.clusterID = want
	return nil
}

func metadataRecord(key string, value any) wire.Record {
	r := wire.Record{Key: []byte(key), Timestamp: time.Now().UnixMilli()}
	if value != nil {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err) // strings, numbers and maps of strings
		}
		r.Value = b
	}
	return r
}

// write appends records as one batch and waits until they are durable.
func (m *metadata) write(records ...wire.Record) error {
	done := make(chan journal.Result, 1)
	batch := wire.AppendBatch(nil, wire.BatchOptions{}, records...)
	// Something going away is noted also on a full disk: it is what makes room. So
	// is a start, without which nothing could go away.
	urgent := slices.ContainsFunc(records, func(r wire.Record) bool { return r.Value == nil || string(r.Key) == keyStarts })
	m.log.Append(journal.Append{Batches: batch, Internal: true, Urgent: urgent}, func(r journal.Result) { done <- r })
	if r := <-done; r.Err != nil {
		return fmt.Errorf("write metadata: %w", r.Err)
	}
	return nil
}

// run makes the changes, one after the other.
func (m *metadata) run() {
	defer close(m.ended)
	for {
		select {
		case change := <-m.changes:
			change()
		case <-m.retry:
			m.removeLeft()
		case <-m.quit:
			return
		}
	}
}

// do hands a change to the metadata goroutine. It waits only when very many
// changes are under way; after close the change is dropped.
func (m *metadata) do(change func()) {
	select {
	case m.changes <- change:
	case <-m.quit:
	}
}

func (m *metadata) close() {
	close(m.quit)
	<-m.ended
}

// edit returns a copy of the catalog that the metadata goroutine may change
// and then publish.
func (m *metadata) edit() *catalog {
	c := *m.current.Load()
	c.byName, c.byID = maps.Clone(c.byName), maps.Clone(c.byID)
	c.groups, c.brokers = maps.Clone(c.groups), maps.Clone(c.brokers)
	return &c
}

// publish makes a changed catalog the current one.
func (m *metadata) publish(c *catalog) {
	c.version++
	m.current.Store(c)
	if groups := m.b.groups; groups != nil {
		groups.catalogChanged(c)
	}
}

// configure gives every topic the settings that its configs and the broker's
// come to.
func (m *metadata) configure(c *catalog) {
	view := m.b.viewOf(c)
	for name, t := range c.byName {
		changed := *t
		changed.settings = view.settingsOf(t.configs)
		c.byName[name], c.byID[t.id] = &changed, &changed
		for _, p := range changed.partitions {
			p.log.Configure(changed.settings.journal)
		}
	}
}

// viewOf is the broker's configuration under a catalog.
func (b *Broker) viewOf(c *catalog) configView {
	return configView{static: b.settings, node: c.brokers[b.nodeName()], cluster: c.brokers[""]}
}

// catalog is the metadata of this moment.
func (b *Broker) catalog() *catalog { return b.meta.current.Load() }
