package group

import (
	"fmt"
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

// openStory begins the story of a new epoch.
func (c *consumer) openStory(w why) {
	c.begin(c.s, w, cause.Event{Group: c.g.id, Protocol: c.kind(), From: c.epoch - 1, To: c.epoch, Members: len(c.members)})
}

func (c *consumer) maybeCloseStory() {
	if c.story == nil {
		return
	}
	if st := c.state(); st == "Stable" || st == "Empty" {
		c.end(c.s)
	}
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
