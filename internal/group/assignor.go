package group

import (
	"cmp"
	"slices"
)

// assignor computes the target of every member: which partitions it is to have
// in the end. It gets the members sorted by id and answers in the same order.
// The sets that it answers with are new, or those that it was given.
type assignor struct {
	name   string
	assign func(members []assignee) []partitionSet
}

// assignee is a member as an assignor sees it.
type assignee struct {
	id       string
	instance *string
	topics   []*Topic     // that it reads and that exist, sorted by name
	had      partitionSet // its target so far
}

// assignorNamed finds one of the assignors that a broker offers
// (group.consumer.assignors).
func assignorNamed(name string) (assignor, bool) {
	switch name {
	case "uniform":
		return assignor{name, assignUniform}, true
	case "range":
		return assignor{name, assignRange}, true
	}
	return assignor{}, false
}

// kinds are the different subscriptions of some members.
type kinds struct {
	lists [][]*Topic
	of    []int32 // of each member
}

// kindsOf finds them. Members that read the same have mostly the same list, and
// not only an equal one (consumer.topicsOf).
func kindsOf(members []assignee) kinds {
	type list struct {
		first **Topic
		n     int
	}
	k := kinds{of: make([]int32, len(members))}
	known := map[list]int32{}
	for i := range members {
		topics := members[i].topics
		if i > 0 && slices.Equal(topics, members[i-1].topics) {
			k.of[i] = k.of[i-1]
			continue
		}
		var l list
		if l.n = len(topics); l.n > 0 {
			l.first = &topics[0]
		}
		n, found := known[l]
		if !found {
			n = int32(len(k.lists))
			k.lists = append(k.lists, topics)
			known[l] = n
		}
		k.of[i] = n
	}
	return k
}

// topics lists those that anybody reads, sorted by name.
func (k kinds) topics() []*Topic {
	if len(k.lists) == 1 {
		return k.lists[0]
	}
	all := slices.Concat(k.lists...)
	slices.SortFunc(all, func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// places lists, for each kind, which of all topics it reads.
func (k kinds) places(all []*Topic) [][]int32 {
	at := make(map[*Topic]int32, len(all))
	for i, t := range all {
		at[t] = int32(i)
	}
	places := make([][]int32, len(k.lists))
	for i, list := range k.lists {
		places[i] = make([]int32, len(list))
		for j, t := range list {
			places[i][j] = at[t]
		}
	}
	return places
}

func (m *assignee) reads(t *Topic) bool {
	_, found := slices.BinarySearchFunc(m.topics, t.Name, func(t *Topic, name string) int { return cmp.Compare(t.Name, name) })
	return found
}
