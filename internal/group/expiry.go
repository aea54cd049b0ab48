package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sweepBatch is how many records one Step of the look for expired offsets may
// write. The rest waits for the next Step, so that a shard with a million
// offsets still answers heartbeats in between, and batches stay small.
const sweepBatch = 2000

// eraseAgain is how soon the offsets of topics that are gone are removed once more
// after that has failed.
const eraseAgain = 5 * time.Second

// sweep is a look at all groups: for expired offsets, every
// offsets.retention.check.interval.ms, and for those of topics that are gone.
type sweep struct {
	alarm alarm
	left  []string // groups still to be looked at
}

func (s *Shard) startSweep() {
	if s.through(&s.sweep, s.expire) {
		s.alarms.set(&s.sweep.alarm, s.now.Add(s.cfg.RetentionCheck))
	}
}

// through looks at the groups that are left of the last Step, or at all, until
// enough has been written. It reports whether that was the last of them.
func (s *Shard) through(w *sweep, look func(*group)) bool {
	if len(w.left) == 0 {
		for _, g := range s.sorted() {
			w.left = append(w.left, g.id)
		}
	}
	for len(w.left) > 0 && len(s.out.Records) < sweepBatch {
		if g := s.groups[w.left[0]]; g != nil {
			look(g)
		}
		w.left = w.left[1:]
	}
	if len(w.left) > 0 {
		s.alarms.set(&w.alarm, s.now)
		return false
	}
	return true
}

// expire removes the offsets of a group whose time is over, and the group when
// nothing is left of it (OffsetMetadataManager.cleanupExpiredOffsets).
func (s *Shard) expire(g *group) {
	base, ok := g.members.expiry()
	if !ok {
		return
	}
	nowMs, keep := s.now.UnixMilli(), false
	var over []partition
	inUse := g.members.subscription()
	for _, tp := range g.offsets.all() {
		o, committed := g.offsets.get(tp)
		if !committed || g.offsets.busy(tp) || contains(inUse, tp.topic) || !s.expired(o, base, nowMs) {
			keep = true
			continue
		}
		over = append(over, tp)
	}
	if !keep && g.members.empty() {
		s.delete(g)
		return
	}
	for _, tp := range over {
		s.erase(g, tp)
	}
}

func contains(sorted []string, topic string) bool {
	_, found := slices.BinarySearch(sorted, topic)
	return found
}

// expired says whether an offset's time is over. A retention that the commit
// brought along wins over the broker's.
func (s *Shard) expired(o offset, baseMs, nowMs int64) bool {
	if o.expiresMs >= 0 {
		return nowMs >= o.expiresMs
	}
	if baseMs <= 0 {
		baseMs = o.committedMs
	}
	return baseMs <= nowMs && nowMs-baseMs >= s.cfg.OffsetsRetention.Milliseconds()
}

// offsetDelete removes offsets that nobody uses any more.
func (s *Shard) offsetDelete(rq Request, req *kmsg.OffsetDeleteRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	g := s.groups[req.Group]
	switch {
	case g == nil:
		resp.ErrorCode = kerr.GroupIDNotFound.Code
	case g.members.offsetsInUse():
		resp.ErrorCode = kerr.NonEmptyGroup.Code
	}
	if resp.ErrorCode != 0 {
		s.reply(rq.Token, resp)
		return
	}
	before, inUse := len(s.out.Records), g.members.subscription()
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			if contains(inUse, t.Topic) {
				rp.ErrorCode = kerr.GroupSubscribedToTopic.Code
			} else if tp := (partition{t.Topic, p.Partition}); g.offsets.exists(tp) {
				s.erase(g, tp)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(s.out.Records) == before {
		s.reply(rq.Token, resp)
		return
	}
	s.log(func(code int16) {
		if code != 0 {
			resp.ErrorCode, resp.Topics = appendError(code), nil
		}
		s.reply(rq.Token, resp)
	})
}

// topicsDeleted removes the offsets of topics that are gone, in every group,
// and those that open transactions hold of them.
func (s *Shard) topicsDeleted(topics []string) {
	if s.phase == loading {
		s.gone = append(s.gone, topics...)
		return
	}
	before := len(s.out.Records)
	for _, g := range s.sorted() {
		for _, tp := range g.offsets.all() {
			if slices.Contains(topics, tp.topic) {
				s.erase(g, tp)
			}
		}
	}
	if len(s.out.Records) > before {
		s.orAgain()
	}
}

// startCleaning removes the offsets of topics that are gone which topicsDeleted has
// left: the tombstones did not get into the log before the broker ended, or not at
// all, or the commit came at the moment of the deletion. Nobody would remove them
// later, and a topic of the same name would begin with them.
func (s *Shard) startCleaning() { s.through(&s.cleaning, s.clean) }

func (s *Shard) clean(g *group) {
	before := len(s.out.Records)
	for _, tp := range g.offsets.all() {
		o, committed := g.offsets.get(tp)
		if committed && !g.offsets.busy(tp) && (s.topics.byName[tp.topic] == nil || s.replaced(tp, o)) {
			s.erase(g, tp)
		}
	}
	if len(s.out.Records) > before {
		s.orAgain()
	}
}

// orAgain starts the cleaning, should the tombstones of this Step be lost.
func (s *Shard) orAgain() {
	s.log(func(code int16) {
		if code != 0 {
			s.alarms.set(&s.cleaning.alarm, s.now.Add(eraseAgain))
		}
	})
}

// replaced says that an offset is one of an earlier topic of the same name.
func (s *Shard) replaced(tp partition, o offset) bool {
	t := s.topics.byName[tp.topic]
	return t != nil && o.topicID != [16]byte{} && t.ID != o.topicID
}
