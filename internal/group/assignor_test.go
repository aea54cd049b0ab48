package group

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// readers makes members a, b, ... that all read the same topics.
func readers(n int, topics ...*Topic) []assignee {
	members := make([]assignee, n)
	for i := range members {
		members[i] = assignee{id: fmt.Sprintf("m%03d", i), topics: topics, had: partitionSet{}}
	}
	return members
}

func topic(name string, partitions int32) *Topic {
	t := &Topic{Name: name, Partitions: partitions}
	copy(t.ID[:], name)
	return t
}

// moved counts the partitions that were somebody's and are another's.
func moved(members []assignee, targets []partitionSet) int {
	n := 0
	for i, m := range members {
		for id, list := range m.had {
			for _, p := range list {
				for j := range targets {
					if j != i && targets[j].has(id, p) {
						n++
					}
				}
			}
		}
	}
	return n
}

// checkTargets: every partition that somebody reads is somebody's who reads
// it, and one's alone.
func checkTargets(t *testing.T, members []assignee, targets []partitionSet) {
	t.Helper()
	owner := map[string]string{}
	for i, m := range members {
		for id, list := range targets[i] {
			if len(list) == 0 || !slices.IsSorted(list) {
				t.Errorf("%s: list %v", m.id, list)
			}
			for _, p := range list {
				tp := fmt.Sprintf("%x-%d", id, p)
				if owner[tp] != "" {
					t.Errorf("%s is with %s and %s", tp, owner[tp], m.id)
				}
				owner[tp] = m.id
				if !slices.ContainsFunc(m.topics, func(t *Topic) bool { return t.ID == id && p < t.Partitions }) {
					t.Errorf("%s got %s, which it does not read", m.id, tp)
				}
			}
		}
	}
	want := 0
	for _, topic := range kindsOf(members).topics() {
		want += int(topic.Partitions)
	}
	if len(owner) != want {
		t.Errorf("%d of %d partitions have an owner", len(owner), want)
	}
}

func loads(targets []partitionSet) (least, most int) {
	least = 1 << 30
	for _, p := range targets {
		least, most = min(least, p.size()), max(most, p.size())
	}
	return least, most
}

// One more or one less moves as little as it can: what the newcomer gets, or
// what the leaver had, and nobody who stays at his quota loses anything.
func TestUniformMovesTheFewest(t *testing.T) {
	members := readers(3, topic("t", 7), topic("u", 4)) // 4, 4, 3
	for i, p := range assignUniform(members) {
		members[i].had = p
	}
	more := append(slices.Clone(members), assignee{id: "z", topics: members[0].topics})
	targets := assignUniform(more) // 3, 3, 3, 2
	checkTargets(t, more, targets)
	if n := moved(more, targets); n != 2 {
		t.Errorf("one more member moved %d partitions, 2 are enough", n)
	}
	for i := range more {
		more[i].had = targets[i]
	}
	if n := moved(more, assignUniform(more)); n != 0 {
		t.Errorf("nothing changed, and %d partitions moved", n)
	}
	less := slices.Delete(slices.Clone(more), 1, 2)
	targets = assignUniform(less)
	checkTargets(t, less, targets)
	if n := moved(less, targets); n != 0 {
		t.Errorf("one member less moved %d partitions of those who stayed", n)
	}
}

// Range keeps the order of members for every topic, static ones first by their
// instance id, and does not look at what they had.
func TestRange(t *testing.T) {
	members := readers(3, topic("t", 5), topic("u", 5))
	members[0].instance, members[2].instance = ref("i2"), ref("i1")
	targets := assignRange(members) // order: m002, m000, m001
	checkTargets(t, members, targets)
	want := [][]int32{{2, 3}, {4}, {0, 1}}
	for i, m := range members {
		for _, topic := range m.topics {
			if got := targets[i][topic.ID]; !slices.Equal(got, want[i]) {
				t.Errorf("%s of %s: %v, want %v", m.id, topic.Name, got, want[i])
			}
		}
	}
}

func ref(s string) *string { return &s }

// Random groups: members come, go and change what they read, topics grow.
func TestAssignorsAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		topics := []*Topic{topic("a", 3), topic("b", 7), topic("c", 1), topic("d", 12)}
		same := rng.IntN(2) == 0
		var members []assignee
		for step := range 12 {
			if len(members) == 0 || rng.IntN(3) > 0 {
				m := assignee{id: fmt.Sprintf("m%d.%d", rng.IntN(100), step), topics: topics, had: partitionSet{}}
				if !same {
					m.topics = slices.DeleteFunc(slices.Clone(topics), func(*Topic) bool { return rng.IntN(3) == 0 })
				}
				members = append(members, m)
			} else {
				i := rng.IntN(len(members))
				members = slices.Delete(members, i, i+1)
			}
			slices.SortFunc(members, func(a, b assignee) int { return cmp.Compare(a.id, b.id) })
			if len(members) == 0 {
				continue
			}
			checkTargets(t, members, assignRange(members))
			targets := assignUniform(members)
			checkTargets(t, members, targets)
			if least, most := loads(targets); same && most-least > 1 {
				t.Errorf("loads from %d to %d", least, most)
			}
			for i := range members {
				members[i].had = targets[i]
			}
			if n := moved(members, assignUniform(members)); n != 0 {
				t.Errorf("nothing changed, and %d partitions moved", n)
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func BenchmarkUniform(b *testing.B) {
	for _, n := range []int{100, 1000} {
		members := readers(n, topic("t", int32(10*n)))
		for i, p := range assignUniform(members) {
			members[i].had = p
		}
		members = append(members, assignee{id: "z", topics: members[0].topics, had: partitionSet{}})
		b.Run(fmt.Sprintf("%d members one more", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				assignUniform(members)
			}
		})
	}
}
