package broker

import (
	"sync/atomic"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
)

// Stats are the broker's counters since it started.
type Stats struct {
	Connections         int64 // open now
	ConnectionsAccepted int64
	ConnectionsBroken   int64 // closed because of what was sent
	Requests            int64
	BytesOut            int64
	ProduceBatches      int64
	ProduceBytes        int64
	FetchBytes          int64
	Topics              int
	Partitions          int
	FetchSessions       int
	Panics              int64                 // handlers that panicked: a bug, the connection was closed
	Rebalances          map[cause.Cause]int64 // of all groups, by cause
	Journal             journal.Stats
}

type counters struct {
	connectionsAccepted, connectionsBroken atomic.Int64
	requests, bytesOut                     atomic.Int64
	produceBatches, produceBytes           atomic.Int64
	fetchBytes, panics                     atomic.Int64
}

// Stats reads the counters. It is cheap enough for every scrape.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	open := len(b.conns)
	b.mu.Unlock()
	s := Stats{
		Connections: int64(open), ConnectionsAccepted: b.stats.connectionsAccepted.Load(), ConnectionsBroken: b.stats.connectionsBroken.Load(),
		Requests: b.stats.requests.Load(), BytesOut: b.stats.bytesOut.Load(),
		ProduceBatches: b.stats.produceBatches.Load(), ProduceBytes: b.stats.produceBytes.Load(), FetchBytes: b.stats.fetchBytes.Load(),
		FetchSessions: b.sessions.count(), Panics: b.stats.panics.Load(), Journal: b.journal.Stats(),
		Rebalances: map[cause.Cause]int64{},
	}
	for _, c := range cause.All() {
		s.Rebalances[c] = b.groups.causes[c].Load()
	}
	for _, t := range b.catalog().byName {
		s.Topics++
		s.Partitions += len(t.partitions)
	}
	return s
}
