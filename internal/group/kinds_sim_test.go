package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// What a mixed world has besides the clients of the older protocols: streams
// threads, changes of fashion between the two families, and somebody who deletes
// the group when it is empty.

func (p *peer) speaksClassic() bool { return p.classic && !p.streams }

func (p *peer) speaks() string {
	switch {
	case p.streams:
		return "streams"
	case p.classic:
		return "classic"
	}
	return "consumer"
}

// appTopology is what an application of streams runs: the first version reads t
// and has state, the second reads u as well.
func (p *peer) appTopology() *kmsg.StreamsGroupHeartbeatRequestTopology {
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	one := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	one.SubtopologyID, one.SourceTopics = "t", []string{"t"}
	one.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "store"}}
	topology.Subtopologies = append(topology.Subtopologies, one)
	if p.both {
		two := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		two.SubtopologyID, two.SourceTopics = "u", []string{"u"}
		topology.Epoch, topology.Subtopologies = 1, append(topology.Subtopologies, two)
	}
	return &topology
}

func (p *peer) streamsRequest() *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", p.id, p.epoch, -1
	return req
}

func (p *peer) leaveStreams() {
	req := p.streamsRequest()
	req.MemberEpoch = epochLeave
	p.send(req, func(kmsg.Response) {})
}

func (p *peer) beatStreams() {
	req := p.streamsRequest()
	if p.epoch == 0 {
		p.positions, p.standby = nil, nil
		req.Topology, req.ProcessID, req.RebalanceTimeoutMillis = p.appTopology(), &p.name, 20_000
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	} else if p.full || p.w.rng.IntN(4) == 0 {
		var active []taskID
		for tp := range p.positions {
			active = append(active, taskID{tp.topic, tp.index})
		}
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = makeTaskSet(active).answered(), p.standby.answered(), []kmsg.TaskIDs{}
	}
	p.waiting, p.full = true, false
	p.send(req, func(kr kmsg.Response) {
		if p.waiting = false; kr == nil {
			p.full = true
			return
		}
		p.hearStreams(req.MemberEpoch, kr.(*kmsg.StreamsGroupHeartbeatResponse))
	})
}

func (p *peer) hearStreams(asked int32, resp *kmsg.StreamsGroupHeartbeatResponse) {
	p.w.say("%s: epoch %d -> %d %s %v %v", p.name, asked, resp.MemberEpoch, errorName(resp.ErrorCode), resp.ActiveTasks, resp.StandbyTasks)
	switch resp.ErrorCode {
	case 0:
	case kerr.InvalidRequest.Code:
		if asked == 0 {
			p.both = !p.both // the group runs another version of the application
		}
		p.positions, p.standby, p.full = nil, nil, true
		return
	case kerr.GroupIDNotFound.Code, kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code:
		p.positions, p.standby, p.epoch = nil, nil, 0
		return
	default:
		p.full = true
		return
	}
	p.epoch = resp.MemberEpoch
	if resp.ActiveTasks == nil {
		return
	}
	has := map[partition]bool{}
	for id := range requestedTasks(resp.ActiveTasks).all {
		has[partition{id.sub, id.part}] = true
	}
	p.standby, p.full = requestedTasks(resp.StandbyTasks), true
	p.own(has)
}

// mayCommit says whether the coordinator would take a client's commit.
func (w *mixed) mayCommit(p *peer, tp partition) bool {
	g := w.s.groups["g"]
	if g == nil {
		return false
	}
	check := commitCheck{p.id, p.instance, p.epoch, false, 9}
	if g.members.checkCommit(check) != 0 {
		return false
	}
	t, ok := streamsOf(g)
	return !ok || t.checkPartitions(check, []commitTopic{{name: tp.topic, partitions: []commitPartition{{index: tp.index}}}}) == 0
}

// changeFashion lets all clients come back with another protocol.
func (w *mixed) changeFashion() {
	w.streams = !w.streams
	w.say("the fashion is streams: %v", w.streams)
	for _, p := range w.peers {
		w.follow(p)
	}
}

// follow lets a client come back as the fashion wants it.
func (w *mixed) follow(p *peer) {
	if p.streams == w.streams {
		return
	}
	if w.rng.IntN(4) == 0 {
		p.die()
	} else {
		p.leave()
	}
	p.streams = w.streams
	w.after(w.upTo(10*time.Second), p.boot)
}

// calmDown ends the faults: everybody has what the fashion wants, and streams
// find their topics.
func (w *mixed) calmDown() {
	w.calm = true
	for _, p := range w.peers {
		w.follow(p)
	}
	if w.streams && w.topics["u"] == 0 {
		w.born["u"]++
		w.topics["u"] = 2
		w.step(w.metadata())
	}
}

