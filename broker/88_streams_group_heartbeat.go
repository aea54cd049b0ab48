package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
)

func (b *Broker) handleStreamsGroupHeartbeat(rq *request) {
	req := rq.msg.(*kmsg.StreamsGroupHeartbeatRequest)
	if !b.servesProtocol("streams") {
		rq.reply(group.ErrorResponse(req, kerr.UnsupportedVersion.Code))
		return
	}
	if text := checkTopologyTopics(req.Topology); text != "" {
		resp := group.ErrorResponse(req, kerr.StreamsInvalidTopology.Code).(*kmsg.StreamsGroupHeartbeatResponse)
		resp.ErrorMessage = &text
		rq.reply(resp)
		return
	}
	b.groups.ask(rq, req.Group, req, func(r kmsg.Response) {
		b.groups.noteMissingTopics(req.Group, r.(*kmsg.StreamsGroupHeartbeatResponse))
		rq.reply(r)
	})
}

// checkTopologyTopics refuses topologies with topics of the broker's own, and
// with names that no topic can have (KafkaApis.handleStreamsGroupHeartbeat).
func checkTopologyTopics(t *kmsg.StreamsGroupHeartbeatRequestTopology) string {
	if t == nil {
		return ""
	}
	var own, bad []string
	check := func(name string) {
		switch {
		case isInternal(name):
			own = append(own, name)
		case checkTopicName(name) != "":
			bad = append(bad, name)
		}
	}
	for _, sub := range t.Subtopologies {
		for _, name := range slices.Concat(sub.SourceTopics, sub.RepartitionSinkTopics) {
			check(name)
		}
		for _, topic := range slices.Concat(sub.RepartitionSourceTopics, sub.StateChangelogTopics) {
			check(topic.Topic)
		}
	}
	list := func(names []string) string {
		slices.Sort(names)
		return strings.Join(slices.Compact(names), ",")
	}
	switch {
	case len(own) > 0:
		return "Use of Kafka internal topics " + list(own) + " in a Kafka Streams topology is prohibited."
	case len(bad) > 0:
		return "Topic names " + list(bad) + " are not valid topic names."
	}
	return ""
}
