package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// A group changes its kind when it is empty and somebody comes with another
// protocol, and, between classic and consumer, while it lives
// (group.consumer.migration.policy). Its committed offsets stay what they are.

// become gives a group another membership, and takes that back should the
// records of the change get lost.
func (s *Shard) become(g *group, now membership) {
	was := g.members
	g.members = now
	s.log(func(code int16) {
		if code != 0 {
			g.members = was
		}
	})
}

// convert makes a group one of the consumer protocol for a member that joins.
func (s *Shard) convert(g *group) (*consumer, *refused) {
	if c, ok := g.members.(*classic); ok && !c.empty() {
		return s.upgrade(g, c)
	}
	if !g.members.empty() {
		return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
	}
	s.log(func(int16) {}, g.members.tombstones()...)
	c := newConsumer(s, g)
	s.become(g, c)
	return c, nil
}

// upgrade turns a living group of the classic protocol into one of the consumer
// protocol: its generation becomes the epoch, and its members keep what they
// have. They go on with the classic protocol.
func (s *Shard) upgrade(g *group, old *classic) (*consumer, *refused) {
	const text = "Cannot upgrade classic group %s to consumer group because %s."
	no := func(why string) (*consumer, *refused) { return nil, refuse(kerr.GroupIDNotFound, text, g.id, why) }
	switch {
	case s.cfg.Migration != "bidirectional" && s.cfg.Migration != "upgrade":
		return no("online upgrade is disabled")
	case old.protocolType != consumerType:
		return no("the group does not use the consumer embedded protocol")
	case len(old.members) > s.cfg.ConsumerMaxSize:
		return no("the group size exceeds the consumer group maximum size")
	case len(old.members) == s.cfg.ConsumerMaxSize:
		return nil, refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", s.cfg.ConsumerMaxSize)
	}
	metas, assigned, code := s.readMembers(old)
	switch code {
	case metadataMalformed:
		return no("the embedded consumer protocol is malformed")
	case assignorsOwn:
		return nil, refuse(kerr.GroupIDNotFound, text+" Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
			g.id, "an unsupported custom assignor is in use")
	}
	old.retire()
	c := newConsumer(s, g)
	s.log(func(code int16) {
		if code != 0 {
			g.members = old
			old.revive()
		}
	}, old.tombstones()...)
	g.members = c
	c.takeOver(old, metas, assigned)
	return c, nil
}

// takeOver writes what a group was under the classic protocol.
func (c *consumer) takeOver(old *classic, metas []*memberMeta, assigned []partitionSet) {
	members := make([]*consumerMember, len(old.order))
	for i, o := range old.order {
		m := c.member(o.id)
		m.beat, m.work = o.beat, o.work
		members[i] = m
		c.writeMeta(m, metas[i])
	}
	c.seen = c.s.topics.version
	c.writeEpoch(old.generation, c.s.topics.hash(c.names()))
	for i, m := range members {
		c.writeTarget(m.id, assigned[i])
	}
	c.writeTargetEpoch(old.generation)
	for i, m := range members {
		c.writeCurrent(m, &currentAssignment{old.generation, old.generation, memberStable, assigned[i], nil})
		c.restart(m)
	}
}

// What can be wrong with the metadata of a classic group's members.
const (
	metadataMalformed = iota + 1
	assignorsOwn      // data of the leader's assignor, which the coordinator would lose
)

// readMembers reads what clients have told each other through a classic group.
// Partitions that do not exist, or that two members claim, are left out.
func (s *Shard) readMembers(old *classic) (metas []*memberMeta, assigned []partitionSet, wrong int) {
	owned := map[partition]bool{}
	for _, m := range old.order {
		p := old.protocol
		if p == "" || m.metadata(p) == nil {
			p = m.offers[0].name
		}
		var said kmsg.ConsumerMemberMetadata
		if said.ReadFrom(m.metadata(p)) != nil {
			return nil, nil, metadataMalformed
		}
		meta := &memberMeta{
			instance: m.instance, clientID: m.clientID, host: m.host, rebalance: m.rebalance,
			topics:  slices.Clone(said.Topics),
			classic: &classicMeta{session: m.session, offers: m.offers},
		}
		if text(said.Rack) != "" {
			meta.rack = said.Rack
		}
		slices.Sort(meta.topics)
		meta.topics = slices.Compact(meta.topics)
		metas = append(metas, meta)
		has := partitionSet{}
		if len(m.assignment) > 0 {
			var a kmsg.ConsumerMemberAssignment
			if a.ReadFrom(m.assignment) != nil {
				return nil, nil, metadataMalformed
			}
			if len(a.UserData) > 0 {
				return nil, nil, assignorsOwn
			}
			for _, t := range a.Topics {
				s.claim(has, owned, t)
			}
		}
		assigned = append(assigned, has.sorted())
	}
	return metas, assigned, 0
}

