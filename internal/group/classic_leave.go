package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// leaveGroup removes members: one that says so itself, or, from v3, a list, in
// which an administrator may name static members by their instance id alone.
func (s *Shard) leaveGroup(rq Request, req *kmsg.LeaveGroupRequest) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	leavers := req.Members
	if req.Version < 3 {
		leavers = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	codes := make([]int16, len(leavers))
	g := s.groups[req.Group]
	if c, ok := membershipOf(g); ok {
		c.leave(leavers, codes)
	} else if c, ok := consumerOf(g); ok {
		c.leaveClassic(leavers, codes)
	} else {
		for i := range codes {
			codes[i] = kerr.UnknownMemberID.Code
		}
	}
	if req.Version < 3 {
		resp.ErrorCode = codes[0]
		s.answerLeave(rq, resp)
		return
	}
	for i, l := range leavers {
		row := kmsg.NewLeaveGroupResponseMember()
		row.MemberID, row.InstanceID, row.ErrorCode = l.MemberID, l.InstanceID, codes[i]
		resp.Members = append(resp.Members, row)
	}
	s.answerLeave(rq, resp)
}

// answerLeave waits when the last member has left, for that is written.
func (s *Shard) answerLeave(rq Request, resp *kmsg.LeaveGroupResponse) {
	if len(s.out.Records) == 0 {
		s.reply(rq.Token, resp)
		return
	}
	s.log(func(code int16) {
		if code != 0 {
			resp.ErrorCode, resp.Members = appendError(code), nil
		}
		s.reply(rq.Token, resp)
	})
}

// leave removes all who may go and rebalances once.
func (c *classic) leave(leavers []kmsg.LeaveGroupRequestMember, codes []int16) {
	var first *why
	left := 0
	for i, l := range leavers {
		m, code := c.leaver(l)
		if codes[i] = code; code != 0 {
			continue
		}
		left++
		if m == nil {
			if first == nil {
				w := c.whyPendingLeft(l.MemberID, text(l.Reason))
				first = &w
			}
			c.dropPending(l.MemberID)
			continue
		}
		w := c.whyLeave(m, text(l.Reason))
		if first == nil {
			first = &w
		}
		if w.cause == cause.PollClock {
			c.casualty(m, w.cause)
		}
		c.expel(m)
	}
	if left > 0 && c.phase != empty {
		c.rebalance(*first)
	}
}

// leaver finds the member that an entry means; nil without an error is one
// that is only pending.
func (c *classic) leaver(l kmsg.LeaveGroupRequestMember) (*member, int16) {
	if l.MemberID == "" {
		if l.InstanceID == nil || c.static[*l.InstanceID] == nil {
			return nil, kerr.UnknownMemberID.Code
		}
		return c.static[*l.InstanceID], 0
	}
	if c.pending[l.MemberID] != nil {
		return nil, 0
	}
	if code := c.check(l.MemberID, l.InstanceID); code != 0 {
		return nil, code
	}
	return c.members[l.MemberID], 0
}
