package broker

import (
	"maps"
	"slices"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

// topicID is a topic's id on the wire.
type topicID [16]byte

// partition is one partition of a topic, with its log.
type partition struct {
	index int32
	log   *journal.Partition

	// See settle.
	epoch    int32 // leader epoch
	leader   int32
	replicas []int32 // the preferred leader first
}

// topic is one topic as it was when the catalog was made. It never changes.
type topic struct {
	name       string
	id         topicID
	internal   bool // __consumer_offsets, __transaction_state
	configs    map[string]string
	settings   topicSettings // configs over the broker's, parsed
	partitions []*partition

	replication int             // replicas of a partition that is not in places
	born        int64           // catalog.starts when it was made
	places      map[int32]place // of partitions that were put or moved somewhere
}

// record is what the metadata partition keeps of the topic.
func (t *topic) record() wire.Record {
	return metadataRecord(keyTopic+t.name, topicRecord{
		ID: t.id, Partitions: len(t.partitions), Configs: t.configs,
		Replication: t.replication, Born: t.born, Places: t.places,
	})
}

// partition returns a partition by number, nil when there is none.
func (t *topic) partition(n int32) *partition {
	if t == nil || n < 0 || int(n) >= len(t.partitions) {
		return nil
	}
	return t.partitions[n]
}

// catalog is all metadata at one moment. It is immutable: readers take it once
// and see one state.
type catalog struct {
	clusterID string
	version   int64
	byName    map[string]*topic
	byID      map[topicID]*topic
	groups    map[string]map[string]string // configs of groups
	brokers   map[string]map[string]string // dynamic configs of brokers; "" is the default of the cluster
	starts    int64                        // how often the broker has been started on this data
	nextPID   int64                        // end of the reserved producer ids
}

// topic returns a topic by name, nil when there is none.
func (c *catalog) topic(name string) *topic { return c.byName[name] }

// names lists the topics in order.
func (c *catalog) names() []string { return slices.Sorted(maps.Keys(c.byName)) }
