package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// streamsLeave lets a member go.
func (s *Shard) streamsLeave(req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, *refused) {
	g := s.groups[req.Group]
	t, ok := streamsOf(g)
	switch {
	case g == nil:
		return nil, refuse(kerr.GroupIDNotFound, "Group %s not found.", req.Group)
	case !ok:
		return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
	}
	m := t.members[req.MemberID]
	if m == nil {
		return nil, t.unknown(req.MemberID)
	}
	if req.ShutdownApplication && t.shutdown == "" {
		t.shutdown = m.id
	}
	w := t.whyLeave(m)
	t.depart(t.s, m.named(), cause.MemberChange)
	t.fence(m, w)
	resp := streamsResponse(req)
	resp.MemberID, resp.MemberEpoch = req.MemberID, req.MemberEpoch
	return resp, nil
}

// fence removes a member and begins a new epoch. What it had is given to others
// at their next heartbeats.
func (t *streams) fence(m *streamsMember, w why) {
	t.eraseMember(m)
	from := t.epoch
	t.writeEpoch(streamsEpoch{t.epoch + 1, t.hash, t.validated, t.standbys})
	t.openStory(from, w)
	t.s.log(func(code int16) {
		if code == 0 {
			t.maybeCloseStory()
		}
	})
}

// expire is the end of a member's session.
func (t *streams) expire(m *streamsMember) {
	w := t.blame(m, cause.SessionClock, cause.Stated, "no heartbeat within the session timeout")
	t.depart(t.s, m.named(), cause.SessionClock)
	t.fence(m, w)
}

// loseRevoking is the end of the patience with a member that has to give tasks
// up.
func (t *streams) loseRevoking(m *streamsMember) {
	t.held(m.named())
	w := t.blame(m, cause.PollClock, cause.Stated, "did not give up tasks within its rebalance timeout")
	t.depart(t.s, m.named(), cause.PollClock)
	t.fence(m, w)
}
