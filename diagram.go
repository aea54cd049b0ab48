package rondo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Operator is one operator of a topology, as JSON shows it.
type Operator struct {
	ID          int           `json:"id"`
	Subtopology int32         `json:"subtopology"`
	Kind        string        `json:"kind"` // source, filter, map, call, sink ...
	Name        string        `json:"name,omitempty"`
	Topic       string        `json:"topic,omitempty"`
	Note        string        `json:"note,omitempty"`
	At          string        `json:"at"` // file:line
	From        []int         `json:"from,omitempty"`
	Worst       time.Duration `json:"worst_ns,omitempty"`   // of one record in a call
	Timeout     time.Duration `json:"timeout_ns,omitempty"` // of one attempt of a call
	Parallel    int           `json:"parallel,omitempty"`
	Attempts    int           `json:"attempts,omitempty"`
	Order       string        `json:"order,omitempty"`
	Failures    string        `json:"failures,omitempty"` // topic of failed records, "skip" or "stop"
}

// Operators lists the operators in the order of the source text.
func (t *Topology) Operators() []Operator {
	sub := map[*node]int32{}
	for _, s := range t.subs {
		for _, n := range s.nodes {
			sub[n] = s.id
		}
	}
	out := make([]Operator, 0, len(t.nodes))
	for _, n := range t.nodes {
		o := Operator{ID: n.id, Subtopology: sub[n], Kind: n.kind, Name: n.name, Note: n.note, At: n.at, Worst: n.worst()}
		if n.topic != nil {
			o.Topic = n.topic.name
		}
		for _, p := range n.parents {
			o.From = append(o.From, p.id)
		}
		if n.call != nil {
			s := n.call.settings()
			o.Timeout, o.Parallel, o.Attempts, o.Order = s.Timeout, s.Parallel, s.Attempts, n.call.policy.Order.String()
			o.Failures = map[failurePolicy]string{failureDead: n.call.deadTopic, failureSkip: "skip", failureFatal: "stop"}[n.call.onFailure]
		}
		out = append(out, o)
	}
	return out
}

// MarshalJSON shows the application, its worst record, and its operators.
func (t *Topology) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Application string        `json:"application"`
		Worst       time.Duration `json:"worst_record_ns"`
		Operators   []Operator    `json:"operators"`
	}{t.app, t.WorstRecord(), t.Operators()})
}

// Mermaid draws the topology as a Mermaid flowchart, which many documents and
// repositories render: topics as cylinders, calls as hexagons with their worst
// time, one box for each subtopology.
func (t *Topology) Mermaid() string {
	var w strings.Builder
	w.WriteString("flowchart LR\n")
	topics := map[string]bool{}
	topic := func(name string) string {
		id := "topic_" + strings.NewReplacer(".", "_", "-", "_").Replace(name)
		if !topics[name] {
			topics[name] = true
			fmt.Fprintf(&w, "  %s[(%s)]\n", id, name)
		}
		return id
	}
	for _, s := range t.subs {
		fmt.Fprintf(&w, "  subgraph subtopology_%d\n", s.id)
		for _, n := range s.nodes {
			label := n.kind
			if n.name != "" && n.topic == nil {
				label += " " + n.name
			}
			if n.call != nil {
				fmt.Fprintf(&w, "    n%d{{\"%s<br/>worst %s\"}}\n", n.id, label, n.worst())
			} else {
				fmt.Fprintf(&w, "    n%d[\"%s\"]\n", n.id, label)
			}
		}
		w.WriteString("  end\n")
	}
	for _, n := range t.nodes {
		for _, p := range n.parents {
			fmt.Fprintf(&w, "  n%d --> n%d\n", p.id, n.id)
		}
		switch {
		case n.topic != nil && n.kind == "source":
			fmt.Fprintf(&w, "  %s --> n%d\n", topic(n.topic.name), n.id)
		case n.topic != nil:
			fmt.Fprintf(&w, "  n%d --> %s\n", n.id, topic(n.topic.name))
		case n.call != nil && n.call.onFailure == failureDead:
			fmt.Fprintf(&w, "  n%d -. failures .-> %s\n", n.id, topic(n.call.deadTopic))
		}
	}
	return w.String()
}
