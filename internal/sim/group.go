package sim

import (
	"slices"
	"time"
)

// requestTimeout is request.timeout.ms: how long a client waits for the answer
// to SyncGroup before it joins again.
const requestTimeout = 30 * time.Second

// groupState is the state of a classic group at the coordinator.
type groupState int8

const (
	groupEmpty groupState = iota
	groupPreparing
	groupCompleting
	groupStable
)

// group is the coordinator's side: the classic protocol, as far as its clocks
// and orders matter to a loop.
type group struct {
	w          *world
	state      groupState
	generation int
	leader     int
	order      []int // members in the order in which they came
	seats      []seat
	notBefore  time.Duration // group.initial.rebalance.delay.ms
	deadline   time.Duration // of the join: the rebalance timeout
	ver        uint32
}

type seat struct {
	known    bool
	joining  bool
	syncing  bool
	claims   []int // what the member said it owns when it joined
	given    []int
	followUp bool
}

func (g *group) begin(w *world) {
	g.w = w
	g.seats = make([]seat, len(w.all))
}

func (g *group) knows(m *member) bool { return g.seats[m.idx].known }

func (g *group) accepts(m *member) bool {
	return g.seats[m.idx].known && m.generation == g.generation && g.state != groupCompleting
}

func (g *group) epoch() int { return g.generation }

func (g *group) at(t time.Duration) {
	g.ver++
	g.w.push(event{at: t, ver: g.ver, who: -1, what: tGroup})
}

func (g *group) fire(ev event) {
	if ev.ver != g.ver || g.state != groupPreparing {
		return
	}
	if g.w.now >= g.deadline {
		for _, i := range slices.Clone(g.order) {
			if !g.seats[i].joining {
				m := &g.w.all[i]
				g.drop(m, RebalanceTimeout)
				m.news()
			}
		}
	}
	g.maybeComplete()
}

// join takes a JoinGroup. It is answered when the join is complete.
func (g *group) join(m *member) {
	s := &g.seats[m.idx]
	m.cancel(tSession)
	if s.known && m.set.Static && g.state == groupStable {
		// A static member that comes back replaces itself: same generation,
		// same partitions.
		m.schedule(tJoinAnswer, g.w.now+g.w.sc.Costs.RoundTrip)
		return
	}
	if !s.known && m.generation > 0 {
		// Removed while it worked, it comes with an id that nobody knows
		// (UNKNOWN_MEMBER_ID): what it has is lost, and it joins as a new one.
		m.refused = true
		m.schedule(tJoinAnswer, g.w.now+g.w.sc.Costs.RoundTrip)
		return
	}
	if !s.known {
		g.order = append(g.order, m.idx)
	}
	s.known, s.joining, s.syncing = true, true, false
	s.claims = append(s.claims[:0], m.owned...)
	if m.lanes != nil {
		s.claims = m.lanes.appendDraining(s.claims)
	}
	if g.state != groupPreparing {
		g.prepare()
	}
	g.maybeComplete()
}

// prepare begins a rebalance. Members hear of it with their next heartbeat,
// those that wait for their SyncGroup with its answer.
func (g *group) prepare() {
	g.notBefore = g.w.now
	if g.state == groupEmpty {
		g.notBefore += g.w.sc.JoinDelay
	}
	g.state = groupPreparing
	g.deadline = g.w.now + g.w.sc.Settings.MaxPollInterval
	g.at(g.deadline)
	for _, i := range g.order {
		s, m := &g.seats[i], &g.w.all[i]
		switch {
		case s.joining:
		case s.syncing:
			s.syncing = false
			g.answer(m, answer{})
		default:
			m.news()
		}
	}
}

func (g *group) maybeComplete() {
	if g.state != groupPreparing {
		return
	}
	for _, i := range g.order {
		if !g.seats[i].joining {
			return
		}
	}
	if g.w.now < g.notBefore {
		g.at(g.notBefore)
		return
	}
	g.complete()
}

