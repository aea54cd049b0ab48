package broker

import "github.com/twmb/franz-go/pkg/kmsg"

func (b *Broker) handleHeartbeat(rq *request) {
	b.askOne(rq, rq.msg.(*kmsg.HeartbeatRequest).Group, rq.msg)
}
