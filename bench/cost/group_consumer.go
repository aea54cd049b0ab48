package main

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerTalk is the consumer protocol (KIP-848): one request, and the broker
// assigns.
type consumerTalk struct{}

func consumer() protocol { return consumerTalk{} }

// consumerState is what a member has to say with its next heartbeat.
type consumerState struct {
	topic  [16]byte
	report bool // what it has, for that has changed
	every  time.Duration
}

func (consumerTalk) request(m *member) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.SetVersion(1)
	req.Group, req.MemberID, req.MemberEpoch = m.h.group, m.id, m.epoch
	req.RebalanceTimeoutMillis = -1
	req.SubscribedTopicNames, req.Topics = nil, nil
	return req
}

func (t consumerTalk) talk(m *member) (time.Duration, bool, error) {
	s, ok := m.state.(*consumerState)
	if !ok {
		s = &consumerState{}
		m.state = s
	}
	req := t.request(m)
	plain := false
	switch {
	case m.epoch == 0:
		req.RebalanceTimeoutMillis = 300_000
		req.SubscribedTopicNames = []string{m.h.topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		m.frame = nil
	case s.report:
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(m.own) > 0 {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.topic, Partitions: m.own})
		}
		m.frame = nil
	default:
		plain = true
	}
	if m.frame == nil {
		m.frame = encode(req)
	}
	answer, err := m.c.decode(req, m.frame)
	if !plain {
		m.frame = nil
	}
	if err != nil {
		return 0, false, err
	}
	resp := answer.(*kmsg.ConsumerGroupHeartbeatResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, false, err
	}
	s.every = time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	s.report = false
	if resp.Assignment == nil {
		if resp.MemberEpoch != m.epoch {
			m.have(m.own, resp.MemberEpoch)
		}
		return s.every, plain, nil
	}
	var own []int32
	for _, topic := range resp.Assignment.Topics {
		s.topic, own = topic.TopicID, topic.Partitions
	}
	s.report = !same(m.own, own)
	m.have(slices.Clone(own), resp.MemberEpoch)
	if s.report {
		return 0, plain, nil
	}
	return s.every, plain, nil
}

func (t consumerTalk) leave(ms []*member) error {
	for _, m := range ms {
		req := t.request(m)
		req.MemberEpoch = -1
		answer, err := m.c.ask(req)
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// streamsTalk is the streams protocol (KIP-1071), for one subtopology that
// reads one topic: its tasks are that topic's partitions.
type streamsTalk struct{}

func streams() protocol { return streamsTalk{} }

const subtopology = "0"

func (streamsTalk) request(m *member) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = m.h.group, m.id, m.epoch
	req.RebalanceTimeoutMillis = -1
	return req
}

// report says what a member has; everything but active tasks is always empty.
func (streamsTalk) report(m *member, req *kmsg.StreamsGroupHeartbeatRequest) {
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	if len(m.own) > 0 {
		req.ActiveTasks = append(req.ActiveTasks, kmsg.TaskIDs{SubtopologyID: subtopology, Partitions: m.own})
	}
}

func (t streamsTalk) talk(m *member) (time.Duration, bool, error) {
	s, ok := m.state.(*consumerState)
	if !ok {
		s = &consumerState{}
		m.state = s
	}
	req := t.request(m)
	plain := false
	switch {
	case m.epoch == 0:
		req.RebalanceTimeoutMillis = 300_000
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = subtopology, []string{m.h.topic}
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{sub}}
		req.ProcessID = &m.id
		t.report(m, req)
		m.frame = nil
	case s.report:
		t.report(m, req)
		m.frame = nil
	default:
		plain = true
	}
	if m.frame == nil {
		m.frame = encode(req)
	}
	answer, err := m.c.decode(req, m.frame)
	if !plain {
		m.frame = nil
	}
	if err != nil {
		return 0, false, err
	}
	resp := answer.(*kmsg.StreamsGroupHeartbeatResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, false, err
	}
	s.every = time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	s.report = false
	if resp.ActiveTasks == nil {
		if resp.MemberEpoch != m.epoch {
			m.have(m.own, resp.MemberEpoch)
		}
		return s.every, plain, nil
	}
	var own []int32
	for _, tasks := range resp.ActiveTasks {
		own = tasks.Partitions
	}
	s.report = !same(m.own, own)
	m.have(slices.Clone(own), resp.MemberEpoch)
	if s.report {
		return 0, plain, nil
	}
	return s.every, plain, nil
}

func (t streamsTalk) leave(ms []*member) error {
	for _, m := range ms {
		req := t.request(m)
		req.MemberEpoch = -1
		answer, err := m.c.ask(req)
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitForGroup asks for a group's coordinator until there is one: a broker may
// still have to make the topic that groups live in.
func waitForGroup(c *conn, group string) error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(1)
	find.CoordinatorKey = group
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.SetVersion(1)
	describe.Groups = []string{group}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		answer, err := c.ask(find)
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.FindCoordinatorResponse).ErrorCode)
		}
		if err == nil {
			answer, err = c.ask(describe)
		}
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode)
		}
		var known *kerr.Error
		if err == nil || !errors.As(err, &known) || time.Now().After(deadline) {
			return err
		}
	}
}
