package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscription lists the topics that the members read. It is nil when the
// group does not use Kafka's consumer protocol or a member's metadata cannot be
// read.
func (c *classic) subscription() []string {
	if c.protocolType != consumerType {
		return nil
	}
	topics := []string{}
	for _, m := range c.order {
		said, ok := subscribedTopics(m.metadata(c.protocol))
		if !ok {
			return nil
		}
		topics = append(topics, said...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// subscribedTopics reads the topics out of a member's metadata
// (ConsumerProtocolSubscription). Newer versions only add to it.
func subscribedTopics(metadata []byte) ([]string, bool) {
	var m kmsg.ConsumerMemberMetadata
	if err := m.ReadFrom(metadata); err != nil {
		return nil, false
	}
	return m.Topics, true
}
