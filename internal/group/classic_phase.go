package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rondo-streams/rondo/cause"
)

// writeAgain is how long after a failed append a group tries again to write
// what no client waits for.
const writeAgain = 5 * time.Second

// lookAgain is the shortest time between two looks at a group in which nobody
// joins.
const lookAgain = 100 * time.Millisecond

// rebalance starts a rebalance, or completes the one that is being prepared
// when this was what it waited for.
func (c *classic) rebalance(w why) {
	if c.phase == preparing {
		c.maybeCompleteJoin()
		return
	}
	c.prepare(w)
}

// prepare asks all members to join again. The first rebalance of an empty
// group waits for group.initial.rebalance.delay.ms, so that members that start
// together find themselves in one generation.
func (c *classic) prepare(w why) {
	if c.phase == completing {
		c.drop()
		c.releaseSyncs(kerr.RebalanceInProgress.Code)
	}
	c.s.alarms.stop(&c.syncAlarm)
	initial := c.phase == empty
	c.openStory(w)
	c.enter(preparing)
	if initial {
		delay := c.s.cfg.InitialRebalanceDelay
		c.newcomer = false
		c.delay(delay, max(c.rebalanceTimeout()-delay, 0))
		return
	}
	if c.allJoined() {
		c.completeJoin()
		return
	}
	c.joinAlarm.ring = c.completeJoin
	c.s.alarms.set(&c.joinAlarm, c.s.now.Add(c.rebalanceTimeout()))
}

// delay waits for more members of an empty group. Each time it is over it goes
// on when somebody came meanwhile, up to the rebalance timeout in all.
func (c *classic) delay(d, left time.Duration) {
	c.joinAlarm.ring = func() {
		if c.newcomer && left > 0 {
			c.newcomer = false
			c.delay(min(c.s.cfg.InitialRebalanceDelay, left), max(left-d, 0))
			return
		}
		c.completeJoin()
	}
	c.s.alarms.set(&c.joinAlarm, c.s.now.Add(d))
}

func (c *classic) allJoined() bool {
	return len(c.pending) == 0 && c.joined() == len(c.members)
}

// maybeCompleteJoin completes the join phase when everybody is there. During
// the initial delay only its timer does.
func (c *classic) maybeCompleteJoin() {
	if c.phase == preparing && c.before != empty && c.allJoined() {
		c.completeJoin()
	}
}

// completeJoin ends the join phase: those who did not come are out, but for
// static members, who may be restarting; the others form the next generation.
func (c *classic) completeJoin() {
	c.s.alarms.stop(&c.joinAlarm)
	for _, m := range slices.Clone(c.order) {
		if m.join.on {
			continue
		}
		c.story.missed(m)
		if m.instance == nil {
			c.casualty(m, cause.PollClock)
			c.expel(m)
		}
	}
	if len(c.members) > 0 && !c.electLeader() {
		// Only static members, and none has come: wait on, in the same
		// generation, until one comes or their sessions end. A client may have
		// asked for a rebalance timeout of nothing, which must not spin.
		c.joinAlarm.ring = c.completeJoin
		c.s.alarms.set(&c.joinAlarm, c.s.now.Add(max(c.rebalanceTimeout(), lookAgain)))
		return
	}
	c.generation++
	c.bumpStory()
	if len(c.members) == 0 {
		c.protocol = ""
		c.enter(empty)
		c.tellBegun()
		c.closeStory()
		c.writeEmpty()
		return
	}
	c.protocol = c.vote()
	c.enter(completing)
	// The leader comes last: while it assigns, the others ask for what they get.
	for _, m := range c.order {
		if m.id != c.leader || len(c.members) < crowded {
			c.admit(m)
		}
	}
	if m := c.members[c.leader]; len(c.members) >= crowded {
		c.admit(m)
	}
	c.s.alarms.set(&c.syncAlarm, c.s.now.Add(c.rebalanceTimeout()))
}

// admit takes a member into the generation.
func (c *classic) admit(m *member) {
	c.answerJoin(m, c.joinSuccess(m, true))
	c.restart(m)
	m.work = c.s.now
	m.fresh, m.synced = false, false
}

// electLeader keeps the leader when it has joined and takes the first who has
// when not. It fails when nobody has.
func (c *classic) electLeader() bool {
	if m := c.members[c.leader]; m != nil && m.join.on {
		return true
	}
	for _, m := range c.order {
		if m.join.on {
			c.leader = m.id
			return true
		}
	}
	return false
}

// writeEmpty writes the generation in which the last member was gone. Nobody
// waits for it, so it is written again when it could not be.
func (c *classic) writeEmpty() {
	if c.phase != empty || c.s.groups[c.g.id] != c.g || c.g.members != membership(c) {
		return
	}
	c.s.log(func(code int16) {
		if code != 0 && c.phase == empty {
			c.s.alarms.set(&c.retryAlarm, c.s.now.Add(writeAgain))
		}
	}, c.record(nil))
}

// expireMember is a member's session alarm. Members that wait for the
// coordinator are not expected to show life.
func (c *classic) expireMember(m *member) {
	if !m.fresh && (m.join.on || m.sync.on) {
		return
	}
	if m.fresh && m.join.on && c.joinAlarm.place > 0 && !c.joinAlarm.at.After(c.s.now) {
		// A rebalance timeout of five minutes, which is the default, and a
		// newcomer's patience end together: the phase goes first, and takes the
		// newcomer in.
		return
	}
	w := c.whySilent(m)
	c.casualty(m, cause.SessionClock)
	c.expel(m)
	c.rebalance(w)
}

// expireSync ends the patience with members that were in the join phase and
// never asked for their assignment.
func (c *classic) expireSync() {
	if c.phase != completing && c.phase != stable {
		return
	}
	var late []*member
	for _, m := range c.order {
		if !m.synced {
			late = append(late, m)
		}
	}
	if len(late) == 0 {
		return
	}
	w := c.whyNoSync(late[0])
	for _, m := range late {
		c.casualty(m, cause.PollClock)
		c.expel(m)
	}
	c.prepare(w)
}
