package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// handleSyncGroup parks until the leader's assignment is durable.
func (b *Broker) handleSyncGroup(rq *request) {
	b.askOne(rq, rq.msg.(*kmsg.SyncGroupRequest).Group, rq.msg)
}
