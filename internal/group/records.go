package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The types of record that this version reads and writes (CoordinatorRecordType
// of Kafka 4.2: the first two bytes of a key).
const (
	keyOffset0 = 0 // offset commits in Kafka's oldest form, read only
	keyOffset  = 1
	keyClassic = 2
)

// offsetKey is the key of a committed offset.
func offsetKey(group string, tp partition) []byte {
	k := kmsg.OffsetCommitKey{Version: keyOffset, Group: group, Topic: tp.topic, Partition: tp.index}
	return k.AppendTo(make([]byte, 0, 10+len(group)+len(tp.topic)))
}

// offsetRecord writes a committed offset as Kafka 4.2 does: version 1 when it
// has a retention of its own, else version 4, which has the topic's id when the
// commit had it and not its name.
func offsetRecord(group string, tp partition, o offset) Record {
	v := kmsg.OffsetCommitValue{
		Version: 4, Offset: o.at, LeaderEpoch: o.epoch, Metadata: o.metadata,
		CommitTimestamp: o.committedMs,
	}
	if !o.named {
		v.TopicID = o.topicID
	}
	if o.expiresMs >= 0 {
		v.Version, v.ExpireTimestamp = 1, o.expiresMs
	}
	return Record{Key: offsetKey(group, tp), Value: v.AppendTo(make([]byte, 0, 48+len(o.metadata)))}
}

// classicKey is the key of a classic group's record.
func classicKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyClassic, Group: group}
	return k.AppendTo(nil)
}

// Apply replays one record of the log, in the log's order, before Loaded. A
// type of record that this version does not know is skipped and counted, a
// known type that cannot be read is an error: going on without it would forget
// what a client was promised.
func (s *Shard) Apply(r Record) error { return s.apply(r, nil) }

// ApplyTxn replays one record of a transactional batch: a committed offset
// that waits for its producer's marker.
func (s *Shard) ApplyTxn(producer int64, r Record) error { return s.apply(r, &producer) }

// ApplyMarker replays the marker that ends a producer's transaction.
func (s *Shard) ApplyMarker(producer int64, commit bool) { s.endTxn(producer, commit) }

func (s *Shard) apply(r Record, producer *int64) error {
	s.position++
	if len(r.Key) < 2 {
		return fmt.Errorf("replay record %d of __consumer_offsets: key %x is too short to have a type", s.position, r.Key)
	}
	var err error
	switch kind := binary.BigEndian.Uint16(r.Key); kind {
	case keyOffset0, keyOffset:
		err = s.applyOffset(r, producer)
	case keyClassic:
		err = s.applyClassic(r)
	case keyConsumerGroup, keyConsumerTopics, keyConsumerMember, keyConsumerEpoch, keyConsumerTarget, keyConsumerCurrent, keyConsumerRegex:
		err = s.applyConsumer(int16(kind), r)
	case keyStreamsGroup, keyStreamsMember, keyStreamsTargetEpoch, keyStreamsTarget, keyStreamsCurrent, keyStreamsTopology:
		err = s.applyStreams(kind, r)
	default:
		s.skipped++
	}
	if err != nil {
		return fmt.Errorf("replay record %d of __consumer_offsets: %w", s.position, err)
	}
	return nil
}

func (s *Shard) applyOffset(r Record, producer *int64) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("key of an offset commit: %w", err)
	}
	tp := partition{k.Topic, k.Partition}
	if r.Value == nil {
		if g := s.groups[k.Group]; g != nil {
			s.dropOffset(g, tp)
		}
		return nil
	}
	var v kmsg.OffsetCommitValue
	if err := readValue(&v, r.Value); err != nil {
		return fmt.Errorf("offset of group %q for %s-%d: %w", k.Group, tp.topic, tp.index, err)
	}
	o := offset{
		at: v.Offset, epoch: -1, metadata: v.Metadata, committedMs: v.CommitTimestamp,
		expiresMs: -1, topicID: v.TopicID, named: v.TopicID == [16]byte{}, position: s.position,
	}
	if v.Version >= 3 {
		o.epoch = v.LeaderEpoch
	}
	if v.Version == 1 && v.ExpireTimestamp >= 0 {
		o.expiresMs = v.ExpireTimestamp
	}
	g := s.groups[k.Group]
	if g == nil {
		g = s.make(k.Group)
	}
	if producer != nil {
		s.pend(g, *producer, tp, o)
		return nil
	}
	g.offsets.put(tp, o)
	return nil
}

