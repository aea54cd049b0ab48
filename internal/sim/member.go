package sim

import (
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// phase is a member's own idea of where it stands.
type phase int8

const (
	unjoined   phase = iota
	preparing        // JoinGroup sent, not answered: no heartbeats, no poll clock
	completing       // SyncGroup sent
	stable
)

// member is one member's side of the group: the client, and one of the two
// loops behind it.
type member struct {
	w   *world
	idx int
	set Member
	ver [timers]uint32

	alive   bool
	closing bool // asked to stop

	phase      phase
	generation int  // 0: none
	lost       bool // the generation was lost and the loop does not know yet
	wanted     bool // a rejoin is wanted
	beating    bool
	beatFrom   time.Duration // when heartbeats were last turned on
	quickFrom  time.Duration // PerCall: when the last assignment was applied; 0: never
	pollReset  time.Duration // when the poll clock was last reset
	owned      []int         // partitions
	answered   bool          // a join answer waits to be read by a poll
	assigned   bool          // a sync answer waits to be applied by a poll
	refused    bool          // the join answer on its way says that the member is not known
	answer     answer
	byEpoch    epochBeat // newer protocols

	thread *thread // one of the two
	lanes  *lanes
}

// answer is what the coordinator said to SyncGroup.
type answer struct {
	ok         bool // false: unknown member, or a rebalance has begun
	unknown    bool
	partitions []int
	followUp   bool // something is still to be revoked by others: rejoin at once
}

func (m *member) begin(w *world, idx int) {
	m.w, m.idx, m.set = w, idx, w.sc.Members[idx]
}

func (m *member) schedule(t timer, at time.Duration) {
	m.ver[t]++
	if at == Forever {
		return
	}
	m.w.push(event{at: at, ver: m.ver[t], who: int32(m.idx), what: t})
}

func (m *member) cancel(t timer) { m.ver[t]++ }

func (m *member) fire(ev *event) {
	if !m.alive && ev.what != tStart && ev.what != tSession && ev.what != tRevoke {
		return
	}
	switch ev.what {
	case tStart:
		m.start()
	case tKill:
		m.kill()
	case tClose:
		m.close()
	case tPollClock:
		m.pollClock()
	case tSession:
		m.w.coord.expire(m)
	case tRevoke:
		m.w.epochs.overdue(m)
	case tBeat:
		m.beat()
	case tJoinAnswer:
		m.joinAnswer()
	case tSyncAnswer:
		m.syncAnswer()
	case tSyncTimeout:
		m.rejoin()
	case tWake:
		if m.thread != nil {
			m.thread.wake()
		} else {
			m.lanes.join()
		}
	default:
		m.lanes.fire(ev)
	}
}

func (m *member) start() {
	m.alive = true
	m.wanted = true
	m.w.note(m, Start, 0)
	if m.set.Kill > 0 {
		m.schedule(tKill, m.set.Kill)
	}
	if m.set.Close > 0 {
		m.schedule(tClose, m.set.Close)
	}
	if m.w.sc.Policy == Streams42 {
		m.thread = newThread(m)
	} else {
		m.lanes = newLanes(m)
	}
	m.schedule(tWake, m.w.now+m.w.sc.Costs.Start)
}

// kill ends the process: the coordinator hears nothing more.
func (m *member) kill() {
	m.stopBeating()
	m.alive = false
	m.w.note(m, Die, 0)
}

func (m *member) close() {
	m.closing = true
	if m.lanes != nil {
		m.lanes.stop()
	}
}

// stopped ends a member in an orderly way.
func (m *member) stopped(leave bool) {
	m.w.note(m, Stop, 0)
	if leave && m.w.coord.knows(m) {
		m.cancel(tPollClock)
		m.beating = false
		m.alive = false
		m.w.coord.remove(m, Left)
		return
	}
	m.stopBeating()
	m.alive = false
}

func (m *member) end() {
	switch {
	case m.thread != nil:
		m.thread.end()
	case m.lanes != nil:
		m.lanes.end()
	}
}

// inPoll tells whether the client may act: always in the background, or only
// inside a poll.
func (m *member) inPoll() bool { return m.lanes != nil || m.thread.polling }

// sendJoin sends JoinGroup. Heartbeats and the poll clock rest until it is
// answered, if it is a poll that has to read the answer.
func (m *member) sendJoin() {
	m.wanted = false
	if m.epochs() {
		m.joinByBeat()
		return
	}
	m.phase = preparing
	m.answered, m.assigned, m.refused = false, false, false
	m.cancel(tSyncTimeout)
	m.cancel(tSyncAnswer)
	m.w.note(m, JoinSent, 0)
	if m.lanes == nil {
		m.beating = false
		m.cancel(tPollClock)
		m.cancel(tBeat)
	}
	m.w.group.join(m)
}

// joinAnswer arrives at the socket.
func (m *member) joinAnswer() {
	if m.epochs() {
		m.w.epochs.join(m)
		return
	}
	m.answered = true
	if m.inPoll() {
		m.readJoin()
	}
}

// readJoin turns the heartbeats on and sends SyncGroup.
func (m *member) readJoin() {
	m.answered = false
	if m.refused {
		m.forget()
		m.rejoin()
		return
	}
	m.phase = completing
	m.generation = m.w.group.generation
	m.w.note(m, Joined, m.generation)
	m.startBeating()
	m.schedule(tSyncTimeout, m.w.now+requestTimeout)
	m.w.group.sync(m)
}

func (m *member) syncAnswer() {
	if m.epochs() {
		m.heard()
		return
	}
	m.cancel(tSyncTimeout)
	m.assigned = true
	if m.inPoll() {
		m.readSync()
	}
}

// readSync applies what the coordinator decided.
func (m *member) readSync() {
	m.assigned = false
	if m.epochs() {
		m.reconcile()
		return
	}
	if !m.answer.ok {
		if m.answer.unknown {
			m.forget()
		}
		m.rejoin()
		return
	}
	m.phase = stable
	if m.thread != nil {
		// The heir of a stream task asks for the follow-up itself; Rondo
		// leaves that to the member that has to let go first.
		m.wanted = m.wanted || m.answer.followUp
	}
	gone := minus(m.owned, m.answer.partitions)
	given := minus(m.answer.partitions, m.owned)
	m.owned = append(m.owned[:0], m.answer.partitions...)
	if m.w.sc.Trace {
		m.w.sum.Assigned = append(m.w.sum.Assigned, Assignment{Moment{m.w.now, m.idx}, append([]int(nil), m.owned...)})
	}
	m.w.note(m, Assign, len(m.owned))
	if m.lanes != nil {
		m.quickFrom = m.w.now
		m.lanes.assign(gone, given)
		return
	}
	m.thread.assign(gone, given)
	if len(gone) > 0 {
		m.sendJoin() // in the same poll; what is only a follow-up waits for the next
	}
}

// rejoin says that the member has to join again, and does it if it may.
func (m *member) rejoin() {
	m.wanted = true
	m.cancel(tSyncTimeout)
	if m.inPoll() && m.phase != preparing {
		if m.thread != nil {
			m.thread.lose()
		}
		m.sendJoin()
	}
}

// forget drops the generation: the coordinator does not know this member any
// more. The loop hears of it at its next commit or poll.
func (m *member) forget() {
	m.generation = 0
	m.phase = unjoined
	m.lost = len(m.owned) > 0
	m.wanted = true
	m.beating = false
	m.answered, m.assigned, m.refused = false, false, false
	for _, t := range []timer{tPollClock, tBeat, tSyncTimeout, tSyncAnswer, tJoinAnswer} {
		m.cancel(t)
	}
	m.byEpoch = epochBeat{}
	if m.lanes != nil {
		m.lanes.lose()
	}
}

func (m *member) startBeating() {
	if !m.beating {
		m.beating = true
		m.beatFrom = m.w.now
	}
	m.cancel(tSession)
	if m.thread != nil && !m.w.sc.NoPollClock {
		m.schedule(tPollClock, max(m.w.now, m.pollReset+m.w.sc.Settings.MaxPollInterval))
	}
	if m.w.group.state == groupPreparing {
		m.news()
	}
}

// stopBeating arms the session clock at the coordinator.
func (m *member) stopBeating() {
	m.cancel(tPollClock)
	m.cancel(tBeat)
	if m.beating {
		m.beating = false
		last, _ := m.beats()
		m.schedule(tSession, last+m.w.sc.Session)
	}
}

// quickBeats is how many beats of a sixth of heartbeat.interval.ms a Rondo
// member sends after an assignment (package member).
const quickBeats = 6

// beats are the times of the last heartbeat and of the next one.
func (m *member) beats() (last, next time.Duration) {
	from, pace := m.beatFrom, m.w.sc.Heartbeat
	if m.quickFrom > 0 {
		from = m.quickFrom
		if m.w.now-from < pace {
			pace /= quickBeats
		}
	}
	last = from + (m.w.now-from)/pace*pace
	return last, last + pace
}

// news says that the next heartbeat will be answered with something new.
func (m *member) news() {
	if m.beating {
		_, next := m.beats()
		m.schedule(tBeat, next)
	}
}

// beat is a heartbeat that is answered with news: the group is rebalancing, or
// it does not know the member any more.
func (m *member) beat() {
	if !m.w.coord.knows(m) {
		m.forget()
		m.rejoin()
		return
	}
	if m.epochs() {
		m.w.epochs.beat(m)
		return
	}
	if g := &m.w.group; g.state == groupPreparing && m.phase == stable {
		m.rejoin()
	}
}

// pollClock is max.poll.interval.ms running out: the client leaves by itself.
// The timer is not moved by every poll; it looks here whether there was one.
func (m *member) pollClock() {
	due := m.pollReset + m.w.sc.Settings.MaxPollInterval + m.w.sc.Notice
	if t := m.thread; t != nil && t.idling() {
		due += m.w.now - m.pollReset - t.act.Timeout // of idle polls only the first is played
	}
	if m.w.now < due {
		m.schedule(tPollClock, due)
		return
	}
	m.w.lost()
	m.w.moment(m, &m.w.sum.EvictionCount, &m.w.sum.Evictions)
	m.w.note(m, Evicted, 0)
	if m.lanes != nil {
		m.lanes.strike()
	}
	if m.set.Static {
		m.stopBeating()
		m.forget()
		return
	}
	m.w.coord.remove(m, PollClock)
	m.forget()
	if m.lanes != nil {
		m.rejoin()
	}
}

func minus(a, b []int) []int {
	var out []int
	for _, x := range a {
		found := false
		for _, y := range b {
			found = found || x == y
		}
		if !found {
			out = append(out, x)
		}
	}
	return out
}

func ids(partitions []int) []loop.TaskID {
	var out []loop.TaskID
	for _, p := range partitions {
		out = append(out, taskOf(p))
	}
	return out
}
