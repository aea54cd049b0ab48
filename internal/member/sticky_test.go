package member

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shape is an assignment problem: members, what they claim, what there is.
type shape struct {
	members []Candidate
	counts  map[string]int32
	all     []TopicPartition
}

func drawShape(t *rapid.T, maxMembers, maxPartitions int, uniform bool) shape {
	topics := []string{"in", "other"}[:rapid.IntRange(1, 2).Draw(t, "topics")]
	s := shape{counts: map[string]int32{}}
	for _, name := range topics {
		n := int32(rapid.IntRange(0, maxPartitions/len(topics)).Draw(t, "partitions of "+name))
		s.counts[name] = n
		for p := range n {
			s.all = append(s.all, TopicPartition{name, p})
		}
	}
	for i := range rapid.IntRange(1, maxMembers).Draw(t, "members") {
		m := Candidate{ID: fmt.Sprintf("m%d", i), Topics: topics, Generation: 1}
		if !uniform {
			m.Topics = rapid.SliceOfDistinct(rapid.SampledFrom(topics), rapid.ID[string]).Draw(t, "subscription")
		}
		s.members = append(s.members, m)
	}
	for _, p := range s.all {
		if i := rapid.IntRange(-1, len(s.members)-1).Draw(t, "owner of "+p.String()); i >= 0 {
			s.members[i].Owned = append(s.members[i].Owned, p)
		}
	}
	return s
}

func (s shape) owner() map[TopicPartition]int {
	out := map[TopicPartition]int{}
	for i, m := range s.members {
		for _, p := range m.Owned {
			out[p] = i
		}
	}
	return out
}

func (s shape) eligible(member int, p TopicPartition) bool {
	return slices.Contains(s.members[member].Topics, p.Topic)
}

// best tries every assignment there is, and gives the least sum of squared
// shares and the least number of moves among those that have it.
func (s shape) best() (squares, moves int) {
	squares, moves = 1<<30, 1<<30
	owner := s.owner()
	loads := make([]int, len(s.members))
	var try func(i, moved int)
	try = func(i, moved int) {
		if i == len(s.all) {
			sum := 0
			for _, n := range loads {
				sum += n * n
			}
			if sum < squares || sum == squares && moved < moves {
				squares, moves = sum, moved
			}
			return
		}
		p, placed := s.all[i], false
		for m := range s.members {
			if !s.eligible(m, p) {
				continue
			}
			placed = true
			step := 0
			if o, ok := owner[p]; ok && o != m && s.eligible(o, p) {
				step = 1
			}
			loads[m]++
			try(i+1, moved+step)
			loads[m]--
		}
		if !placed {
			try(i+1, moved)
		}
	}
	try(0, 0)
	return squares, moves
}

// measure checks that an assignment is one, and reads its figures.
func (s shape) measure(t *rapid.T, placed map[string]Placement) (squares, moves int) {
	owner := s.owner()
	seen := map[TopicPartition]bool{}
	for i, m := range s.members {
		parts := placed[m.ID].Partitions
		squares += len(parts) * len(parts)
		for _, p := range parts {
			if seen[p] || !s.eligible(i, p) || p.Partition >= s.counts[p.Topic] {
				t.Fatalf("%s must not have %s", m.ID, p)
			}
			seen[p] = true
			if o, ok := owner[p]; ok && o != i && s.eligible(o, p) {
				moves++
			}
		}
	}
	for _, p := range s.all {
		wanted := false
		for i := range s.members {
			wanted = wanted || s.eligible(i, p)
		}
		if wanted && !seen[p] {
			t.Fatalf("%s has no owner", p)
		}
	}
	return squares, moves
}

// Shares differ by one at most, and no assignment with such shares moves less:
// held against every assignment there is.
func TestStickyAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, 3, 6, true)
		squares, moves := s.measure(t, Sticky{}.Assign(s.members, s.counts))
		wantSquares, wantMoves := s.best()
		if squares != wantSquares || moves != wantMoves {
			t.Errorf("sum of squares %d, %d moves; best is %d, %d", squares, moves, wantSquares, wantMoves)
		}
	})
}

// With different subscriptions the shares are as even as any assignment's.
func TestStickyBalanceOfSubscriptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, 3, 6, false)
		squares, _ := s.measure(t, Sticky{}.Assign(s.members, s.counts))
		if want, _ := s.best(); squares != want {
			t.Errorf("sum of squares %d, best is %d", squares, want)
		}
	})
}

