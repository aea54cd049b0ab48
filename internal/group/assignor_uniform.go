package group

import "slices"

// assignUniform gives all members equally many partitions, up to one more or
// less, and moves as few as that takes. When members read different topics the
// balance is as even as their subscriptions allow.
func assignUniform(members []assignee) []partitionSet {
	u := newUniform(members)
	u.keep()
	u.fill()
	if !u.alike {
		u.even()
	}
	return u.targets()
}

// uniform is the table of one assignment: partitions are numbered through, and
// owned by members by number.
type uniform struct {
	members []assignee
	alike   bool
	topics  []*Topic
	first   []int32 // number of each topic's partition 0
	topicOf []int32 // of each partition
	owner   []int32 // of each partition, -1: nobody
	load    []int   // partitions of each member
	places  map[TopicID]int
	readers [][]int32 // members of each topic, nil when all read all
}

func newUniform(members []assignee) *uniform {
	u := &uniform{members: members, alike: alike(members), topics: allTopics(members), load: make([]int, len(members))}
	u.places = make(map[TopicID]int, len(u.topics))
	for i, t := range u.topics {
		u.places[t.ID] = i
		u.first = append(u.first, int32(len(u.owner)))
		for range t.Partitions {
			u.owner = append(u.owner, -1)
			u.topicOf = append(u.topicOf, int32(i))
		}
	}
	if !u.alike {
		u.readers = make([][]int32, len(u.topics))
		for m := range members {
			for _, t := range members[m].topics {
				i := u.places[t.ID]
				u.readers[i] = append(u.readers[i], int32(m))
			}
		}
	}
	return u
}

func (u *uniform) give(p, m int32) {
	if had := u.owner[p]; had >= 0 {
		u.load[had]--
	}
	u.owner[p] = m
	u.load[m]++
}

// keep leaves members what they had and still read. Where all read the same,
// nobody keeps more than the quota, and as many keep the extra one as there
// are; who has it already goes first, so that it does not wander.
func (u *uniform) keep() {
	quota, extra := len(u.owner)/len(u.members), len(u.owner)%len(u.members)
	for m := range u.members {
		may := len(u.owner)
		if u.alike {
			may = quota
			if extra > 0 && u.still(m) > quota {
				may++
				extra--
			}
		}
		for i, t := range u.topics {
			if !u.alike && !u.members[m].reads(t) {
				continue
			}
			for _, index := range u.members[m].had[t.ID] {
				if p := u.first[i] + index; may > 0 && index < t.Partitions && u.owner[p] < 0 {
					u.give(p, int32(m))
					may--
				}
			}
		}
	}
}

// still counts what a member had and could keep.
func (u *uniform) still(m int) int {
	n := 0
	for id, list := range u.members[m].had {
		if i, ok := u.places[id]; ok {
			for _, index := range list {
				if index < u.topics[i].Partitions {
					n++
				}
			}
		}
	}
	return n
}

// fill gives the partitions that nobody has to those who have the fewest.
func (u *uniform) fill() {
	if u.alike {
		u.fillAlike()
		return
	}
	// Topics with few readers first: the others can make up for them.
	order := make([]int, len(u.topics))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(u.readers[a]) - len(u.readers[b]) })
	for _, i := range order {
		for index := range u.topics[i].Partitions {
			if p := u.first[i] + index; u.owner[p] < 0 {
				u.give(p, u.least(u.readers[i]))
			}
		}
	}
}

func (u *uniform) least(readers []int32) int32 {
	best := readers[0]
	for _, m := range readers[1:] {
		if u.load[m] < u.load[best] {
			best = m
		}
	}
	return best
}

// fillAlike fills members up to the quota in their order, and deals out what
// is left one each.
func (u *uniform) fillAlike() {
	quota, m := len(u.owner)/len(u.members), 0
	var left []int32
	for p := range u.owner {
		if u.owner[p] >= 0 {
			continue
		}
		for m < len(u.members) && u.load[m] >= quota {
			m++
		}
		if m == len(u.members) {
			left = append(left, int32(p))
			continue
		}
		u.give(int32(p), int32(m))
	}
	m = 0
	for _, p := range left {
		for u.load[m] > quota {
			m++
		}
		u.give(p, int32(m))
		m++
	}
}

// even moves single partitions from those who have more to readers who have at
// least two less, until there is no such pair. Each move makes the sum of the
// squares of the loads smaller, so it ends.
func (u *uniform) even() {
	for moved := true; moved; {
		moved = false
		for p := range u.owner {
			from := u.owner[p]
			to := u.least(u.readers[u.topicOf[p]])
			if u.load[from]-u.load[to] >= 2 {
				u.give(int32(p), to)
				moved = true
			}
		}
	}
}

// targets are the sets of each member.
func (u *uniform) targets() []partitionSet {
	targets := make([]partitionSet, len(u.members))
	for m := range targets {
		targets[m] = make(partitionSet, len(u.topics))
	}
	counts := make([]int, len(u.members))
	lists := make([][]int32, len(u.members))
	for i, t := range u.topics {
		owners := u.owner[u.first[i] : u.first[i]+t.Partitions]
		clear(counts)
		for _, m := range owners {
			counts[m]++
		}
		for m, n := range counts {
			if lists[m] = nil; n > 0 {
				lists[m] = make([]int32, 0, n)
			}
		}
		for index, m := range owners {
			lists[m] = append(lists[m], int32(index))
		}
		for m, list := range lists {
			if len(list) > 0 {
				targets[m][t.ID] = list
			}
		}
	}
	return targets
}
