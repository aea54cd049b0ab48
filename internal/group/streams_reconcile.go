package group

import "maps"

// reconcile is what a member has after it was heard: one step closer to its
// target (CurrentAssignmentBuilder.java of Kafka 4.2). What it has to give up
// comes first; its epoch moves when that is done; and what others still have
// comes last.
func (t *streams) reconcile(m *streamsMember, owned *roleTasks, targetEpoch int32, target roleTasks) *streamsCurrent {
	now := m.current
	base := now.epoch
	switch {
	case now.state == memberStable && now.epoch == targetEpoch:
		return now
	case now.state == memberUnrevoked:
		if owned == nil || owned.meets(now.revoking.roleTasks) {
			return now
		}
		base++
	case now.state == memberUnknown:
		base = targetEpoch
	}
	d := t.difference(m, target)
	next := &streamsCurrent{previous: now.epoch}
	if revoke := d.revoke.held(now.assigned.since); !revoke.empty() && (owned == nil || owned.meets(revoke.roleTasks)) {
		next.state, next.epoch = memberUnrevoked, base
		next.assigned, next.revoking = d.keep.held(now.assigned.since), revoke
		return next
	}
	next.state, next.epoch = memberStable, targetEpoch
	if d.withheld {
		next.state = memberUnreleased
	}
	since := maps.Clone(now.assigned.since)
	for _, id := range d.add[0] {
		if since == nil {
			since = map[taskID]int32{}
		}
		since[id] = targetEpoch
	}
	for role := range d.keep {
		d.keep[role] = append(d.keep[role], d.add[role]...)
	}
	next.assigned = d.keep.held(since)
	return next
}

// draft is tasks by role, in the making.
type draft [3][]taskID

// held are the tasks of a draft; since has the epochs of the active ones, and
// maybe of others.
func (d *draft) held(since map[taskID]int32) heldTasks {
	h := heldTasks{roleTasks: roleTasks{makeTaskSet(d[0]), makeTaskSet(d[1]), makeTaskSet(d[2])}}
	for _, id := range d[0] {
		if h.since == nil {
			h.since = map[taskID]int32{}
		}
		h.since[id] = since[id]
	}
	return h
}

// difference is what is between a member and its target.
type difference struct {
	keep, revoke, add draft
	withheld          bool // others have something that is in the target
}

func (t *streams) difference(m *streamsMember, target roleTasks) difference {
	var d difference
	var taken *holdings
	have, want := m.current.assigned.roles(), target.roles()
	for role := range have {
		for id := range have[role].all {
			if want[role].has(id) {
				d.keep[role] = append(d.keep[role], id)
			} else {
				d.revoke[role] = append(d.revoke[role], id)
			}
		}
		for id := range want[role].all {
			if have[role].has(id) {
				continue
			}
			if taken == nil {
				taken = t.holdings(m.meta.process)
			}
			if taken.near[id] || role == 0 && taken.active[id] {
				d.withheld = true
				continue
			}
			d.add[role] = append(d.add[role], id)
		}
	}
	return d
}

// holdings are the tasks that members have, or have not given up yet.
type holdings struct {
	active map[taskID]bool // active with anybody
	near   map[taskID]bool // in any role within one process
}

// holdings looks from a process: an active task must not be elsewhere, and
// within the process a task must not have another role, for there is one
// directory of its state.
func (t *streams) holdings(process string) *holdings {
	h := &holdings{active: map[taskID]bool{}, near: map[taskID]bool{}}
	for _, m := range t.members {
		for _, held := range []heldTasks{m.current.assigned, m.current.revoking} {
			for id := range held.active.all {
				h.active[id] = true
			}
			if m.meta.process != process {
				continue
			}
			for _, set := range held.roles() {
				for id := range set.all {
					h.near[id] = true
				}
			}
		}
	}
	return h
}
