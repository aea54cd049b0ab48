package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// classicTalk is the classic protocol: everybody joins, and a member assigns.
// Eagerly, members give everything up before they join; cooperatively they keep
// what they have, and what moves is given up in a round of its own.
type classicTalk struct{ keep bool }

func eager() protocol       { return classicTalk{} }
func cooperative() protocol { return classicTalk{keep: true} }

// beatEvery is the clients' default of heartbeat.interval.ms.
const beatEvery = 3 * time.Second

// classicState is a member that has joined once.
type classicState struct {
	id         string
	generation int32
	joined     bool
}

func (t classicTalk) talk(m *member) (time.Duration, bool, error) {
	s, ok := m.state.(*classicState)
	if !ok {
		s = &classicState{generation: -1}
		m.state = s
	}
	if s.joined {
		err := t.beat(m, s)
		if !errors.Is(err, kerr.RebalanceInProgress) {
			return beatEvery, true, err
		}
		s.joined = false
	}
	if !t.keep && len(m.own) > 0 {
		m.have(nil, m.epoch)
	}
	own, err := t.join(m, s)
	if errors.Is(err, kerr.RebalanceInProgress) {
		return 0, false, nil // somebody else came meanwhile
	}
	if err != nil {
		return 0, false, err
	}
	lost := slices.ContainsFunc(m.own, func(p int32) bool { return !slices.Contains(own, p) })
	m.have(own, s.generation)
	s.joined = !lost || !t.keep
	if !s.joined {
		return 0, false, nil // what it has lost, others wait for
	}
	return beatEvery, false, nil
}

func (t classicTalk) beat(m *member, s *classicState) error {
	if m.frame == nil {
		req := kmsg.NewPtrHeartbeatRequest()
		req.SetVersion(3)
		req.Group, req.MemberID, req.Generation = m.h.group, s.id, s.generation
		m.frame = encode(req)
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.SetVersion(3)
	answer, err := m.c.decode(req, m.frame)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.HeartbeatResponse).ErrorCode)
}

// join joins, assigns if that falls to it, and fetches what it is to have.
func (t classicTalk) join(m *member, s *classicState) ([]int32, error) {
	name := "eager"
	if t.keep {
		name = "cooperative"
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.SetVersion(5)
	req.Group, req.MemberID, req.ProtocolType = m.h.group, s.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 45_000, 300_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, []string{m.h.topic}
	if len(m.own) > 0 {
		meta.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: m.h.topic, Partitions: m.own}}
	}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: name, Metadata: meta.AppendTo(nil)}}
	var resp *kmsg.JoinGroupResponse
	for {
		answer, err := m.c.ask(req)
		if err != nil {
			return nil, err
		}
		resp = answer.(*kmsg.JoinGroupResponse)
		err = kerr.ErrorForCode(resp.ErrorCode)
		if errors.Is(err, kerr.MemberIDRequired) {
			s.id, req.MemberID = resp.MemberID, resp.MemberID
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("join: %w", err)
		}
		break
	}
	s.id, s.generation = resp.MemberID, resp.Generation
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.SetVersion(3)
	sync.Group, sync.MemberID, sync.Generation = m.h.group, s.id, s.generation
	if resp.LeaderID == resp.MemberID {
		var err error
		if sync.GroupAssignment, err = t.assign(m.h, resp); err != nil {
			return nil, err
		}
	}
	answer, err := m.c.ask(sync)
	if err == nil {
		err = kerr.ErrorForCode(answer.(*kmsg.SyncGroupResponse).ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	var mine kmsg.ConsumerMemberAssignment
	raw := answer.(*kmsg.SyncGroupResponse).MemberAssignment
	if len(raw) == 0 {
		return nil, nil
	}
	if err := mine.ReadFrom(raw); err != nil {
		return nil, fmt.Errorf("assignment: %w", err)
	}
	var own []int32
	for _, topic := range mine.Topics {
		own = append(own, topic.Partitions...)
	}
	return own, nil
}

// seat is a member as the one that assigns sees it.
type seat struct {
	id       string
	had, has []int32
}

// assign gives everybody equally many partitions, and lets them keep what they
// had as far as that goes. Cooperatively nobody is given what another still has.
func (t classicTalk) assign(h *herd, resp *kmsg.JoinGroupResponse) ([]kmsg.SyncGroupRequestGroupAssignment, error) {
	seats := make([]seat, len(resp.Members))
	for i, m := range resp.Members {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(m.ProtocolMetadata); err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", m.MemberID, err)
		}
		seats[i].id = m.MemberID
		for _, topic := range meta.OwnedPartitions {
			seats[i].had = topic.Partitions
		}
	}
	slices.SortFunc(seats, func(a, b seat) int { return cmp.Compare(a.id, b.id) })
	h.deal(seats, t.keep)
	out := make([]kmsg.SyncGroupRequestGroupAssignment, len(seats))
	for i, s := range seats {
		a := kmsg.NewConsumerMemberAssignment()
		a.Version = 1
		if len(s.has) > 0 {
			a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: h.topic, Partitions: s.has}}
		}
		out[i] = kmsg.SyncGroupRequestGroupAssignment{MemberID: s.id, MemberAssignment: a.AppendTo(nil)}
	}
	return out, nil
}

func (h *herd) deal(seats []seat, withhold bool) {
	quota, extra := h.parts/len(seats), h.parts%len(seats)
	taken, held := make([]bool, h.parts), make([]bool, h.parts)
	for i := range seats {
		may := quota
		if extra > 0 && len(seats[i].had) > quota {
			may++
			extra--
		}
		for n, p := range seats[i].had {
			if held[p] = true; n < may {
				seats[i].has, taken[p] = append(seats[i].has, p), true
			}
		}
	}
	free := make([]int32, 0, h.parts)
	for p := range taken {
		if !taken[p] {
			free = append(free, int32(p))
		}
	}
	for i := range seats {
		may := quota
		switch {
		case len(seats[i].has) > quota:
			may++ // it kept an extra one
		case extra > 0:
			may++
			extra--
		}
		for len(seats[i].has) < may && len(free) > 0 {
			p := free[0]
			if free = free[1:]; withhold && held[p] {
				may--
				continue
			}
			seats[i].has = append(seats[i].has, p)
		}
	}
}

func (t classicTalk) leave(ms []*member) error {
	if len(ms) == 0 {
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.SetVersion(3)
	req.Group = ms[0].h.group
	for _, m := range ms {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = m.state.(*classicState).id
		req.Members = append(req.Members, lm)
	}
	answer, err := ms[0].c.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.LeaveGroupResponse).ErrorCode)
}
