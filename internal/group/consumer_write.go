package group

import (
	"maps"
	"slices"
)

// Every function here is one kind of record: it changes the group, writes the
// record, and takes the change back should the append fail. Later changes are
// taken back first, so each finds the group as it left it.

func (c *consumer) writeMeta(m *consumerMember, meta *memberMeta) {
	old, was := m.meta, c.members[m.id]
	c.setMeta(m, meta)
	c.s.change(Record{coordinatorKey(keyConsumerMember, c.g.id, m.id), meta.encode()}, func() {
		c.setMeta(m, old)
		if was == nil {
			c.drop(m)
		}
	})
}

// setMeta makes somebody a member, or changes what is known of it.
func (c *consumer) setMeta(m *consumerMember, meta *memberMeta) {
	if i := m.meta.instance; i != nil && c.static[*i] == m {
		delete(c.static, *i)
	}
	m.meta, m.known = meta, true
	if c.members[m.id] == nil {
		c.s.crowd++
	}
	c.members[m.id] = m
	if meta.instance != nil {
		c.static[*meta.instance] = m
	}
}

// drop ends a membership.
func (c *consumer) drop(m *consumerMember) {
	c.stopAlarms(m)
	delete(c.members, m.id)
	if i := m.meta.instance; i != nil && c.static[*i] == m {
		delete(c.static, *i)
	}
}

// eraseMember writes what ends a membership: how far it had come, its target,
// and last itself, for a reader must not find the first two without it.
func (c *consumer) eraseMember(m *consumerMember) {
	c.eraseCurrent(m)
	c.eraseTarget(m.id)
	c.eraseMeta(m)
}

func (c *consumer) eraseMeta(m *consumerMember) {
	c.drop(m)
	c.s.change(Record{Key: coordinatorKey(keyConsumerMember, c.g.id, m.id)}, func() {
		c.setMeta(m, m.meta)
		c.restart(m)
	})
}

func (c *consumer) writeCurrent(m *consumerMember, now *currentAssignment) {
	old := m.current
	c.setCurrent(m, now)
	c.s.change(Record{coordinatorKey(keyConsumerCurrent, c.g.id, m.id), now.encode()}, func() { c.setCurrent(m, old) })
}

func (c *consumer) eraseCurrent(m *consumerMember) {
	old := m.current
	c.setCurrent(m, &currentAssignment{})
	c.s.change(Record{Key: coordinatorKey(keyConsumerCurrent, c.g.id, m.id)}, func() { c.setCurrent(m, old) })
}

// setCurrent moves a member, and with it who owns what.
func (c *consumer) setCurrent(m *consumerMember, now *currentAssignment) {
	old := m.current
	m.current = now
	for _, p := range []partitionSet{old.assigned, old.revoking} {
		for id, list := range p {
			of := c.owners[id]
			for _, n := range list {
				if int(n) < len(of) && of[n] == m {
					of[n] = nil
				}
			}
		}
	}
	for _, p := range []partitionSet{now.assigned, now.revoking} {
		for id, list := range p {
			of := c.owners[id]
			if need := int(list[len(list)-1]) + 1 - len(of); need > 0 {
				of = append(of, make([]*consumerMember, need)...)
				c.owners[id] = of
			}
			for _, n := range list {
				of[n] = m
			}
		}
	}
	if c.s.phase != running {
		return
	}
	if now.state != memberUnrevoked || old.state != memberUnrevoked || !now.revoking.equal(old.revoking) {
		c.armPatience(m)
	}
}

// armPatience starts the time in which a member has to give partitions up, or
// ends it.
func (c *consumer) armPatience(m *consumerMember) {
	if m.current.state == memberUnrevoked {
		m.revoking = c.s.now
		c.s.alarms.set(&m.patience, c.s.now.Add(m.meta.rebalance))
		return
	}
	c.s.alarms.stop(&m.patience)
}

// ownedByOther says whether a partition is not free for a member.
func (c *consumer) ownedByOther(m *consumerMember, id TopicID, n int32) bool {
	of := c.owners[id]
	return int(n) < len(of) && of[n] != nil && of[n] != m
}

func (c *consumer) writeTarget(id string, p partitionSet) {
	old, had := c.targets[id]
	c.targets[id] = p
	c.s.change(Record{coordinatorKey(keyConsumerTarget, c.g.id, id), encodeTarget(p)}, func() { restore(c.targets, id, old, had) })
}

func (c *consumer) eraseTarget(id string) {
	old, had := c.targets[id]
	delete(c.targets, id)
	c.s.change(Record{Key: coordinatorKey(keyConsumerTarget, c.g.id, id)}, func() { restore(c.targets, id, old, had) })
}

func (c *consumer) writeTargetEpoch(epoch int32) {
	old := c.targetEpoch
	c.targetEpoch = epoch
	c.s.change(Record{coordinatorKey(keyConsumerEpoch, c.g.id), encodeTargetEpoch(epoch)}, func() { c.targetEpoch = old })
}

// writeEpoch writes a new epoch. When that fails the topics are looked at again.
func (c *consumer) writeEpoch(epoch int32, hash int64) {
	wasEpoch, wasHash := c.epoch, c.hash
	c.epoch, c.hash = epoch, hash
	v := groupEpochRecord{epoch, hash}
	c.s.change(Record{coordinatorKey(keyConsumerGroup, c.g.id), v.encode()}, func() { c.epoch, c.hash, c.seen = wasEpoch, wasHash, -1 })
}

func (c *consumer) writeRegex(regex string, v *resolved) {
	old, had := c.regexes[regex]
	c.regexes[regex] = v
	c.s.change(Record{coordinatorKey(keyConsumerRegex, c.g.id, regex), v.encode()}, func() { c.putRegex(regex, old, had) })
}

func (c *consumer) eraseRegex(regex string) {
	old, had := c.regexes[regex]
	delete(c.regexes, regex)
	c.s.change(Record{Key: coordinatorKey(keyConsumerRegex, c.g.id, regex)}, func() { c.putRegex(regex, old, had) })
}

func (c *consumer) putRegex(regex string, v *resolved, had bool) {
	c.regexSeen = -1
	if had {
		c.regexes[regex] = v
		return
	}
	delete(c.regexes, regex)
}

// tombstones are the records that end the group, in the order in which a
// reader needs them: members before the group, and of members first how far
// they had come. Type 4 is of versions before 4.1, and costs nothing.
func (c *consumer) tombstones() []Record {
	var records []Record
	ids := slices.Sorted(maps.Keys(c.members))
	for _, kind := range []int16{keyConsumerCurrent, keyConsumerTarget} {
		for _, id := range ids {
			records = append(records, Record{Key: coordinatorKey(kind, c.g.id, id)})
		}
	}
	records = append(records, Record{Key: coordinatorKey(keyConsumerEpoch, c.g.id)})
	for _, id := range ids {
		records = append(records, Record{Key: coordinatorKey(keyConsumerMember, c.g.id, id)})
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		records = append(records, Record{Key: coordinatorKey(keyConsumerRegex, c.g.id, regex)})
	}
	return append(records,
		Record{Key: coordinatorKey(keyConsumerTopics, c.g.id)},
		Record{Key: coordinatorKey(keyConsumerGroup, c.g.id)})
}
