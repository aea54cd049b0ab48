package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

func javaHash(s string) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(u)
	}
	return h
}

func partitionFor(s string, n int32) int32 {
	h := javaHash(s)
	if h < 0 {
		h = -h
	}
	if h < 0 {
		h = 0
	}
	return h % n
}

// dump prints what was written since the last dump of the same thing:
//
//	dump offsets @g     records of the group in __consumer_offsets (and markers of producers captured by the case)
//	dump txn @id        records of the transactional id in __transaction_state
//	dump log @t 0       batches of a partition
//
// "skip" in place of "dump" prints nothing.
func (s *session) dump(w []string) error {
	if len(w) < 2 {
		return fmt.Errorf("dump: what?")
	}
	switch w[0] {
	case "offsets":
		return s.dumpCoordinator("__consumer_offsets", w[1], "coordinator-key", "coordinator-value")
	case "txn":
		return s.dumpCoordinator("__transaction_state", w[1], "txn", "txn")
	case "log":
		bs, err := s.fetchAll(w[1], w[2])
		for _, b := range bs {
			s.out = append(s.out, s.pr.renderBatch(b, true)...)
		}
		if len(bs) == 0 {
			s.printf("nothing new")
		}
		return err
	}
	return fmt.Errorf("dump %s?", w[0])
}

// arrival is what an append that nobody waited for may take until readers see it: a produce with acks=0, a record of
// the coordinator that no answer depends on. A broker that syncs before it shows takes longer here than Kafka.
const arrival = 150 * time.Millisecond

func (s *session) fetchAll(topic, part string) ([]*batch, error) {
	time.Sleep(arrival)
	key := topic + "/" + part
	var out []*batch
	for {
		rec, err := s.ask("Fetch", 12, fmt.Sprintf("MaxWaitMs=0 MinBytes=0 MaxBytes=50000000 Topics=[{Topic=%s Partitions=[{Partition=%s FetchOffset=%d PartitionMaxBytes=10000000}]}]",
			topic, part, s.dumped[key]))
		if err != nil {
			return out, err
		}
		_, e := lookup(rec, "Responses[0].Partitions[0].ErrorCode")
		if e != int64(0) {
			return out, fmt.Errorf("fetch %s: %v", key, errorNames[e.(int64)])
		}
		_, raw := lookup(rec, "Responses[0].Partitions[0].Records")
		b, _ := raw.([]byte)
		bs := decodeBatches(b)
		if len(bs) == 0 {
			return out, nil
		}
		for _, x := range bs {
			if x.base >= s.dumped[key] {
				out = append(out, x)
			}
		}
		last := bs[len(bs)-1]
		s.dumped[key] = last.base + last.lastDelta + 1
	}
}

type entry struct {
	typ  int
	head string
	ls   []string
}

func (s *session) dumpCoordinator(topic, key, keyKind, valKind string) error {
	n := partitionFor(key, 50)
	if s.pr.names[key] == "" {
		s.printf("partition %d", n)
	}
	// Each thing dumped keeps its own place in a partition that others share.
	place := topic + "/" + strconv.Itoa(int(n))
	mine := place + "/" + key
	s.dumped[place] = s.dumped[mine]
	bs, err := s.fetchAll(topic, strconv.Itoa(int(n)))
	if err != nil {
		return err
	}
	s.dumped[mine] = s.dumped[place]
	var es []entry
	for _, b := range bs {
		for _, r := range b.recs {
			if b.control() {
				if id := s.pr.num("ProducerId", b.pid); strings.HasPrefix(id, "$") {
					es = append(es, entry{-1, "", []string{"marker pid=" + id + fmt.Sprintf(" epoch=%d ", b.epoch) + controlText(r)}})
				}
				continue
			}
			typ, k, head, ls := s.pr.coordRecord(keyKind, valKind, r)
			if k != key {
				continue
			}
			if b.txn() {
				ls[0] += fmt.Sprintf(" (txn pid=%s epoch=%d)", s.pr.num("ProducerId", b.pid), b.epoch)
			}
			es = append(es, entry{typ, head, ls})
		}
	}
	// Records of one type in a row are written in hash order: sort them, but keep the order of equal keys.
	for i := 0; i < len(es); {
		j := i
		for j < len(es) && es[j].typ == es[i].typ {
			j++
		}
		run := es[i:j]
		sort.SliceStable(run, func(a, b int) bool { return sortKey(run[a].head) < sortKey(run[b].head) })
		i = j
	}
	for _, e := range es {
		s.out = append(s.out, strings.Join(e.ls, "\n"))
	}
	if len(es) == 0 {
		s.printf("nothing new")
	}
	return nil
}
