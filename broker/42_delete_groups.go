package broker

import "github.com/twmb/franz-go/pkg/kmsg"

func (b *Broker) handleDeleteGroups(rq *request) {
	req := rq.msg.(*kmsg.DeleteGroupsRequest)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(req.Groups))
	all := newGather(len(req.Groups), func() { rq.reply(resp) })
	for i, id := range req.Groups {
		part := kmsg.NewPtrDeleteGroupsRequest()
		part.Version, part.Groups = req.Version, []string{id}
		b.groups.ask(rq, id, part, func(r kmsg.Response) {
			resp.Groups[i] = r.(*kmsg.DeleteGroupsResponse).Groups[0]
			all.arrived()
		})
	}
}
