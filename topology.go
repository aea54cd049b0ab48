package rondo

import (
	"fmt"
	"strings"
	"time"
)

// Topology is a checked and frozen description. It may be run by several
// Apps.
type Topology struct {
	app    string
	nodes  []*node
	topics map[string]*topic
	subs   []*subtopology
}

// subtopology is a set of operators that records reach without a topic in
// between.
type subtopology struct {
	id      int32
	nodes   []*node
	sources []*node // sorted by topic
}

func newTopology(b *Builder) *Topology {
	t := &Topology{app: b.app, nodes: b.nodes, topics: b.topics}
	t.split()
	return t
}

// split numbers the connected parts in the order of their first operator.
func (t *Topology) split() {
	seen := map[*node]*subtopology{}
	for _, n := range t.nodes {
		if seen[n] != nil {
			continue
		}
		sub := &subtopology{id: int32(len(t.subs))}
		t.subs = append(t.subs, sub)
		reach(n, sub, seen)
	}
	for _, n := range t.nodes {
		sub := seen[n]
		sub.nodes = append(sub.nodes, n)
		if n.kind == "source" {
			sub.sources = append(sub.sources, n)
		}
	}
}

func reach(n *node, sub *subtopology, seen map[*node]*subtopology) {
	if seen[n] != nil {
		return
	}
	seen[n] = sub
	for _, m := range n.parents {
		reach(m, sub, seen)
	}
	for _, m := range n.children {
		reach(m, sub, seen)
	}
}

// Name is the application.id.
func (t *Topology) Name() string { return t.app }

// WorstRecord is the longest time one record can spend in calls on its way
// through the longest path of any subtopology: attempts times time-out plus
// pauses, capped by the budget, of each call on the path. User code outside of
// calls is not bounded and not counted. max.poll.interval.ms must be longer
// than the worst single call; this sum is what a drain may take.
func (t *Topology) WorstRecord() time.Duration {
	var worst time.Duration
	memo := map[*node]time.Duration{}
	for _, n := range t.nodes {
		worst = max(worst, longest(n, memo))
	}
	return worst
}

func longest(n *node, memo map[*node]time.Duration) time.Duration {
	if d, ok := memo[n]; ok {
		return d
	}
	var below time.Duration
	for _, c := range n.children {
		below = max(below, longest(c, memo))
	}
	memo[n] = n.worst() + below
	return memo[n]
}

// WorstCall is the longest time that one record can spend in one call, and the
// call's name: the number that the poll clock bounds.
func (t *Topology) WorstCall() (name string, worst time.Duration) {
	for _, n := range t.nodes {
		if w := n.worst(); w > worst {
			name, worst = n.name, w
		}
	}
	return name, worst
}

// String prints the topology: one line for each operator with the operators it
// gets records from, its source line, and its worst time for one record.
func (t *Topology) String() string {
	var w strings.Builder
	fmt.Fprintf(&w, "topology %s: %s, worst record %s\n", t.app, plural(len(t.subs), "subtopology", "subtopologies"), t.WorstRecord())
	for _, sub := range t.subs {
		fmt.Fprintf(&w, "subtopology %d\n", sub.id)
		for _, n := range sub.nodes {
			w.WriteString(strings.TrimRight(n.line(), " ") + "\n")
		}
	}
	return w.String()
}

func (n *node) line() string {
	what := n.kind
	if n.name != "" {
		what += " " + n.name
	}
	from := make([]string, len(n.parents))
	for i, p := range n.parents {
		from[i] = fmt.Sprintf("#%d", p.id)
	}
	note := n.note
	if n.call != nil {
		note += ", worst " + n.call.worst().String()
		switch n.call.onFailure {
		case failureDead:
			note += ", failures to " + n.call.deadTopic
		case failureSkip:
			note += ", failures skipped"
		case failureFatal:
			note += ", failures stop"
		}
	}
	return fmt.Sprintf("  #%-3d %-28s <- %-8s %-16s %s", n.id, what, strings.Join(from, " "), n.at, note)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func ordinal(i int) string { return fmt.Sprintf("branch %d", i) }

// Sources lists the topics that the topology reads, in order of first use.
func (t *Topology) Sources() []string {
	var names []string
	for _, n := range t.nodes {
		if n.kind == "source" {
			names = append(names, n.topic.name)
		}
	}
	return names
}
