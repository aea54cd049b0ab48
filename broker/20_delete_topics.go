package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDeleteTopics removes topics with their data, by name or by id.
func (b *Broker) handleDeleteTopics(rq *request) {
	msg := rq.msg.(*kmsg.DeleteTopicsRequest)
	if rq.version < 6 {
		for _, name := range msg.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			msg.Topics = append(msg.Topics, t)
		}
	}
	b.meta.do(func() {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		var gone []*topic
		for i, asked := range msg.Topics {
			r := kmsg.NewDeleteTopicsResponseTopic()
			r.Topic, r.TopicID = asked.Topic, asked.TopicID
			t, f := b.deleteTopic(asked, msg.Topics[:i])
			if f != nil {
				r.ErrorCode, r.ErrorMessage = f.code, &f.text
			} else {
				r.Topic, r.TopicID = &t.name, t.id
				gone = append(gone, t)
			}
			resp.Topics = append(resp.Topics, r)
		}
		if len(gone) > 0 {
			b.groups.topicsDeleted(gone)
		}
		rq.reply(resp)
	})
}

// deleteTopic runs on the metadata goroutine. Those before it in the request
// tell duplicates.
func (b *Broker) deleteTopic(asked kmsg.DeleteTopicsRequestTopic, before []kmsg.DeleteTopicsRequestTopic) (*topic, *failure) {
	named, byID := asked.Topic != nil, asked.TopicID != [16]byte{}
	if named == byID {
		return nil, fail(kerr.InvalidRequest, "You may not specify both topic name and topic id, nor neither.")
	}
	for _, other := range before {
		if other.TopicID == asked.TopicID && (other.Topic == nil) == !named && (!named || *other.Topic == *asked.Topic) {
			return nil, fail(kerr.InvalidRequest, "Duplicate topic name or id.")
		}
	}
	c := b.catalog()
	t := c.byID[asked.TopicID]
	missing := fail(kerr.UnknownTopicID, "This server does not host this topic ID.")
	if named {
		t = c.topic(*asked.Topic)
		missing = fail(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	switch {
	case t == nil:
		return nil, missing
	case !b.settings.bool("delete.topic.enable"):
		return nil, fail(kerr.TopicDeletionDisabled, "%s", kerr.TopicDeletionDisabled.Description)
	case t.internal:
		return nil, fail(kerr.InvalidRequest, "Deletion of internal topic %s is prohibited: the broker keeps its own state in it.", t.name)
	}
	if err := b.meta.deleteTopic(t); err != nil {
		b.log.Error("delete topic", "topic", t.name, "cause", err)
		return nil, storageFailure(fmt.Errorf("delete topic %s: %w", t.name, err))
	}
	return t, nil
}
