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

// alike says whether all members read the same topics.
func alike(members []assignee) bool {
	for _, m := range members[1:] {
		if !slices.Equal(m.topics, members[0].topics) {
			return false
		}
	}
	return true
}

// allTopics lists the topics that anybody reads, sorted by name.
func allTopics(members []assignee) []*Topic {
	if alike(members) {
		return members[0].topics
	}
	var all []*Topic
	for _, m := range members {
		all = append(all, m.topics...)
	}
	slices.SortFunc(all, func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

func (m *assignee) reads(t *Topic) bool {
	_, found := slices.BinarySearchFunc(m.topics, t.Name, func(t *Topic, name string) int { return cmp.Compare(t.Name, name) })
	return found
}
