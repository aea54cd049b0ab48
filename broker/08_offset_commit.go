package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleOffsetCommit answers for topics and partitions that do not exist
// itself; the others are committed all the same.
func (b *Broker) handleOffsetCommit(rq *request) {
	req := rq.msg.(*kmsg.OffsetCommitRequest)
	c := b.catalog()
	part := *req
	part.Topics = nil
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	var from []int // which topic of the answer each topic of part is
	for i, t := range req.Topics {
		known, code := c.topic(t.Topic), kerr.UnknownTopicOrPartition.Code
		if req.Version >= 10 {
			if known = c.byID[t.TopicID]; known == nil {
				code = kerr.UnknownTopicID.Code
			}
		}
		row := &resp.Topics[i]
		row.Topic, row.TopicID = t.Topic, t.TopicID
		there := kmsg.OffsetCommitRequestTopic{}
		for _, p := range t.Partitions {
			if known.partition(p.Partition) != nil {
				// With its id, whatever the version: the offset is of this topic
				// and not of another that gets its name later.
				there.Topic, there.TopicID = known.name, known.id
				there.Partitions = append(there.Partitions, p)
				continue
			}
			row.Partitions = append(row.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		if len(there.Partitions) > 0 {
			part.Topics = append(part.Topics, there)
			from = append(from, i)
		}
	}
	if len(part.Topics) == 0 {
		rq.reply(resp)
		return
	}
	b.groups.ask(rq, req.Group, &part, func(r kmsg.Response) {
		for j, t := range r.(*kmsg.OffsetCommitResponse).Topics {
			row := &resp.Topics[from[j]]
			row.Partitions = append(row.Partitions, t.Partitions...)
		}
		rq.reply(resp)
	})
}
