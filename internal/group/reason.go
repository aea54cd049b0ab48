package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// meaning is what a client's reason (KIP-800: JoinGroup v8, LeaveGroup v5) says
// about the cause of a rebalance.
type meaning int8

const (
	unclear     meaning = iota
	pollExpired         // its poll clock ran out
	partitions          // topics or partitions changed
	consequence         // of the rebalance before
)

// sayings are pieces of the reasons that clients send, and what they mean. A
// reason that is not here speaks of its sender alone: it came, left, or changed
// its subscription.
var sayings = []struct {
	piece string
	means meaning
}{
	// Java's clients, since 3.2 (AbstractCoordinator, ConsumerCoordinator,
	// StreamsPartitionAssignor).
	{"poll timeout has expired", pollExpired},
	{"cached metadata has changed", partitions},
	{"need to revoke partitions", consequence},
	{"followup rebalance", consequence},
	{"already rebalancing", consequence},
	{"pro-actively leaving", consequence},
	{"encountered unknown_member_id", consequence},
	{"encountered illegal_generation", consequence},
	{"encountered rebalance_in_progress", consequence},
	// Rondo's own member, and whoever names the setting.
	{"poll clock", pollExpired},
	{"max.poll.interval.ms", pollExpired},
	// franz-go.
	{"new partitions", partitions},
	{"partitions on topics another member is consuming have changed", partitions},
	{"after revoking what we lost", consequence},
	{"rejoining from normal rebalance", consequence},
	{"after we previously errored", consequence},
}

func meaningOf(reason string) meaning {
	reason = strings.ToLower(reason)
	for _, s := range sayings {
		if strings.Contains(reason, s.piece) {
			return s.means
		}
	}
	return unclear
}

// blame is a cause with its trigger's name and clocks.
func (c *classic) blame(m *member, by cause.Cause, sure cause.Confidence, reason string) why {
	return why{by, sure, m.named(), c.clocks(m), reason}
}

// follow attaches a rebalance to the cause of the one before it.
func (c *classic) follow(m *member, rule string) why {
	by := cause.MemberChange
	if e := c.previous(); e != nil {
		by = e.Cause
	}
	return c.blame(m, by, cause.Inferred, rule)
}

// quote puts a client's words behind a rule.
func quote(rule, said string) string {
	if said == "" {
		return rule
	}
	return fmt.Sprintf("%s (client: %s)", rule, said)
}

// whyJoin: somebody new is there. A client that an eviction had put out comes
// back for the cause of that eviction: by its own word, or because it is the
// one whose poll clock ran out. After a silent death the same host may as well
// have a new process, so a session's end alone says nothing.
func (c *classic) whyJoin(m *member, said string) why {
	lost, wasHere := c.back(m)
	follows := meaningOf(said) == consequence
	switch {
	case wasHere && (follows || lost.cause == cause.PollClock):
		return c.blame(m, lost.cause, cause.Inferred, quote(fmt.Sprintf("came back after the %s had evicted it as %s", lost.cause, lost.who.ID), said))
	case follows:
		return c.follow(m, quote("came back after the rebalance before", said))
	}
	return c.blame(m, cause.MemberChange, cause.Stated, said)
}

// whyRejoin: a member of a stable or completing group joins again.
func (c *classic) whyRejoin(m *member, req *kmsg.JoinGroupRequest, same bool) why {
	said := text(req.Reason)
	switch meaningOf(said) {
	case pollExpired:
		return c.blame(m, cause.PollClock, cause.Stated, said)
	case partitions:
		return c.blame(m, cause.PartitionChange, cause.Stated, said)
	case consequence:
		return c.follow(m, quote("follows the rebalance before", said))
	}
	switch {
	case said != "":
		return c.blame(m, cause.MemberChange, cause.Stated, said)
	case same:
		return c.blame(m, cause.PartitionChange, cause.Inferred, "the leader joined again with unchanged metadata, as it does when partitions have changed")
	case m.sameTopics(c.protocol, req.Protocols) && c.previous() != nil:
		return c.follow(m, "joined again for the same topics with other owned partitions: the second half of the rebalance before")
	}
	return c.blame(m, cause.MemberChange, cause.Inferred, "joined again with another subscription")
}

// sameTopics says whether a member's new metadata names the topics of the old.
func (m *member) sameTopics(protocol string, offers []kmsg.JoinGroupRequestProtocol) bool {
	had, ok := subscribedTopics(m.metadata(protocol))
	i := slices.IndexFunc(offers, func(o kmsg.JoinGroupRequestProtocol) bool { return o.Name == protocol })
	if !ok || i < 0 {
		return false
	}
	has, ok := subscribedTopics(offers[i].Metadata)
	slices.Sort(had)
	slices.Sort(has)
	return ok && slices.Equal(had, has)
}

func (c *classic) whyLeave(m *member, said string) why {
	if meaningOf(said) == pollExpired {
		return c.blame(m, cause.PollClock, cause.Stated, said)
	}
	return c.blame(m, cause.MemberChange, cause.Stated, said)
}

// whyPendingLeft: somebody that had only asked for an id is gone. In a stable
// group Kafka rebalances for that, too.
func (c *classic) whyPendingLeft(id, said string) why {
	p := c.pending[id]
	return why{
		cause: cause.MemberChange, confidence: cause.Stated, reason: said,
		trigger: cause.Member{ID: id, ClientID: p.clientID, Host: p.host},
	}
}

// whySilent: a session has ended. A static member whose poll clock ran out does
// not leave, it stops its heartbeats: then this is only what it looks like.
func (c *classic) whySilent(m *member) why {
	if m.instance != nil && c.s.now.Sub(m.work) >= m.rebalance+m.session {
		return c.blame(m, cause.SessionClock, cause.Inferred,
			"no heartbeat within session.timeout.ms; a static member also falls silent when its poll clock runs out, and its was")
	}
	return c.blame(m, cause.SessionClock, cause.Stated, "no heartbeat within session.timeout.ms")
}

func (c *classic) whyNoSync(m *member) why {
	return c.blame(m, cause.PollClock, cause.Stated, "joined, but did not ask for its assignment within the rebalance timeout")
}

func (c *classic) whyReplaced(m *member, said string) why {
	return c.blame(m, cause.MemberChange, cause.Stated, quote("a static member restarted with other protocols, or while an assignment was computed", said))
}

func (c *classic) whyNotStored(leader *member) why {
	return c.follow(leader, "the assignment of the rebalance before could not be stored")
}

func (c *classic) whyTooLarge() why {
	return why{cause: cause.MemberChange, confidence: cause.Inferred, reason: "the group that was loaded is larger than group.max.size"}
}
