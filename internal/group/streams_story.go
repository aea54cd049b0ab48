package group

import (
	"fmt"
	"strconv"

	"github.com/rondo-streams/rondo/cause"
)

func (m *streamsMember) named() cause.Member {
	return cause.Member{ID: m.id, ClientID: m.meta.clientID, Host: m.meta.host, Instance: text(m.meta.instance)}
}

func (t *streams) blame(m *streamsMember, by cause.Cause, sure cause.Confidence, reason string) why {
	return why{by, sure, m.named(), t.clocks(m), reason}
}

func (t *streams) clocks(m *streamsMember) cause.Clocks {
	return cause.Clocks{
		SessionAge: t.s.now.Sub(m.beat), SessionLimit: t.sessionTimeout(),
		PollAge: t.s.now.Sub(m.work), PollLimit: m.meta.rebalance,
	}
}

// openStory begins the story of a new epoch.
func (t *streams) openStory(from int32, w why) {
	t.begin(t.s, w, cause.Event{Group: t.g.id, Protocol: t.kind(), From: from, To: t.epoch, Members: len(t.members)})
}

func (t *streams) maybeCloseStory() {
	if t.story == nil {
		return
	}
	if t.epoch > t.targetEpoch && len(t.members) > 0 {
		return
	}
	for _, m := range t.members {
		if !t.reconciled(m) {
			return
		}
	}
	t.end(t.s)
}

func (t *streams) whyChanged(m *streamsMember) why {
	return t.blame(m, cause.MemberChange, cause.Stated, "came back as another process, with another endpoint, topology or setting")
}

func (t *streams) whyTopics() why {
	return why{cause: cause.PartitionChange, confidence: cause.Stated, reason: "the topics that the topology needs have changed"}
}

func (t *streams) whyStandbys(now string) why {
	return why{cause: cause.MemberChange, confidence: cause.Stated,
		reason: fmt.Sprintf("streams.num.standby.replicas was changed from %s to %s", t.standbys, now)}
}

// whyLeave: whether a member that leaves was closed, or its poll clock ran out,
// only its coming back can tell.
func (t *streams) whyLeave(m *streamsMember) why {
	return t.blame(m, cause.MemberChange, cause.Inferred, "left, without a word why: it was closed, or its poll clock ran out and it will be back")
}

// replicaCount reads what was written as num.standby.replicas.
func replicaCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return max(n, 0)
}
