package group

import "slices"

// assignUniform gives all members equally many partitions, up to one more or
// less, and moves as few as that takes. When members read different topics the
// balance is as even as their subscriptions allow.
//
// It is called at every change of a group, and most changes move little: who
// keeps what it had gets the very set that it came with.
func assignUniform(members []assignee) []partitionSet {
	u := newUniform(members)
	u.keep()
	u.fill()
	if !u.alike() {
		u.even()
	}
	return u.targets()
}

// uniform is the table of one assignment: partitions are numbered through, and
// owned by members by number.
type uniform struct {
	members []assignee
	kinds   kinds
	topics  []*Topic
	places  map[TopicID]int32
	first   []int32 // number of each topic's partition 0, and at last of all
	owner   []int32 // of each partition, -1: nobody
	load    []int32 // partitions of each member
	changed []bool  // members that have not exactly what they had

	readers [][]int32   // members of each topic, nil when all read all
	queue   readerQueue // of the readers of one topic
}

func newUniform(members []assignee) *uniform {
	u := &uniform{members: members, kinds: kindsOf(members), load: make([]int32, len(members)), changed: make([]bool, len(members))}
	u.topics = u.kinds.topics()
	u.places = make(map[TopicID]int32, len(u.topics))
	u.first = make([]int32, len(u.topics)+1)
	for i, t := range u.topics {
		u.places[t.ID] = int32(i)
		u.first[i+1] = u.first[i] + t.Partitions
	}
	u.owner = make([]int32, u.first[len(u.topics)])
	for p := range u.owner {
		u.owner[p] = -1
	}
	if u.alike() {
		return u
	}
	places := u.kinds.places(u.topics)
	u.readers = make([][]int32, len(u.topics))
	for m := range members {
		for _, i := range places[u.kinds.of[m]] {
			u.readers[i] = append(u.readers[i], int32(m))
		}
	}
	u.queue = readerQueue{load: u.load, place: make([]int32, len(members))}
	return u
}

// alike says whether all members read the same topics.
func (u *uniform) alike() bool { return len(u.kinds.lists) == 1 }

// give makes a member the owner of a partition that nobody has.
func (u *uniform) give(p, m int32) {
	u.owner[p] = m
	u.load[m]++
}

// gain is to give what the member did not have.
func (u *uniform) gain(p, m int32) {
	u.give(p, m)
	u.changed[m] = true
}

// keep leaves members what they had and still read. Where all read the same,
// nobody keeps more than the quota, and as many keep the extra one as there
// are; who has it already goes first, so that it does not wander.
func (u *uniform) keep() {
	all, n := int32(len(u.owner)), int32(len(u.members))
	quota, extra := all/n, all%n
	var has []held
	for m := range u.members {
		valid, total := 0, 0
		has, valid, total = u.has(m, has[:0])
		may := all
		if u.alike() {
			may = quota
			if extra > 0 && int32(valid) > quota {
				may++
				extra--
			}
		}
		if int32(valid) > may {
			slices.SortFunc(has, func(a, b held) int { return int(a.first) - int(b.first) }) // a map has no order
		}
		for _, h := range has {
			for _, index := range h.list {
				if p := h.first + index; may > 0 && index < h.size && u.owner[p] < 0 {
					u.give(p, int32(m))
					may--
				}
			}
		}
		u.changed[m] = int(u.load[m]) != total
	}
}

// held are the partitions of one topic that a member had.
type held struct {
	first, size int32 // of the topic
	list        []int32
}

// has lists what a member had of the topics that it reads, how many partitions
// that are which are still there, and how many it had in all.
func (u *uniform) has(m int, has []held) (_ []held, valid, total int) {
	for id, list := range u.members[m].had {
		total += len(list)
		i, found := u.places[id]
		if !found || !u.alike() && !u.members[m].reads(u.topics[i]) {
			continue
		}
		h := held{u.first[i], u.topics[i].Partitions, list}
		has = append(has, h)
		if list[len(list)-1] < h.size {
			valid += len(list)
			continue
		}
		for _, index := range list {
			if index < h.size {
				valid++
			}
		}
	}
	return has, valid, total
}

// fill gives the partitions that nobody has to those who have the fewest.
func (u *uniform) fill() {
	if u.alike() {
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
		ready := false
		for p := u.first[i]; p < u.first[i+1]; p++ {
			if u.owner[p] >= 0 {
				continue
			}
			if !ready {
				u.queue.reset(u.readers[i])
				ready = true
			}
			u.gain(p, u.queue.least())
			u.queue.fix(0)
		}
	}
}