// makeTopics makes what a streams group needs.
func (w *mixed) makeTopics(topics []InternalTopic) {
	for _, topic := range topics {
		if w.topics[topic.Name] == 0 {
			w.topics[topic.Name] = topic.Partitions
			w.born[topic.Name]++
		}
	}
	if len(topics) > 0 {
		w.step(w.metadata())
	}
}

// erase deletes the group, which only works while it is empty. Until the answer
// is there nobody knows whether offsets are.
func (w *mixed) erase() {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"g"}
	w.erasing++
	w.erased++
	w.token++
	w.asked[w.token] = func(kr kmsg.Response) {
		w.erasing--
		if kr != nil && kr.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode == kerr.NonEmptyGroup.Code {
			return
		}
		w.say("the group is deleted")
		w.erased++
		clear(w.acked)
	}
	w.step(Request{Token: w.token, ClientID: "admin", Host: "/10.0.0.1", Req: req})
}

// bumps are the epochs of the newer protocols that have become durable in one life
// of a coordinator, in their order.
type bumps []string

// landed notes the epochs of one write, each of which must have come with its
// cause. A group that takes over a classic one begins with its generation, which is
// no bump.
func (b *bumps) landed(t *testing.T, out Output) {
	records, before := out.Records, len(*b)
	defer func() {
		var begun bumps
		for _, e := range out.Begun {
			if e.Stage != cause.Begun || e.Cause == 0 {
				t.Errorf("an event that begins: %+v", e)
			}
			if e.Protocol != "classic" {
				begun = append(begun, fmt.Sprint(e.Protocol, " ", e.To))
			}
		}
		if !slices.Equal(begun, (*b)[before:]) {
			t.Errorf("written are the epochs %v, with the causes of %v", (*b)[before:], begun)
		}
	}()
	ended, tookOver, epochs := false, false, 0
	for _, r := range records {
		ended = ended || r.Key[1] == keyClassic && r.Value == nil
		if r.Key[1] == keyConsumerMember && r.Value != nil {
			m, err := decodeMemberMeta(r.Value)
			tookOver = tookOver || ended && err == nil && m.classic != nil
		}
		if r.Key[1] == keyConsumerGroup && r.Value != nil {
			epochs++
			tookOver = tookOver || ended && epochs > 1
		}
	}
	for _, r := range records {
		if r.Value == nil {
			continue
		}
		switch r.Key[1] {
		case keyConsumerGroup:
			e, err := decodeGroupEpoch(r.Value)
			if err != nil {
				t.Error(err)
			}
			if !tookOver {
				*b = append(*b, fmt.Sprint("consumer ", e.epoch))
			}
			tookOver = false
		case keyStreamsGroup:
			e, err := decodeStreamsEpoch(r.Value)
			if err != nil {
				t.Error(err)
			}
			*b = append(*b, fmt.Sprint("streams ", e.epoch))
		}
	}
}

// check holds them against what was told: the last so many may still go on.
func (b bumps) check(t *testing.T, events []cause.Event, open int) {
	var told []string
	for _, e := range events {
		if e.Protocol != "classic" {
			told = append(told, fmt.Sprint(e.Protocol, " ", e.To))
		}
	}
	if n := len(b) - len(told); n < 0 || n > open || !slices.Equal(told, b[:len(told)]) {
		t.Errorf("durable are the epochs %v, told were %v", b, told)
	}
}

// checkStreams holds the members of a streams group against each other: an active
// task is with one member, and a process has a task in one role.
func checkStreams(w *testing.T, t *streams) {
	active, near := map[taskID]string{}, map[string]string{}
	counted := newHoldings()
	for _, m := range t.sorted() {
		counted.add(m, 1)
		if m.session.place == 0 {
			w.Errorf("nothing ends the session of %s", m.id)
		}
		if (m.patience.place > 0) != (m.current.state == memberUnrevoked) {
			w.Errorf("%s in state %d, its patience runs: %v", m.id, m.current.state, m.patience.place > 0)
		}
		for _, held := range []heldTasks{m.current.assigned, m.current.revoking} {
			for role, set := range held.roles() {
				for id := range set.all {
					if other := active[id]; role == 0 && other != "" {
						w.Errorf("task %v is active with %s and %s", id, other, m.id)
					}
					if role == 0 {
						active[id] = m.id
					}
					at := fmt.Sprint(m.meta.process, id)
					if other := near[at]; other != "" {
						w.Errorf("task %v is twice in process %s, with %s and %s", id, m.meta.process, other, m.id)
					}
					near[at] = m.id
				}
			}
		}
	}
	if !maps.Equal(counted.active, t.holds.active) || !maps.EqualFunc(counted.near, t.holds.near, maps.Equal) {
		w.Errorf("members have %v, counted %v", counted, t.holds)
	}
}
