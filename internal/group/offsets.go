package group

import (
	"cmp"
	"slices"
)

// partition names one partition of a topic. Kafka keys committed offsets by
// the topic's name; the topic's id rides along in the value.
type partition struct {
	topic string
	index int32
}

func comparePartitions(a, b partition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.index, b.index))
}

// offset is one committed offset.
type offset struct {
	at          int64
	epoch       int32 // leader epoch, -1: unknown
	metadata    string
	committedMs int64
	expiresMs   int64    // -1: the broker's retention applies
	topicID     [16]byte // zero: there was no such topic
	named       bool     // the commit named the topic: its id is not in the record
	position    int64    // of its record, to tell which of two is the newer one
}

// offsets are what a group has committed, by topic and partition.
type offsets struct {
	topics  map[string]map[int32]offset
	writing map[partition]int // records on their way into the log
	pending map[partition]int // open transactions that hold an offset of this partition
}

func (os *offsets) get(tp partition) (offset, bool) {
	o, ok := os.topics[tp.topic][tp.index]
	return o, ok
}

func (os *offsets) put(tp partition, o offset) {
	of := os.topics[tp.topic]
	if of == nil {
		if os.topics == nil {
			os.topics = map[string]map[int32]offset{}
		}
		of = map[int32]offset{}
		os.topics[tp.topic] = of
	}
	of[tp.index] = o
}

func (os *offsets) drop(tp partition) {
	of := os.topics[tp.topic]
	delete(of, tp.index)
	if len(of) == 0 {
		delete(os.topics, tp.topic)
	}
}

// identify gives offsets that came by name out of the log the ids of the topics
// that have the names now: those whose topic was deleted have a tombstone, or a
// name that nobody has.
func (os *offsets) identify(topics *Image) {
	for name, of := range os.topics {
		t := topics.byName[name]
		if t == nil {
			continue
		}
		for i, o := range of {
			if o.named && o.topicID == ([16]byte{}) {
				o.topicID = t.ID
				of[i] = o
			}
		}
	}
}

// busy says whether a partition has a newer offset under way, in the log or in
// an open transaction.
func (os *offsets) busy(tp partition) bool { return os.writing[tp] > 0 || os.pending[tp] > 0 }

// exists says whether there is anything of a partition that a tombstone must
// cover.
func (os *offsets) exists(tp partition) bool {
	_, ok := os.get(tp)
	return ok || os.busy(tp)
}

// none says that the group has no offset, neither committed nor under way.
func (os *offsets) none() bool {
	return len(os.topics) == 0 && len(os.writing) == 0 && len(os.pending) == 0
}

// all lists every partition that exists, in order.
func (os *offsets) all() []partition {
	seen := map[partition]bool{}
	for topic, of := range os.topics {
		for index := range of {
			seen[partition{topic, index}] = true
		}
	}
	for tp := range os.writing {
		seen[tp] = true
	}
	for tp := range os.pending {
		seen[tp] = true
	}
	list := make([]partition, 0, len(seen))
	for tp := range seen {
		list = append(list, tp)
	}
	slices.SortFunc(list, comparePartitions)
	return list
}

func (os *offsets) tombstones(group string) []Record {
	var records []Record
	for _, tp := range os.all() {
		records = append(records, Record{Key: offsetKey(group, tp)})
	}
	return records
}

// count changes a counter of partitions and keeps zeros out of it.
func count(counters *map[partition]int, tp partition, by int) {
	if *counters == nil {
		*counters = map[partition]int{}
	}
	if (*counters)[tp] += by; (*counters)[tp] <= 0 {
		delete(*counters, tp)
	}
}

// written is one offset on its way into the log.
type written struct {
	tp partition
	o  offset
}

// write logs new offsets. They become the committed ones when they are durable.
// Those of a transaction count as pending from here on: a reader that wants
// stable offsets must not go on from the one that is about to be replaced.
func (s *Shard) write(g *group, txn *Producer, batch []written) {
	under := &g.offsets.writing
	if txn != nil {
		under = &g.offsets.pending
	}
	records := make([]Record, len(batch))
	for i, w := range batch {
		count(under, w.tp, 1)
		records[i] = offsetRecord(g.id, w.tp, w.o)
	}
	s.log(func(code int16) {
		for _, w := range batch {
			count(under, w.tp, -1)
			if code != 0 {
				continue
			}
			s.position++
			w.o.position = s.position
			if txn != nil {
				s.pend(g, txn.ID, w.tp, w.o)
			} else {
				g.offsets.put(w.tp, w.o)
			}
		}
	}, records...)
}

// erase logs the tombstone of an offset, which is gone when it is durable.
func (s *Shard) erase(g *group, tp partition) {
	s.log(func(code int16) {
		if code == 0 {
			s.position++
			s.dropOffset(g, tp)
		}
	}, Record{Key: offsetKey(g.id, tp)})
}

// dropOffset forgets an offset and those that open transactions hold of the
// same partition.
func (s *Shard) dropOffset(g *group, tp partition) {
	g.offsets.drop(tp)
	if g.offsets.pending[tp] == 0 {
		return
	}
	for id, t := range s.txns {
		t.drop(g, tp)
		if len(t.offsets) == 0 {
			delete(s.txns, id)
		}
	}
}
