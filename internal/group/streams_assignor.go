package group

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
)

// The sticky assignor of streams groups as in Kafka 4.2
// (StickyTaskAssignor.java). An active task stays with its owner while that one
// has room under an equal share, else it goes to somebody who has kept a copy
// of its state, else to the process with the least load for its members. A
// standby task goes to another process than the active one, by the same three
// steps. Warm-up tasks are not made. Ties are broken by name, so that the same
// group always gets the same assignment.

// streamsSpec is what the assignor knows of a member: its process, and its
// target so far.
type streamsSpec struct {
	member, process string
	had             roleTasks
}

// taskAssignor is one computation.
type taskAssignor struct {
	replicas  int
	processes []*processLoad         // sorted by name
	members   map[string]*memberLoad // by member id
	actives   map[taskID]string      // who had it
	standbys  map[taskID][]string    // who had a copy, sorted
	active    share                  // of active tasks alone
	total     share                  // of all tasks
}

// share is how many of the tasks a member gets, at most. A member that is full
// has its part, and the others share the rest.
type share struct{ tasks, members, each int }

func newShare(tasks, members int) share {
	s := share{tasks: tasks, members: members}
	s.divide()
	return s
}

func (s *share) divide() {
	if s.each = 0; s.members > 0 {
		s.each = (s.tasks + s.members - 1) / s.members
	}
}

// filled notes that a member has so many tasks now.
func (s *share) filled(n int) {
	if n == s.each {
		s.members--
		s.tasks -= n
		s.divide()
	}
}

type processLoad struct {
	name    string
	members []*memberLoad // sorted by id
	tasks   map[taskID]bool
}

type memberLoad struct {
	id              string
	process         *processLoad
	active, standby []taskID
}

func (m *memberLoad) count() int { return len(m.active) + len(m.standby) }

// load compares processes by tasks for each member, without fractions.
func (p *processLoad) lighter(q *processLoad) int {
	return cmp.Or(
		cmp.Compare(len(p.tasks)*len(q.members), len(q.tasks)*len(p.members)),
		cmp.Compare(p.name, q.name))
}

// assignTasks computes a target for every member. specs are sorted by member.
func assignTasks(specs []streamsSpec, c *configured, replicas int) map[string]roleTasks {
	a := newTaskAssignor(specs, c, replicas)
	tasks, stateful := a.tasks(c)
	a.assignActive(tasks)
	if replicas > 0 {
		a.assignStandby(stateful)
	}
	targets := make(map[string]roleTasks, len(specs))
	for id, m := range a.members {
		targets[id] = roleTasks{active: makeTaskSet(m.active), standby: makeTaskSet(m.standby), warmup: taskSet{}}
	}
	return targets
}

func newTaskAssignor(specs []streamsSpec, c *configured, replicas int) *taskAssignor {
	a := &taskAssignor{replicas: replicas, members: map[string]*memberLoad{}, actives: map[taskID]string{}, standbys: map[taskID][]string{}}
	processes := map[string]*processLoad{}
	for _, spec := range specs {
		p := processes[spec.process]
		if p == nil {
			p = &processLoad{name: spec.process, tasks: map[taskID]bool{}}
			processes[spec.process] = p
		}
		m := &memberLoad{id: spec.member, process: p}
		p.members = append(p.members, m)
		a.members[m.id] = m
		for id := range spec.had.active.all {
			a.actives[id] = m.id
		}
		for id := range spec.had.standby.all {
			a.standbys[id] = append(a.standbys[id], m.id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		a.processes = append(a.processes, processes[name])
	}
	active, total := 0, 0
	for i := range c.topology.subs {
		sub := &c.topology.subs[i]
		n := int(c.tasks[sub.id])
		active, total = active+n, total+n
		if len(sub.changelogs) > 0 {
			total += n * replicas
		}
	}
	a.active, a.total = newShare(active, len(specs)), newShare(total, len(specs))
	return a
}

// tasks lists all tasks, and those that have state.
func (a *taskAssignor) tasks(c *configured) (all, stateful []taskID) {
	for i := range c.topology.subs {
		sub := &c.topology.subs[i]
		for part := range c.tasks[sub.id] {
			all = append(all, taskID{sub.id, part})
			if len(sub.changelogs) > 0 {
				stateful = append(stateful, taskID{sub.id, part})
			}
		}
	}
	return all, stateful
}

func bySub(a, b taskID) int  { return cmp.Or(cmp.Compare(a.sub, b.sub), cmp.Compare(a.part, b.part)) }
func byPart(a, b taskID) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.sub, b.sub)) }

