package group

import (
	"fmt"
	"slices"
	"time"
)

// The types of record that consumer groups have (CoordinatorRecordType of
// Kafka 4.2).
const (
	keyConsumerGroup   = 3
	keyConsumerTopics  = 4 // not written since Kafka 4.1 but as a tombstone
	keyConsumerMember  = 5
	keyConsumerEpoch   = 6
	keyConsumerTarget  = 7
	keyConsumerCurrent = 8
	keyConsumerRegex   = 16
)

// memberMeta is what a member has said about itself. It is replaced as a whole
// and never changed.
type memberMeta struct {
	instance, rack *string
	clientID, host string
	topics         []string // sorted
	regex          string   // "": none
	rebalance      time.Duration
	assignor       *string
	classic        *classicMeta // of a member that uses the classic protocol
}

// classicMeta is what a consumer group keeps of a member's JoinGroup.
type classicMeta struct {
	session time.Duration
	offers  []offer
}

// memberState is how far a member has come towards its target
// (MemberState.java of Kafka 4.2).
type memberState int8

const (
	memberStable     memberState = 0
	memberUnrevoked  memberState = 1   // has to give partitions up first
	memberUnreleased memberState = 2   // waits for partitions that others still have
	memberUnknown    memberState = 127 // written by a newer version
)

// currentAssignment is what a member has. It is replaced as a whole and never
// changed.
type currentAssignment struct {
	epoch, previous int32
	state           memberState
	assigned        partitionSet
	revoking        partitionSet
}

// resolved is an expression with the topics that it matched.
type resolved struct {
	topics  []string // sorted
	version int64    // of the image
	atMs    int64
}

// groupEpochRecord is the group's epoch with the hash of the topics that it was
// made for.
type groupEpochRecord struct {
	epoch int32
	hash  int64
}

func (v groupEpochRecord) encode() []byte {
	w := newFlexWriter(0)
	w.int32(v.epoch)
	if v.hash == 0 {
		w.noTags()
		return w.b
	}
	var hash flexWriter
	hash.int64(v.hash)
	w.tag(hash.b)
	return w.b
}

func decodeGroupEpoch(value []byte) (v groupEpochRecord, err error) {
	r, err := newFlexReader(value)
	if err != nil {
		return v, err
	}
	v.epoch = r.int32()
	r.tags(func(tag uint64, field *flexReader) {
		if tag == 0 {
			v.hash = field.int64()
		}
	})
	return v, r.end()
}

// newFlexReader begins to read a value of version 0, the only one there is.
func newFlexReader(value []byte) (*flexReader, error) {
	r := &flexReader{b: value}
	if version := r.int16(); r.err == nil && version != 0 {
		return nil, fmt.Errorf("value version %d is not 0: the log was written by a newer version, use that one", version)
	}
	return r, r.err
}

func (m *memberMeta) encode() []byte {
	w := newFlexWriter(0)
	w.nullable(m.instance)
	w.nullable(m.rack)
	w.string(m.clientID)
	w.string(m.host)
	w.strings(m.topics)
	w.string(m.regex)
	w.int32(int32(m.rebalance / time.Millisecond))
	w.nullable(m.assignor)
	var c flexWriter
	if m.classic == nil {
		c.int8(0) // Kafka writes that there is none
		w.tag(c.b)
		return w.b
	}
	c.int8(1)
	c.int32(int32(m.classic.session / time.Millisecond))
	c.count(len(m.classic.offers))
	for _, o := range m.classic.offers {
		c.string(o.name)
		c.bytes(o.metadata)
		c.noTags()
	}
	c.noTags()
	w.tag(c.b)
	return w.b
}

func decodeMemberMeta(value []byte) (*memberMeta, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	m := &memberMeta{instance: r.nullable(), rack: r.nullable(), clientID: r.string(), host: r.string(), topics: r.strings()}
	slices.Sort(m.topics)
	m.regex = text(r.nullable())
	m.rebalance = time.Duration(r.int32()) * time.Millisecond
	m.assignor = r.nullable()
	r.tags(func(tag uint64, field *flexReader) {
		if tag == 0 && field.int8() == 1 {
			m.classic = decodeClassicMeta(field)
		}
	})
	return m, r.end()
}

func decodeClassicMeta(r *flexReader) *classicMeta {
	c := &classicMeta{session: time.Duration(r.int32()) * time.Millisecond}
	n, _ := r.count(3)
	for range n {
		c.offers = append(c.offers, offer{r.string(), r.bytes()})
		r.tags(nil)
	}
	r.tags(nil)
	return c
}

func encodeTargetEpoch(epoch int32) []byte {
	w := newFlexWriter(0)
	w.int32(epoch)
	w.noTags()
	return w.b
}

func decodeTargetEpoch(value []byte) (int32, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return 0, err
	}
	epoch := r.int32()
	r.tags(nil)
	return epoch, r.end()
}

func encodeTarget(p partitionSet) []byte {
	w := newFlexWriter(0)
	w.partitions(p)
	w.noTags()
	return w.b
}

func decodeTarget(value []byte) (partitionSet, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	p := r.partitions()
	r.tags(nil)
	return p, r.end()
}

func (a *currentAssignment) encode() []byte {
	w := newFlexWriter(0)
	w.int32(a.epoch)
	w.int32(a.previous)
	w.int8(int8(a.state))
	w.partitions(a.assigned)
	w.partitions(a.revoking)
	w.noTags()
	return w.b
}

func decodeCurrent(value []byte) (*currentAssignment, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	a := &currentAssignment{epoch: r.int32(), previous: r.int32(), state: memberState(r.int8())}
	if a.state != memberStable && a.state != memberUnrevoked && a.state != memberUnreleased {
		a.state = memberUnknown
	}
	a.assigned, a.revoking = r.partitions(), r.partitions()
	r.tags(nil)
	return a, r.end()
}

func (v *resolved) encode() []byte {
	w := newFlexWriter(0)
	w.strings(v.topics)
	w.int64(v.version)
	w.int64(v.atMs)
	w.noTags()
	return w.b
}

func decodeResolved(value []byte) (*resolved, error) {
	r, err := newFlexReader(value)
	if err != nil {
		return nil, err
	}
	v := &resolved{topics: r.strings(), version: r.int64(), atMs: r.int64()}
	slices.Sort(v.topics)
	r.tags(nil)
	return v, r.end()
}
