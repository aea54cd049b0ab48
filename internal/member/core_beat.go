package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quickBeats is how many beats of a sixth of heartbeat.interval.ms follow a new
// generation.
const quickBeats = 6

// Causes of a Lost event, beside *PollClockError.
var (
	// ErrSessionClock: session.timeout.ms passed since the last heartbeat that
	// the coordinator acknowledged; it gives the partitions away.
	ErrSessionClock = errors.New("session clock: no heartbeat was acknowledged for session.timeout.ms, the coordinator gives the partitions away: look at the network and the broker, or raise session.timeout.ms")
	// ErrDrainBound: a revocation was not done within the rebalance timeout.
	ErrDrainBound = errors.New("revocation was not done within max.poll.interval.ms: the partitions are handed over without it")
)

// AnswerError is an answer of the coordinator that ended the membership: the
// cause of a Lost event, or the error of a Fatal one.
type AnswerError struct {
	Op    string // the request that was answered so
	Group string
	Err   error  // the protocol's error
	Hint  string // what to do about it; may be empty
}

// Error names the request, the group, the answer and the way out.
func (e *AnswerError) Error() string {
	text := e.Err.Error()
	var answer *kerr.Error
	if errors.As(e.Err, &answer) {
		text = answer.Message
	}
	text = fmt.Sprintf("%s %q: %s", e.Op, e.Group, text)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap is the protocol's error.
func (e *AnswerError) Unwrap() error { return e.Err }

func (c *Core) ended(op string, err error) error {
	return &AnswerError{Op: op, Group: c.cfg.Group, Err: err}
}

// beating: heartbeats go on in every state with a generation. The Java client
// stops them while a join is outstanding.
func (c *Core) beating() bool {
	if c.cfg.InPoll {
		return c.generation >= 0 && (c.phase == Syncing || c.phase == Stable)
	}
	return c.generation >= 0
}

func (c *Core) sendBeat(now time.Time) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = c.cfg.Group
	req.Generation = c.generation
	req.MemberID = c.memberID
	req.InstanceID = c.instance()
	c.beat = c.send(now, req, nil)
	c.beatDue = now.Add(c.pace())
}

// pace is the time to the next beat. A generation of the cooperative protocol
// is often followed by another, as soon as what moves has drained; a few quick
// beats after each let the member hear of it without waiting for a whole
// interval, so that whoever gets those partitions has them sooner.
func (c *Core) pace() time.Duration {
	if c.quick == 0 || c.cfg.InPoll || c.cfg.Eager {
		return c.cfg.Heartbeat
	}
	c.quick--
	return c.cfg.Heartbeat / quickBeats
}

func (c *Core) beatReplied(now time.Time, in Replied) {
	f := c.beat
	c.beat = flight{}
	resp, ok := in.Resp.(*kmsg.HeartbeatResponse)
	if !ok {
		c.retryBeat(now)
		return
	}
	err := kerr.ErrorForCode(resp.ErrorCode)
	current := f.generation == c.generation
	switch {
	case err == nil:
		c.acked(f.sent)
		c.beatFails = 0
		if current {
			c.recover(now)
		}
	case errors.Is(err, kerr.RebalanceInProgress):
		c.acked(f.sent)
		c.beatFails = 0
		if current && c.phase == Stable {
			c.told(now)
		}
	case retriable(err):
		c.retryBeat(now)
	case !current:
		// An answer to an older self.
	case errors.Is(err, kerr.IllegalGeneration) && c.phase != Stable:
		c.overtaken(now)
	case errors.Is(err, kerr.UnknownMemberID):
		c.reset(now, c.ended("heartbeat to", err), false, "encountered UNKNOWN_MEMBER_ID from Heartbeat response")
	case errors.Is(err, kerr.IllegalGeneration):
		c.reset(now, c.ended("heartbeat to", err), true, "encountered ILLEGAL_GENERATION from Heartbeat response")
	default:
		c.fatal(c.hint("heartbeat to", err))
	}
}

// overtaken: the group has a new generation and the join that took us there is
// not answered yet. Its answer is on the way; when a heartbeat interval later it
// is still not there, it was lost, and the coordinator repeats it to whoever
// asks again with the same words.
func (c *Core) overtaken(now time.Time) {
	if c.overtakenAt.IsZero() {
		c.overtakenAt = now
	}
	if c.phase == Joining && c.join.seq != 0 && now.Sub(c.overtakenAt) >= c.cfg.Heartbeat {
		c.drop(&c.join)
		c.joinDue = now
	}
}

// told: the coordinator waits for everybody to join again.
func (c *Core) told(now time.Time) {
	c.want(now, reasonEcho)
}

func (c *Core) retryBeat(now time.Time) {
	c.beatFails++
	c.beatDue = now.Add(min(c.backoff(c.beatFails), c.cfg.Heartbeat))
}

// acked notes a sign of life that the coordinator has taken.
func (c *Core) acked(sent time.Time) {
	if sent.After(c.lastAck) {
		c.lastAck = sent
	}
	if c.phase != Stable {
		c.lapsed = false
	}
}

