package group

import (
	"errors"
	"fmt"
	"time"
)

// The types of record that streams groups have (CoordinatorRecordType of Kafka
// 4.2).
const (
	keyStreamsGroup       = 17
	keyStreamsMember      = 19
	keyStreamsTargetEpoch = 20
	keyStreamsTarget      = 21
	keyStreamsCurrent     = 22
	keyStreamsTopology    = 23
)

// standbyConfig is the one assignment config that Kafka 4.2 writes with an
// epoch.
const standbyConfig = "num.standby.replicas"

func (v streamsEpoch) encode() []byte {
	w := newFlexWriter(0)
	w.int32(v.epoch)
	w.int64(v.hash)
	var fields []taggedField
	if v.validated != -1 {
		var f flexWriter
		f.int32(v.validated)
		fields = append(fields, taggedField{0, f.b})
	}
	if v.standbys != "" {
		var f flexWriter
		f.count(1)
		f.pair(config{standbyConfig, v.standbys})
		fields = append(fields, taggedField{1, f.b})
	}
	w.tagged(fields...)
	return w.b
}

func decodeStreamsEpoch(value []byte) (v streamsEpoch, err error) {
	v.validated = -1
	r, err := newFlexReader(value)
	if err != nil {
		return v, err
	}
	v.epoch, v.hash = r.int32(), r.int64()
	r.tags(func(tag uint64, field *flexReader) {
		switch tag {
		case 0:
			v.validated = field.int32()
		case 1:
			for _, c := range field.pairs() {
				if c.key == standbyConfig {
					v.standbys = c.value
				}
			}
		}
	})
	return v, r.end()
}

// taggedField is an optional field at the end of a structure.
type taggedField struct {
	tag   byte
	bytes []byte
}

// tagged ends a structure with tagged fields in the order of their tags.
func (w *flexWriter) tagged(fields ...taggedField) {
	w.b = append(w.b, byte(len(fields)))
	for _, f := range fields {
		w.b = append(w.b, f.tag)
		w.uvarint(uint64(len(f.bytes)))
		w.b = append(w.b, f.bytes...)
	}
}

func (w *flexWriter) uvarint(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		w.b = append(w.b, byte(v)|0x80)
	}
	w.b = append(w.b, byte(v))
}

func (w *flexWriter) int16(v int16) { w.b = append(w.b, byte(uint16(v)>>8), byte(v)) }

func (w *flexWriter) int16s(list []int16) {
	w.count(len(list))
	for _, v := range list {
		w.int16(v)
	}
}

func (w *flexWriter) pair(c config) {
	w.string(c.key)
	w.string(c.value)
	w.noTags()
}

func (w *flexWriter) pairs(list []config) {
	w.count(len(list))
	for _, c := range list {
		w.pair(c)
	}
}

// some is a list of at least one, or nil, so that what was read equals what was
// written from nothing.
func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (r *flexReader) int16s() []int16 {
	n, _ := r.count(2)
	list := make([]int16, n)
	for i := range list {
		list[i] = r.int16()
	}
	return some(list)
}

func (r *flexReader) pairs() []config {
	n, _ := r.count(3)
	list := make([]config, n)
	for i := range list {
		list[i] = config{r.string(), r.string()}
		r.tags(nil)
	}
	return some(list)
}

func (m *streamsMeta) encode() []byte {
	w := newFlexWriter(0)
	w.nullable(m.instance)
	w.nullable(m.rack)
	w.string(m.clientID)
	w.string(m.host)
	w.int32(int32(m.rebalance / time.Millisecond))
	w.int32(m.topologyEpoch)
	w.string(m.process)
	if m.endpoint == nil {
		w.int8(-1) // a structure that is null
	} else {
		w.int8(1)
		w.string(m.endpoint.host)
		w.int16(int16(m.endpoint.port))
		w.noTags()
	}
	w.pairs(m.tags)
	w.noTags()
	return w.b
}

func decodeStreamsMeta(value []byte) (*streamsMeta, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	m := &streamsMeta{instance: r.nullable(), rack: r.nullable(), clientID: r.string(), host: r.string()}
	m.rebalance = time.Duration(r.int32()) * time.Millisecond
	m.topologyEpoch, m.process = r.int32(), r.string()
	if r.int8() >= 0 {
		m.endpoint = &endpoint{r.string(), uint16(r.int16())}
		r.tags(nil)
	}
	m.tags = r.pairs()
	r.tags(nil)
	return m, r.end()
}

