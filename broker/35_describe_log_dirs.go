package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDescribeLogDirs shows the one directory and what partitions take in it.
func (b *Broker) handleDescribeLogDirs(rq *request) {
	msg := rq.msg.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	d := kmsg.NewDescribeLogDirsResponseDir()
	d.Dir, d.TotalBytes, d.UsableBytes = b.config.Dir, -1, -1
	if total, usable, ok := diskSpace(b.config.Dir); ok && b.config.FS == nil {
		d.TotalBytes, d.UsableBytes = total, usable
	}
	c := b.catalog()
	if msg.Topics == nil {
		for _, name := range c.names() {
			d.Topics = append(d.Topics, rq.sizes(c.topic(name), nil))
		}
	}
	for _, asked := range msg.Topics {
		if t := c.topic(asked.Topic); t != nil {
			d.Topics = append(d.Topics, rq.sizes(t, asked.Partitions))
		}
	}
	resp.Dirs = append(resp.Dirs, d)
	rq.reply(resp)
}

// sizes lists the partitions of which the broker asked has a replica.
func (rq *request) sizes(t *topic, only []int32) kmsg.DescribeLogDirsResponseDirTopic {
	rt := kmsg.NewDescribeLogDirsResponseDirTopic()
	rt.Topic = t.name
	for _, p := range t.partitions {
		if only != nil && !slices.Contains(only, p.index) || !slices.Contains(p.replicas, rq.conn.node.id) {
			continue
		}
		r := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		r.Partition, r.Size = p.index, p.log.Size()
		rt.Partitions = append(rt.Partitions, r)
	}
	return rt
}

// handleDescribeProducers shows the producers that partitions know.
func (b *Broker) handleDescribeProducers(rq *request) {
	msg := rq.msg.(*kmsg.DescribeProducersRequest)
	resp := kmsg.NewPtrDescribeProducersResponse()
	c := b.catalog()
	for _, asked := range msg.Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = asked.Topic
		t := c.topic(asked.Topic)
		for _, n := range asked.Partitions {
			r := kmsg.NewDescribeProducersResponseTopicPartition()
			r.Partition = n
			p := t.partition(n)
			if p != nil && !rq.leads(p) {
				r.ErrorCode = kerr.NotLeaderForPartition.Code
				rt.Partitions = append(rt.Partitions, r)
				continue
			}
			if p == nil {
				r.ErrorCode = kerr.UnknownTopicOrPartition.Code
				if t == nil {
					r.ErrorMessage = kmsg.StringPtr("This server does not host this topic-partition.")
				}
				rt.Partitions = append(rt.Partitions, r)
				continue
			}
			for _, s := range p.log.Producers() {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = s.ID, int32(s.Epoch), s.LastSequence, s.LastTimestamp
				a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, s.TxnStart
				r.ActiveProducers = append(r.ActiveProducers, a)
			}
			rt.Partitions = append(rt.Partitions, r)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	rq.reply(resp)
}