// readValue reads the value of a record, whose first two bytes are its version:
// of both kinds that this shard knows, 0 to 4.
func readValue(v interface{ ReadFrom([]byte) error }, value []byte) error {
	if len(value) >= 2 {
		if version := int16(binary.BigEndian.Uint16(value)); version < 0 || version > 4 {
			return fmt.Errorf("value version %d is not one of 0 to 4: the log was written by a newer version, use that one", version)
		}
	}
	return v.ReadFrom(value)
}

func (s *Shard) applyClassic(r Record) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("key of a group: %w", err)
	}
	g := s.groups[k.Group]
	if r.Value == nil {
		if _, ok := membershipOf(g); ok {
			s.leaveKind(g)
		}
		return nil
	}
	var v kmsg.GroupMetadataValue
	if err := readValue(&v, r.Value); err != nil {
		return fmt.Errorf("group %q: %w", k.Group, err)
	}
	if g == nil {
		g = s.make(k.Group)
	}
	g.members = restoreClassic(s, g, &v)
	return nil
}

// record writes the group as Kafka 4.2 does (GroupMetadataValue version 3).
// The assignments are the members' own unless given.
func (c *classic) record(assignments map[string][]byte) Record {
	v := kmsg.GroupMetadataValue{
		Version: 3, ProtocolType: c.protocolType, Generation: c.generation,
		Protocol: optional(c.protocol), Leader: optional(c.leader), CurrentStateTimestamp: c.sinceMs,
	}
	for _, m := range c.order {
		w := kmsg.NewGroupMetadataValueMember()
		w.MemberID, w.InstanceID, w.ClientID, w.ClientHost = m.id, m.instance, m.clientID, m.host
		w.RebalanceTimeoutMillis = int32(m.rebalance / time.Millisecond)
		w.SessionTimeoutMillis = int32(m.session / time.Millisecond)
		w.Subscription = m.metadata(c.protocol)
		w.Assignment = m.assignment
		if assignments != nil {
			w.Assignment = assignments[m.id]
		}
		v.Members = append(v.Members, w)
	}
	return Record{Key: classicKey(c.g.id), Value: v.AppendTo(nil)}
}

func restoreClassic(s *Shard, g *group, v *kmsg.GroupMetadataValue) *classic {
	c := newClassic(s, g)
	c.protocolType, c.generation = v.ProtocolType, v.Generation
	c.protocol, c.leader = text(v.Protocol), text(v.Leader)
	c.phase, c.sinceMs = empty, -1
	if v.Version >= 2 {
		c.sinceMs = v.CurrentStateTimestamp
	}
	for i := range v.Members {
		w := &v.Members[i]
		m := &member{
			id: w.MemberID, instance: w.InstanceID, clientID: w.ClientID, host: w.ClientHost,
			session:    time.Duration(w.SessionTimeoutMillis) * time.Millisecond,
			rebalance:  time.Duration(w.RebalanceTimeoutMillis) * time.Millisecond,
			offers:     []offer{{c.protocol, bytes.Clone(w.Subscription)}},
			assignment: bytes.Clone(w.Assignment),
			synced:     true,
		}
		if v.Version == 0 || w.RebalanceTimeoutMillis < 0 {
			m.rebalance = m.session
		}
		if c.members[m.id] == nil {
			c.enrol(m)
		}
		c.phase = stable
	}
	return c
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