// tasks writes a set; the epochs of active tasks, in the order of the
// partitions, stand in a tagged field.
func (w *flexWriter) tasks(set taskSet, since map[taskID]int32) {
	w.count(len(set))
	for _, sub := range set.sortedSubs() {
		w.string(sub)
		w.int32s(set[sub])
		if since == nil {
			w.noTags()
			continue
		}
		epochs := make([]int32, len(set[sub]))
		for i, part := range set[sub] {
			epochs[i] = since[taskID{sub, part}]
		}
		var f flexWriter
		f.int32s(epochs)
		w.tagged(taggedField{0, f.b})
	}
}

// tasks reads a set, and the epochs into since when it is given.
func (r *flexReader) tasks(since map[taskID]int32) taskSet {
	n, _ := r.count(3)
	var ids []taskID
	for range n {
		sub, parts := r.string(), r.int32s()
		var epochs []int32
		r.tags(func(tag uint64, field *flexReader) {
			if tag == 0 {
				epochs = field.int32s()
			}
		})
		for i, part := range parts {
			if part < 0 || part > maxPartitionIndex {
				r.err = errors.New("a task number is out of range")
				return nil
			}
			id := taskID{sub, part}
			ids = append(ids, id)
			if since != nil {
				since[id] = 0
				if i < len(epochs) {
					since[id] = epochs[i]
				}
			}
		}
	}
	return makeTaskSet(ids)
}

func encodeStreamsTarget(t roleTasks) []byte {
	w := newFlexWriter(0)
	for _, set := range t.roles() {
		w.tasks(set, nil)
	}
	w.noTags()
	return w.b
}

func decodeStreamsTarget(value []byte) (t roleTasks, err error) {
	r, err := newFlexReader(value)
	if err != nil {
		return t, err
	}
	t = roleTasks{r.tasks(nil), r.tasks(nil), r.tasks(nil)}
	r.tags(nil)
	return t, r.end()
}

// The states of a member as streams groups write them (streams/MemberState.java
// of Kafka 4.2), which are not those of consumer groups.
func (c *streamsCurrent) writtenState() int8 {
	switch c.state {
	case memberStable:
		return 1
	case memberUnrevoked:
		return 2
	case memberUnreleased:
		return 3
	}
	return 127
}

func stateWritten(v int8) memberState {
	switch v {
	case 1:
		return memberStable
	case 2:
		return memberUnrevoked
	case 3:
		return memberUnreleased
	}
	return memberUnknown
}

func (c *streamsCurrent) encode() []byte {
	w := newFlexWriter(0)
	w.int32(c.epoch)
	w.int32(c.previous)
	w.int8(c.writtenState())
	for _, held := range []heldTasks{c.assigned, c.revoking} {
		since := held.since
		if since == nil {
			since = map[taskID]int32{}
		}
		w.tasks(held.active, since)
		w.tasks(held.standby, nil)
		w.tasks(held.warmup, nil)
	}
	w.noTags()
	return w.b
}

func decodeStreamsCurrent(value []byte) (*streamsCurrent, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	c := &streamsCurrent{epoch: r.int32(), previous: r.int32(), state: stateWritten(r.int8())}
	for _, held := range []*heldTasks{&c.assigned, &c.revoking} {
		held.since = map[taskID]int32{}
		held.roleTasks = roleTasks{r.tasks(held.since), r.tasks(nil), r.tasks(nil)}
	}
	r.tags(nil)
	return c, r.end()
}

func (w *flexWriter) internalTopics(list []internalTopic) {
	w.count(len(list))
	for _, topic := range list {
		w.string(topic.name)
		w.int32(topic.partitions)
		w.int16(topic.replication)
		w.pairs(topic.configs)
		w.noTags()
	}
}

func (r *flexReader) internalTopics() []internalTopic {
	n, _ := r.count(9)
	list := make([]internalTopic, n)
	for i := range list {
		list[i] = internalTopic{name: r.string(), partitions: r.int32(), replication: r.int16(), configs: r.pairs()}
		r.tags(nil)
	}
	return some(list)
}

