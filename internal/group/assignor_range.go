package group

import (
	"cmp"
	"slices"
)

// assignRange gives each member a run of neighbouring partitions of each topic
// that it reads (RangeAssignor.java of Kafka 4.2). Members stand in the same
// order for every topic, static ones first and by instance id, so that equal
// partition numbers of topics with equally many meet at one member. It does
// not look at what members had.
func assignRange(members []assignee) []partitionSet {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := members[a], members[b]
		switch {
		case x.instance != nil && y.instance != nil:
			return cmp.Compare(*x.instance, *y.instance)
		case x.instance != nil:
			return -1
		case y.instance != nil:
			return 1
		}
		return cmp.Compare(x.id, y.id)
	})
	targets := make([]partitionSet, len(members))
	for i := range targets {
		targets[i] = partitionSet{}
	}
	kinds := kindsOf(members)
	for _, t := range kinds.topics() {
		readers := order
		if len(kinds.lists) > 1 {
			readers = slices.DeleteFunc(slices.Clone(order), func(i int) bool { return !members[i].reads(t) })
		}
		each, extra := int(t.Partitions)/len(readers), int(t.Partitions)%len(readers)
		next := int32(0)
		for place, i := range readers {
			n := each
			if place < extra {
				n++
			}
			if n == 0 {
				break
			}
			run := make([]int32, n)
			for j := range run {
				run[j] = next
				next++
			}
			targets[i][t.ID] = run
		}
	}
	return targets
}
