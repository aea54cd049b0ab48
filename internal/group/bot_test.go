package group

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bot is a well-behaved client in a random world.
type bot struct {
	w           *sim
	name        string
	instance    *string
	cooperative bool

	life        int // of the process and of its membership: answers to earlier ones are lost
	up          bool
	id          string
	gen         int32
	joining     bool
	positions   map[int32]int64 // of the partitions it owns
	pausedUntil time.Time
	topics      int       // how often its subscription has changed
	arrives     time.Time // when its last request reaches the coordinator
}

func (b *bot) boot() {
	if b.up {
		return
	}
	b.up = true
	b.life++
	b.id, b.gen = "", -1
	b.w.say("%s starts", b.name)
	b.join("")
	b.beatLoop(b.life)
}

func (b *bot) revive() { b.boot() }

func (b *bot) die() {
	if b.up {
		b.w.say("%s dies", b.name)
	}
	b.up, b.joining, b.positions = false, false, nil
	b.life++
}

func (b *bot) leave(reason string) {
	if !b.up {
		return
	}
	b.w.say("%s leaves: %s", b.name, reason)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: b.id, InstanceID: b.instance, Reason: &reason}}
	b.w.request(b, req, func(kmsg.Response) {})
	b.die()
}

// stranded is what a client does when an answer does not come: it connects
// anew and joins again.
func (b *bot) stranded() {
	if b.up {
		b.joining = false
		b.life++
		b.beatLoop(b.life)
		b.join("")
	}
}

func (b *bot) rejoin(reason string) {
	if b.up && !b.joining && b.id != "" {
		b.join(reason)
	}
}

// lost drops the membership and joins as a newcomer.
func (b *bot) lost(code int16) {
	b.positions, b.joining = nil, false
	if code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code {
		b.id = ""
	}
	b.gen = -1
	b.join("encountered " + errorName(code) + " from a response")
}

func (b *bot) join(reason string) {
	if b.joining {
		return
	}
	b.joining = true
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = 9, "g", b.id, b.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 30_000, "consumer"
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{"t", fmt.Sprint("u", b.topics)}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", m.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	if reason != "" {
		req.Reason = &reason
	}
	b.w.request(b, req, b.joined)
}

func (b *bot) retry(d time.Duration, do func()) {
	life := b.life
	b.w.after(d, func() {
		if life == b.life && b.up {
			do()
		}
	})
}

func (b *bot) joined(kr kmsg.Response) {
	b.joining = false
	if kr == nil { // the connection broke
		b.retry(b.w.upTo(time.Second), func() { b.join("") })
		return
	}
	resp := kr.(*kmsg.JoinGroupResponse)
	b.w.say("%s: join %s generation %d as %s", b.name, errorName(resp.ErrorCode), resp.Generation, resp.MemberID)
	switch resp.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		b.id = resp.MemberID
		b.join("need to re-join with the given member-id: " + b.id)
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		b.id = ""
		b.retry(b.w.upTo(time.Second), func() { b.join("encountered UNKNOWN_MEMBER_ID from JOIN response") })
		return
	default:
		b.retry(b.w.upTo(time.Second), func() { b.join("") })
		return
	}
	if b.gen >= 0 && b.gen < resp.Generation && b.w.rng.IntN(3) == 0 {
		b.haunt(b.id, b.gen)
	}
	b.id, b.gen = resp.MemberID, resp.Generation
	b.sync(resp)
}

// haunt sends what a generation that is over has left behind: a commit and an
// assignment that were slow on their way. Neither may have an effect, unless
// the coordinator is killed or moves, and wakes up in that generation again.
func (b *bot) haunt(id string, generation int32) {
	life := b.w.life
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation, commit.MemberID, commit.InstanceID = 9, "g", generation, id, b.instance
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 0}}
	commit.Topics = append(commit.Topics, t)
	b.w.send(b, commit, true, func(kr kmsg.Response) {
		if kr != nil && life == b.w.life && kr.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			b.w.t.Errorf("%s committed in generation %d, which is over", id, generation)
		}
	})
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID, sync.InstanceID = 5, "g", generation, id, b.instance
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: id, MemberAssignment: []byte{0, 1, 2}}}
	b.w.send(b, sync, true, func(kr kmsg.Response) {
		if kr != nil && life == b.w.life && kr.(*kmsg.SyncGroupResponse).ErrorCode == 0 {
			b.w.t.Errorf("%s synced in generation %d, which is over", id, generation)
		}
	})
}

