package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// peer is a well-behaved client of one of the protocols in a random world of all.
type peer struct {
	w        *mixed
	name     string
	instance *string
	classic  bool
	streams  bool // a streams thread, whatever classic says
	both     bool // reads topic u as well

	life        int // of the process and its membership: answers to earlier ones are lost
	starts      int
	up          bool
	id          string
	epoch       int32
	waiting     bool // for an answer
	full        bool // the next heartbeat says everything
	changed     bool // its subscription is news
	standby     taskSet
	synced      bool // classic: has its assignment
	positions   map[partition]int64
	pausedUntil time.Time
	arrives     time.Time
}

func (p *peer) topics() []string {
	if p.both {
		return []string{"t", "u"}
	}
	return []string{"t"}
}

func (p *peer) boot() {
	if p.up {
		return
	}
	p.up, p.waiting, p.synced = true, false, false
	p.life++
	if p.speaksClassic() {
		p.id, p.epoch = "", -1
	} else {
		if p.id = fmt.Sprint(p.name, p.starts); p.w.rng.IntN(3) > 0 || p.starts == 0 {
			p.starts++ // a new process; else one whose poll clock had run out
			p.id = fmt.Sprint(p.name, p.starts)
		}
		p.epoch, p.full = 0, true
	}
	p.w.say("%s starts as %s, %s, both %v", p.name, p.id, p.speaks(), p.both)
	p.beats(p.life)
}

func (p *peer) die() {
	p.up, p.positions = false, nil
	p.life++
}

func (p *peer) leave() {
	if !p.up {
		return
	}
	p.w.say("%s leaves", p.name)
	if p.streams {
		p.leaveStreams()
	} else if p.classic {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 5, "g"
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: p.id, InstanceID: p.instance}}
		p.send(req, func(kmsg.Response) {})
	} else {
		req := p.heartbeat()
		if req.MemberEpoch = epochLeave; p.instance != nil && p.w.rng.IntN(2) == 0 {
			req.MemberEpoch = epochLeaveStatic
		}
		p.send(req, func(kmsg.Response) {})
	}
	p.die()
}

// send sends a request. An answer may get lost; then the client gives up after
// a while and begins again on a new connection.
func (p *peer) send(req kmsg.Request, answer func(kmsg.Response)) {
	w, life := p.w, p.life
	lost := !w.calm && w.rng.IntN(40) == 0
	arrives := w.now.Add(w.upTo(20 * time.Millisecond))
	if arrives.Before(p.arrives) {
		arrives = p.arrives
	}
	p.arrives = arrives
	w.after(arrives.Sub(w.now), func() {
		w.token++
		w.asked[w.token] = func(resp kmsg.Response) {
			if life != p.life {
				return
			}
			if lost {
				resp = nil
			}
			answer(resp)
		}
		w.step(Request{Token: w.token, ClientID: p.name, Host: "/10.0.0.1", Req: req})
	})
}

// beats is the loop of a client's life.
func (p *peer) beats(life int) {
	if life != p.life {
		return
	}
	p.w.after(p.w.upTo(2*time.Second), func() { p.beats(life) })
	if p.waiting || p.w.now.Before(p.pausedUntil) {
		return
	}
	switch {
	case p.streams:
		p.beatStreams()
	case p.classic:
		p.beatClassic()
	default:
		p.beat()
	}
	if p.epoch > 0 {
		p.commit()
	}
}

func (p *peer) heartbeat() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, "g", p.id, p.epoch, p.instance
	return req
}

func (p *peer) beat() {
	req := p.heartbeat()
	if p.full || p.changed || p.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 20_000, p.topics()
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if p.epoch > 0 {
		byTopic := map[string][]int32{}
		for _, tp := range slices.SortedFunc(maps.Keys(p.positions), comparePartitions) {
			byTopic[tp.topic] = append(byTopic[tp.topic], tp.index)
		}
		for _, name := range slices.Sorted(maps.Keys(byTopic)) {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: TopicID{name[0], p.w.born[name]}, Partitions: byTopic[name]})
		}
	} else {
		p.positions = nil
	}
	p.waiting, p.full, p.changed = true, false, false
	p.send(req, func(kr kmsg.Response) {
		p.waiting = false
		if kr == nil {
			p.full = true
			return
		}
		resp := kr.(*kmsg.ConsumerGroupHeartbeatResponse)
		p.w.say("%s: epoch %d -> %d %s %v", p.name, req.MemberEpoch, resp.MemberEpoch, errorName(resp.ErrorCode), resp.Assignment)
		switch resp.ErrorCode {
		case 0:
		case kerr.UnreleasedInstanceID.Code, kerr.GroupIDNotFound.Code:
			p.positions = nil // the old one's session must end, or the group cannot be had
			p.epoch = 0
			return
		case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
			p.positions, p.epoch, p.full = nil, 0, true
			return
		default:
			p.full = true
			return
		}
		p.epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			p.take(resp.Assignment)
		}
	})
}

// take gives up what it has no more and begins to read what is new.
func (p *peer) take(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) {
	has := map[partition]bool{}
	for _, t := range a.Topics {
		for _, n := range t.Partitions {
			has[partition{string(t.TopicID[:1]), n}] = true
		}
	}
	p.own(has)
}

func (p *peer) own(has map[partition]bool) {
	if p.positions == nil {
		p.positions = map[partition]int64{}
	}
	maps.DeleteFunc(p.positions, func(tp partition, _ int64) bool { return !has[tp] })
	for _, tp := range slices.SortedFunc(maps.Keys(has), comparePartitions) {
		if _, old := p.positions[tp]; !old {
			p.w.checkOwner(p, tp)
			p.positions[tp] = p.w.acked[tp]
			p.fetch(tp)
		}
	}
}

