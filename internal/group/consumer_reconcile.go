package group

import "slices"

// retarget computes targets for the newest epoch and writes those that differ.
// When members come one upon the other that is not done for each: who joins
// soon after the last time has no partitions until its next heartbeat. Only the
// first member of a group, and a group whose heartbeat interval somebody has
// set, never wait.
func (c *consumer) retarget() {
	if c.epoch <= c.targetEpoch {
		return
	}
	if p := c.pace(); !p.set && c.targetEpoch > 0 && len(c.members) > 1 {
		if age := c.s.now.Sub(c.assigned); age >= 0 && age < p.hurry/2 {
			return
		}
	}
	c.assigned = c.s.now
	members := c.sorted()
	if len(members) > 0 {
		in := make([]assignee, len(members))
		topics := map[string][]*Topic{} // by subscription
		for i, m := range members {
			in[i] = assignee{id: m.id, instance: m.meta.instance, had: c.targets[m.id]}
			if i > 0 && m.meta.regex == members[i-1].meta.regex && slices.Equal(m.meta.topics, members[i-1].meta.topics) {
				in[i].topics = in[i-1].topics // most members read the same
				continue
			}
			in[i].topics = c.topicsOf(m.meta, topics)
		}
		for i, p := range c.assignor().assign(in) {
			if had, ok := c.targets[members[i].id]; !ok || !had.equal(p) {
				c.writeTarget(members[i].id, p)
			}
		}
	}
	c.writeTargetEpoch(c.epoch)
}

// topicsOf lists the topics that a member reads and that exist.
func (c *consumer) topicsOf(meta *memberMeta, cache map[string][]*Topic) []*Topic {
	names := c.subscribedNames(meta)
	var key []byte
	for _, n := range names {
		key = appendCounted(key, n)
	}
	list, ok := cache[string(key)]
	if !ok {
		for _, n := range names {
			if t := c.s.topics.byName[n]; t != nil {
				list = append(list, t)
			}
		}
		cache[string(key)] = list
	}
	return list
}

// assignor is the one that most members ask for; of two with as many, the one
// that the broker lists first.
func (c *consumer) assignor() assignor {
	votes := map[string]int{}
	for _, m := range c.members {
		if m.meta.assignor != nil {
			votes[*m.meta.assignor]++
		}
	}
	best := c.s.cfg.Assignors[0]
	for _, name := range c.s.cfg.Assignors {
		if votes[name] > votes[best] {
			best = name
		}
	}
	a, _ := assignorNamed(best)
	return a
}

// reconcile moves a member towards its target, as far as that can be done now.
// owned is what the member says it has; nil when it says nothing. force drops
// at once what the member does not read any more.
func (c *consumer) reconcile(m *consumerMember, owned partitionSet, force bool) (next *currentAssignment, fenced bool) {
	now := m.current
	switch now.state {
	case memberUnrevoked:
		if owned == nil || owned.meets(now.revoking) {
			if force {
				return c.conform(m, owned), false
			}
			return now, false
		}
	case memberUnreleased:
	case memberUnknown:
		if owned == nil || len(owned) > 0 {
			return nil, true
		}
	default:
		if now.epoch == c.targetEpoch {
			if force {
				return c.conform(m, owned), false
			}
			return now, false
		}
	}
	return c.advance(m, owned), false
}

// advance computes the next step towards the target: keep what is in both,
// give the rest up first, and only then get what is free.
func (c *consumer) advance(m *consumerMember, owned partitionSet) *currentAssignment {
	now, target := m.current, c.targets[m.id]
	keep, revoke := partitionSet{}, partitionSet{}
	for id, list := range now.assigned {
		want := target[id]
		if !c.reads(m.meta, id) {
			want = nil
		}
		var kept, gone []int32
		for _, n := range list {
			if _, found := slices.BinarySearch(want, n); found {
				kept = append(kept, n)
			} else {
				gone = append(gone, n)
			}
		}
		keep.add(id, kept)
		revoke.add(id, gone)
	}
	if len(revoke) > 0 && (owned == nil || owned.meets(revoke)) {
		return &currentAssignment{now.epoch, now.epoch, memberUnrevoked, keep, revoke}
	}
	withheld := false
	for id, list := range target {
		if !c.reads(m.meta, id) {
			continue
		}
		var free []int32
		for _, n := range list {
			switch {
			case now.assigned.has(id, n):
			case c.ownedByOther(m, id, n):
				withheld = true
			default:
				free = append(free, n)
			}
		}
		keep.add(id, free)
	}
	next := &currentAssignment{c.targetEpoch, now.epoch, memberStable, keep.sorted(), nil}
	if withheld {
		next.state = memberUnreleased
	}
	return next
}

// conform takes topics from a member that it does not read any more, before
// there is a target without them.
func (c *consumer) conform(m *consumerMember, owned partitionSet) *currentAssignment {
	now := m.current
	keep, revoke := partitionSet{}, partitionSet{}
	for id, list := range now.revoking {
		revoke.add(id, list)
	}
	for id, list := range now.assigned {
		if c.reads(m.meta, id) {
			keep[id] = list
		} else {
			revoke.add(id, list)
		}
	}
	if len(keep) == len(now.assigned) {
		return now
	}
	next := &currentAssignment{now.epoch, now.epoch, now.state, keep, now.revoking}
	if owned == nil || owned.meets(revoke.sorted()) {
		next.state, next.revoking = memberUnrevoked, revoke
	}
	return next
}

// reads says whether a member reads a topic that still exists.
func (c *consumer) reads(meta *memberMeta, id TopicID) bool {
	name := c.s.topics.name(id)
	if name == "" {
		return false
	}
	if contains(meta.topics, name) {
		return true
	}
	r := c.regexes[meta.regex]
	return meta.regex != "" && r != nil && contains(r.topics, name)
}

func (a *currentAssignment) equal(b *currentAssignment) bool {
	return a.epoch == b.epoch && a.previous == b.previous && a.state == b.state &&
		a.assigned.equal(b.assigned) && a.revoking.equal(b.revoking)
}
