package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/cause"
)

// why is the cause of a rebalance with its trigger.
type why struct {
	cause      cause.Cause
	confidence cause.Confidence
	trigger    cause.Member
	clocks     cause.Clocks
	reason     string
}

// story is a rebalance that goes on: an event in the making.
type story struct {
	event  cause.Event
	bumped time.Time // when the new generation began, zero: not yet
}

// lateAfter is how long others must have waited for a member until it is named
// as the one that held the rebalance open. Below it the wait is the interval of
// heartbeats, in which members learn of a rebalance.
const lateAfter = time.Second

func (m *member) named() cause.Member {
	return cause.Member{ID: m.id, ClientID: m.clientID, Host: m.host, Instance: text(m.instance)}
}

func (c *classic) clocks(m *member) cause.Clocks {
	return cause.Clocks{
		SessionAge: c.s.now.Sub(m.beat), SessionLimit: m.session,
		PollAge: c.s.now.Sub(m.work), PollLimit: m.rebalance,
	}
}

// openStory begins the story of a rebalance. One that had its new generation
// and did not come to rest ends here.
func (c *classic) openStory(w why) {
	c.closeStory()
	c.story = &story{event: cause.Event{
		Group: c.g.id, Protocol: c.kind(), At: c.s.now, From: c.generation,
		Cause: w.cause, Confidence: w.confidence, Trigger: w.trigger, Reason: w.reason, Clocks: w.clocks,
	}}
	for _, l := range c.fell {
		if l.ID != w.trigger.ID {
			c.story.event.Casualties = append(c.story.event.Casualties, l)
		}
	}
	c.fell = nil
}

// casualty records that a member loses its place to one of the clocks; a cause
// of zero is another reason, after which it is not expected back.
func (c *classic) casualty(m *member, by cause.Cause) {
	if c.phase == preparing {
		c.story.event.Casualties = append(c.story.event.Casualties, m.named())
	} else {
		c.fell = append(c.fell, m.named())
	}
	if by == 0 {
		return
	}
	c.lost.add(m.named(), by)
}

// back takes a client out of the lost ones: a newcomer with the same client id
// on the same host, or with the same instance id.
func (c *classic) back(m *member) (lostMember, bool) {
	return c.lost.take(func(l lostMember) bool {
		return l.who.ClientID == m.clientID && l.who.Host == m.host && l.who.Instance == text(m.instance)
	})
}

// missed names a member that did not come in the join phase.
func (st *story) missed(m *member) {
	if who := m.named(); !slices.Contains(st.event.HeldOpen, who) {
		st.event.HeldOpen = append(st.event.HeldOpen, who)
	}
}

// isTrigger says whether a member, or the process before it, set this off.
func (st *story) isTrigger(m *member) bool {
	who := st.event.Trigger
	return m.id == who.ID || m.instance != nil && *m.instance == who.Instance
}

// bumpStory notes that the new generation has begun, and whom everybody waited
// for: those who never came, or else those who came last.
func (c *classic) bumpStory() {
	st := c.story
	st.bumped, st.event.To = c.s.now, c.generation
	if len(st.event.HeldOpen) > 0 || c.before == empty {
		return
	}
	late := slices.DeleteFunc(slices.Clone(c.order), func(m *member) bool {
		return st.isTrigger(m) || m.joinedAt.Sub(st.event.At) < lateAfter
	})
	slices.SortStableFunc(late, func(a, b *member) int { return cmp.Compare(b.joinedAt.UnixNano(), a.joinedAt.UnixNano()) })
	for _, m := range late[:min(len(late), 3)] {
		st.missed(m)
	}
}

// tellBegun tells of a rebalance with the record of its generation, which for a
// classic group is written at the end: when the leader has assigned, or nobody is
// left.
func (c *classic) tellBegun() {
	if st := c.story; st != nil && !st.bumped.IsZero() {
		e := st.event
		e.Took, e.Members = c.s.now.Sub(e.At), len(c.members)
		c.s.begun(e)
	}
}

// closeStory ends the story of a rebalance when the group is stable or empty,
// when the next rebalance begins, or when the shard ends. A story that did not
// come to a new generation leaves nothing.
func (c *classic) closeStory() {
	st := c.story
	c.story = nil
	if st == nil || st.bumped.IsZero() {
		return
	}
	if leader := c.members[c.leader]; leader != nil && !st.isTrigger(leader) && c.phase == stable && c.s.now.Sub(st.bumped) >= lateAfter {
		st.missed(leader)
	}
	st.event.Took, st.event.Members = c.s.now.Sub(st.event.At), len(c.members)
	c.last = &st.event
	if c.unwritten {
		c.untold = append(c.untold, st.event)
		return
	}
	c.s.out.Events = append(c.s.out.Events, st.event)
}

// written ends the time in which a new classic group may be taken back, and with it
// what has happened in it.
func (c *classic) written() {
	c.unwritten = false
	c.s.out.Events = append(c.s.out.Events, c.untold...)
	c.untold = nil
}

// previous is the rebalance that a consequence belongs to.
func (c *classic) previous() *cause.Event {
	if c.story != nil {
		return &c.story.event
	}
	return c.last
}
