package broker

import (
	"slices"

	"github.com/rondo-streams/rondo/internal/group"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// servesProtocol says whether group.coordinator.rebalance.protocols has a
// protocol.
func (b *Broker) servesProtocol(name string) bool {
	return slices.Contains(splitList(b.settings.string("group.coordinator.rebalance.protocols")), name)
}

func (b *Broker) handleConsumerGroupHeartbeat(rq *request) {
	req := rq.msg.(*kmsg.ConsumerGroupHeartbeatRequest)
	if !b.servesProtocol("consumer") {
		rq.reply(group.ErrorResponse(req, kerr.UnsupportedVersion.Code))
		return
	}
	b.askOne(rq, req.Group, req)
}
