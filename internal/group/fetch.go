package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetFetch answers with committed offsets. That a group does not exist, or
// has no offset for a partition, is no error: the offset is -1. The forms
// before v8 name one group at the top, those after a list, here of one.
func (s *Shard) offsetFetch(rq Request, req *kmsg.OffsetFetchRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version < 8 {
		in := kmsg.NewOffsetFetchRequestGroup()
		in.Group = req.Group
		for _, t := range req.Topics {
			in.Topics = append(in.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		if req.Topics != nil && in.Topics == nil {
			in.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		for _, t := range s.fetch(&in, req.RequireStable).Topics {
			rt := kmsg.NewOffsetFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetFetchResponseTopicPartition{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
				})
			}
			resp.Topics = append(resp.Topics, rt)
		}
		s.reply(rq.Token, resp)
		return
	}
	for i := range req.Groups {
		resp.Groups = append(resp.Groups, s.fetch(&req.Groups[i], req.RequireStable))
	}
	s.reply(rq.Token, resp)
}

// fetch reads one group's offsets: of the topics asked for, or of all when
// there is no list.
func (s *Shard) fetch(req *kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	var os offsets
	if g := s.readable(req.Group); g != nil {
		if resp.ErrorCode = g.members.checkFetch(req.MemberID, req.MemberEpoch); resp.ErrorCode != 0 {
			return resp
		}
		os = g.offsets
	}
	row := func(topic string, index int32) kmsg.OffsetFetchResponseGroupTopicPartition {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = index, -1, -1, kmsg.StringPtr("")
		tp := partition{topic, index}
		if stable && os.pending[tp] > 0 {
			p.ErrorCode = kerr.UnstableOffsetCommit.Code
		} else if o, ok := os.get(tp); ok && !s.replaced(tp, o) {
			p.Offset, p.LeaderEpoch, p.Metadata = o.at, o.epoch, kmsg.StringPtr(o.metadata)
		}
		return p
	}
	if req.Topics == nil {
		for _, topic := range slices.Sorted(maps.Keys(os.topics)) {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = topic
			for _, index := range slices.Sorted(maps.Keys(os.topics[topic])) {
				t.Partitions = append(t.Partitions, row(topic, index))
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	for _, in := range req.Topics {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic, t.TopicID = in.Topic, in.TopicID
		for _, index := range in.Partitions {
			t.Partitions = append(t.Partitions, row(in.Topic, index))
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
