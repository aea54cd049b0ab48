package group

import (
	"maps"
	"slices"
)

// As in consumer_write.go every function here is one kind of record: it changes
// the group, writes the record, and takes the change back should the append
// fail.

func (t *streams) writeMeta(m *streamsMember, meta *streamsMeta) {
	old, was := m.meta, t.members[m.id]
	t.setMeta(m, meta)
	t.s.change(Record{coordinatorKey(keyStreamsMember, t.g.id, m.id), meta.encode()}, func() {
		t.setMeta(m, old)
		if was == nil {
			t.drop(m)
		}
	})
}

// setMeta makes somebody a member, or changes what is known of it.
func (t *streams) setMeta(m *streamsMember, meta *streamsMeta) {
	t.holds.add(m, -1)
	if t.members[m.id] == nil {
		t.s.crowd++
	}
	m.meta, t.members[m.id] = meta, m
	t.holds.add(m, 1)
}

// drop ends a membership.
func (t *streams) drop(m *streamsMember) {
	t.stopAlarms(m)
	delete(t.members, m.id)
}

// eraseMember writes what ends a membership: how far it had come, its target,
// and last itself, for a reader must not find the first two without it.
func (t *streams) eraseMember(m *streamsMember) {
	current, asked := m.current, t.shutdown
	_, blank := blankStreams()
	t.setCurrent(m, blank)
	t.s.change(Record{Key: coordinatorKey(keyStreamsCurrent, t.g.id, m.id)}, func() { t.setCurrent(m, current) })

	target, had := t.targets[m.id]
	delete(t.targets, m.id)
	t.s.change(Record{Key: coordinatorKey(keyStreamsTarget, t.g.id, m.id)}, func() { restore(t.targets, m.id, target, had) })

	t.drop(m)
	if len(t.members) == 0 {
		t.shutdown = ""
	}
	t.s.change(Record{Key: coordinatorKey(keyStreamsMember, t.g.id, m.id)}, func() {
		t.members[m.id], t.shutdown = m, asked
		t.restart(m)
	})
}

func (t *streams) writeCurrent(m *streamsMember, now *streamsCurrent) {
	old := m.current
	t.setCurrent(m, now)
	t.s.change(Record{coordinatorKey(keyStreamsCurrent, t.g.id, m.id), now.encode()}, func() { t.setCurrent(m, old) })
}

// setCurrent moves a member. Its patience begins with what it has to give up.
func (t *streams) setCurrent(m *streamsMember, now *streamsCurrent) {
	t.holds.add(m, -1)
	m.current = now
	t.holds.add(m, 1)
	if t.s.phase == running {
		t.armPatience(m)
	}
}

// armPatience starts the time in which a member has to give tasks up, or ends
// it.
func (t *streams) armPatience(m *streamsMember) {
	if m.current.state == memberUnrevoked {
		m.revoking = t.s.now
		t.s.alarms.set(&m.patience, t.s.now.Add(m.meta.rebalance))
		return
	}
	t.s.alarms.stop(&m.patience)
}

func (t *streams) writeTarget(id string, tasks roleTasks) {
	old, had := t.targets[id]
	t.targets[id] = tasks
	t.s.change(Record{coordinatorKey(keyStreamsTarget, t.g.id, id), encodeStreamsTarget(tasks)}, func() { restore(t.targets, id, old, had) })
}

func (t *streams) writeTargetEpoch(epoch int32) {
	old := t.targetEpoch
	t.targetEpoch = epoch
	t.s.change(Record{coordinatorKey(keyStreamsTargetEpoch, t.g.id), encodeTargetEpoch(epoch)}, func() { t.targetEpoch = old })
}

func (t *streams) writeTopology(topology *topology) {
	t.topology = topology
	t.s.change(Record{coordinatorKey(keyStreamsTopology, t.g.id), topology.encode()}, func() { t.topology, t.configured = nil, nil })
}

// streamsEpoch is the record of a group's epoch.
type streamsEpoch struct {
	epoch     int32
	hash      int64
	validated int32
	standbys  string
}

// writeEpoch writes a new epoch. When that fails the topics are looked at again.
func (t *streams) writeEpoch(v streamsEpoch) {
	old := streamsEpoch{t.epoch, t.hash, t.validated, t.standbys}
	t.setEpoch(v)
	t.s.change(Record{coordinatorKey(keyStreamsGroup, t.g.id), v.encode()}, func() {
		t.setEpoch(old)
		t.seen, t.configured = -1, nil
	})
}

func (t *streams) setEpoch(v streamsEpoch) {
	t.epoch, t.hash, t.validated, t.standbys = v.epoch, v.hash, v.validated, v.standbys
}

// tombstones are the records that end the group, in the order in which a
// reader needs them: members before the group, of members first how far they
// had come, and the topology last.
func (t *streams) tombstones() []Record {
	var records []Record
	ids := slices.Sorted(maps.Keys(t.members))
	each := func(kind int16) {
		for _, id := range ids {
			records = append(records, Record{Key: coordinatorKey(kind, t.g.id, id)})
		}
	}
	each(keyStreamsCurrent)
	each(keyStreamsTarget)
	records = append(records, Record{Key: coordinatorKey(keyStreamsTargetEpoch, t.g.id)})
	each(keyStreamsMember)
	return append(records,
		Record{Key: coordinatorKey(keyStreamsGroup, t.g.id)},
		Record{Key: coordinatorKey(keyStreamsTopology, t.g.id)})
}