// checkSession is what the coordinator does, seen from here: it gives the
// partitions away when it has not heard from us for session.timeout.ms. The
// clock counts from the sending of the last acknowledged beat, so that it
// never fires later than the coordinator's. The Java client does not do this.
func (c *Core) checkSession(now time.Time) {
	if c.cfg.InPoll || c.lapsed || c.generation < 0 || now.Before(c.lastAck.Add(c.cfg.Session)) {
		return
	}
	c.lapsed = true
	c.lose(ErrSessionClock)
	// What is in flight sits on a connection that is dead, and a join claimed
	// what is lost.
	if c.phase == Joining && c.join.seq != 0 {
		c.drop(&c.join)
		c.retryJoin(now, ErrSessionClock)
	}
	if c.phase == Syncing && c.sync.seq != 0 {
		c.drop(&c.sync)
		c.retrySync(now)
	}
}

// recover: the coordinator still knows us under the same generation after a
// lapse (it was away itself), so nobody else was given our partitions.
func (c *Core) recover(now time.Time) {
	if !c.lapsed || c.phase != Stable {
		return
	}
	c.lapsed = false
	back := slices.Clone(c.assigned)
	c.take(now, back)
	c.tell(Assigned{Generation: c.generation, Partitions: back, Owned: slices.Clone(c.owned)})
	if len(without(c.claimed, c.assigned)) > 0 {
		c.want(now, reasonRevoked) // a revocation was under way: hand it over
	}
}

// lose gives up everything at once.
func (c *Core) lose(cause error) {
	lost := c.owned
	c.owned, c.drains = nil, nil
	clear(c.since)
	if len(lost) > 0 {
		c.tell(Lost{Partitions: lost, Cause: cause})
	}
}

// reset ends the membership as far as this side goes, and joins anew.
func (c *Core) reset(now time.Time, cause error, keepID bool, reason string) {
	if c.cfg.InPoll && !c.poll.open {
		if c.poll.lost == nil {
			c.poll.lost = cause // told at the next poll, as onPartitionsLost is
		}
	} else {
		c.lose(cause)
	}
	c.drop(&c.join)
	c.drop(&c.sync)
	c.drop(&c.beat)
	c.drop(&c.meta)
	c.poll.join, c.poll.assigned = nil, nil
	if !keepID {
		c.memberID = ""
	}
	c.generation, c.leader, c.lapsed = -1, false, false
	c.assigned, c.candidates = nil, nil
	c.syncDue, c.metaDue = time.Time{}, time.Time{}
	c.phase, c.why, c.again, c.joinDue = Unjoined, reason, "", now
}

// fatal ends the member.
func (c *Core) fatal(err error) {
	c.lose(err)
	c.drop(&c.join)
	c.drop(&c.sync)
	c.drop(&c.beat)
	c.drop(&c.meta)
	c.generation, c.phase, c.why = -1, Stopped, ""
	c.tell(Fatal{Err: err})
}

// hint says what to do about an answer that ends the member.
func (c *Core) hint(op string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, kerr.FencedInstanceID):
		hint = fmt.Sprintf("another process runs with group.instance.id %q: give each its own", c.cfg.InstanceID)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		hint = fmt.Sprintf("members of the group run another assignor than %q or another protocol: use another group.id or stop them", c.cfg.Assignor.Name())
	case errors.Is(err, kerr.InvalidSessionTimeout):
		hint = fmt.Sprintf("session.timeout.ms %s is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms", c.cfg.Session)
	case errors.Is(err, kerr.GroupMaxSizeReached):
		hint = "the group has group.max.size members: stop one or raise it on the broker"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		hint = "this principal needs READ on the group"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		hint = "look at sasl.mechanism, user and password"
	case errors.Is(err, kerr.InvalidGroupID):
		hint = "set group.id"
	}
	return &AnswerError{Op: op, Group: c.cfg.Group, Err: err, Hint: hint}
}

// refused takes a commit's answer as a word about the membership.
func (c *Core) refused(now time.Time, in Refused) {
	if in.MemberID != c.memberID || in.Generation != c.generation {
		return
	}
	switch err := kerr.ErrorForCode(in.Code); {
	case errors.Is(err, kerr.RebalanceInProgress):
		if c.phase == Stable {
			c.told(now)
		}
	case errors.Is(err, kerr.UnknownMemberID):
		c.reset(now, c.ended("commit to", err), false, "encountered UNKNOWN_MEMBER_ID from OffsetCommit response")
	case errors.Is(err, kerr.IllegalGeneration) && c.phase == Stable:
		c.reset(now, c.ended("commit to", err), true, "encountered ILLEGAL_GENERATION from OffsetCommit response")
	case errors.Is(err, kerr.FencedInstanceID):
		c.fatal(c.hint("commit to", err))
	}
}

// closing leaves for good. A static member stays silent: its place is kept
// until its session runs out, so that a restart moves nothing (KIP-345).
func (c *Core) closing(now time.Time, reason string) {
	if reason == "" {
		reason = reasonClose
	}
	if c.memberID != "" || c.cfg.InstanceID != "" {
		c.drop(&c.join)
	}
	c.drop(&c.sync)
	c.drop(&c.beat)
	c.drop(&c.meta)
	if c.memberID != "" && c.cfg.InstanceID == "" {
		c.sendLeave(now, c.leaveRequest(reason))
	}
	c.owned, c.drains = nil, nil
	c.generation, c.phase, c.why = -1, Stopped, ""
}

func (c *Core) leaveRequest(reason string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = c.cfg.Group
	req.MemberID = c.memberID
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = c.memberID
	m.InstanceID = c.instance()
	m.Reason = kmsg.StringPtr(cut(reason))
	req.Members = append(req.Members, m)
	return req
}
