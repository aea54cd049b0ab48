package broker

import (
	"github.com/rondo-streams/rondo/internal/group"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (b *Broker) handleConsumerGroupDescribe(rq *request) {
	req := rq.msg.(*kmsg.ConsumerGroupDescribeRequest)
	if !b.servesProtocol("consumer") {
		rq.reply(group.ErrorResponse(req, kerr.UnsupportedVersion.Code))
		return
	}
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	clocks := wantsClocks(&req.UnknownTags)
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
	all := newGather(len(req.Groups), func() { rq.reply(resp) })
	for i, id := range req.Groups {
		part := kmsg.NewPtrConsumerGroupDescribeRequest()
		part.Version, part.Groups = req.Version, []string{id}
		b.groups.ask(rq, id, part, func(r kmsg.Response) {
			g := r.(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
			if req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
				g.AuthorizedOperations = groupAuthorized
			}
			for m := 0; m < len(g.Members) && !clocks; m++ {
				g.Members[m].UnknownTags = kmsg.Tags{}
			}
			resp.Groups[i] = g
			all.arrived()
		})
	}
}
