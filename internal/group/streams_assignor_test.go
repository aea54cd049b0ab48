package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// groupOf makes members of processes in turn, with targets of before.
func groupOf(members, processes int, had map[string]roleTasks) []streamsSpec {
	var specs []streamsSpec
	for i := range members {
		id := fmt.Sprintf("m%02d", i)
		specs = append(specs, streamsSpec{id, fmt.Sprintf("p%02d", i%processes), had[id]})
	}
	return specs
}

func topologyOfTasks(stateful, stateless int32) *configured {
	return &configured{
		topology: &topology{subs: []subtopology{{id: "0", changelogs: []internalTopic{{name: "store"}}}, {id: "1"}}},
		tasks:    map[string]int32{"0": stateful, "1": stateless},
	}
}

// What every assignment must be, whatever was before: each task runs once, no
// process has it twice, there are as many copies as processes allow, and no
// member has more active tasks than an even share.
func checkAssignment(t *testing.T, specs []streamsSpec, c *configured, replicas int, got map[string]roleTasks) {
	t.Helper()
	runs := map[taskID]string{}
	copies := map[taskID]map[string]bool{}
	processes := map[string]bool{}
	least, most := 1<<30, 0
	for _, spec := range specs {
		processes[spec.process] = true
		n := 0
		for id := range got[spec.member].active.all {
			if other, twice := runs[id]; twice {
				t.Errorf("task %v runs in %s and %s", id, other, spec.process)
			}
			runs[id] = spec.process
			n++
		}
		least, most = min(least, n), max(most, n)
		for id := range got[spec.member].standby.all {
			if copies[id] == nil {
				copies[id] = map[string]bool{}
			}
			if copies[id][spec.process] {
				t.Errorf("two copies of %v in %s", id, spec.process)
			}
			copies[id][spec.process] = true
		}
		if len(got[spec.member].warmup) > 0 {
			t.Errorf("%s has warm-up tasks", spec.member)
		}
	}
	want := 0
	for sub, n := range c.tasks {
		for part := range n {
			id := taskID{sub, part}
			want++
			if runs[id] == "" {
				t.Errorf("task %v runs nowhere", id)
			}
			need := 0
			if sub == "0" {
				need = min(replicas, len(processes)-1)
			}
			if len(copies[id]) != need || copies[id][runs[id]] {
				t.Errorf("task %v runs in %s, with %d copies (%v), not %d", id, runs[id], len(copies[id]), copies[id], need)
			}
		}
	}
	if quota := (want + len(specs) - 1) / len(specs); len(runs) != want || most > quota {
		t.Errorf("%d tasks of %d, members have %d to %d, and should have %d at most", len(runs), want, least, most, quota)
	}
}

func TestStreamsAssignor(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := topologyOfTasks(int32(rng.IntN(20)), int32(1+rng.IntN(20)))
		members := 1 + rng.IntN(8)
		processes, replicas := 1+rng.IntN(members), rng.IntN(3)
		specs := groupOf(members, processes, nil)
		first := assignTasks(specs, c, replicas)
		checkAssignment(t, specs, c, replicas, first)

		specs = groupOf(members, processes, first)
		again := assignTasks(specs, c, replicas)
		for id := range first {
			if !first[id].active.equal(again[id].active) {
				t.Errorf("nothing has changed, but %s had %v and gets %v", id, first[id], again[id])
			}
		}

		// Members come or go: what can stay stays.
		specs = groupOf(max(members+rng.IntN(5)-2, 1), processes, first)
		next := assignTasks(specs, c, replicas)
		checkAssignment(t, specs, c, replicas, next)
		stay, could := 0, 0
		quota := (int(c.tasks["0"]+c.tasks["1"]) + len(specs) - 1) / len(specs)
		for _, spec := range specs {
			had := 0
			for id := range spec.had.active.all {
				had++
				if next[spec.member].active.has(id) {
					stay++
				}
			}
			could += min(had, quota-1)
		}
		if stay < could {
			t.Errorf("%d active tasks have stayed, %d could have", stay, could)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %d members, %d processes, %d replicas, %v, then %d members", seed, members, processes, replicas, c.tasks, len(specs))
		}
	}
}

// An active task whose process is gone goes to a process that has a copy of its
// state, and tasks of one partition meet in one process.
func TestStreamsAssignorUsesCopies(t *testing.T) {
	c := topologyOfTasks(3, 0)
	had := assignTasks(groupOf(3, 3, nil), c, 1)
	specs := groupOf(3, 3, had)[1:]
	next := assignTasks(specs, c, 1)
	for id := range had["m00"].active.all {
		for _, spec := range specs {
			if had[spec.member].standby.has(id) && !next[spec.member].active.has(id) {
				t.Errorf("%s had a copy of %v, which runs elsewhere: %v", spec.member, id, next)
			}
		}
	}
	c = topologyOfTasks(3, 3)
	got := assignTasks(groupOf(3, 3, nil), c, 0)
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if a := got[id].active; len(a["0"]) != 1 || len(a["1"]) != 1 {
			t.Errorf("%s runs %v", id, a)
		}
	}
}