// fetch reads where to go on.
func (p *peer) fetch(tp partition) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.RequireStable = 9, true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = "g", -1
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: tp.topic, Partitions: []int32{tp.index}}}
	req.Groups = append(req.Groups, g)
	floor, erased := p.w.acked[tp], p.w.erased
	p.send(req, func(kr kmsg.Response) {
		if kr == nil || tp.topic == "u" { // whose offsets go with it
			return
		}
		if erased != p.w.erased || p.w.erasing > 0 {
			return
		}
		for _, t := range kr.(*kmsg.OffsetFetchResponse).Groups[0].Topics {
			if at := t.Partitions[0].Offset; t.Partitions[0].ErrorCode == 0 && at < floor && floor > 0 {
				p.w.t.Errorf("%s fetched offset %d of %s-%d, but %d was acknowledged", p.name, at, tp.topic, tp.index, floor)
			}
		}
	})
}

func (p *peer) commit() {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 9, "g", p.epoch, p.id, p.instance
	said := map[partition]int64{}
	for _, tp := range slices.SortedFunc(maps.Keys(p.positions), comparePartitions) {
		p.w.sent[tp]++ // so that whoever commits later commits more
		p.positions[tp], said[tp] = p.w.sent[tp], p.w.sent[tp]
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = tp.topic
		t.Partitions = []kmsg.OffsetCommitRequestTopicPartition{{Partition: tp.index, Offset: said[tp]}}
		req.Topics = append(req.Topics, t)
	}
	erased := p.w.erased
	p.send(req, func(kr kmsg.Response) {
		if kr == nil || erased != p.w.erased {
			return
		}
		for _, t := range kr.(*kmsg.OffsetCommitResponse).Topics {
			if tp := (partition{t.Topic, t.Partitions[0].Partition}); t.Partitions[0].ErrorCode == 0 {
				p.w.acked[tp] = max(p.w.acked[tp], said[tp])
			}
		}
	})
}

// The classic protocol: eager, with Kafka's own metadata.

func (p *peer) beatClassic() {
	if !p.synced {
		p.join()
		return
	}
	if p.changed {
		p.changed = false
		p.join()
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 4, "g", p.epoch, p.id, p.instance
	p.waiting = true
	p.send(req, func(kr kmsg.Response) {
		p.waiting = false
		if kr == nil {
			return
		}
		switch code := kr.(*kmsg.HeartbeatResponse).ErrorCode; code {
		case 0:
		case kerr.RebalanceInProgress.Code:
			p.join()
		default:
			p.w.say("%s: heartbeat %s", p.name, errorName(code))
			p.forget(code)
		}
	})
}

func (p *peer) forget(code int16) {
	p.positions, p.synced, p.epoch = nil, false, -1
	if code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code {
		p.id = ""
	}
}

func (p *peer) join() {
	p.positions, p.synced, p.waiting = nil, false, true
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = 9, "g", p.id, p.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 20_000, "consumer"
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, p.topics()
	o := kmsg.NewJoinGroupRequestProtocol()
	o.Name, o.Metadata = "range", m.AppendTo(nil)
	req.Protocols = append(req.Protocols, o)
	p.send(req, func(kr kmsg.Response) {
		p.waiting = false
		if kr == nil {
			return
		}
		resp := kr.(*kmsg.JoinGroupResponse)
		p.w.say("%s: join %s generation %d as %s", p.name, errorName(resp.ErrorCode), resp.Generation, resp.MemberID)
		switch resp.ErrorCode {
		case 0:
			p.id, p.epoch = resp.MemberID, resp.Generation
			p.sync(resp)
		case kerr.MemberIDRequired.Code:
			p.id = resp.MemberID
			p.join()
		default:
			p.forget(resp.ErrorCode)
		}
	})
}

func (p *peer) sync(joined *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 5, "g", p.epoch, p.id, p.instance
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if joined.LeaderID == p.id && !joined.SkipAssignment {
		req.GroupAssignment = p.lead(joined.Members)
	}
	p.waiting = true
	p.send(req, func(kr kmsg.Response) {
		p.waiting = false
		if kr == nil {
			return
		}
		resp := kr.(*kmsg.SyncGroupResponse)
		p.w.say("%s: sync %s", p.name, errorName(resp.ErrorCode))
		if resp.ErrorCode == kerr.RebalanceInProgress.Code {
			return
		}
		if resp.ErrorCode != 0 {
			p.forget(resp.ErrorCode)
			return
		}
		p.synced = true
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(resp.MemberAssignment) != nil {
			p.own(nil)
			return
		}
		has := map[partition]bool{}
		for _, t := range a.Topics {
			for _, n := range t.Partitions {
				has[partition{t.Topic, n}] = true
			}
		}
		p.own(has)
	})
}

// lead assigns partitions by turns to those who read the topic.
func (p *peer) lead(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	out := make([]kmsg.SyncGroupRequestGroupAssignment, len(members))
	sets := make([]kmsg.ConsumerMemberAssignment, len(members))
	for _, topic := range []string{"t", "u"} {
		var readers []int
		for i, m := range members {
			var said kmsg.ConsumerMemberMetadata
			if said.ReadFrom(m.ProtocolMetadata) == nil && slices.Contains(said.Topics, topic) {
				readers = append(readers, i)
			}
		}
		for n := range p.w.topics[topic] {
			if len(readers) > 0 {
				s := &sets[readers[int(n)%len(readers)]]
				s.Topics = append(s.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: []int32{n}})
			}
		}
	}
	for i, m := range members {
		out[i].MemberID, out[i].MemberAssignment = m.MemberID, sets[i].AppendTo(nil)
	}
	return out
}
