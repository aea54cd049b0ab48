package group

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// TopicID is a topic's id, which a topic keeps for its life: one that is
// deleted and created again under the same name has another.
type TopicID [16]byte

// Topic is what group coordination knows of a topic.
type Topic struct {
	Name       string
	ID         TopicID
	Partitions int32
	Racks      []string // where its replicas are, sorted; nil: unknown
}

// Image is the topics of the cluster at one moment. It never changes, so that
// all shards share one.
type Image struct {
	version int64
	byName  map[string]*Topic
	byID    map[TopicID]*Topic
}

// NewImage makes an image. A later state of the cluster has a higher version.
func NewImage(version int64, topics []Topic) *Image {
	im := &Image{
		version: version,
		byName:  make(map[string]*Topic, len(topics)),
		byID:    make(map[TopicID]*Topic, len(topics)),
	}
	for i := range topics {
		t := &topics[i]
		im.byName[t.Name], im.byID[t.ID] = t, t
	}
	return im
}

// Metadata brings a newer state of the cluster: its topics, and the configs of
// groups by group id (resource type GROUP). Without any a shard knows of none:
// its shell sends the first before Loaded. The shard keeps both and changes
// neither.
type Metadata struct {
	Topics *Image
	Groups map[string]map[string]string
}

func (Metadata) input() {}

// metadata replaces what the shard knows of the cluster by something newer.
// Groups notice at their next heartbeat; expressions are resolved again by
// themselves.
func (s *Shard) metadata(in Metadata) {
	if s.phase == unloaded || in.Topics.version < s.topics.version {
		return
	}
	s.topics, s.configs = in.Topics, in.Groups
	if s.phase != running {
		return
	}
	for _, g := range s.sorted() {
		if m, ok := g.members.(topicWatcher); ok {
			m.topicsChanged()
		}
	}
}

// groupDuration is a config of one group, in milliseconds, or what the broker
// has for all.
func (s *Shard) groupDuration(group, config string, otherwise time.Duration) time.Duration {
	ms, err := strconv.ParseInt(s.configs[group][config], 10, 64)
	if err != nil || ms <= 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

// topicWatcher is a membership that acts on new topics without being asked.
type topicWatcher interface{ topicsChanged() }

// name is the name of a topic, "" when it is gone.
func (im *Image) name(id TopicID) string {
	if t := im.byID[id]; t != nil {
		return t.Name
	}
	return ""
}

// hash tells two states of some topics apart: their ids, names, numbers of
// partitions and racks. Topics that do not exist have no part in it, and none
// at all is 0. Kafka computes its MetadataHash with XXH3; nobody compares the
// two, a group that changes hands between the brokers only gets a new epoch.
func (im *Image) hash(sortedNames []string) int64 {
	h := fnv.New64a()
	found := false
	var b []byte
	for _, name := range sortedNames {
		t := im.byName[name]
		if t == nil {
			continue
		}
		found = true
		b = append(b[:0], t.ID[:]...)
		b = appendCounted(b, t.Name)
		b = binary.BigEndian.AppendUint32(b, uint32(t.Partitions))
		for _, rack := range t.Racks {
			b = appendCounted(b, rack)
		}
		h.Write(b)
	}
	if !found {
		return 0
	}
	if sum := int64(h.Sum64()); sum != 0 {
		return sum
	}
	return 1
}

func appendCounted(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// partitionSet is partitions by topic: each list sorted, none empty. It is
// never changed in place, so that records, targets and answers may share it.
type partitionSet map[TopicID][]int32

// sortedTopics lists the topics of a set in the order in which it is written.
func (p partitionSet) sortedTopics() []TopicID {
	ids := make([]TopicID, 0, len(p))
	for id := range p {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b TopicID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

func (p partitionSet) equal(q partitionSet) bool {
	if len(p) != len(q) {
		return false
	}
	for id, list := range p {
		if !slices.Equal(list, q[id]) {
			return false
		}
	}
	return true
}

func (p partitionSet) has(id TopicID, partition int32) bool {
	_, found := slices.BinarySearch(p[id], partition)
	return found
}

// meets says whether two sets have a partition in common.
func (p partitionSet) meets(q partitionSet) bool {
	for id, list := range p {
		for _, n := range list {
			if q.has(id, n) {
				return true
			}
		}
	}
	return false
}

// within says whether a set has nothing that another has not.
func (p partitionSet) within(q partitionSet) bool {
	for id, list := range p {
		for _, n := range list {
			if !q.has(id, n) {
				return false
			}
		}
	}
	return true
}

// size counts the partitions of a set.
func (p partitionSet) size() int {
	n := 0
	for _, list := range p {
		n += len(list)
	}
	return n
}

// add puts partitions in any order into a set that is being made, which
// sorted then completes: a request may name one topic a million times.
func (p partitionSet) add(id TopicID, list []int32) {
	if len(list) > 0 {
		p[id] = append(p[id], list...)
	}
}

// sorted completes a set that was made by add.
func (p partitionSet) sorted() partitionSet {
	for id, list := range p {
		if !slices.IsSortedFunc(list, cmp.Compare) {
			slices.Sort(list)
		}
		p[id] = slices.Compact(list)
	}
	return p
}
