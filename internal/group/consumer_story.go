package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/cause"
)

func (m *consumerMember) named() cause.Member {
	return cause.Member{ID: m.id, ClientID: m.meta.clientID, Host: m.meta.host, Instance: text(m.meta.instance)}
}

func (c *consumer) clocks(m *consumerMember) cause.Clocks {
	return cause.Clocks{
		SessionAge: c.s.now.Sub(m.beat), SessionLimit: c.sessionTimeout(m),
		PollAge: c.s.now.Sub(m.work), PollLimit: m.meta.rebalance,
	}
}

func (c *consumer) blame(m *consumerMember, by cause.Cause, sure cause.Confidence, reason string) why {
	return why{by, sure, m.named(), c.clocks(m), reason}
}

// epochStory is an epoch that goes on: an event in the making. Nobody hears of
// an epoch that is not durable.
type epochStory struct {
	event         cause.Event
	durable, over bool
}

// openStory begins the story of an epoch, which ends when everybody has come
// to it. The one before ends here if it has not.
func (c *consumer) openStory(w why) {
	c.closeStory()
	st := &epochStory{event: cause.Event{
		Group: c.g.id, Protocol: c.kind(), At: c.s.now, From: c.epoch - 1, To: c.epoch,
		Cause: w.cause, Confidence: w.confidence, Trigger: w.trigger, Reason: w.reason, Clocks: w.clocks,
		Members: len(c.members),
	}}
	c.story = st
	c.s.log(func(code int16) {
		switch {
		case code != 0 && c.story == st:
			c.story = nil
		case code == 0:
			if st.durable = true; st.over {
				c.s.out.Events = append(c.s.out.Events, st.event)
			}
		}
	})
}

func (c *consumer) maybeCloseStory() {
	if c.story == nil {
		return
	}
	if st := c.state(); st == "Stable" || st == "Empty" {
		c.closeStory()
	}
}

func (c *consumer) closeStory() {
	st := c.story
	if c.story = nil; st == nil {
		return
	}
	st.event.Took = c.s.now.Sub(st.event.At)
	if st.over = true; st.durable {
		c.s.out.Events = append(c.s.out.Events, st.event)
	}
}

// gaveUp notes that a member has given up what it had to. Others have waited
// for it from when the epoch began.
func (c *consumer) gaveUp(m *consumerMember) {
	if c.s.now.Sub(m.revoking) >= lateAfter {
		c.held(m)
	}
	m.work = c.s.now
}

// held names a member as one that the others have waited for.
func (c *consumer) held(m *consumerMember) {
	if st := c.story; st != nil {
		if who := m.named(); !slices.Contains(st.event.HeldOpen, who) {
			st.event.HeldOpen = slices.Insert(st.event.HeldOpen, 0, who)
		}
	}
}

// remember keeps in mind who went, in case it comes back.
func (c *consumer) remember(m *consumerMember, by cause.Cause) {
	if len(c.lost) == lostMax {
		c.lost = slices.Delete(c.lost, 0, 1)
	}
	c.lost = append(c.lost, lostMember{m.named(), by})
}

// whyJoin: somebody new is there, or somebody is back. The protocol carries no
// reason. A client keeps its member id when its poll clock makes it leave, and
// takes another one when it starts (KIP-1082): so a leave and a join of one id
// are the poll clock.
func (c *consumer) whyJoin(m *consumerMember) why {
	i := slices.IndexFunc(c.lost, func(l lostMember) bool { return l.who.ID == m.id })
	if i < 0 {
		return c.blame(m, cause.MemberChange, cause.Stated, "joined")
	}
	l := c.lost[i]
	c.lost = slices.Delete(c.lost, i, i+1)
	if l.cause == cause.MemberChange {
		return c.blame(m, cause.PollClock, cause.Inferred, "left and is back under the same member id, as a client is whose poll clock ran out")
	}
	return c.blame(m, l.cause, cause.Inferred, fmt.Sprintf("came back after the %s had fenced it", l.cause))
}

func (c *consumer) whyChanged(m *consumerMember) why {
	return c.blame(m, cause.MemberChange, cause.Stated, "changed its subscription")
}

func (c *consumer) whyResolved(m *consumerMember) why {
	return c.blame(m, cause.MemberChange, cause.Inferred, fmt.Sprintf("its expression %q was resolved", m.meta.regex))
}

func (c *consumer) whyTopics() why {
	return why{cause: cause.PartitionChange, confidence: cause.Stated, reason: "the topics that the group reads have changed"}
}

// whyLeave: whether a member that leaves was closed, or its poll clock ran out,
// only its coming back can tell.
func (c *consumer) whyLeave(m *consumerMember) why {
	return c.blame(m, cause.MemberChange, cause.Inferred, "left, without a word why: it was closed, or its poll clock ran out and it will be back")
}

func (c *consumer) whySilent(m *consumerMember) why {
	if m.current.epoch == epochLeaveStatic {
		return c.blame(m, cause.SessionClock, cause.Inferred,
			fmt.Sprintf("a static member went %s ago and did not come back within its session timeout", c.s.now.Sub(m.beat).Round(time.Millisecond)))
	}
	return c.blame(m, cause.SessionClock, cause.Stated, "no heartbeat within the session timeout")
}
