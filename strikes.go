package rondo

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-streams/rondo/internal/call"
	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// strikes remembers which records held the poll clock until it fired, over all
// threads of the process: what it saw itself, and what the notes of earlier
// owners said. The oldest of more than maxStrikes are forgotten.
type strikes struct {
	mu    sync.Mutex
	times map[member.Work]int
	order []member.Work
}

const maxStrikes = 1 << 14

// add counts one more and answers how many there are.
func (s *strikes) add(w member.Work) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(w, s.times[w]+1)
	return s.times[w]
}

// raise takes over what a note says, unless more is known here.
func (s *strikes) raise(w member.Work, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times > s.times[w] {
		s.put(w, times)
	}
}

func (s *strikes) put(w member.Work, times int) {
	if s.times == nil {
		s.times = map[member.Work]int{}
	}
	if s.times[w] == 0 {
		if len(s.order) == maxStrikes {
			delete(s.times, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, w)
	}
	s.times[w] = times
}

// of is how often the work of that name on a record held the poll clock.
func (s *strikes) of(at member.TopicPartition, offset int64, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.times) == 0 {
		return 0
	}
	return s.times[member.Work{Topic: at.Topic, Partition: at.Partition, Offset: offset, Name: name}]
}

// callWork names a call for the poll clock's reports.
func callWork(name string) string { return callPrefix + name }

const callPrefix = "call "

// userWork names user code outside of calls for the poll clock's reports.
func (t *task) userWork() string { return "user code of task " + t.id.String() }

// strikeOf is a strike as notes have it.
func strikeOf(w member.Work, times int) call.Strike {
	name, isCall := strings.CutPrefix(w.Name, callPrefix)
	if !isCall {
		name = ""
	}
	return call.Strike{Offset: w.Offset, Call: name, Times: times}
}

// workOf is the work that a strike in a note of a partition is about.
func (t *task) workOf(p *inputPartition, s call.Strike) member.Work {
	w := member.Work{Topic: p.at.Topic, Partition: p.at.Partition, Offset: s.Offset, Name: t.userWork()}
	if s.Call != "" {
		w.Name = callWork(s.Call)
	}
	return w
}

// inherit begins with the strikes that the partition's last commit tells of.
func (t *task) inherit(p *inputPartition, committed member.Offset) {
	if t.host.app.streams42 {
		return // Kafka Streams knows of no such thing
	}
	p.noted = committed.Metadata
	list, err := call.ParseNote(committed.Metadata)
	if err != nil {
		t.host.log.Warn("the metadata of the last commit is not readable; records that cost a lease before are not known", "partition", p.at.String(), "error", err)
		return
	}
	for _, s := range list {
		if s.Offset < committed.At {
			continue
		}
		p.inherited = append(p.inherited, s)
		w := t.workOf(p, s)
		t.host.app.strikes.raise(w, s.Times)
		t.host.log.Warn("a record has cost its owner the lease before", "work", w.String(), "leases", s.Times)
	}
}

// note is what the next commit of a partition, at that offset, says of its
// strikes: those that it began with, until their records are finished, and one
// more for work that is about to cost this lease. Holding task.mu.
func (t *task) note(p *inputPartition, at int64) string {
	if len(p.inherited)+len(p.held) == 0 || t.host.app.noNotes.Load() {
		return ""
	}
	var list []call.Strike
	for _, s := range p.held {
		if s.Offset >= at {
			list = append(list, s)
		}
	}
	for _, s := range p.inherited {
		same := func(h call.Strike) bool { return h.Offset == s.Offset && h.Call == s.Call }
		if s.Offset >= at && !slices.ContainsFunc(list, same) {
			list = append(list, s)
		}
	}
	return call.Note(list)
}

// noteHeld looks for work that will have held the poll clock to its end soon,
// and commits when what the partitions' last commits say of it is not true any
// more. A commit that fails is repeated at the next look; when none succeeds,
// the next owner knows nothing, and the record may cost it a lease too.
func (th *thread) noteHeld() {
	if time.Now().Before(th.keep) {
		return
	}
	held := map[*inputPartition][]call.Strike{}
	for _, w := range th.member.Held(th.app.noteAge) {
		at := member.TopicPartition{Topic: w.Topic, Partition: w.Partition}
		t := th.taskOf(at)
		if t == nil || w.Began.Before(t.began) || t.leaving {
			continue // of a lease that is gone, or goes in an orderly way
		}
		for _, p := range t.parts {
			if p.at == at {
				times := th.app.strikes.of(at, w.Offset, w.Name) + 1
				held[p] = append(held[p], strikeOf(w.Work, times))
			}
		}
	}
	stale := false
	for _, t := range th.snapshot() {
		t.mu.Lock()
		for _, p := range t.parts {
			p.held = held[p]
			at, _ := p.offsets.Lowest()
			stale = stale || !t.fenced.Load() && t.note(p, at) != p.noted
		}
		t.mu.Unlock()
	}
	if stale && th.pending == 0 {
		th.startCommit(func(error) {})
	}
}

// hold notes the strike of work whose poll clock has fired, and keeps all notes
// as they are until the lease has gone.
func (th *thread) hold(w member.Work) {
	th.keep = time.Now().Add(2 * th.member.FarewellLimit())
	at := member.TopicPartition{Topic: w.Topic, Partition: w.Partition}
	t := th.taskOf(at)
	if t == nil {
		return
	}
	s := strikeOf(w, th.app.strikes.of(at, w.Offset, w.Name)+1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving {
		return
	}
	for _, p := range t.parts {
		same := func(h call.Strike) bool { return h.Offset == s.Offset && h.Call == s.Call }
		if p.at == at && !slices.ContainsFunc(p.held, same) {
			p.held = append(p.held, s)
		}
	}
}

// leave says that the task is handed over in an orderly way. What it holds is
// not about to cost this lease any more. The thread calls it.
func (t *task) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving = true
	for _, p := range t.parts {
		p.held = nil
	}
}

// taskOf is the task that reads a partition; nil when there is none.
func (th *thread) taskOf(at member.TopicPartition) *task {
	sub, ok := th.app.subOf[at.Topic]
	if !ok {
		return nil
	}
	return th.task(loop.TaskID{Sub: sub, Part: at.Partition})
}

// noteLead is how long before the end of the poll clock work is noted: a tenth
// of it, at least a heartbeat, at most half of it.
func noteLead(maxPoll, heartbeat time.Duration) time.Duration {
	return min(max(maxPoll/10, heartbeat), maxPoll/2)
}