// What is assigned is assigned again, whoever asks in whatever order; and a
// round of the cooperative protocol changes nothing in a settled group.
func TestStickyIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, 8, 40, true)
		first := Sticky{}.Assign(s.members, s.counts)
		for i, m := range s.members {
			s.members[i].Owned = first[m.ID].Partitions
		}
		shuffled := rapid.Permutation(s.members).Draw(t, "order")
		again := Sticky{}.Assign(shuffled, s.counts)
		if !maps.EqualFunc(first, again, func(a, b Placement) bool { return slices.Equal(a.Partitions, b.Partitions) }) {
			t.Errorf("assigned %v, then %v", first, again)
		}
	})
}

// Topics that belong together go by partition number.
func TestStickyTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := map[string]int32{"a": int32(rapid.IntRange(1, 20).Draw(t, "a")), "b": int32(rapid.IntRange(1, 20).Draw(t, "b")), "c": 5}
		var members []Candidate
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			members = append(members, Candidate{ID: fmt.Sprint(i), Topics: []string{"a", "b", "c"}})
		}
		placed := Sticky{Together: [][]string{{"a", "b"}}}.Assign(members, counts)
		least, most := 1<<30, 0
		for id, p := range placed {
			units := map[string]bool{}
			for _, tp := range p.Partitions {
				kind := tp.Topic
				if kind != "c" {
					kind = "ab"
					for other, q := range placed {
						twin := TopicPartition{map[string]string{"a": "b", "b": "a"}[tp.Topic], tp.Partition}
						if other != id && slices.Contains(q.Partitions, twin) {
							t.Errorf("%s is with %s, %s with %s", tp, id, twin, other)
						}
					}
				}
				units[fmt.Sprint(kind, tp.Partition)] = true
			}
			least, most = min(least, len(units)), max(most, len(units))
		}
		if most-least > 1 {
			t.Errorf("shares differ by %d", most-least)
		}
	})
}

// Claims that another member's later generation overtook are not heard
// (KIP-792), and what somebody else still holds is withheld (KIP-429).
func TestFencedAndWithheldClaims(t *testing.T) {
	c := NewCore(CoreConfig{Assignor: Sticky{}}, nil)
	c.counts = map[string]int32{"in": 2}
	in := func(p int32) TopicPartition { return TopicPartition{"in", p} }
	c.candidates = []Candidate{
		{ID: "late", Topics: []string{"in"}, Owned: []TopicPartition{in(0), in(1)}, Generation: 4},
		{ID: "here", Topics: []string{"in"}, Owned: []TopicPartition{in(0)}, Generation: 5},
	}
	placed := c.place()
	if got := list(placed["here"].Partitions); got != "in-0" {
		t.Errorf("the later claim has %s", got)
	}
	if got := list(placed["late"].Partitions); got != "in-1" {
		t.Errorf("the overtaken one keeps %s", got)
	}
	c.candidates = []Candidate{
		{ID: "old", Topics: []string{"in"}, Owned: []TopicPartition{in(0), in(1)}, Generation: 5},
		{ID: "new", Topics: []string{"in"}, Generation: -1},
	}
	placed = c.place()
	if got := list(placed["old"].Partitions) + ", " + list(placed["new"].Partitions); got != "in-0, nothing" {
		t.Errorf("first phase: %s", got)
	}
}

// A thousand partitions over fifty members are placed in no time, also when
// subscriptions differ.
func TestStickyLarge(t *testing.T) {
	counts := map[string]int32{"in": 600, "other": 400}
	var members []Candidate
	for i := range 50 {
		m := Candidate{ID: fmt.Sprintf("m%02d", i), Topics: []string{"in", "other"}}
		if i%5 == 0 {
			m.Topics = []string{"in"}
		}
		if i == 0 {
			for p := range int32(600) {
				m.Owned = append(m.Owned, TopicPartition{"in", p})
			}
		}
		members = append(members, m)
	}
	for id, p := range (Sticky{}).Assign(members, counts) {
		if n := len(p.Partitions); n != 20 {
			t.Errorf("%s has %d of 1000, want 20", id, n)
		}
	}
}
