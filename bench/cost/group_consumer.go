package main

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// epochTalk is the consumer and the streams protocol: one request, and the broker
// assigns. They differ in its fields.
type epochTalk struct {
	// request is a heartbeat in an epoch, with the subscription in epoch 0, and
	// with what the member has when asked to report.
	request func(m *member, s *epochState, epoch int32, report bool) kmsg.Request
	heard   func(kmsg.Response) heard
}

// epochState is what a member has to say with its next heartbeat.
type epochState struct {
	topic  [16]byte
	report bool // what it has, for that has changed
}

// heard is the answer to a heartbeat.
type heard struct {
	code     int16
	every    int32 // ms
	epoch    int32
	assigned bool
	topic    [16]byte
	own      []int32
}

func (t epochTalk) talk(m *member) (time.Duration, bool, error) {
	s, ok := m.state.(*epochState)
	if !ok {
		s = &epochState{}
		m.state = s
	}
	plain := m.epoch != 0 && !s.report
	req := t.request(m, s, m.epoch, s.report)
	if !plain {
		m.frame = nil
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
	h := t.heard(answer)
	if err := kerr.ErrorForCode(h.code); err != nil {
		return 0, false, err
	}
	every := time.Duration(h.every) * time.Millisecond
	s.report = false
	if !h.assigned {
		if h.epoch != m.epoch {
			m.have(m.own, h.epoch)
		}
		return every, plain, nil
	}
	s.topic = h.topic
	s.report = !same(m.own, h.own)
	m.have(slices.Clone(h.own), h.epoch)
	if s.report {
		return 0, plain, nil
	}
	return every, plain, nil
}

func (t epochTalk) leave(ms []*member) error {
	for _, m := range ms {
		answer, err := m.c.ask(t.request(m, &epochState{}, -1, false))
		if err == nil {
			err = kerr.ErrorForCode(t.heard(answer).code)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consumer is KIP-848.
func consumer() protocol {
	return epochTalk{
		request: func(m *member, s *epochState, epoch int32, report bool) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.SetVersion(1)
			req.Group, req.MemberID, req.MemberEpoch = m.h.group, m.id, epoch
			req.RebalanceTimeoutMillis = -1
			req.SubscribedTopicNames, req.Topics = nil, nil
			if epoch == 0 {
				req.RebalanceTimeoutMillis = 300_000
				req.SubscribedTopicNames = []string{m.h.topic}
			}
			if epoch == 0 || report {
				req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			}
			if report && len(m.own) > 0 {
				req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.topic, Partitions: m.own})
			}
			return req
		},
		heard: func(answer kmsg.Response) heard {
			r := answer.(*kmsg.ConsumerGroupHeartbeatResponse)
			h := heard{code: r.ErrorCode, every: r.HeartbeatIntervalMillis, epoch: r.MemberEpoch, assigned: r.Assignment != nil}
			if h.assigned {
				for _, t := range r.Assignment.Topics {
					h.topic, h.own = t.TopicID, t.Partitions
				}
			}
			return h
		},
	}
}

const subtopology = "0"

// streams is KIP-1071, for one subtopology that reads one topic: its tasks are
// that topic's partitions.
func streams() protocol {
	return epochTalk{
		request: func(m *member, _ *epochState, epoch int32, report bool) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch = m.h.group, m.id, epoch
			req.RebalanceTimeoutMillis = -1
			if epoch == 0 {
				req.RebalanceTimeoutMillis = 300_000
				sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
				sub.SubtopologyID, sub.SourceTopics = subtopology, []string{m.h.topic}
				req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{sub}}
				req.ProcessID = &m.id
			}
			if epoch == 0 || report { // everything but active tasks is always empty
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			}
			if report && len(m.own) > 0 {
				req.ActiveTasks = append(req.ActiveTasks, kmsg.TaskIDs{SubtopologyID: subtopology, Partitions: m.own})
			}
			return req
		},
		heard: func(answer kmsg.Response) heard {
			r := answer.(*kmsg.StreamsGroupHeartbeatResponse)
			h := heard{code: r.ErrorCode, every: r.HeartbeatIntervalMillis, epoch: r.MemberEpoch, assigned: r.ActiveTasks != nil}
			for _, tasks := range r.ActiveTasks {
				h.own = tasks.Partitions
			}
			return h
		},
	}
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
