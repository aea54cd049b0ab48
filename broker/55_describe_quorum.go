package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataTopicName is Kafka's name of the log of metadata. Ours is not a
// topic: it is kept in a reserved partition, whose offsets these are.
const metadataTopicName = "__cluster_metadata"

// handleDescribeQuorum shows the one voter, which is always caught up.
func (b *Broker) handleDescribeQuorum(rq *request) {
	msg := rq.msg.(*kmsg.DescribeQuorumRequest)
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = kmsg.StringPtr("")
	known := len(msg.Topics) == 1 && msg.Topics[0].Topic == metadataTopicName &&
		len(msg.Topics[0].Partitions) == 1 && msg.Topics[0].Partitions[0].Partition == 0
	for _, asked := range msg.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = asked.Topic
		for _, n := range asked.Partitions {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition, p.ErrorMessage = n.Partition, kmsg.StringPtr("")
			if known {
				b.describeVoter(&p)
			} else {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
				p.ErrorMessage = kmsg.StringPtr("This server does not host this topic-partition.")
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if known {
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = "CONTROLLER", b.nodes[0].host, uint16(b.nodes[0].port)
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID, node.Listeners = b.config.NodeID, append(node.Listeners, l)
		resp.Nodes = append(resp.Nodes, node)
	}
	rq.reply(resp)
}

func (b *Broker) describeVoter(p *kmsg.DescribeQuorumResponseTopicPartition) {
	now := time.Now().UnixMilli()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = b.config.NodeID, 1, b.meta.log.HighWatermark()
	voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	voter.ReplicaID, voter.LogEndOffset = b.config.NodeID, p.HighWatermark
	voter.LastFetchTimestamp, voter.LastCaughtUpTimestamp = now, now
	p.CurrentVoters = append(p.CurrentVoters, voter)
}