func (a *taskAssignor) give(m *memberLoad, id taskID, active bool) {
	if active {
		m.active = append(m.active, id)
		a.active.filled(m.count())
	} else {
		m.standby = append(m.standby, id)
	}
	m.process.tasks[id] = true
	a.total.filled(m.count())
}

// assignActive gives every active task to somebody. What is new is given by
// partition first, so that tasks of the same partition meet in one process.
func (a *taskAssignor) assignActive(tasks []taskID) {
	slices.SortFunc(tasks, bySub)
	tasks = slices.DeleteFunc(tasks, func(id taskID) bool {
		m := a.members[a.actives[id]]
		if m == nil || m.count() >= a.active.each {
			return false
		}
		a.give(m, id, true)
		return true
	})
	tasks = slices.DeleteFunc(tasks, func(id taskID) bool {
		m := a.formerStandby(id, false)
		if m == nil || m.count() >= a.active.each {
			return false
		}
		a.give(m, id, true)
		return true
	})
	slices.SortFunc(tasks, byPart)
	queue := a.byLoad()
	for _, id := range tasks {
		a.give(queue[0].lightest(), id, true)
		heap.Fix(&queue, 0)
	}
}

// lightest is the member of a process that has least to do.
func (p *processLoad) lightest() *memberLoad {
	return slices.MinFunc(p.members, func(x, y *memberLoad) int { return cmp.Compare(x.count(), y.count()) })
}

// formerStandby is who, of those that had a copy of a task, has the least load;
// elsewhere asks for a process that does not have the task now.
func (a *taskAssignor) formerStandby(id taskID, elsewhere bool) *memberLoad {
	var best *memberLoad
	for _, member := range a.standbys[id] {
		m := a.members[member]
		switch {
		case elsewhere && m.process.tasks[id]:
		case best == nil:
			best = m
		case m.process != best.process && m.process.lighter(best.process) < 0 && m.count() < best.count(),
			m.process == best.process && m.count() < best.count():
			best = m
		}
	}
	return best
}

// assignStandby makes copies of tasks with state, as many as there are
// processes for.
func (a *taskAssignor) assignStandby(tasks []taskID) {
	slices.SortFunc(tasks, func(x, y taskID) int { return bySub(y, x) })
	type rest struct {
		id     taskID
		copies int
	}
	var left []rest
	for _, id := range tasks {
		for done := range a.replicas {
			m := a.members[a.actives[id]]
			if m == nil || m.process.tasks[id] || m.count() >= a.total.each {
				m = a.formerStandby(id, true)
			}
			if m == nil || m.count() >= a.total.each {
				left = append(left, rest{id, a.replicas - done})
				break
			}
			a.give(m, id, false)
		}
	}
	slices.SortFunc(left, func(x, y rest) int { return bySub(y.id, x.id) })
	queue := a.byLoad()
	for _, r := range left {
		for range r.copies {
			var passed []*processLoad // have the task
			for len(queue) > 0 && queue[0].tasks[r.id] {
				passed = append(passed, heap.Pop(&queue).(*processLoad))
			}
			if len(queue) > 0 {
				a.give(queue[0].lightest(), r.id, false)
				heap.Fix(&queue, 0)
			}
			for _, p := range passed {
				heap.Push(&queue, p)
			}
		}
	}
}

// byLoad is all processes, the one with the least load first.
func (a *taskAssignor) byLoad() loadQueue {
	queue := loadQueue(slices.Clone(a.processes))
	heap.Init(&queue)
	return queue
}

type loadQueue []*processLoad

func (q loadQueue) Len() int           { return len(q) }
func (q loadQueue) Less(i, j int) bool { return q[i].lighter(q[j]) < 0 }
func (q loadQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *loadQueue) Push(p any)        { *q = append(*q, p.(*processLoad)) }

func (q *loadQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
