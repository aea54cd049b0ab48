package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What an unauthenticated client may do: everything, as bits of Kafka's
// AclOperation. unknownOperations says that nobody asked.
const (
	unknownOperations = -1 << 31
	topicOperations   = 3576
	clusterOperations = 8096
)

// handleMetadata describes the brokers and topics, and makes a topic that is
// asked for by name and not there, when auto.create.topics.enable says so.
func (b *Broker) handleMetadata(rq *request) {
	msg := rq.msg.(*kmsg.MetadataRequest)
	resp := kmsg.NewPtrMetadataResponse()
	resp.AuthorizedOperations = unknownOperations
	c := b.catalog()
	if rq.version < 12 {
		for _, t := range msg.Topics {
			if t.TopicID != [16]byte{} || t.Topic == nil {
				b.refuseMetadata(rq, msg, resp)
				return
			}
		}
	}
	for _, n := range b.nodes {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = n.id, n.host, n.port, b.rack()
		resp.Brokers = append(resp.Brokers, broker)
	}
	resp.ClusterID = kmsg.StringPtr(c.clusterID)
	resp.ControllerID = b.config.NodeID
	if msg.IncludeClusterAuthorizedOperations && rq.version >= 8 {
		resp.AuthorizedOperations = clusterOperations
	}
	if msg.Topics == nil || rq.version == 0 && len(msg.Topics) == 0 {
		for _, name := range c.names() {
			resp.Topics = append(resp.Topics, b.describeTopic(c.topic(name), msg))
		}
		rq.reply(resp)
		return
	}
	create := b.settings.bool("auto.create.topics.enable") && (rq.version < 4 || msg.AllowAutoTopicCreation)
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(msg.Topics))
	for _, t := range msg.Topics {
		resp.Topics = append(resp.Topics, b.metadataOf(c, t, msg, create))
	}
	rq.reply(resp)
}

// refuseMetadata answers a request for topic ids in v10 and v11, which have
// the field but not the meaning.
func (b *Broker) refuseMetadata(rq *request, msg *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	resp.ControllerID = -1
	for _, t := range msg.Topics {
		r := kmsg.NewMetadataResponseTopic()
		r.ErrorCode, r.TopicID, r.AuthorizedOperations = kerr.InvalidRequest.Code, t.TopicID, unknownOperations
		r.Topic = kmsg.StringPtr("")
		if t.Topic != nil {
			r.Topic = t.Topic
		}
		resp.Topics = append(resp.Topics, r)
	}
	rq.reply(resp)
}

func (b *Broker) metadataOf(c *catalog, asked kmsg.MetadataRequestTopic, msg *kmsg.MetadataRequest, create bool) kmsg.MetadataResponseTopic {
	if asked.Topic == nil {
		if t := c.byID[asked.TopicID]; t != nil {
			return b.describeTopic(t, msg)
		}
		r := kmsg.NewMetadataResponseTopic()
		r.ErrorCode, r.TopicID, r.AuthorizedOperations = kerr.UnknownTopicID.Code, asked.TopicID, unknownOperations
		return r
	}
	name := *asked.Topic
	if t := c.topic(name); t != nil {
		return b.describeTopic(t, msg)
	}
	r := kmsg.NewMetadataResponseTopic()
	r.Topic, r.IsInternal, r.AuthorizedOperations = asked.Topic, isInternal(name), unknownOperations
	r.ErrorCode = kerr.UnknownTopicOrPartition.Code
	switch {
	case !create:
	case checkTopicName(name) != "":
		r.ErrorCode = kerr.InvalidTopicException.Code
	case name == offsetsTopicName:
		b.offsetsTopic()
	default:
		b.meta.createInBackground(&newTopic{name: name, partitions: int(b.settings.int("num.partitions"))})
	}
	return r
}

func (b *Broker) describeTopic(t *topic, msg *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	r := kmsg.NewMetadataResponseTopic()
	r.Topic, r.TopicID, r.IsInternal, r.AuthorizedOperations = kmsg.StringPtr(t.name), t.id, t.internal, unknownOperations
	if msg.IncludeTopicAuthorizedOperations && msg.Version >= 8 {
		r.AuthorizedOperations = topicOperations
	}
	r.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.partitions))
	for _, p := range t.partitions {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition, rp.Leader, rp.LeaderEpoch, rp.Replicas, rp.ISR = p.index, p.leader, p.epoch, p.replicas, p.replicas
		r.Partitions = append(r.Partitions, rp)
	}
	return r
}

func (b *Broker) rack() *string {
	rack := b.config.Rack
	if rack == "" {
		rack = b.settings.string("broker.rack")
	}
	if rack == "" {
		return nil
	}
	return &rack
}
