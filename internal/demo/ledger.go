package demo

import (
	"cmp"
	"slices"
	"time"
)

// Place is where a record lies in the input topic.
type Place struct {
	Partition int32
	Offset    int64
}

// Call is one call that reached the service of a side.
type Call struct {
	Place  Place
	Member string // the process that made it
	At     time.Time
}

// Commit is one committed offset: every record of the partition before it was
// done at that time.
type Commit struct {
	Partition int32
	Offset    int64
	At        time.Time
}

// Ledger is what happened on one side of a run. It is a value that is told
// facts and judges them at the end; it reads no clock.
type Ledger struct {
	keys    map[Place]string
	calls   map[Place][]Call
	commits map[int32][]Commit
	results map[string]int
	killed  map[string]bool
}

// NewLedger makes an empty one.
func NewLedger() *Ledger {
	return &Ledger{
		keys: map[Place]string{}, calls: map[Place][]Call{}, commits: map[int32][]Commit{},
		results: map[string]int{}, killed: map[string]bool{},
	}
}

// Produced notes a record of the input topic.
func (l *Ledger) Produced(p Place, key string) { l.keys[p] = key }

// Called notes a call.
func (l *Ledger) Called(c Call) { l.calls[c.Place] = append(l.calls[c.Place], c) }

// Committed notes a commit.
func (l *Ledger) Committed(c Commit) { l.commits[c.Partition] = append(l.commits[c.Partition], c) }

// Forget drops the commits noted so far, for a better source of them.
func (l *Ledger) Forget() { clear(l.commits) }

// Result notes one record of the output topic.
func (l *Ledger) Result(key string) { l.results[key]++ }

// Killed notes a process that was killed.
func (l *Ledger) Killed(member string) { l.killed[member] = true }

// Verdict is what the ledger shows.
type Verdict struct {
	In          int      // records of the input topic
	Scored      int      // of these, with a result
	Lost        []string // keys without one
	Calls       int
	Repeated    int      // calls beyond the first of a record
	Unexplained []string // keys with a repeat that no kill explains
	ScoredAgain []string // keys with a call after the commit of their record
	Twice       int      // results beyond the first of a record
	// Pause is the longest time between two commits that moved, over all
	// partitions together.
	Pause time.Duration
}

// clockGrain is how exact a commit's time is: Kafka keeps milliseconds.
const clockGrain = time.Millisecond

// Judge looks at everything at once.
func (l *Ledger) Judge() Verdict {
	v := Verdict{In: len(l.keys)}
	done := map[int32][]Commit{}
	for partition, commits := range l.commits {
		done[partition] = firsts(commits)
	}
	for place, key := range l.keys {
		if l.results[key] == 0 {
			v.Lost = append(v.Lost, key)
		} else {
			v.Scored++
		}
		v.Twice += max(0, l.results[key]-1)
		calls := slices.Clone(l.calls[place])
		slices.SortFunc(calls, func(a, b Call) int { return a.At.Compare(b.At) })
		v.Calls += len(calls)
		v.Repeated += max(0, len(calls)-1)
		for i, c := range calls {
			// Somebody else may repeat what a killed process had in hand,
			// called for but not committed. Nobody may repeat his own.
			if i > 0 && (!l.killed[calls[i-1].Member] || calls[i-1].Member == c.Member) {
				v.Unexplained = append(v.Unexplained, key)
				break
			}
		}
		if at, ok := doneAt(done[place.Partition], place.Offset); ok && len(calls) > 0 && calls[len(calls)-1].At.After(at.Add(clockGrain)) {
			v.ScoredAgain = append(v.ScoredAgain, key)
		}
	}
	for _, keys := range [][]string{v.Lost, v.Unexplained, v.ScoredAgain} {
		slices.Sort(keys)
	}
	v.Pause = l.pause()
	return v
}

// firsts are a partition's commits by offset, each with the earliest time at
// which that offset or a further one was committed.
func firsts(commits []Commit) []Commit {
	sorted := slices.SortedFunc(slices.Values(commits), func(a, b Commit) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := len(sorted) - 2; i >= 0; i-- {
		if later := sorted[i+1].At; later.Before(sorted[i].At) {
			sorted[i].At = later
		}
	}
	return sorted
}

// doneAt is when a record was first covered by one of a partition's firsts.
func doneAt(firsts []Commit, offset int64) (at time.Time, done bool) {
	i, _ := slices.BinarySearchFunc(firsts, offset+1, func(c Commit, offset int64) int { return cmp.Compare(c.Offset, offset) })
	if i == len(firsts) {
		return time.Time{}, false
	}
	return firsts[i].At, true
}

// pause is the longest time between two commits that moved on.
func (l *Ledger) pause() time.Duration {
	var moved []time.Time
	for _, commits := range l.commits {
		furthest := int64(0)
		for _, c := range slices.SortedFunc(slices.Values(commits), func(a, b Commit) int { return a.At.Compare(b.At) }) {
			if c.Offset > furthest {
				furthest = c.Offset
				moved = append(moved, c.At)
			}
		}
	}
	slices.SortFunc(moved, time.Time.Compare)
	var longest time.Duration
	for i := 1; i < len(moved); i++ {
		longest = max(longest, moved[i].Sub(moved[i-1]))
	}
	return longest
}
