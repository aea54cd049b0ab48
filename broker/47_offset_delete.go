package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleOffsetDelete answers for partitions that do not exist itself, and asks
// the group's shard about the others.
func (b *Broker) handleOffsetDelete(rq *request) {
	req := rq.msg.(*kmsg.OffsetDeleteRequest)
	c := b.catalog()
	part := kmsg.NewPtrOffsetDeleteRequest()
	part.Version, part.Group = req.Version, req.Group
	var unknown []kmsg.OffsetDeleteResponseTopic
	for _, t := range req.Topics {
		there := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
		absent := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if c.topic(t.Topic).partition(p.Partition) != nil {
				there.Partitions = append(there.Partitions, p)
				continue
			}
			absent.Partitions = append(absent.Partitions, kmsg.OffsetDeleteResponseTopicPartition{
				Partition: p.Partition, ErrorCode: kerr.UnknownTopicOrPartition.Code,
			})
		}
		if len(there.Partitions) > 0 {
			part.Topics = append(part.Topics, there)
		}
		if len(absent.Partitions) > 0 {
			unknown = append(unknown, absent)
		}
	}
	if len(part.Topics) == 0 && len(unknown) > 0 {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.Topics = unknown
		rq.reply(resp)
		return
	}
	b.groups.ask(rq, req.Group, part, func(r kmsg.Response) {
		resp := r.(*kmsg.OffsetDeleteResponse)
		if resp.ErrorCode == 0 {
			for _, t := range unknown {
				resp.Topics = mergeOffsetDelete(resp.Topics, t)
			}
		}
		rq.reply(resp)
	})
}

// mergeOffsetDelete puts partitions of a topic beside others of the same topic.
func mergeOffsetDelete(topics []kmsg.OffsetDeleteResponseTopic, t kmsg.OffsetDeleteResponseTopic) []kmsg.OffsetDeleteResponseTopic {
	for i := range topics {
		if topics[i].Topic == t.Topic {
			topics[i].Partitions = append(topics[i].Partitions, t.Partitions...)
			return topics
		}
	}
	return append(topics, t)
}
