package group

import "fmt"

// leaveKind replays the end of a group's membership: of one that is deleted,
// which has no offsets any more, or of one that becomes another kind.
func (s *Shard) leaveKind(g *group) {
	g.members = newClassic(s, g)
	if g.offsets.none() {
		s.remove(g)
	}
}

// applyConsumer replays a record of a consumer group.
func (s *Shard) applyConsumer(kind int16, r Record) error {
	var id, name string
	names := []*string{&id}
	if kind == keyConsumerMember || kind == keyConsumerTarget || kind == keyConsumerCurrent || kind == keyConsumerRegex {
		names = append(names, &name)
	}
	if err := readKey(r.Key, names...); err != nil {
		return fmt.Errorf("key of type %d: %w", kind, err)
	}
	c, ok := consumerOf(s.groups[id])
	if kind == keyConsumerTopics || r.Value == nil && !ok {
		return nil
	}
	if !ok {
		g := s.groups[id]
		if g == nil {
			g = s.make(id)
		}
		c = newConsumer(s, g)
		g.members = c
	}
	if r.Value == nil {
		c.forget(kind, name)
		return nil
	}
	if err := c.learn(kind, name, r.Value); err != nil {
		return fmt.Errorf("record of type %d of group %q, %q: %w", kind, id, name, err)
	}
	return nil
}

// learn replays a value.
func (c *consumer) learn(kind int16, name string, value []byte) error {
	switch kind {
	case keyConsumerGroup:
		v, err := decodeGroupEpoch(value)
		if err != nil {
			return err
		}
		c.epoch, c.hash = v.epoch, v.hash
	case keyConsumerEpoch:
		epoch, err := decodeTargetEpoch(value)
		if err != nil {
			return err
		}
		c.targetEpoch = epoch
	case keyConsumerTarget:
		p, err := decodeTarget(value)
		if err != nil {
			return err
		}
		c.targets[name] = p
	case keyConsumerRegex:
		v, err := decodeResolved(value)
		if err != nil {
			return err
		}
		c.regexes[name] = v
	case keyConsumerMember:
		meta, err := decodeMemberMeta(value)
		if err != nil {
			return err
		}
		c.setMeta(c.member(name), meta)
	case keyConsumerCurrent:
		// After a compaction it may stand before the newest word on its member.
		now, err := decodeCurrent(value)
		if err != nil {
			return err
		}
		m := c.member(name)
		c.members[name] = m
		c.setCurrent(m, now)
	}
	return nil
}

// forget replays a tombstone.
func (c *consumer) forget(kind int16, name string) {
	switch kind {
	case keyConsumerGroup:
		c.s.leaveKind(c.g)
	case keyConsumerEpoch:
		c.targetEpoch = 0
	case keyConsumerTarget:
		delete(c.targets, name)
	case keyConsumerRegex:
		delete(c.regexes, name)
	case keyConsumerMember:
		if m := c.members[name]; m != nil {
			c.setCurrent(m, &currentAssignment{})
			c.drop(m)
		}
	case keyConsumerCurrent:
		if m := c.members[name]; m != nil {
			c.setCurrent(m, &currentAssignment{})
		}
	}
}