// sync asks for the assignment. Until it is there the bot owns nothing.
func (b *bot) sync(joined *kmsg.JoinGroupResponse) {
	b.positions = nil
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 5, "g", b.gen, b.id, b.instance
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if joined.LeaderID == b.id && !joined.SkipAssignment {
		for i, m := range joined.Members {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID = m.MemberID
			for p := i; p < simPartitions; p += len(joined.Members) {
				a.MemberAssignment = append(a.MemberAssignment, byte(p))
			}
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	b.w.request(b, req, b.synced)
}

func (b *bot) synced(kr kmsg.Response) {
	if kr == nil {
		b.join("")
		return
	}
	resp := kr.(*kmsg.SyncGroupResponse)
	b.w.say("%s: sync %s %v", b.name, errorName(resp.ErrorCode), resp.MemberAssignment)
	if resp.ErrorCode != 0 {
		switch resp.ErrorCode {
		case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code, kerr.IllegalGeneration.Code:
			b.lost(resp.ErrorCode)
		default:
			b.retry(b.w.upTo(time.Second), func() { b.join("") })
		}
		return
	}
	b.positions = map[int32]int64{}
	for _, p := range resp.MemberAssignment {
		b.w.checkOwner(b.gen, int32(p), b.id)
	}
	b.fetch(resp.MemberAssignment)
}

func (b *bot) fetch(partitions []byte) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.RequireStable = 8, true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t"}}
	floor := map[int32]int64{}
	for _, p := range partitions {
		g.Topics[0].Partitions = append(g.Topics[0].Partitions, int32(p))
		floor[int32(p)] = b.w.acked[p]
	}
	req.Groups = append(req.Groups, g)
	generation := b.gen
	b.w.request(b, req, func(kr kmsg.Response) {
		if kr == nil {
			b.join("")
			return
		}
		answer := kr.(*kmsg.OffsetFetchResponse).Groups[0]
		if answer.ErrorCode != 0 { // the coordinator moves
			b.join("")
			return
		}
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				at := max(p.Offset, 0)
				if at < floor[p.Partition] {
					b.w.t.Errorf("%s fetched offset %d of partition %d, but %d was acknowledged before", b.name, at, p.Partition, floor[p.Partition])
				}
				if b.gen == generation && b.positions != nil {
					b.positions[p.Partition] = at
				}
			}
		}
	})
}

// beatLoop sends heartbeats, works and commits, for one life.
func (b *bot) beatLoop(life int) {
	b.w.after(b.w.upTo(3*time.Second)+time.Second, func() {
		if life != b.life || !b.up {
			return
		}
		b.beatLoop(life)
		if b.joining || b.id == "" || b.gen < 0 || b.w.now.Before(b.pausedUntil) {
			return
		}
		b.beat()
		b.commit()
	})
}

func (b *bot) beat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 4, "g", b.gen, b.id, b.instance
	generation := b.gen
	b.w.request(b, req, func(kr kmsg.Response) {
		if kr == nil || b.joining || b.gen != generation {
			return
		}
		switch code := kr.(*kmsg.HeartbeatResponse).ErrorCode; code {
		case 0:
		case kerr.RebalanceInProgress.Code:
			if b.cooperative { // keeps working until it has joined
				b.join("group is already rebalancing")
				return
			}
			b.commit()
			b.positions = nil
			b.join("group is already rebalancing")
		default:
			b.lost(code)
		}
	})
}

func (b *bot) commit() {
	if len(b.positions) == 0 {
		return
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 9, "g", b.gen, b.id, b.instance
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	said := map[int32]int64{}
	for p := range int32(simPartitions) {
		at, ok := b.positions[p]
		if !ok {
			continue
		}
		at += b.w.rng.Int64N(5)
		b.positions[p], said[p] = at, at
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = p, at
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	var arrives time.Time
	arrives = b.w.request(b, req, func(kr kmsg.Response) {
		if kr == nil {
			return
		}
		var lines []string
		for _, t := range kr.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				// A client may take back its own commit, when it fetched while a
				// newer one was still on its way into the log.
				if p.ErrorCode == 0 && arrives.After(b.w.ackedAt[p.Partition]) {
					b.w.acked[p.Partition], b.w.ackedAt[p.Partition] = said[p.Partition], arrives
				}
				lines = append(lines, fmt.Sprintf("%d=%d %s", p.Partition, said[p.Partition], errorName(p.ErrorCode)))
			}
		}
		b.w.say("%s: commit %s", b.name, strings.Join(lines, ", "))
	})
}
