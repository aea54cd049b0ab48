package group

import (
	"fmt"
	"slices"
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

// streamsStory is the story of an epoch. It is told when it has ended and its
// epoch is durable, whatever comes first: an epoch that an append could not
// write has none.
type streamsStory struct {
	event          cause.Event
	durable, ended bool
}

// openStory begins the story of an epoch, which ends when everybody has come
// to it. The one before ends here if it has not.
func (t *streams) openStory(from int32, w why) {
	t.closeStory()
	st := &streamsStory{event: cause.Event{
		Group: t.g.id, Protocol: t.kind(), At: t.s.now, From: from, To: t.epoch,
		Cause: w.cause, Confidence: w.confidence, Trigger: w.trigger, Reason: w.reason, Clocks: w.clocks,
	}}
	t.story = st
	t.s.log(func(code int16) {
		if code == 0 {
			st.durable = true
			t.tell(st)
		} else if t.story == st {
			t.story = nil
		}
	})
}

func (t *streams) tell(st *streamsStory) {
	if st.durable && st.ended {
		t.s.out.Events = append(t.s.out.Events, st.event)
	}
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
	t.closeStory()
}

func (t *streams) closeStory() {
	st := t.story
	if t.story = nil; st == nil {
		return
	}
	st.event.Took, st.event.Members = t.s.now.Sub(st.event.At), len(t.members)
	st.ended = true
	t.tell(st)
}

// gaveUp notes that a member has given up what it had to. Others have waited
// for it from when it was told.
func (t *streams) gaveUp(m *streamsMember) {
	if t.s.now.Sub(m.revoking) >= lateAfter {
		t.held(m)
	}
	m.work = t.s.now
}

// held names a member as one that the others have waited for.
func (t *streams) held(m *streamsMember) {
	if st := t.story; st != nil {
		if who := m.named(); !slices.Contains(st.event.HeldOpen, who) {
			st.event.HeldOpen = slices.Insert(st.event.HeldOpen, 0, who)
		}
	}
}

// remember keeps in mind who went, in case it comes back.
func (t *streams) remember(m *streamsMember, by cause.Cause) {
	if len(t.lost) == lostMax {
		t.lost = slices.Delete(t.lost, 0, 1)
	}
	t.lost = append(t.lost, lostMember{m.named(), by})
}

// whyJoin: somebody new is there, or somebody is back. A thread keeps its
// member id for its life, so a leave and a join of one id are its poll clock.
func (t *streams) whyJoin(m *streamsMember) why {
	i := slices.IndexFunc(t.lost, func(l lostMember) bool { return l.who.ID == m.id })
	if i < 0 {
		return t.blame(m, cause.MemberChange, cause.Stated, "joined")
	}
	l := t.lost[i]
	t.lost = slices.Delete(t.lost, i, i+1)
	if l.cause == cause.MemberChange {
		return t.blame(m, cause.PollClock, cause.Inferred, "left and is back under the same member id, as a thread is whose poll clock ran out")
	}
	return t.blame(m, l.cause, cause.Inferred, fmt.Sprintf("came back after the %s had fenced it", l.cause))
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
