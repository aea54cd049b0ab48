package broker

import "github.com/twmb/franz-go/pkg/kmsg"

func (b *Broker) handleLeaveGroup(rq *request) {
	b.askOne(rq, rq.msg.(*kmsg.LeaveGroupRequest).Group, rq.msg)
}
