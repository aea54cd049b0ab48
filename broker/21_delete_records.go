package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDeleteRecords moves the start of partitions up. The journal waits for
// the disk, so it happens away from the connection's goroutine.
func (b *Broker) handleDeleteRecords(rq *request) {
	msg := rq.msg.(*kmsg.DeleteRecordsRequest)
	c := b.catalog()
	b.meta.do(func() {
		resp := kmsg.NewPtrDeleteRecordsResponse()
		for _, asked := range msg.Topics {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = asked.Topic
			t := c.topic(asked.Topic)
			for _, p := range asked.Partitions {
				r := kmsg.NewDeleteRecordsResponseTopicPartition()
				r.Partition, r.LowWatermark = p.Partition, -1
				switch at := t.partition(p.Partition); {
				case isInternal(asked.Topic):
					r.ErrorCode = kerr.InvalidTopicException.Code
				case at == nil:
					r.ErrorCode = kerr.UnknownTopicOrPartition.Code
				case !rq.leads(at):
					r.ErrorCode = kerr.NotLeaderForPartition.Code
				case p.Offset < -1:
					r.ErrorCode = kerr.OffsetOutOfRange.Code
				default:
					low, err := at.log.DeleteRecords(p.Offset)
					if r.ErrorCode = errorCode(err); err == nil {
						r.LowWatermark = low
					}
				}
				rt.Partitions = append(rt.Partitions, r)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		rq.reply(resp)
	})
}
