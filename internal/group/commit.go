package group

import (
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit is an OffsetCommit or a TxnOffsetCommit, without what only their
// wire formats tell apart.
type commit struct {
	group       string
	check       commitCheck
	topics      []commitTopic
	retentionMs int64 // of these offsets alone, -1: the broker's
	txn         *Producer
	answer      func(codes [][]int16) // of each topic's partitions
}

type commitTopic struct {
	name       string
	id         [16]byte
	named      bool // the client named it, and the shell or the core found the id
	partitions []commitPartition
}

type commitPartition struct {
	index    int32
	at       int64
	epoch    int32
	metadata *string
}

// codes are as many error codes as the commit has partitions.
func (c *commit) codes(code int16) [][]int16 {
	codes := make([][]int16, len(c.topics))
	for i, t := range c.topics {
		codes[i] = make([]int16, len(t.partitions))
		for j := range codes[i] {
			codes[i][j] = code
		}
	}
	return codes
}

func (s *Shard) offsetCommit(rq Request, req *kmsg.OffsetCommitRequest) {
	topics := make([]commitTopic, len(req.Topics))
	for i, t := range req.Topics {
		topics[i] = commitTopic{name: t.Topic, id: t.TopicID, named: req.Version < 10, partitions: make([]commitPartition, len(t.Partitions))}
		if known := s.topics.byName[t.Topic]; topics[i].id == (TopicID{}) && known != nil {
			topics[i].id = known.ID
		}
		for j, p := range t.Partitions {
			topics[i].partitions[j] = commitPartition{p.Partition, p.Offset, p.LeaderEpoch, p.Metadata}
		}
	}
	answer := func(codes [][]int16) {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for i, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for j, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, codes[i][j]
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		s.reply(rq.Token, resp)
	}
	retention := int64(-1)
	if req.Version >= 2 && req.Version <= 4 {
		retention = req.RetentionTimeMillis
	}
	s.commit(commit{
		group:  req.Group,
		check:  commitCheck{req.MemberID, req.InstanceID, req.Generation, false, req.Version},
		topics: topics, retentionMs: retention, answer: answer,
	})
}

// commit checks the sender, writes what may be written, and answers when that
// is durable (OffsetMetadataManager.commitOffset and commitTransactionalOffset).
func (s *Shard) commit(c commit) {
	g := s.groups[c.group]
	code := int16(0)
	switch {
	case g != nil:
		code = g.members.checkCommit(c.check)
		if t, ok := g.members.(*streams); ok && code == 0 {
			code = t.checkPartitions(c.check, c.topics)
		}
	case c.check.generation < 0:
		// A client without a group protocol: a simple group is made for it.
	case c.check.version >= 9 && !c.check.txn:
		code = kerr.GroupIDNotFound.Code
	default:
		code = kerr.IllegalGeneration.Code
	}
	if code != 0 {
		c.answer(c.codes(code))
		return
	}
	codes := c.codes(0)
	var batch []written
	for i, t := range c.topics {
		for j, p := range t.partitions {
			if p.metadata != nil && utf16Len(*p.metadata) > s.cfg.MetadataMaxBytes {
				codes[i][j] = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			batch = append(batch, written{partition{t.name, p.index}, c.offset(s.now.UnixMilli(), t, p)})
		}
	}
	if len(batch) == 0 {
		c.answer(codes)
		return
	}
	if g == nil {
		g = s.makeSimple(c.group)
	}
	s.out.Txn = c.txn
	s.write(g, c.txn, batch)
	s.log(func(code int16) {
		for i := range codes {
			for j := range codes[i] {
				if code != 0 && codes[i][j] == 0 {
					codes[i][j] = appendError(code)
				}
			}
		}
		c.answer(codes)
	})
}

// offset is what a commit says about one partition.
func (c *commit) offset(nowMs int64, t commitTopic, p commitPartition) offset {
	o := offset{
		at: p.at, epoch: p.epoch, metadata: text(p.metadata),
		committedMs: nowMs, expiresMs: -1, topicID: t.id, named: t.named,
	}
	if c.retentionMs >= 0 {
		o.expiresMs = nowMs + c.retentionMs
	}
	return o
}

// makeSimple makes a group whose first sign of life is a commit. Nothing but
// the offset is written of it.
func (s *Shard) makeSimple(id string) *group {
	g := s.make(id)
	s.log(func(code int16) {
		if code != 0 && g.members.empty() && g.offsets.none() {
			s.remove(g)
		}
	})
	return g
}

// utf16Len is the length of a text as Java counts it.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
