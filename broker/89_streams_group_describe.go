package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
)

func (b *Broker) handleStreamsGroupDescribe(rq *request) {
	req := rq.msg.(*kmsg.StreamsGroupDescribeRequest)
	if !b.servesProtocol("streams") {
		rq.reply(group.ErrorResponse(req, kerr.UnsupportedVersion.Code))
		return
	}
	resp := kmsg.NewPtrStreamsGroupDescribeResponse()
	clocks := wantsClocks(&req.UnknownTags)
	resp.Groups = make([]kmsg.StreamsGroupDescribeResponseGroup, len(req.Groups))
	all := newGather(len(req.Groups), func() { rq.reply(resp) })
	for i, id := range req.Groups {
		if id == "" {
			resp.Groups[i] = kmsg.NewStreamsGroupDescribeResponseGroup()
			resp.Groups[i].ErrorCode = kerr.InvalidGroupID.Code
			all.arrived()
			continue
		}
		part := kmsg.NewPtrStreamsGroupDescribeRequest()
		part.Version, part.Groups = req.Version, []string{id}
		b.groups.ask(rq, id, part, func(r kmsg.Response) {
			g := r.(*kmsg.StreamsGroupDescribeResponse).Groups[0]
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
