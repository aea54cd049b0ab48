package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/rondo-streams/rondo/cause"
)

// chronicle is what a group of one of the newer protocols tells of its epochs,
// and who went and may come back.
type chronicle struct {
	story    *epochStory // of the newest epoch, until everybody has come to it
	restless bool        // it began before everybody had come to the one before
	lost     departed
}

// moves says whether changes follow upon each other, so that who has come to
// its target may soon have another.
func (h *chronicle) moves(s *Shard) bool {
	return h.story != nil && h.restless && s.now.Sub(h.story.event.At) < hurryFor
}

// epochStory is an epoch that goes on: an event in the making. It is told when
// it has ended and its epoch is durable, whatever comes first: an epoch that an
// append could not write has none.
type epochStory struct {
	event         cause.Event
	durable, over bool
}

// begin opens the story of the epoch that was just written, which ends when
// everybody has come to it. The one before ends here if it has not.
func (h *chronicle) begin(s *Shard, w why, event cause.Event) {
	h.restless = h.story != nil
	h.end(s)
	event.At, event.Cause, event.Confidence = s.now, w.cause, w.confidence
	event.Trigger, event.Reason, event.Clocks = w.trigger, w.reason, w.clocks
	st := &epochStory{event: event}
	h.story = st
	s.begun(event)
	s.log(func(code int16) {
		switch {
		case code == 0:
			st.durable = true
			st.tell(s)
		case h.story == st:
			h.story = nil
		}
	})
}

// begun tells of a change of a generation with the record that makes it.
func (s *Shard) begun(e cause.Event) {
	e.Stage = cause.Begun
	s.out.Begun = append(s.out.Begun, e)
}

// end ends the story, if there is one.
func (h *chronicle) end(s *Shard) {
	st := h.story
	if h.story = nil; st == nil {
		return
	}
	st.event.Took, st.over = s.now.Sub(st.event.At), true
	st.tell(s)
}

func (st *epochStory) tell(s *Shard) {
	if st.durable && st.over {
		s.out.Events = append(s.out.Events, st.event)
	}
}

// gaveUp notes that a member has given up what it was told to at a time, which
// the others have waited for since.
func (h *chronicle) gaveUp(who cause.Member, told, now time.Time) {
	if now.Sub(told) >= lateAfter {
		h.held(who)
	}
}

// held names a member as one that the others have waited for.
func (h *chronicle) held(who cause.Member) {
	if st := h.story; st != nil && !slices.Contains(st.event.HeldOpen, who) {
		st.event.HeldOpen = slices.Insert(st.event.HeldOpen, 0, who)
	}
}

// whyJoin says why somebody new is there, or somebody is back. The protocols
// carry no reason. A client keeps its member id when its poll clock makes it
// leave, and takes another one when it starts (KIP-1082; a thread of Kafka
// Streams keeps it for its life): so a leave and a join of one id are the poll
// clock.
func (h *chronicle) whyJoin(s *Shard, who cause.Member, clocks cause.Clocks) why {
	w := why{cause: cause.MemberChange, confidence: cause.Stated, trigger: who, clocks: clocks, reason: "joined"}
	i := h.lost.find(func(l lostMember) bool { return l.who.ID == who.ID })
	if i < 0 {
		return w
	}
	l := h.lost[i]
	h.lost = slices.Delete(h.lost, i, i+1)
	s.log(func(code int16) {
		if code != 0 {
			h.lost = slices.Insert(h.lost, i, l)
		}
	})
	switch {
	case l.cause == cause.MemberChange:
		w.cause, w.confidence = cause.PollClock, cause.Inferred
		w.reason = "left and is back under the same member id, as a client is whose poll clock ran out"
	default:
		w.cause, w.confidence = l.cause, cause.Inferred
		w.reason = fmt.Sprintf("came back after the %s had fenced it", l.cause)
	}
	return w
}

// depart notes that somebody goes, which is about to be written, and why. When
// that cannot be written it is still there.
func (h *chronicle) depart(s *Shard, who cause.Member, by cause.Cause) {
	var forgotten departed
	if len(h.lost) == lostMax {
		forgotten = slices.Clone(h.lost[:1])
	}
	h.lost.add(who, by)
	s.log(func(code int16) {
		if code != 0 {
			h.lost = append(forgotten, h.lost[:len(h.lost)-1]...)
		}
	})
}

// lostMember was evicted. When its client comes back, that is no new cause.
type lostMember struct {
	who   cause.Member
	cause cause.Cause
}

// departed are those who went and may come back, oldest first.
type departed []lostMember

// lostMax bounds the memory for members that never come back.
const lostMax = 64

func (d *departed) add(who cause.Member, by cause.Cause) {
	if len(*d) == lostMax {
		*d = slices.Delete(*d, 0, 1)
	}
	*d = append(*d, lostMember{who, by})
}

// find gives the place of the one who went first, -1 when nobody did.
func (d departed) find(is func(lostMember) bool) int { return slices.IndexFunc(d, is) }

// take takes somebody out who is back.
func (d *departed) take(is func(lostMember) bool) (lostMember, bool) {
	i := d.find(is)
	if i < 0 {
		return lostMember{}, false
	}
	l := (*d)[i]
	*d = slices.Delete(*d, i, i+1)
	return l, true
}
