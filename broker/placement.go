package broker

import (
	"maps"
	"slices"
)

// place is where a partition stands that does not stand where it was put when
// its topic was made.
type place struct {
	Replicas []int32 `json:"replicas"`
	Leader   int32   `json:"leader"`
	Moves    int32   `json:"moves"` // each is a step of the leader epoch
}

// epochsPerStart is by how much leader epochs rise when the broker starts. In
// Kafka a partition whose only replica restarts loses its leader and gets it
// back: two steps.
const epochsPerStart = 2

// settle gives the partitions of a topic their replicas, leaders and leader
// epochs under a catalog. The partitions belong to the caller.
func (b *Broker) settle(c *catalog, t *topic) {
	nodes := b.nodeIDs()
	n := min(max(t.replication, 1), len(nodes))
	for _, p := range t.partitions {
		p.epoch = epochsPerStart * int32(c.starts-t.born)
		p.replicas = nil
		if at, ok := t.places[p.index]; ok {
			p.epoch += at.Moves
			p.leader = at.Leader
			p.replicas = slices.DeleteFunc(slices.Clone(at.Replicas), func(id int32) bool { return !slices.Contains(nodes, id) })
		}
		if len(p.replicas) == 0 {
			first := int(t.id[15]) + int(p.index)
			for i := range n {
				p.replicas = append(p.replicas, nodes[(first+i)%len(nodes)])
			}
		}
		if !slices.Contains(p.replicas, p.leader) {
			p.leader = p.replicas[0]
		}
	}
}

// movePartition gives a partition other replicas and maybe another leader. It
// runs on the metadata goroutine.
func (m *metadata) movePartition(t *topic, n int32, replicas []int32, leader int32) error {
	old := t.partitions[n]
	moved := *t
	if moved.places = maps.Clone(t.places); moved.places == nil {
		moved.places = map[int32]place{}
	}
	at := moved.places[n]
	at.Replicas, at.Leader = replicas, leader
	at.Moves++
	moved.places[n] = at
	if err := m.write(moved.record()); err != nil {
		return err
	}
	p := *old
	p.replicas, p.leader, p.epoch = replicas, leader, old.epoch+1
	moved.partitions = slices.Clone(t.partitions)
	moved.partitions[n] = &p
	c := m.edit()
	c.byName[t.name], c.byID[t.id] = &moved, &moved
	m.publish(c)
	p.log.Stir()
	if t.name == offsetsTopicName && leader != old.leader {
		m.b.groups.moved(n)
	}
	return nil
}
