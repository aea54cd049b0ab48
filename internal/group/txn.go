package group

import "github.com/twmb/franz-go/pkg/kmsg"

// txn is an open transaction of one producer: offsets that wait for its marker
// in this partition of __consumer_offsets.
type txn struct{ offsets map[pendingKey]offset }

type pendingKey struct {
	g  *group
	tp partition
}

// pend keeps an offset of an open transaction.
func (s *Shard) pend(g *group, producer int64, tp partition, o offset) {
	t := s.txns[producer]
	if t == nil {
		t = &txn{offsets: map[pendingKey]offset{}}
		s.txns[producer] = t
	}
	key := pendingKey{g, tp}
	if _, again := t.offsets[key]; !again {
		count(&g.offsets.pending, tp, 1)
	}
	t.offsets[key] = o
}

func (t *txn) drop(g *group, tp partition) {
	key := pendingKey{g, tp}
	if _, ok := t.offsets[key]; ok {
		delete(t.offsets, key)
		count(&g.offsets.pending, tp, -1)
	}
}

// endTxn lets a producer's marker do its work. A commit loses against an offset
// that was committed after it outside of the transaction.
func (s *Shard) endTxn(producer int64, commit bool) {
	t := s.txns[producer]
	delete(s.txns, producer)
	if t == nil {
		return
	}
	for key, o := range t.offsets {
		count(&key.g.offsets.pending, key.tp, -1)
		if have, ok := key.g.offsets.get(key.tp); commit && (!ok || have.position < o.position) {
			key.g.offsets.put(key.tp, o)
		}
	}
}

// forgetPending drops what open transactions hold of a group that is gone.
func (s *Shard) forgetPending(g *group) {
	if len(g.offsets.pending) == 0 {
		return
	}
	for id, t := range s.txns {
		for key := range t.offsets {
			if key.g == g {
				t.drop(g, key.tp)
			}
		}
		if len(t.offsets) == 0 {
			delete(s.txns, id)
		}
	}
}

// txnOffsetCommit keeps offsets back until the producer's transaction ends.
// That the producer is who it says, and in a transaction, is the business of
// the log that the records go into.
func (s *Shard) txnOffsetCommit(rq Request, req *kmsg.TxnOffsetCommitRequest) {
	topics := make([]commitTopic, len(req.Topics))
	for i, t := range req.Topics {
		topics[i] = commitTopic{name: t.Topic, id: t.TopicID, named: t.TopicID == [16]byte{}}
		for _, p := range t.Partitions {
			topics[i].partitions = append(topics[i].partitions, commitPartition{p.Partition, p.Offset, p.LeaderEpoch, p.Metadata})
		}
	}
	answer := func(codes [][]int16) {
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for i, t := range req.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for j, p := range t.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, codes[i][j]
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		s.reply(rq.Token, resp)
	}
	s.commit(commit{
		group:  req.Group,
		check:  commitCheck{req.MemberID, req.InstanceID, req.Generation, true, req.Version},
		topics: topics, retentionMs: -1, answer: answer,
		txn: &Producer{req.ProducerID, req.ProducerEpoch},
	})
}
