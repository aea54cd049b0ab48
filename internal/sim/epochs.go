package sim

import (
	"slices"
	"time"
)

// This file is the coordinator of the newer protocols, KIP-848 and KIP-1071, as
// far as its clocks and orders matter to a loop. Nobody waits in a join: each
// member goes from what it has to its target by its own heartbeats.

// epochGroup is the coordinator's side. A partition has an owner, who has been
// told that it is its own, and a target, who is to have it; it changes hands
// when its owner has said that it has let go.
type epochGroup struct {
	w      *world
	now    int   // the epoch of the group
	order  []int // members in the order in which they came
	seats  []epochSeat
	owner  []int // by partition; -1: nobody
	target []int // by partition; -1: nobody yet
	late   bool  // the first target is put off by JoinDelay
	ver    uint32
}

type epochSeat struct {
	known    bool
	revoking bool // was told to give something up, and has not said that it did
	told     []int
}

func (g *epochGroup) begin(w *world) {
	g.w = w
	g.seats = make([]epochSeat, len(w.all))
	g.owner, g.target = make([]int, len(w.parts)), make([]int, len(w.parts))
	for p := range g.owner {
		g.owner[p], g.target[p] = -1, -1
	}
}

func (g *epochGroup) epoch() int { return g.now }

func (g *epochGroup) knows(m *member) bool { return g.seats[m.idx].known }

// accepts takes the commit of a member, and that of anybody who says that he is
// none while the group is empty (recorded runs ma1, mc1, mf3). That a commit may
// meet an epoch which has just moved on is not modelled.
func (g *epochGroup) accepts(m *member) bool {
	return g.seats[m.idx].known || m.generation == 0 && len(g.order) == 0
}

// join takes the heartbeat of a member that has no epoch. A static one gets
// what it had.
func (g *epochGroup) join(m *member) {
	s := &g.seats[m.idx]
	m.cancel(tSession)
	if !s.known {
		*s = epochSeat{known: true}
		g.order = append(g.order, m.idx)
		g.now++
		switch {
		case g.w.sc.Group == StreamsGroup && len(g.order) == 1:
			g.late = true
			g.ver++
			g.w.push(event{at: g.w.now + g.w.sc.JoinDelay, ver: g.ver, who: -1, what: tGroup})
		case !g.late:
			g.retarget()
		}
	}
	s.told = nil
	g.answer(m, g.w.sc.Costs.RoundTrip/2)
}

// fire is the end of the initial delay.
func (g *epochGroup) fire(ev event) {
	if ev.ver == g.ver && g.late {
		g.late = false
		g.retarget()
	}
}

// retarget balances the group, and has everybody hear of it who has something
// to give up or to take.
func (g *epochGroup) retarget() {
	if len(g.order) == 0 {
		for p := range g.target {
			g.target[p] = -1
		}
		return
	}
	g.target = balance(g.order, g.byRight(), g.target)
	for _, i := range g.order {
		g.tell(i)
	}
}

// byRight is as in the classic group, by targets.
func (g *epochGroup) byRight() []int {
	list := slices.Clone(g.order)
	if g.w.sc.Movable {
		slices.Reverse(list)
		return list
	}
	count := make([]int, len(g.seats))
	for _, i := range g.target {
		if i >= 0 {
			count[i]++
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return count[b] - count[a] })
	return list
}

func (g *epochGroup) tell(i int) {
	for p, owner := range g.owner {
		if owner == i && g.target[p] != i || owner == -1 && g.target[p] == i {
			g.w.all[i].news()
			return
		}
	}
}

// beat is a heartbeat that finds news.
func (g *epochGroup) beat(m *member) {
	if m.byEpoch.flying {
		m.byEpoch.due = true
		return
	}
	g.answer(m, g.w.sc.Costs.RoundTrip)
}

// acknowledge is the heartbeat in which a member says what it has now. What it
// has let go is free for its heirs, who hear of it with their next heartbeat.
func (g *epochGroup) acknowledge(m *member) {
	s := &g.seats[m.idx]
	s.revoking = false
	m.cancel(tRevoke)
	g.release(m, m.owned)
	g.answer(m, g.w.sc.Costs.RoundTrip)
}

// release frees what a member had beside what it keeps.
func (g *epochGroup) release(m *member, keeps []int) {
	for p, owner := range g.owner {
		if owner == m.idx && !slices.Contains(keeps, p) {
			g.owner[p] = -1
			if heir := g.target[p]; heir >= 0 && heir != m.idx {
				g.w.all[heir].news()
			}
		}
	}
}

