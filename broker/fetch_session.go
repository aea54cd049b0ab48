package broker

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The epochs of a fetch request that mean something else than the next request
// of a session (FetchMetadata.java).
const (
	sessionInitial = 0  // make a session
	sessionFinal   = -1 // no session, and end the one that is named
)

// sessionGrace is how long a session may not have been used before another may
// take its place (FetchSession.scala).
const sessionGrace = 2 * time.Minute

// fetchKey names a partition in a session, by the topic's name or by its id,
// whichever the version of the request has.
type fetchKey struct {
	name string
	id   topicID
	n    int32
}

// fetchPart is one partition that a fetch asks for. In a session it also
// remembers what the client was told last.
type fetchPart struct {
	key      fetchKey
	offset   int64
	maxBytes int32
	epoch    int32 // CurrentLeaderEpoch, -1 for none
	last     int32 // LastFetchedEpoch, -1 for none

	told      bool // the client knows watermark and start
	watermark int64
	start     int64
}

// fetchSession is what a client need not repeat (KIP-227). Its own client is
// the only one that uses it, one request at a time.
type fetchSession struct {
	id     int32
	epoch  int32 // of the request that comes next
	byID   bool  // it was made with topic ids
	busy   bool  // a request of it is being served
	used   time.Time
	parts  []*fetchPart // in the order in which they are served
	lookup map[fetchKey]*fetchPart
}

// fetchSessions are the sessions of all clients.
type fetchSessions struct {
	mu    sync.Mutex
	slots int
	byID  map[int32]*fetchSession
}

// newFetchSessions makes room for as many sessions as Kafka does: it deals the
// slots out to eight shards, so what is left over is not used.
func newFetchSessions(slots int64) *fetchSessions {
	return &fetchSessions{slots: int(slots / 8 * 8), byID: map[int32]*fetchSession{}}
}

func (s *fetchSessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// context decides what a request fetches: the partitions in order, and the
// session it belongs to, if any. It follows FetchManager.newContext.
func (s *fetchSessions) context(msg *kmsg.FetchRequest, now time.Time) (parts []*fetchPart, session *fetchSession, e *kerr.Error) {
	if msg.Version < 7 {
		return requested(msg), nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if msg.SessionEpoch == sessionInitial || msg.SessionEpoch == sessionFinal {
		delete(s.byID, msg.SessionID)
		parts = requested(msg)
		if msg.SessionEpoch == sessionFinal || !s.room(now) {
			return parts, nil, nil
		}
		return parts, s.open(msg, parts, now), nil
	}
	session = s.byID[msg.SessionID]
	switch {
	case session == nil:
		return nil, nil, kerr.FetchSessionIDNotFound
	case session.epoch != msg.SessionEpoch, session.busy:
		return nil, nil, kerr.InvalidFetchSessionEpoch
	case session.byID != (msg.Version >= 13):
		return nil, nil, kerr.FetchSessionTopicIDError
	}
	session.update(msg)
	if len(session.parts) == 0 {
		delete(s.byID, session.id)
		return nil, nil, nil
	}
	session.used, session.busy = now, true
	session.epoch = nextEpoch(session.epoch)
	return session.parts, session, nil
}

// release ends a request of a session.
func (s *fetchSessions) release(session *fetchSession) {
	if session == nil {
		return
	}
	s.mu.Lock()
	session.busy = false
	s.mu.Unlock()
}

func nextEpoch(e int32) int32 {
	if e == 1<<31-1 {
		return 1
	}
	return e + 1
}

// room makes place for one more session, at the cost of the one that was not
// used for longest.
func (s *fetchSessions) room(now time.Time) bool {
	if len(s.byID) < s.slots {
		return true
	}
	var oldest *fetchSession
	for _, session := range s.byID {
		if oldest == nil || session.used.Before(oldest.used) {
			oldest = session
		}
	}
	if oldest == nil || now.Sub(oldest.used) <= sessionGrace {
		return false
	}
	delete(s.byID, oldest.id)
	return true
}

func (s *fetchSessions) open(msg *kmsg.FetchRequest, parts []*fetchPart, now time.Time) *fetchSession {
	session := &fetchSession{epoch: 1, byID: msg.Version >= 13, busy: true, used: now, lookup: make(map[fetchKey]*fetchPart, len(parts))}
	for _, p := range parts {
		if session.lookup[p.key] == nil {
			session.parts = append(session.parts, p)
			session.lookup[p.key] = p
		}
	}
	for session.id == 0 || s.byID[session.id] != nil {
		session.id = rand.Int32N(1<<31 - 1)
	}
	s.byID[session.id] = session
	return session
}

// update takes over what an incremental request changes.
func (f *fetchSession) update(msg *kmsg.FetchRequest) {
	for _, p := range requested(msg) {
		if old := f.lookup[p.key]; old != nil {
			old.offset, old.maxBytes, old.epoch, old.last = p.offset, p.maxBytes, p.epoch, p.last
			continue
		}
		f.parts = append(f.parts, p)
		f.lookup[p.key] = p
	}
	gone := false
	for _, t := range msg.ForgottenTopics {
		for _, n := range t.Partitions {
			key := fetchKey{name: t.Topic, id: t.TopicID, n: n}
			gone = gone || f.lookup[key] != nil
			delete(f.lookup, key)
		}
	}
	if !gone {
		return
	}
	kept := f.parts[:0]
	for _, p := range f.parts {
		if f.lookup[p.key] == p {
			kept = append(kept, p)
		}
	}
	clear(f.parts[len(kept):])
	f.parts = kept
}

// rotate moves the partitions that gave data behind the others, so that under
// a limit on bytes everyone has a turn.
func (f *fetchSession) rotate(gave map[*fetchPart]bool) {
	if len(gave) == 0 || len(gave) == len(f.parts) {
		return
	}
	order := make([]*fetchPart, 0, len(f.parts))
	for _, p := range f.parts {
		if !gave[p] {
			order = append(order, p)
		}
	}
	for _, p := range f.parts {
		if gave[p] {
			order = append(order, p)
		}
	}
	f.parts = order
}

// requested lists the partitions that a request names.
func requested(msg *kmsg.FetchRequest) []*fetchPart {
	n := 0
	for i := range msg.Topics {
		n += len(msg.Topics[i].Partitions)
	}
	values := make([]fetchPart, 0, n)
	parts := make([]*fetchPart, 0, n)
	for i := range msg.Topics {
		t := &msg.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			values = append(values, fetchPart{
				key: fetchKey{name: t.Topic, id: t.TopicID, n: p.Partition}, offset: p.FetchOffset,
				maxBytes: p.PartitionMaxBytes, epoch: p.CurrentLeaderEpoch, last: p.LastFetchedEpoch,
			})
			parts = append(parts, &values[len(values)-1])
		}
	}
	return parts
}