// complete answers all joins and gives each member a session to be heard of.
func (g *group) complete() {
	g.generation++
	g.ver++
	if len(g.order) == 0 {
		g.state = groupEmpty
		return
	}
	g.state = groupCompleting
	if !g.seats[g.leader].known {
		g.leader = g.order[0]
	}
	for _, i := range g.order {
		g.seats[i].joining = false
		m := &g.w.all[i]
		m.schedule(tJoinAnswer, g.w.now+g.w.sc.Costs.RoundTrip)
		m.schedule(tSession, g.w.now+g.w.sc.Session)
	}
}

// sync takes a SyncGroup. The leader's brings the assignment.
func (g *group) sync(m *member) {
	s := &g.seats[m.idx]
	switch {
	case !s.known:
		g.answer(m, answer{unknown: true})
	case g.state == groupPreparing:
		g.answer(m, answer{})
	case g.state == groupStable:
		g.give(m)
	case m.idx == g.leader:
		g.assign()
		g.state = groupStable
		g.give(m)
		for _, i := range g.order {
			if g.seats[i].syncing {
				g.seats[i].syncing = false
				g.give(&g.w.all[i])
			}
		}
	default:
		s.syncing = true
	}
}

func (g *group) give(m *member) {
	s := &g.seats[m.idx]
	g.answer(m, answer{ok: true, partitions: s.given, followUp: s.followUp})
	s.followUp = false
}

func (g *group) answer(m *member, a answer) {
	m.answer = a
	m.schedule(tSyncAnswer, g.w.now+g.w.sc.Costs.RoundTrip)
}

// expire is the session clock of a member at the coordinator.
func (g *group) expire(m *member) {
	if s := &g.seats[m.idx]; s.known && !s.joining {
		g.remove(m, SessionClock)
	}
}

// remove takes a member out and rebalances the rest.
func (g *group) remove(m *member, why Why) {
	if !g.seats[m.idx].known {
		return
	}
	g.drop(m, why)
	switch {
	case g.state == groupPreparing:
		g.maybeComplete()
	case len(g.order) == 0:
		g.generation++
		g.state = groupEmpty
	default:
		g.prepare()
		g.maybeComplete()
	}
}

func (g *group) drop(m *member, why Why) {
	g.seats[m.idx] = seat{}
	g.order = slices.DeleteFunc(g.order, func(i int) bool { return i == m.idx })
	m.cancel(tSession)
	m.cancel(tJoinAnswer)
	g.w.removed(m, why)
}

// assign balances the partitions with as few moves as can be. A partition that
// somebody still claims is not given to another: its owner gives it up first,
// and its heir is told to join again.
func (g *group) assign() {
	owner := make([]int, len(g.w.parts))
	for p := range owner {
		owner[p] = -1
	}
	for _, i := range g.order {
		for _, p := range g.seats[i].claims {
			owner[p] = i
		}
		g.seats[i].given, g.seats[i].followUp = nil, false
	}
	target := balance(g.order, g.byRight(), owner)
	for p, to := range target {
		s := &g.seats[to]
		if owner[p] == to || owner[p] == -1 {
			s.given = append(s.given, p)
		} else {
			s.followUp = true
		}
	}
}

// balance gives each partition a member: what it has up to its share, the rest
// to those that have less than theirs. The first by right have shares that are
// one larger.
func balance(order, byRight, owner []int) []int {
	room := make(map[int]int, len(order))
	for n, i := range byRight {
		room[i] = len(owner) / len(order)
		if n < len(owner)%len(order) {
			room[i]++
		}
	}
	target := make([]int, len(owner))
	for p := range target {
		target[p] = -1
		if o := owner[p]; o >= 0 && room[o] > 0 {
			target[p] = o
			room[o]--
		}
	}
	for p := range target {
		for _, i := range order {
			if target[p] < 0 && room[i] > 0 {
				target[p] = i
				room[i]--
			}
		}
	}
	return target
}

// byRight lists the members by their right to the shares that are one larger:
// those that claim most first, or the newest when tasks are movable.
func (g *group) byRight() []int {
	list := slices.Clone(g.order)
	if g.w.sc.Movable {
		slices.Reverse(list)
		return list
	}
	slices.SortStableFunc(list, func(a, b int) int { return len(g.seats[b].claims) - len(g.seats[a].claims) })
	return list
}
