package group

import (
	"cmp"
	"slices"
)

// assignRange gives each member a run of neighbouring partitions of each topic
// that it reads (RangeAssignor.java of Kafka 4.2). Members stand in the same
// order for every topic, static ones first and by instance id, so that equal
// partition numbers of topics with equally many meet at one member. It does
// not look at what members had, but who is to have the same again gets the very
// set that it came with.
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
	kinds := kindsOf(members)
	topics := kinds.topics()
	r := ranges{topics: topics, runs: make([][]run, len(members))}
	places := kinds.places(topics)
	total, readers := 0, make([]int32, len(topics))
	for m := range members {
		total += len(places[kinds.of[m]])
		for _, i := range places[kinds.of[m]] {
			readers[i]++
		}
	}
	next, each, extra := make([]int32, len(topics)), make([]int32, len(topics)), make([]int32, len(topics))
	for i, t := range topics {
		each[i], extra[i] = t.Partitions/readers[i], t.Partitions%readers[i]
	}
	all := make([]run, 0, total)
	for _, m := range order {
		from := len(all)
		for _, i := range places[kinds.of[m]] {
			n := each[i]
			if extra[i] > 0 {
				n++
				extra[i]--
			}
			if n > 0 {
				all = append(all, run{i, next[i], n})
				next[i] += n
			}
		}
		r.runs[m] = all[from:len(all):len(all)]
	}
	targets := make([]partitionSet, len(members))
	for m := range targets {
		targets[m] = r.target(m, members[m].had)
	}
	return targets
}

// run is neighbouring partitions of one topic.
type run struct{ topic, first, n int32 }

// ranges are the runs of all members.
type ranges struct {
	topics []*Topic
	runs   [][]run
}

// target is a member's runs as a set: the one that it had, if that is the same.
func (r *ranges) target(m int, had partitionSet) partitionSet {
	runs := r.runs[m]
	same, total := had != nil && len(had) == len(runs), int32(0)
	for _, run := range runs {
		total += run.n
		if same {
			list := had[r.topics[run.topic].ID]
			same = len(list) == int(run.n) && list[0] == run.first && list[run.n-1] == run.first+run.n-1
		}
	}
	if same {
		return had
	}
	set := make(partitionSet, len(runs))
	list := make([]int32, 0, total)
	for _, run := range runs {
		from := len(list)
		for k := range run.n {
			list = append(list, run.first+k)
		}
		set[r.topics[run.topic].ID] = list[from:len(list):len(list)]
	}
	return set
}