// fillAlike fills members up to the quota in their order, and deals out what
// is left one each.
func (u *uniform) fillAlike() {
	quota, m := int32(len(u.owner)/len(u.members)), 0
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
		u.gain(int32(p), int32(m))
	}
	m = 0
	for _, p := range left {
		for u.load[m] > quota {
			m++
		}
		u.gain(p, int32(m))
		m++
	}
}

// even moves single partitions from those who have more to readers who have at
// least two less, until there is no such pair. Each move makes the sum of the
// squares of the loads smaller, so it ends.
func (u *uniform) even() {
	for moved := true; moved; {
		moved = false
		for i := range u.topics {
			if u.uneven(i) {
				u.evenTopic(i)
				moved = true
			}
		}
	}
}

// uneven says whether a partition of a topic can move.
func (u *uniform) uneven(i int) bool {
	if u.first[i] == u.first[i+1] {
		return false
	}
	most, least := int32(0), u.load[u.readers[i][0]]
	for _, m := range u.owner[u.first[i]:u.first[i+1]] {
		most = max(most, u.load[m])
	}
	if most < 2 {
		return false
	}
	for _, m := range u.readers[i] {
		least = min(least, u.load[m])
	}
	return most-least >= 2
}

func (u *uniform) evenTopic(i int) {
	u.queue.reset(u.readers[i])
	for p := u.first[i]; p < u.first[i+1]; p++ {
		from, to := u.owner[p], u.queue.least()
		if u.load[from]-u.load[to] < 2 {
			continue
		}
		u.load[from]--
		u.changed[from] = true
		u.gain(p, to)
		u.queue.fix(0)
		u.queue.fix(u.queue.place[from])
	}
}

// targets are the sets of each member.
func (u *uniform) targets() []partitionSet {
	// Partitions by member: those of each stand together, in order.
	end := make([]int32, len(u.members)+1)
	for m, n := range u.load {
		end[m+1] = end[m] + n
	}
	next := slices.Clone(end)
	lists := make([]int32, len(u.owner))
	topicOf := make([]int32, len(u.owner))
	for i := range u.topics {
		for p := u.first[i]; p < u.first[i+1]; p++ {
			m := u.owner[p]
			if !u.changed[m] {
				continue
			}
			lists[next[m]], topicOf[next[m]] = p-u.first[i], int32(i)
			next[m]++
		}
	}
	targets := make([]partitionSet, len(u.members))
	for m := range targets {
		if !u.changed[m] && u.members[m].had != nil {
			targets[m] = u.members[m].had
			continue
		}
		targets[m] = u.target(lists[end[m]:next[m]:next[m]], topicOf[end[m]:next[m]])
	}
	return targets
}

// target cuts a member's partitions into topics.
func (u *uniform) target(list, topicOf []int32) partitionSet {
	n := 0
	for k := range topicOf {
		if k == 0 || topicOf[k] != topicOf[k-1] {
			n++
		}
	}
	set := make(partitionSet, n)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && topicOf[to] == topicOf[from] {
			to++
		}
		set[u.topics[topicOf[from]].ID] = list[from:to:to]
		from = to
	}
	return set
}

// readerQueue is members by load, and of those with the same in their order: the
// one with the least stands first.
type readerQueue struct {
	load  []int32 // of all members
	heap  []int32 // members
	place []int32 // in the heap, of each member that is in it
}

func (q *readerQueue) reset(members []int32) {
	q.heap = append(q.heap[:0], members...)
	for k, m := range q.heap {
		q.place[m] = int32(k)
	}
	for k := len(q.heap)/2 - 1; k >= 0; k-- {
		q.down(int32(k))
	}
}

func (q *readerQueue) least() int32 { return q.heap[0] }

func (q *readerQueue) before(a, b int32) bool {
	x, y := q.heap[a], q.heap[b]
	return q.load[x] < q.load[y] || q.load[x] == q.load[y] && x < y
}

func (q *readerQueue) swap(a, b int32) {
	q.heap[a], q.heap[b] = q.heap[b], q.heap[a]
	q.place[q.heap[a]], q.place[q.heap[b]] = a, b
}

// fix puts a member whose load has changed where it belongs.
func (q *readerQueue) fix(k int32) {
	for k > 0 && q.before(k, (k-1)/2) {
		q.swap(k, (k-1)/2)
		k = (k - 1) / 2
	}
	q.down(k)
}

func (q *readerQueue) down(k int32) {
	for n := int32(len(q.heap)); ; {
		least := 2*k + 1
		if least >= n {
			return
		}
		if right := least + 1; right < n && q.before(right, least) {
			least = right
		}
		if !q.before(least, k) {
			return
		}
		q.swap(k, least)
		k = least
	}
}
