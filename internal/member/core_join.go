package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reasons on the wire (KIP-800). Those that the Java client has too are spelled
// as it spells them, so that whoever reads a coordinator's log needs one list.
const (
	reasonClose     = "the consumer is being closed"
	reasonEcho      = "group is already rebalancing"
	reasonRevoked   = "need to revoke partitions and re-join"
	reasonFollowUp  = "triggered followup rebalance scheduled for 0"
	reasonMetadata  = "cached metadata has changed"
	reasonGivenID   = "need to re-join with the given member-id: "
	reasonEvicted   = "consumer pro-actively leaving the group"
	reasonPollClock = "consumer poll timeout has expired."
	// PollClockReason is the fixed prefix of the reason with which a member
	// leaves when its poll clock has fired; the name of the work follows. It
	// begins with the text of the Java client, which coordinators and people
	// already take for the poll clock.
	PollClockReason = reasonPollClock + " rondo: "
	maxReason       = 255 // Kafka cuts reasons here (KIP-800)
)

const protocolType = "consumer"

func cut(reason string) string {
	if len(reason) > maxReason {
		return reason[:maxReason]
	}
	return reason
}

func (c *Core) instance() *string {
	if c.cfg.InstanceID == "" {
		return nil
	}
	return kmsg.StringPtr(c.cfg.InstanceID)
}

// joinAllowed says whether a wanted join may be sent now.
func (c *Core) joinAllowed(now time.Time) bool {
	return c.why != "" && !now.Before(c.joinDue) && c.windowOpen() && c.drainedForJoin()
}

// drainedForJoin: the eager protocol gives everything back before it joins.
func (c *Core) drainedForJoin() bool { return !c.cfg.Eager || len(c.owned) == 0 }

