package member

import (
	"cmp"
	"slices"
)

// Sticky is the default assignor. Every member ends up with as many units as
// every other, or one more or less (as far as subscriptions allow), and a unit
// moves only when that balance needs it.
//
// A unit is one partition, or, for topics listed in Together, all partitions
// of one number: what one task reads.
type Sticky struct {
	// Together lists groups of topics whose equal partition numbers must go to
	// one member (copartitioning). All members should run with the same list;
	// the leader's counts.
	Together [][]string
}

// Name is the protocol name on the wire.
func (Sticky) Name() string { return "rondo-sticky" }

// unit is what moves as one.
type unit struct {
	parts  []TopicPartition
	holder int // index of the member that has it, -1 when none
	before int // index of the member that claimed it
}

type share struct {
	members  []Candidate
	units    []unit
	held     [][]int  // units of each member, most wanted first
	eligible [][]bool // member x kind of unit
	kind     []int    // of each unit
	uniform  bool     // everybody may hold everything
}

// Assign is the Assignor's one method.
func (s Sticky) Assign(members []Candidate, counts map[string]int32) map[string]Placement {
	sh := share{members: slices.Clone(members), held: make([][]int, len(members))}
	slices.SortFunc(sh.members, func(a, b Candidate) int {
		// Static members first and by instance, so that a restart under a new
		// member id changes nothing.
		if (a.InstanceID == "") != (b.InstanceID == "") {
			return cmp.Compare(b.InstanceID, a.InstanceID)
		}
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	})
	sh.cutUnits(s.Together, counts)
	sh.keep()
	sh.fill()
	sh.level()
	out := make(map[string]Placement, len(members))
	for i, m := range sh.members {
		var parts []TopicPartition
		for _, u := range sh.held[i] {
			parts = append(parts, sh.units[u].parts...)
		}
		out[m.ID] = Placement{Partitions: sorted(parts)}
	}
	return out
}

// cutUnits lists the units in order of partition number, so that filling goes
// across topics.
func (s *share) cutUnits(together [][]string, counts map[string]int32) {
	var kinds [][]string
	grouped := map[string]bool{}
	for _, g := range together {
		var have []string
		for _, t := range g {
			if counts[t] > 0 && !grouped[t] {
				have, grouped[t] = append(have, t), true
			}
		}
		if len(have) > 0 {
			kinds = append(kinds, have)
		}
	}
	for _, t := range sortedKeys(counts) {
		if counts[t] > 0 && !grouped[t] {
			kinds = append(kinds, []string{t})
		}
	}
	s.uniform = true
	s.eligible = make([][]bool, len(s.members))
	for i, m := range s.members {
		for _, k := range kinds {
			ok := !slices.ContainsFunc(k, func(t string) bool { return !slices.Contains(m.Topics, t) })
			s.eligible[i] = append(s.eligible[i], ok)
			s.uniform = s.uniform && ok
		}
	}
	most := int32(0)
	for _, n := range counts {
		most = max(most, n)
	}
	for p := range most {
		for k, topics := range kinds {
			u := unit{holder: -1, before: -1}
			for _, t := range topics {
				if p < counts[t] {
					u.parts = append(u.parts, TopicPartition{t, p})
				}
			}
			if len(u.parts) > 0 {
				s.units, s.kind = append(s.units, u), append(s.kind, k)
			}
		}
	}
}

// keep leaves every unit with the member that claims it.
func (s *share) keep() {
	of := map[TopicPartition]int{}
	for u := range s.units {
		for _, p := range s.units[u].parts {
			of[p] = u
		}
	}
	for i, m := range s.members {
		for _, p := range m.Owned {
			u, ok := of[p]
			if ok && s.units[u].holder < 0 && s.eligible[i][s.kind[u]] {
				s.give(u, i)
				s.units[u].before = i
			}
		}
	}
}

func (s *share) give(u, to int) {
	s.units[u].holder = to
	s.held[to] = append(s.held[to], u)
}

// fill gives what nobody holds to whoever holds least, and among those to whom
// holds least of that kind.
func (s *share) fill() {
	ofKind := make([]map[int]int, len(s.members))
	for i := range s.members {
		ofKind[i] = map[int]int{}
		for _, u := range s.held[i] {
			ofKind[i][s.kind[u]]++
		}
	}
	for u := range s.units {
		if s.units[u].holder >= 0 {
			continue
		}
		k, best := s.kind[u], -1
		for i := range s.members {
			if !s.eligible[i][k] {
				continue
			}
			if best < 0 || len(s.held[i]) < len(s.held[best]) ||
				len(s.held[i]) == len(s.held[best]) && ofKind[i][k] < ofKind[best][k] {
				best = i
			}
		}
		if best >= 0 {
			s.give(u, best)
			ofKind[best][k]++
		}
	}
}

// level moves units from who holds more to who holds less by two or more, over
// other members where subscriptions demand it, until no such path is left. A
// path costs one move a hop, and each shortens the sum of squares, so it ends.
func (s *share) level() {
	for {
		path := s.path()
		if path == nil {
			return
		}
		for i := len(path) - 1; i > 0; i-- {
			from, to := path[i-1], path[i]
			u := s.shed(from, to)
			s.held[from] = slices.DeleteFunc(s.held[from], func(x int) bool { return x == u })
			s.give(u, to)
		}
	}
}

// path is the shortest chain of members from the fullest one that can give a
// unit, hop by hop, to one that holds at least two less; nil when none can.
func (s *share) path() []int {
	order := make([]int, len(s.members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(s.held[b]) - len(s.held[a]) })
	for _, from := range order {
		if s.uniform {
			to := order[len(order)-1]
			if len(s.held[from])-len(s.held[to]) >= 2 {
				return []int{from, to}
			}
			return nil
		}
		if p := s.pathFrom(from, order); p != nil {
			return p
		}
	}
	return nil
}

func (s *share) pathFrom(from int, order []int) []int {
	parent := map[int]int{from: -1}
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for i := len(order) - 1; i >= 0; i-- { // emptiest first
			to := order[i]
			if _, seen := parent[to]; seen || s.shed(at, to) < 0 {
				continue
			}
			parent[to] = at
			if len(s.held[from])-len(s.held[to]) >= 2 {
				var path []int
				for m := to; m >= 0; m = parent[m] {
					path = append(path, m)
				}
				slices.Reverse(path)
				return path
			}
			queue = append(queue, to)
		}
	}
	return nil
}

// shed picks the unit that from parts with most lightly and to may hold: one
// that it did not hold before, or one that comes home; else the last of its
// claims, where a member lists what it is giving back already.
func (s *share) shed(from, to int) int {
	best := -1
	for _, u := range s.held[from] {
		if !s.eligible[to][s.kind[u]] {
			continue
		}
		if s.units[u].before == to {
			return u
		}
		if best < 0 || s.units[u].before != from || s.units[best].before == from {
			best = u
		}
	}
	return best
}
