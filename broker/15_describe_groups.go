package broker

import "github.com/twmb/franz-go/pkg/kmsg"

func (b *Broker) handleDescribeGroups(rq *request) {
	req := rq.msg.(*kmsg.DescribeGroupsRequest)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	clocks := wantsClocks(&req.UnknownTags)
	all := newGather(len(req.Groups), func() { rq.reply(resp) })
	for i, id := range req.Groups {
		part := kmsg.NewPtrDescribeGroupsRequest()
		part.Version, part.Groups = req.Version, []string{id}
		b.groups.ask(rq, id, part, func(r kmsg.Response) {
			g := r.(*kmsg.DescribeGroupsResponse).Groups[0]
			if req.IncludeAuthorizedOperations && g.ErrorCode == 0 && g.State != "Dead" {
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
