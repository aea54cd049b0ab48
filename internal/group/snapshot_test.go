package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// snapshot is everything of a shard that must survive.
func snapshot(s *Shard) string {
	var b strings.Builder
	for _, g := range s.sorted() {
		switch c := g.members.(type) {
		case *classic:
			fmt.Fprintf(&b, "group %s: %s, type %q, generation %d, protocol %q, leader %q\n", g.id, c.phase, c.protocolType, c.generation, c.protocol, c.leader)
			for _, m := range c.order {
				fmt.Fprintf(&b, "  member %s %q %s %s %s %x %q\n", m.id, text(m.instance), m.clientID, m.session, m.rebalance, m.metadata(c.protocol), m.assignment)
			}
		case *consumer:
			c.snapshot(&b)
		case *streams:
			c.snapshot(&b)
		}
		for _, tp := range g.offsets.all() {
			o, ok := g.offsets.get(tp)
			fmt.Fprintf(&b, "  offset %s-%d: %v %d\n", tp.topic, tp.index, ok, o.at)
		}
	}
	return b.String()
}

func (c *consumer) snapshot(b *strings.Builder) {
	fmt.Fprintf(b, "group %s: %s, epoch %d, hash %x, target epoch %d\n", c.g.id, c.state(), c.epoch, c.hash, c.targetEpoch)
	for _, m := range c.sorted() {
		fmt.Fprintf(b, "  member %s %q %q %s%s %v %q %s %q\n", m.id, text(m.meta.instance), text(m.meta.rack), m.meta.clientID, m.meta.host, m.meta.topics, m.meta.regex, m.meta.rebalance, text(m.meta.assignor))
		if k := m.meta.classic; k != nil {
			fmt.Fprintf(b, "    classic %s %q\n", k.session, k.offers)
		}
		fmt.Fprintf(b, "    at %d after %d, %d, has %s, gives up %s\n", m.current.epoch, m.current.previous, m.current.state, m.current.assigned, m.current.revoking)
	}
	for _, id := range slices.Sorted(maps.Keys(c.targets)) {
		fmt.Fprintf(b, "  target of %s: %s\n", id, c.targets[id])
	}
	for _, r := range slices.Sorted(maps.Keys(c.regexes)) {
		fmt.Fprintf(b, "  expression %q: %v\n", r, c.regexes[r].topics)
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.owners), func(a, b TopicID) int { return slices.Compare(a[:], b[:]) }) {
		for n, m := range c.owners[id] {
			if m != nil {
				fmt.Fprintf(b, "  %x-%d is with %s\n", id[:2], n, m.id)
			}
		}
	}
}

// String shows a set with short ids.
func (p partitionSet) String() string {
	var b strings.Builder
	for _, id := range p.sortedTopics() {
		fmt.Fprintf(&b, "%x:%v ", id[:2], p[id])
	}
	return "{" + strings.TrimSpace(b.String()) + "}"
}

// recordsOf are the records that make a group again.
func recordsOf(g *group) []Record {
	switch c := g.members.(type) {
	case *classic:
		return []Record{c.record(nil)}
	case *streams:
		return c.records()
	case *consumer:
		var records []Record
		put := func(kind int16, name string, value []byte) {
			names := []string{g.id}
			if kind != keyConsumerGroup && kind != keyConsumerEpoch {
				names = append(names, name)
			}
			records = append(records, Record{coordinatorKey(kind, names...), value})
		}
		for _, m := range c.sorted() {
			put(keyConsumerMember, m.id, m.meta.encode())
		}
		put(keyConsumerGroup, "", groupEpochRecord{c.epoch, c.hash}.encode())
		for _, id := range slices.Sorted(maps.Keys(c.targets)) {
			put(keyConsumerTarget, id, encodeTarget(c.targets[id]))
		}
		put(keyConsumerEpoch, "", encodeTargetEpoch(c.targetEpoch))
		for _, m := range c.sorted() {
			put(keyConsumerCurrent, m.id, m.current.encode())
		}
		for _, r := range slices.Sorted(maps.Keys(c.regexes)) {
			put(keyConsumerRegex, r, c.regexes[r].encode())
		}
		return records
	}
	return nil
}

// image makes topics for tests: name and number of partitions in turns. The
// first byte of an id is the first letter of the name.
func image(version int64, topics ...any) *Image {
	var list []Topic
	for i := 0; i < len(topics); i += 2 {
		t := Topic{Name: topics[i].(string), Partitions: int32(topics[i+1].(int))}
		copy(t.ID[:], t.Name)
		list = append(list, t)
	}
	return NewImage(version, list)
}
