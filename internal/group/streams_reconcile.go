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
	near := t.holds.near[m.meta.process]
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
			if near[id] > 0 || role == 0 && t.holds.active[id] > 0 {
				d.withheld = true
				continue
			}
			d.add[role] = append(d.add[role], id)
		}
	}
	return d
}

// holdings are the tasks that members have, or have not given up yet, counted.
// An active task must not be with two members, and within a process a task must
// not have two roles, for there is one directory of its state.
type holdings struct {
	active map[taskID]int            // active with anybody
	near   map[string]map[taskID]int // in any role, by process
}

func newHoldings() holdings {
	return holdings{active: map[taskID]int{}, near: map[string]map[taskID]int{}}
}

// add counts what a member has, or, by -1, counts it no more.
func (h *holdings) add(m *streamsMember, by int) {
	near := h.near[m.meta.process]
	if near == nil {
		near = map[taskID]int{}
		h.near[m.meta.process] = near
	}
	for _, held := range []heldTasks{m.current.assigned, m.current.revoking} {
		for role, set := range held.roles() {
			for id := range set.all {
				if tally(near, id, by); role == 0 {
					tally(h.active, id, by)
				}
			}
		}
	}
	if len(near) == 0 {
		delete(h.near, m.meta.process)
	}
}

func tally(counts map[taskID]int, id taskID, by int) {
	if counts[id] += by; counts[id] == 0 {
		delete(counts, id)
	}
}
