package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// handleJoinGroup parks until the group's join phase is complete.
func (b *Broker) handleJoinGroup(rq *request) {
	b.askOne(rq, rq.msg.(*kmsg.JoinGroupRequest).Group, rq.msg)
}
