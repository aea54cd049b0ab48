package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of elections (ElectionType.java).
const (
	electPreferred = 0
	electUnclean   = 1
)

// handleElectLeaders moves partitions to their preferred leaders, the first of
// their replicas. Without a list it looks at all partitions, and tells only of
// those that it has moved.
func (b *Broker) handleElectLeaders(rq *request) {
	msg := rq.msg.(*kmsg.ElectLeadersRequest)
	b.meta.do(func() {
		resp := kmsg.NewPtrElectLeadersResponse()
		if kind := msg.ElectionType; kind != electPreferred && kind != electUnclean && rq.version >= 1 {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		asked := msg.Topics
		if asked == nil {
			c := b.catalog()
			for _, name := range c.names() {
				t := kmsg.NewElectLeadersRequestTopic()
				t.Topic = name
				for i := range c.topic(name).partitions {
					t.Partitions = append(t.Partitions, int32(i))
				}
				asked = append(asked, t)
			}
		}
		for _, a := range asked {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = a.Topic
			for _, n := range a.Partitions {
				f := fail(kerr.InvalidRequest, "Unknown election type %d", msg.ElectionType)
				if resp.ErrorCode == 0 {
					f = b.elect(a.Topic, n, msg.ElectionType)
				}
				if f != nil && f.code == kerr.ElectionNotNeeded.Code && msg.Topics == nil {
					continue
				}
				p := kmsg.NewElectLeadersResponseTopicPartition()
				p.Partition = n
				if f != nil {
					p.ErrorCode, p.ErrorMessage = f.code, &f.text
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		rq.reply(resp)
	})
}

// elect runs on the metadata goroutine.
func (b *Broker) elect(name string, n int32, kind int8) *failure {
	t := b.catalog().topic(name)
	p := t.partition(n)
	switch {
	case t == nil:
		return fail(kerr.UnknownTopicOrPartition, "No such topic as %s", name)
	case p == nil:
		return fail(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", name, n)
	case kind == electUnclean, p.leader == p.replicas[0]: // every leader is alive
		return fail(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	if err := b.meta.movePartition(t, n, p.replicas, p.replicas[0]); err != nil {
		b.log.Error("elect a leader", "topic", name, "partition", n, "cause", err)
		return storageFailure(err)
	}
	return nil
}
