package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDescribeCluster answers the cluster's id and its brokers.
func (b *Broker) handleDescribeCluster(rq *request) {
	msg := rq.msg.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID, resp.ClusterAuthorizedOperations = b.catalog().clusterID, -1, unknownOperations
	resp.EndpointType = 1
	if rq.version >= 1 && msg.EndpointType != 1 {
		f := fail(kerr.UnsupportedEndpointType, "Unsupported endpoint type %d", msg.EndpointType)
		if msg.EndpointType == 2 {
			f = fail(kerr.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		}
		resp.ErrorCode, resp.ErrorMessage = f.code, &f.text
		rq.reply(resp)
		return
	}
	resp.ControllerID = b.config.NodeID
	if msg.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for _, n := range b.nodes {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = n.id, n.host, n.port, b.rack()
		resp.Brokers = append(resp.Brokers, broker)
	}
	rq.reply(resp)
}

// handleDescribeTopicPartitions describes topics in order of their names, some
// partitions at a time, from a cursor on (KIP-966).
func (b *Broker) handleDescribeTopicPartitions(rq *request) {
	msg := rq.msg.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	c := b.catalog()
	var names []string
	for _, t := range msg.Topics {
		names = append(names, t.Topic)
	}
	if len(names) == 0 {
		names = c.names()
	}
	slices.Sort(names)
	names = slices.Compact(names)
	from := int32(0)
	if cursor := msg.Cursor; cursor != nil {
		if cursor.Partition < 0 {
			b.refuseCursor(rq, names)
			return
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n < cursor.Topic })
		if len(names) > 0 && names[0] == cursor.Topic {
			from = cursor.Partition
		}
	}
	left := min(max(msg.ResponsePartitionLimit, 1), int32(b.settings.int("max.request.partition.size.limit")))
	for _, name := range names {
		t := c.topic(name)
		if t != nil && left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: from}
			break
		}
		r := b.describePartitions(name, t, from, left)
		resp.Topics = append(resp.Topics, r)
		left -= int32(len(r.Partitions))
		if end := from + int32(len(r.Partitions)); t != nil && int(end) < len(t.partitions) {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: end}
			break
		}
		from = 0
	}
	rq.reply(resp)
}

func (b *Broker) refuseCursor(rq *request, names []string) {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, name := range names {
		r := kmsg.NewDescribeTopicPartitionsResponseTopic()
		r.Topic, r.ErrorCode, r.AuthorizedOperations = &name, kerr.InvalidRequest.Code, unknownOperations
		resp.Topics = append(resp.Topics, r)
	}
	rq.reply(resp)
}

func (b *Broker) describePartitions(name string, t *topic, from, limit int32) kmsg.DescribeTopicPartitionsResponseTopic {
	r := kmsg.NewDescribeTopicPartitionsResponseTopic()
	r.Topic, r.AuthorizedOperations, r.IsInternal = &name, topicOperations, isInternal(name)
	if t == nil {
		r.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if checkTopicName(name) != "" {
			r.ErrorCode = kerr.InvalidTopicException.Code
		}
		return r
	}
	r.TopicID = t.id
	for i := from; int(i) < len(t.partitions) && i-from < limit; i++ {
		at := t.partitions[i]
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.LeaderEpoch, p.Replicas, p.ISR = i, at.leader, at.epoch, at.replicas, at.replicas
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		r.Partitions = append(r.Partitions, p)
	}
	return r
}
