package group

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// taskID names a task: the part of the topology that it runs, and the
// partition of that part's source topics that it reads.
type taskID struct {
	sub  string
	part int32
}

// taskSet is tasks by subtopology: each list sorted, none empty. It is never
// changed once it is made, so that records, targets and answers may share it.
type taskSet map[string][]int32

// sortedSubs lists the subtopologies of a set in the order in which it is
// written.
func (t taskSet) sortedSubs() []string { return slices.Sorted(maps.Keys(t)) }

func (t taskSet) has(id taskID) bool {
	_, found := slices.BinarySearch(t[id.sub], id.part)
	return found
}

func (t taskSet) equal(u taskSet) bool {
	return maps.EqualFunc(t, u, func(a, b []int32) bool { return slices.Equal(a, b) })
}

// within says whether a set has nothing that another has not.
func (t taskSet) within(u taskSet) bool {
	for id := range t.all {
		if !u.has(id) {
			return false
		}
	}
	return true
}

// meets says whether two sets have a task in common.
func (t taskSet) meets(u taskSet) bool {
	for id := range t.all {
		if u.has(id) {
			return true
		}
	}
	return false
}

// all visits the tasks, in no order between subtopologies.
func (t taskSet) all(visit func(taskID) bool) {
	for sub, list := range t {
		for _, part := range list {
			if !visit(taskID{sub, part}) {
				return
			}
		}
	}
}

// makeTaskSet makes a set of tasks in any order.
func makeTaskSet(ids []taskID) taskSet {
	t := taskSet{}
	for _, id := range ids {
		t[id.sub] = append(t[id.sub], id.part)
	}
	for sub, list := range t {
		slices.SortFunc(list, cmp.Compare)
		t[sub] = slices.Compact(list)
	}
	return t
}

// requestedTasks is a list of a heartbeat, nil when the heartbeat has none.
func requestedTasks(list []kmsg.TaskIDs) taskSet {
	if list == nil {
		return nil
	}
	var ids []taskID
	for _, l := range list {
		for _, part := range l.Partitions {
			ids = append(ids, taskID{l.SubtopologyID, part})
		}
	}
	return makeTaskSet(ids)
}

// answered is a set as an answer carries it: never null.
func (t taskSet) answered() []kmsg.TaskIDs {
	list := make([]kmsg.TaskIDs, 0, len(t))
	for _, sub := range t.sortedSubs() {
		ids := kmsg.NewTaskIDs()
		ids.SubtopologyID, ids.Partitions = sub, t[sub]
		list = append(list, ids)
	}
	return list
}

// roleTasks are tasks by what a member does with them: it runs the active
// ones, keeps copies of the state of the standby ones, and warms others up.
type roleTasks struct{ active, standby, warmup taskSet }

// roles lists the three sets in the order in which they are written.
func (r roleTasks) roles() [3]taskSet { return [3]taskSet{r.active, r.standby, r.warmup} }

func (r roleTasks) empty() bool { return len(r.active)+len(r.standby)+len(r.warmup) == 0 }

func (r roleTasks) equal(o roleTasks) bool {
	return r.active.equal(o.active) && r.standby.equal(o.standby) && r.warmup.equal(o.warmup)
}

func (r roleTasks) within(o roleTasks) bool {
	return r.active.within(o.active) && r.standby.within(o.standby) && r.warmup.within(o.warmup)
}

func (r roleTasks) meets(o roleTasks) bool {
	return r.active.meets(o.active) || r.standby.meets(o.standby) || r.warmup.meets(o.warmup)
}

// ownedTasks is what a member says it has, nil when it says nothing.
func ownedTasks(req *kmsg.StreamsGroupHeartbeatRequest) *roleTasks {
	if req.ActiveTasks == nil || req.StandbyTasks == nil || req.WarmupTasks == nil {
		return nil
	}
	return &roleTasks{requestedTasks(req.ActiveTasks), requestedTasks(req.StandbyTasks), requestedTasks(req.WarmupTasks)}
}

// heldTasks are tasks that a member has. Of the active ones it is known in
// which epoch the member got them: commits of an older epoch are refused.
type heldTasks struct {
	roleTasks
	since map[taskID]int32
}

func (h heldTasks) equal(o heldTasks) bool {
	return h.roleTasks.equal(o.roleTasks) && maps.Equal(h.since, o.since)
}

// streamsCurrent is what a member has. It is replaced as a whole and never
// changed.
type streamsCurrent struct {
	epoch, previous int32
	state           memberState
	assigned        heldTasks
	revoking        heldTasks
}

func (c *streamsCurrent) equal(o *streamsCurrent) bool {
	return c.epoch == o.epoch && c.previous == o.previous && c.state == o.state &&
		c.assigned.equal(o.assigned) && c.revoking.equal(o.revoking)
}
