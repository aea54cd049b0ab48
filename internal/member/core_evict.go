package member

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxStrikes bounds the memory of records that held the poll clock.
	maxStrikes = 1024
	// leaveWait is how long a rejoin waits for the answer to the leave before
	// it; the two may cross, it is only quieter in order.
	leaveWait = time.Second
	// maxLeaves is how often a leave is repeated: about ten seconds long.
	maxLeaves = 12
	// javaRequestTimeout is request.timeout.ms of the Java consumer, which
	// bounds its SyncGroup (InPoll only).
	javaRequestTimeout = 30 * time.Second
)

// expired: the poll clock has fired. The lease goes, unless the work ran
// under one that is gone already (its partition was lost or handed over since
// it began): then only its context is cut.
func (c *Core) expired(now time.Time, in Expired) {
	if !c.cfg.InPoll && c.costs(in.Work, now.Add(-in.Age)) {
		c.evict(now, in.Work, in.Age)
	}
}

// costs says whether the end of the poll clock of work that began then costs a
// lease.
func (c *Core) costs(w Work, began time.Time) bool {
	return c.generation >= 0 && !c.lapsed && c.covers(w, began)
}

// covers says whether work that began then runs under a lease that still
// stands.
func (c *Core) covers(w Work, began time.Time) bool {
	if w.Topic == "" {
		return len(c.owned) > 0
	}
	since, ok := c.since[TopicPartition{w.Topic, w.Partition}]
	return ok && !began.Before(since)
}

// evict leaves the group because of work, saying so, and joins anew.
func (c *Core) evict(now time.Time, w Work, age time.Duration) {
	c.tell(Evicted{Work: w, Age: age, Times: c.strikeRecord(w), Clocks: Clocks{
		SessionLeft: c.lastAck.Add(c.cfg.Session).Sub(now), SessionLimit: c.cfg.Session,
		PollLeft: c.cfg.MaxPoll - age, PollLimit: c.cfg.MaxPoll,
		Generation: c.generation, MemberID: c.memberID, State: c.State(), OldestWork: w,
	}})
	cause := &PollClockError{Work: w, Age: age, Limit: c.cfg.MaxPoll, InPoll: c.cfg.InPoll}
	if c.cfg.InstanceID != "" && c.phase == Joining && c.join.seq != 0 {
		// A static member says nothing to the coordinator, and its join is
		// under way already: what it is given there it takes afresh.
		c.lose(cause)
		return
	}
	if c.cfg.InstanceID == "" && c.memberID != "" {
		reason := reasonPollClock
		if w != (Work{}) {
			reason = PollClockReason + cause.held()
		}
		c.sendLeave(now, c.leaveRequest(reason))
	}
	c.reset(now, cause, false, reasonEvicted)
	if c.leave.seq != 0 {
		c.joinDue = now.Add(leaveWait)
	}
}

// sendLeave says goodbye, and again when the coordinator is away or has moved:
// a goodbye that is lost holds up the others until the session runs out.
func (c *Core) sendLeave(now time.Time, req *kmsg.LeaveGroupRequest) {
	c.farewell, c.leaveDue, c.leaveFails = req, time.Time{}, 0
	c.leave = c.send(now, req, nil)
}

// leaveReplied says whether the farewell is over.
func (c *Core) leaveReplied(now time.Time, in Replied) bool {
	c.leave = flight{}
	resp, ok := in.Resp.(*kmsg.LeaveGroupResponse)
	if ok && !retriable(kerr.ErrorForCode(resp.ErrorCode)) || c.leaveFails == maxLeaves {
		return true
	}
	c.leaveFails++
	c.leaveDue = now.Add(c.backoff(c.leaveFails))
	return false
}

func (c *Core) checkLeave(now time.Time) {
	if c.leaveDue.IsZero() || now.Before(c.leaveDue) {
		return
	}
	c.leaveDue = time.Time{}
	c.leave = c.send(now, c.farewell, nil)
}

// strikeRecord counts how often a record held the poll clock until it fired.
func (c *Core) strikeRecord(w Work) int {
	k := strike{TopicPartition{w.Topic, w.Partition}, w.Offset}
	if c.strikes[k] == 0 {
		if len(c.struck) == maxStrikes {
			delete(c.strikes, c.struck[0])
			c.struck = c.struck[1:]
		}
		c.struck = append(c.struck, k)
	}
	c.strikes[k]++
	return c.strikes[k]
}

// pollWindow is the state of the InPoll mode.
type pollWindow struct {
	open     bool
	last     time.Time  // the poll clock's start
	oldest   Work       // what the thread is busy with, for the report
	join     *Replied   // an answer that waits for Poll
	assigned *Placement // an assignment that waits for Poll
	lost     error      // a loss that waits for Poll
}

// windowOpen: the Java client joins only from inside poll.
func (c *Core) windowOpen() bool { return !c.cfg.InPoll || c.poll.open }

// pollBegan resets the poll clock and applies what has waited, in the order in
// which the Java client does: losses, the join's answer, the assignment.
func (c *Core) pollBegan(now time.Time) {
	if !c.cfg.InPoll {
		return
	}
	c.poll.open, c.poll.last = true, now
	if c.poll.lost != nil {
		c.applyLost()
	}
	if in := c.poll.join; in != nil {
		c.poll.join = nil
		c.join = flight{seq: in.Seq}
		c.joinReplied(now, *in)
	}
	if given := c.poll.assigned; given != nil {
		c.poll.assigned = nil
		c.apply(now, *given)
	}
}

func (c *Core) applyLost() {
	cause := c.poll.lost
	c.poll.lost = nil
	c.lose(cause)
}

// checkPoll is the poll clock of the InPoll mode. The Java client looks at it
// in its heartbeat thread, which runs only while heartbeats do.
func (c *Core) checkPoll(now time.Time) {
	if !c.cfg.InPoll || !c.beating() || now.Before(c.poll.last.Add(c.cfg.MaxPoll)) {
		return
	}
	c.evict(now, c.poll.oldest, now.Sub(c.poll.last))
}

// checkTimeouts gives up on a SyncGroup after request.timeout.ms, which the
// Java client does to the group of a leader that is busy.
func (c *Core) checkTimeouts(now time.Time) {
	if !c.cfg.InPoll || c.sync.seq == 0 || now.Before(c.sync.sent.Add(javaRequestTimeout)) {
		return
	}
	c.drop(&c.sync)
	c.phase, c.syncDue = Joining, time.Time{}
	c.why, c.joinDue = "rebalance failed due to DisconnectException", now
}

// Busy says that Poll has something to wait for (InPoll only).
func (c *Core) Busy() bool {
	return c.phase != Stopped && (c.phase != Stable || c.why != "" || c.poll.assigned != nil)
}