func (c *Core) sendJoin(now time.Time) {
	if c.poll.lost != nil {
		c.applyLost()
	}
	sub := c.subscription()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group = c.cfg.Group
	req.SessionTimeoutMillis = int32(c.cfg.Session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(c.cfg.MaxPoll.Milliseconds())
	req.MemberID = c.memberID
	req.InstanceID = c.instance()
	req.ProtocolType = protocolType
	req.Reason = kmsg.StringPtr(cut(c.why))
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = c.cfg.Assignor.Name()
	p.Metadata = sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	c.phase, c.overtakenAt = Joining, time.Time{}
	c.candidates, c.metaDue = nil, time.Time{}
	c.drop(&c.meta)
	c.join = c.send(now, req, sub)
}

// subscription is the metadata of a join. What drains is claimed too, in
// entries after the rest: a leader of ours sheds from the end, so that a
// second rebalance moves what is already on its way. The generation lets the
// leader see a claim that was overtaken (KIP-792).
func (c *Core) subscription() *kmsg.ConsumerMemberMetadata {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 3
	m.Topics = slices.Sorted(slices.Values(c.cfg.Topics))
	m.Generation = c.generation
	if c.cfg.Rack != "" {
		m.Rack = kmsg.StringPtr(c.cfg.Rack)
	}
	c.claimed = nil
	if !c.cfg.Eager {
		c.claimed = slices.Clone(c.owned)
		var going []TopicPartition
		for _, d := range c.drains {
			going = append(going, d.parts...)
		}
		m.OwnedPartitions = append(claims(without(c.owned, going)), claims(sorted(going))...)
	}
	return &m
}

func claims(parts []TopicPartition) []kmsg.ConsumerMemberMetadataOwnedPartition {
	var out []kmsg.ConsumerMemberMetadataOwnedPartition
	for _, p := range parts {
		if n := len(out); n == 0 || out[n-1].Topic != p.Topic {
			o := kmsg.NewConsumerMemberMetadataOwnedPartition()
			o.Topic = p.Topic
			out = append(out, o)
		}
		o := &out[len(out)-1]
		o.Partitions = append(o.Partitions, p.Partition)
	}
	return out
}

func (c *Core) joinReplied(now time.Time, in Replied) {
	if c.cfg.InPoll && !c.poll.open {
		// The Java client leaves the answer in its socket until it polls.
		c.join = flight{}
		c.poll.join = &in
		return
	}
	c.join = flight{}
	resp, ok := in.Resp.(*kmsg.JoinGroupResponse)
	if !ok {
		if errors.Is(in.Err, kerr.SaslAuthenticationFailed) || errors.Is(in.Err, kerr.UnsupportedSaslMechanism) {
			c.fatal(c.hint("join group", in.Err))
			return
		}
		c.retryJoin(now, in.Err)
		return
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil:
		c.joined(now, resp)
	case errors.Is(err, kerr.MemberIDRequired):
		c.memberID = resp.MemberID
		c.why, c.joinDue = reasonGivenID+resp.MemberID, now
	case errors.Is(err, kerr.UnknownMemberID):
		c.reset(now, c.ended("join group", err), false, "encountered UNKNOWN_MEMBER_ID from JoinGroup response")
	case errors.Is(err, kerr.RebalanceInProgress), retriable(err):
		c.retryJoin(now, err)
	default:
		c.fatal(c.hint("join group", err))
	}
}

// retriable says that the coordinator is away or moved: ask again after a
// back-off, and the transport looks it up anew.
func retriable(err error) bool {
	return kerr.IsRetriable(err) || errors.Is(err, kerr.UnknownServerError)
}

func (c *Core) retryJoin(now time.Time, err error) {
	c.fails++
	c.joinDue = now.Add(c.backoff(c.fails))
	if c.why == "" {
		c.why = fmt.Sprintf("rebalance failed due to %v", err)
	}
}

func (c *Core) joined(now time.Time, resp *kmsg.JoinGroupResponse) {
	if resp.Protocol != nil && *resp.Protocol != "" && *resp.Protocol != c.cfg.Assignor.Name() {
		c.fatal(fmt.Errorf("join group %q: the group runs assignor %q, this member only %q: all members of a group must share one", c.cfg.Group, *resp.Protocol, c.cfg.Assignor.Name()))
		return
	}
	c.memberID, c.generation = resp.MemberID, resp.Generation
	c.phase, c.why, c.fails = Syncing, "", 0
	c.acked(now)
	c.beatDue = now.Add(c.cfg.Heartbeat)
	c.leader = resp.LeaderID == resp.MemberID
	c.counts, c.watched = nil, nil
	c.syncDue = now
	if !c.leader {
		return
	}
	c.candidates = make([]Candidate, 0, len(resp.Members))
	for _, m := range resp.Members {
		cand, err := candidate(m)
		if err != nil {
			// One member with bytes that nobody can read must not stop the
			// group: it gets nothing, and everybody else goes on.
			cand = Candidate{ID: m.MemberID, Generation: -1}
		}
		c.candidates = append(c.candidates, cand)
		c.watched = append(c.watched, cand.Topics...)
	}
	slices.Sort(c.watched)
	c.watched = slices.Compact(c.watched)
	c.metaDue = now
	if resp.SkipAssignment {
		// KIP-814: a leader that came back under its group.instance.id is
		// asked to watch the topics, not to place anything.
		c.candidates = nil
	} else {
		c.syncDue = time.Time{} // after the counts are known
	}
}

func (c *Core) sendSync(now time.Time) {
	c.sync = c.send(now, c.syncRequest(nil), nil)
}

func (c *Core) syncRequest(placed map[string]Placement) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group = c.cfg.Group
	req.Generation = c.generation
	req.MemberID = c.memberID
	req.InstanceID = c.instance()
	req.ProtocolType = kmsg.StringPtr(protocolType)
	req.Protocol = kmsg.StringPtr(c.cfg.Assignor.Name())
	for _, id := range sortedKeys(placed) {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = id
		a.MemberAssignment = assignment(placed[id])
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func (c *Core) syncReplied(now time.Time, in Replied) {
	c.sync = flight{}
	resp, ok := in.Resp.(*kmsg.SyncGroupResponse)
	if !ok {
		c.retrySync(now)
		return
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil:
		c.synced(now, resp)
	case errors.Is(err, kerr.RebalanceInProgress):
		c.acked(now)
		c.phase, c.why, c.joinDue = Joining, reasonEcho, now
		c.candidates, c.metaDue, c.syncDue = nil, time.Time{}, time.Time{}
		c.drop(&c.meta)
	case errors.Is(err, kerr.UnknownMemberID):
		c.reset(now, c.ended("sync group", err), false, "encountered UNKNOWN_MEMBER_ID from SyncGroup response")
	case errors.Is(err, kerr.IllegalGeneration):
		c.reset(now, c.ended("sync group", err), true, "encountered ILLEGAL_GENERATION from SyncGroup response")
	case retriable(err):
		c.retrySync(now)
	default:
		c.fatal(c.hint("sync group", err))
	}
}

func (c *Core) retrySync(now time.Time) {
	c.fails++
	c.syncDue = now.Add(c.backoff(c.fails))
	if c.leader && c.candidates != nil {
		c.metaDue, c.syncDue = c.syncDue, time.Time{} // place again, then sync
	}
}

// synced takes the assignment of a new generation.
func (c *Core) synced(now time.Time, resp *kmsg.SyncGroupResponse) {
	given, err := parseAssignment(resp.MemberAssignment)
	if err != nil {
		c.fatal(fmt.Errorf("sync group %q: assignment from the leader: %w", c.cfg.Group, err))
		return
	}
	c.phase, c.syncDue, c.fails, c.candidates = Stable, time.Time{}, 0, nil
	c.acked(now)
	if c.cfg.InPoll && !c.poll.open {
		c.poll.assigned = &given
		return
	}
	c.apply(now, given)
}

// apply makes an assignment ours: what is not in it is revoked, what is new is
// taken.
func (c *Core) apply(now time.Time, given Placement) {
	c.assigned = given.Partitions
	c.quick = quickBeats
	c.beatDue = earlier(c.beatDue, now.Add(c.pace()))
	var draining []TopicPartition
	for _, d := range c.drains {
		draining = append(draining, d.parts...)
	}
	revoked := without(without(c.owned, c.assigned), draining)
	added := without(c.assigned, c.owned)
	// What the leader thought we own and we no longer do was withheld from its
	// next owner: join again to hand it over.
	handover := len(without(without(c.claimed, c.assigned), c.owned)) > 0
	c.take(now, added)
	if len(revoked) > 0 {
		c.revoke(now, revoked, now.Add(c.cfg.MaxPoll))
	}
	c.tell(Assigned{Generation: c.generation, Partitions: added, Owned: slices.Clone(c.owned)})
	again := c.again
	if again == "" && handover {
		again = reasonRevoked
	}
	if again == "" && c.cfg.InPoll && string(given.UserData) == followUp {
		again = reasonFollowUp
	}
	if c.again = ""; again != "" {
		c.want(now, again)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (c *Core) take(now time.Time, parts []TopicPartition) {
	for _, p := range parts {
		c.since[p] = now
	}
	c.owned = sorted(append(c.owned, parts...))
}

func (c *Core) yield(parts []TopicPartition) {
	c.owned = without(c.owned, parts)
	for _, p := range parts {
		delete(c.since, p)
	}
}

func (c *Core) revoke(now time.Time, parts []TopicPartition, deadline time.Time) {
	d := drain{id: c.nextSeq(), parts: parts, deadline: deadline}
	c.drains = append(c.drains, d)
	c.tell(Revoke{Generation: c.generation, Partitions: slices.Clone(parts), id: d.id})
}

// drained hands a revocation over.
func (c *Core) drained(now time.Time, id uint64) {
	i := slices.IndexFunc(c.drains, func(d drain) bool { return d.id == id })
	if i < 0 {
		return
	}
	d := c.drains[i]
	c.drains = slices.Delete(c.drains, i, i+1)
	c.yield(d.parts)
	c.afterDrain(now, d.parts)
}

// afterDrain joins again to hand over what has drained, except what a later
// generation has given back meanwhile.
func (c *Core) afterDrain(now time.Time, parts []TopicPartition) {
	if c.cfg.Eager {
		return // a join is wanted already
	}
	if c.phase != Stable {
		return // apply compares claims when the running rebalance ends
	}
	back := without(parts, without(parts, c.assigned))
	if len(back) > 0 {
		c.take(now, back)
		c.tell(Assigned{Generation: c.generation, Partitions: sorted(back), Owned: slices.Clone(c.owned)})
	}
	if len(back) < len(parts) {
		c.want(now, reasonRevoked)
	}
}

// checkDrains is the hard bound of a revocation: the application had as long
// as the group waits for anybody.
func (c *Core) checkDrains(now time.Time) {
	for i := 0; i < len(c.drains); {
		d := c.drains[i]
		if now.Before(d.deadline) {
			i++
			continue
		}
		c.drains = slices.Delete(c.drains, i, i+1)
		c.yield(d.parts)
		c.tell(Lost{Partitions: d.parts, Cause: ErrDrainBound})
		c.afterDrain(now, d.parts)
	}
}

// prepareEager gives everything back before a join of the eager protocol. The
// coordinator may have begun to wait for us right after the last beat that it
// answered without a word, so the bound counts from there.
func (c *Core) prepareEager(now time.Time) {
	var draining []TopicPartition
	for _, d := range c.drains {
		draining = append(draining, d.parts...)
	}
	rest := without(c.owned, draining)
	if len(rest) > 0 {
		c.revoke(now, rest, c.lastAck.Add(c.cfg.MaxPoll*9/10))
	}
}
