package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// handleListGroups asks every shard of this broker. One that is still loading makes the whole
// list fail with COORDINATOR_LOAD_IN_PROGRESS: a list must not leave out groups.
func (b *Broker) handleListGroups(rq *request) {
	shards := b.groups.ledBy(rq.conn.node)
	parts := make([]*kmsg.ListGroupsResponse, len(shards))
	all := newGather(len(shards), func() {
		resp := kmsg.NewPtrListGroupsResponse()
		for _, p := range parts {
			if p.ErrorCode != 0 {
				resp.ErrorCode, resp.Groups = p.ErrorCode, nil
				break
			}
			resp.Groups = append(resp.Groups, p.Groups...)
		}
		rq.reply(resp)
	})
	for i, s := range shards {
		s.ask(rq, rq.msg, func(r kmsg.Response) {
			parts[i] = r.(*kmsg.ListGroupsResponse)
			all.arrived()
		})
	}
}