// answer is what a heartbeat brings: first what to keep, and, when there is
// nothing to give up, what is free of the target. The member has it after a
// while.
func (g *epochGroup) answer(m *member, after time.Duration) {
	s := &g.seats[m.idx]
	keeps := []int{}
	gives := false
	for p, owner := range g.owner {
		switch {
		case owner == m.idx && g.target[p] == m.idx:
			keeps = append(keeps, p)
		case owner == m.idx:
			gives = true
		}
	}
	switch {
	case !gives:
		for p, owner := range g.owner {
			if owner == -1 && g.target[p] == m.idx {
				g.owner[p] = m.idx
				keeps = append(keeps, p)
			}
		}
		slices.Sort(keeps)
	case !s.revoking:
		s.revoking = true
		m.schedule(tRevoke, g.w.now+g.w.sc.Settings.MaxPollInterval)
	}
	if s.told != nil && slices.Equal(s.told, keeps) {
		return // nothing new in it
	}
	s.told = keeps
	m.byEpoch.flying = true
	m.answer = answer{ok: true, partitions: keeps}
	m.schedule(tSyncAnswer, g.w.now+after)
}

// overdue is a member that did not give up in time what it was told to. It
// hears of it with its next heartbeat.
func (g *epochGroup) overdue(m *member) {
	g.remove(m, RebalanceTimeout)
	m.news()
}

func (g *epochGroup) expire(m *member) { g.remove(m, SessionClock) }

func (g *epochGroup) remove(m *member, why Why) {
	if !g.seats[m.idx].known {
		return
	}
	g.seats[m.idx] = epochSeat{}
	g.order = slices.DeleteFunc(g.order, func(i int) bool { return i == m.idx })
	m.cancel(tSession)
	m.cancel(tRevoke)
	g.w.removed(m, why)
	g.now++
	g.release(m, nil)
	for p, i := range g.target {
		if i == m.idx {
			g.target[p] = -1
		}
	}
	if !g.late {
		g.retarget()
	}
	if len(g.order) == 0 {
		g.late = false
		g.ver++
	}
}

// epochBeat is a member's side.
type epochBeat struct {
	flying bool // a heartbeat is not answered yet
	due    bool // another has to follow at once
}

// epochs tells whether the member speaks one of the newer protocols.
func (m *member) epochs() bool { return m.w.sc.Group != ClassicGroup }

// asks tells whether the client sends a commit, and does not refuse it itself:
// one of the classic protocol knows when it is no member.
func (m *member) asks() bool { return m.generation > 0 || m.epochs() }

// joinByBeat sends the first heartbeat, from a poll. From then on heartbeats go
// on in the background, whatever the thread does, and nothing holds up commits.
func (m *member) joinByBeat() {
	m.phase = stable
	m.generation = 0
	m.assigned = false
	m.byEpoch = epochBeat{}
	m.cancel(tSyncAnswer)
	m.cancel(tBeat)
	m.w.note(m, JoinSent, 0)
	m.beatFrom, m.beating = m.w.now, true
	m.cancel(tSession)
	if !m.w.sc.NoPollClock {
		m.schedule(tPollClock, max(m.w.now, m.pollReset+m.w.sc.Settings.MaxPollInterval+m.w.sc.Notice))
	}
	m.schedule(tJoinAnswer, m.w.now+m.w.sc.Costs.RoundTrip/2) // when the coordinator has it
}

// heard is the answer to a heartbeat.
func (m *member) heard() {
	m.byEpoch.flying = false
	if !m.w.coord.knows(m) {
		return // the next heartbeat says so
	}
	first := m.generation == 0
	m.generation = m.w.coord.epoch()
	if first {
		m.w.note(m, Joined, m.generation)
	}
	switch {
	case !slices.Equal(m.answer.partitions, m.owned):
		m.assigned = true
		if m.inPoll() {
			m.readSync()
		}
	case first || m.byEpoch.due:
		m.acknowledge()
	}
}

// acknowledge says at once what the member has, or after the answer that is on
// its way.
func (m *member) acknowledge() {
	if m.byEpoch.flying {
		m.byEpoch.due = true
		return
	}
	m.byEpoch.due = false
	m.beatFrom = m.w.now
	m.w.epochs.acknowledge(m)
}

// reconcile applies the assignment, inside a poll: partitions are revoked, with
// a commit, and taken, in one go.
func (m *member) reconcile() {
	if !m.w.coord.knows(m) {
		return
	}
	gone := minus(m.owned, m.answer.partitions)
	given := minus(m.answer.partitions, m.owned)
	m.owned = append(m.owned[:0], m.answer.partitions...)
	if m.w.sc.Trace {
		m.w.sum.Assigned = append(m.w.sum.Assigned, Assignment{Moment{m.w.now, m.idx}, slices.Clone(m.owned)})
	}
	m.w.note(m, Assign, len(m.owned))
	m.thread.assign(gone, given)
	m.acknowledge()
}
