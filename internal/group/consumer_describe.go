package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerDescribe tells everything about groups of the consumer protocol.
func (s *Shard) consumerDescribe(rq Request, req *kmsg.ConsumerGroupDescribeRequest) {
	s.after(func(code int16) {
		resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		for _, id := range req.Groups {
			row := s.describeConsumer(id)
			if code != 0 {
				row = kmsg.NewConsumerGroupDescribeResponseGroup()
				row.Group, row.ErrorCode = id, appendError(code)
			}
			resp.Groups = append(resp.Groups, row)
		}
		s.reply(rq.Token, resp)
	})
}

func (s *Shard) describeConsumer(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	row := kmsg.NewConsumerGroupDescribeResponseGroup()
	row.Group = id
	g := s.readable(id)
	c, ok := consumerOf(g)
	switch {
	case id == "":
		row.ErrorCode = kerr.InvalidGroupID.Code
	case g == nil:
		row.ErrorCode, row.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" not found.")
	case !ok:
		row.ErrorCode, row.ErrorMessage = kerr.GroupIDNotFound.Code, kmsg.StringPtr("Group "+id+" is not a consumer group.")
	default:
		row.State, row.Epoch, row.AssignmentEpoch = c.state(), c.epoch, c.targetEpoch
		row.AssignorName = c.assignor().name
		for _, m := range c.sorted() {
			row.Members = append(row.Members, c.describeMember(m))
		}
	}
	return row
}

func (c *consumer) describeMember(m *consumerMember) kmsg.ConsumerGroupDescribeResponseGroupMember {
	row := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	row.MemberID, row.InstanceID, row.RackID, row.MemberEpoch = m.id, m.meta.instance, m.meta.rack, m.current.epoch
	row.ClientID, row.ClientHost = m.meta.clientID, m.meta.host
	row.SubscribedTopics, row.SubscribedTopicRegex = m.meta.topics, kmsg.StringPtr(m.meta.regex)
	row.Assignment = c.namedSet(m.current.assigned)
	row.TargetAssignment = c.namedSet(c.targets[m.id])
	if row.MemberType = 1; m.usesClassic() {
		row.MemberType = 0
	}
	row.UnknownTags = clocksTag(c.clocks(m))
	return row
}

// namedSet is a set with the names of its topics, without those that are gone.
func (c *consumer) namedSet(p partitionSet) kmsg.Assignment {
	a := kmsg.NewAssignment()
	for _, id := range p.sortedTopics() {
		if name := c.s.topics.name(id); name != "" {
			t := kmsg.NewAssignmentTopicPartition()
			t.TopicID, t.Topic, t.Partitions = id, name, p[id]
			a.TopicPartitions = append(a.TopicPartitions, t)
		}
	}
	return a
}