func (t *topology) encode() []byte {
	w := newFlexWriter(0)
	w.int32(t.epoch)
	w.count(len(t.subs))
	for i := range t.subs {
		sub := &t.subs[i]
		w.string(sub.id)
		w.strings(sub.sources)
		w.strings(sub.sourceRegex)
		w.internalTopics(sub.changelogs)
		w.strings(sub.sinks)
		w.internalTopics(sub.repartitionSources)
		w.count(len(sub.copartitioned))
		for _, c := range sub.copartitioned {
			w.int16s(c.sources)
			w.int16s(c.sourceRegex)
			w.int16s(c.repartitionSources)
			w.noTags()
		}
		w.noTags()
	}
	w.noTags()
	return w.b
}

func decodeTopology(value []byte) (*topology, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	t := &topology{epoch: r.int32()}
	n, _ := r.count(8)
	for range n {
		sub := subtopology{id: r.string(), sources: some(r.strings()), sourceRegex: some(r.strings())}
		sub.changelogs, sub.sinks, sub.repartitionSources = r.internalTopics(), some(r.strings()), r.internalTopics()
		groups, _ := r.count(4)
		for range groups {
			sub.copartitioned = append(sub.copartitioned, copartition{r.int16s(), r.int16s(), r.int16s()})
			r.tags(nil)
		}
		r.tags(nil)
		if r.err != nil {
			break
		}
		t.subs = append(t.subs, sub)
	}
	t.sort()
	if r.err == nil && t.repeats() {
		return nil, errors.New("a subtopology is there twice")
	}
	r.tags(nil)
	return t, r.end()
}

// applyStreams replays a record of a streams group.
func (s *Shard) applyStreams(kind uint16, r Record) error {
	var id, member string
	names := []*string{&id}
	if kind == keyStreamsMember || kind == keyStreamsTarget || kind == keyStreamsCurrent {
		names = append(names, &member)
	}
	if err := readKey(r.Key, names...); err != nil {
		return fmt.Errorf("key of a streams group: %w", err)
	}
	if r.Value == nil {
		s.dropStreams(kind, id, member)
		return nil
	}
	t := s.streamsAt(id)
	if err := t.apply(kind, member, r.Value); err != nil {
		return fmt.Errorf("streams group %q, record type %d: %w", id, kind, err)
	}
	return nil
}

// streamsAt is the membership that replayed records go to. What was there
// before of another kind has had its tombstones, or never had a member.
func (s *Shard) streamsAt(id string) *streams {
	g := s.groups[id]
	if g == nil {
		g = s.make(id)
	}
	t, ok := g.members.(*streams)
	if !ok {
		t = newStreams(s, g)
		g.members = t
	}
	return t
}

func (t *streams) apply(kind uint16, member string, value []byte) (err error) {
	switch kind {
	case keyStreamsGroup:
		var v streamsEpoch
		if v, err = decodeStreamsEpoch(value); err == nil {
			t.setEpoch(v)
		}
	case keyStreamsTargetEpoch:
		t.targetEpoch, err = decodeTargetEpoch(value)
	case keyStreamsTopology:
		t.topology, err = decodeTopology(value)
	case keyStreamsTarget:
		t.targets[member], err = decodeStreamsTarget(value)
	case keyStreamsMember:
		var meta *streamsMeta
		if meta, err = decodeStreamsMeta(value); err == nil {
			t.setMeta(t.member(member), meta)
		}
	case keyStreamsCurrent:
		// After a compaction it may stand before the newest word on its member.
		var now *streamsCurrent
		if now, err = decodeStreamsCurrent(value); err == nil {
			m := t.member(member)
			t.members[member] = m
			t.setCurrent(m, now)
		}
	}
	return err
}

// dropStreams replays a tombstone. One for a group that is of another kind now
// is from before, and concerns nobody.
func (s *Shard) dropStreams(kind uint16, id, member string) {
	t, ok := streamsOf(s.groups[id])
	if !ok {
		return
	}
	switch kind {
	case keyStreamsGroup:
		s.leaveKind(t.g)
	case keyStreamsTargetEpoch:
		t.targetEpoch = 0
	case keyStreamsTopology:
		t.topology = nil
	case keyStreamsTarget:
		delete(t.targets, member)
	case keyStreamsMember, keyStreamsCurrent:
		if m := t.members[member]; m != nil {
			_, blank := blankStreams()
			if t.setCurrent(m, blank); kind == keyStreamsMember {
				t.drop(m)
			}
		}
	}
}
