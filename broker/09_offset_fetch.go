package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleOffsetFetch asks one shard for each group. Groups are asked by topic
// name; from v10 clients speak of topics by id.
func (b *Broker) handleOffsetFetch(rq *request) {
	req := rq.msg.(*kmsg.OffsetFetchRequest)
	if req.Version < 8 {
		b.askOne(rq, req.Group, req)
		return
	}
	c := b.catalog()
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(req.Groups))
	all := newGather(len(req.Groups), func() { rq.reply(resp) })
	for i, g := range req.Groups {
		part := kmsg.NewPtrOffsetFetchRequest()
		part.Version, part.RequireStable = req.Version, req.RequireStable
		var unknown []kmsg.OffsetFetchResponseGroupTopic
		if req.Version >= 10 {
			g.Topics, unknown = c.fetchByID(g.Topics)
		}
		part.Groups = []kmsg.OffsetFetchRequestGroup{g}
		b.groups.ask(rq, g.Group, part, func(r kmsg.Response) {
			row := r.(*kmsg.OffsetFetchResponse).Groups[0]
			if req.Version >= 10 {
				row.Topics = c.answerByID(row.Topics)
			}
			if row.ErrorCode == 0 {
				row.Topics = append(row.Topics, unknown...)
			}
			resp.Groups[i] = row
			all.arrived()
		})
	}
}

// fetchByID names the topics of a request that has their ids, and answers for
// those that nobody knows. No list at all, which means every topic, stays none.
func (c *catalog) fetchByID(topics []kmsg.OffsetFetchRequestGroupTopic) (known []kmsg.OffsetFetchRequestGroupTopic, unknown []kmsg.OffsetFetchResponseGroupTopic) {
	if topics == nil {
		return nil, nil
	}
	known = []kmsg.OffsetFetchRequestGroupTopic{}
	for _, t := range topics {
		if is := c.byID[t.TopicID]; is != nil {
			t.Topic = is.name
			known = append(known, t)
			continue
		}
		row := kmsg.NewOffsetFetchResponseGroupTopic()
		row.TopicID = t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, kmsg.StringPtr("")
			rp.ErrorCode = kerr.UnknownTopicID.Code
			row.Partitions = append(row.Partitions, rp)
		}
		unknown = append(unknown, row)
	}
	return known, unknown
}

// answerByID gives the topics of an answer their ids. One that was deleted at
// this moment has none and is left out.
func (c *catalog) answerByID(topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	out := topics[:0]
	for _, t := range topics {
		if is := c.topic(t.Topic); is != nil {
			t.TopicID = is.id
			out = append(out, t)
		}
	}
	return out
}