func (s *Shard) claim(has partitionSet, owned map[partition]bool, t kmsg.ConsumerMemberAssignmentTopic) {
	is := s.topics.byName[t.Topic]
	if is == nil {
		return
	}
	var free []int32
	for _, n := range t.Partitions {
		if tp := (partition{t.Topic, n}); n >= 0 && n < is.Partitions && !owned[tp] {
			owned[tp] = true
			free = append(free, n)
		}
	}
	has.add(is.ID, free)
}

// retire ends the work of a classic membership that is about to be replaced:
// who is parked is told to come again.
func (c *classic) retire() {
	for _, m := range c.order {
		c.s.alarms.stop(&m.expiry)
		c.answerJoin(m, c.joinRefusal(m, m.id, kerr.RebalanceInProgress.Code))
		c.answerSync(m, kerr.RebalanceInProgress.Code)
	}
	for _, p := range c.pending {
		c.s.alarms.stop(&p.expiry)
	}
	for _, a := range []*alarm{&c.joinAlarm, &c.syncAlarm, &c.retryAlarm} {
		c.s.alarms.stop(a)
	}
	c.drop()
	c.closeStory()
}

// revive takes up the work again when the replacement could not be written.
// A rebalance that went on begins once more.
func (c *classic) revive() {
	for id := range c.pending {
		c.dropPending(id)
	}
	for _, m := range c.order {
		m.fresh = false
		c.restart(m)
	}
	if c.phase == preparing || c.phase == completing {
		const rule = "the move to the consumer protocol could not be stored"
		w := why{cause: cause.MemberChange, confidence: cause.Inferred, reason: rule}
		if len(c.order) > 0 { // else everybody had left, and somebody was expected
			w = c.follow(c.order[0], rule)
		}
		c.phase = stable
		c.prepare(w)
	}
}

// mayDowngrade says whether a group goes back to the classic protocol when some
// members go, or one is replaced by a member of that protocol.
func (c *consumer) mayDowngrade(gone []*consumerMember, replaced ...*consumerMember) bool {
	left := len(c.members) - len(gone) + len(replaced)
	if left <= 0 || left > c.s.cfg.MaxSize || c.s.cfg.Migration != "bidirectional" && c.s.cfg.Migration != "downgrade" {
		return false
	}
	for _, m := range c.members {
		if !m.usesClassic() && !slices.Contains(gone, m) {
			return false
		}
	}
	return true
}

// downgrade turns the group into one of the classic protocol: its epoch becomes
// the generation, and members have what they were to have in the end. With a
// cause it is rebalanced at once.
func (c *consumer) downgrade(gone []*consumerMember, w *why) {
	s, g := c.s, c.g
	records := c.tombstones()
	now := newClassic(s, g)
	now.generation, now.protocolType, now.phase, now.unwritten = c.epoch, consumerType, stable, true
	for _, m := range c.sorted() {
		c.stopAlarms(m)
		if slices.Contains(gone, m) {
			continue
		}
		now.enrol(&member{
			id: m.id, clientID: m.meta.clientID, host: m.meta.host, instance: m.meta.instance,
			session: m.meta.classic.session, rebalance: m.meta.rebalance, offers: m.meta.classic.offers,
			assignment: c.classicAssignment(m, c.targets[m.id]), synced: true, beat: m.beat, work: m.work,
		})
	}
	now.protocol = now.vote()
	now.before = stable
	now.lost = slices.Clone(c.lost)
	s.alarms.stop(&c.regexAlarm)
	c.end(s)
	g.members = now
	for _, m := range now.order {
		now.restart(m)
	}
	s.log(func(code int16) {
		if code != 0 {
			now.unload(appendError(code))
			g.members = c
			for _, m := range c.sorted() {
				c.restart(m)
				c.armPatience(m)
			}
			return
		}
		now.written()
		if w != nil && now.phase == stable && g.members == membership(now) {
			now.prepare(*w)
		}
	}, append(records, now.record(nil))...)
}
