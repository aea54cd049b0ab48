package rondo

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// Builder collects the operators of a topology. Operators never return errors
// and never panic: a mistake is kept with the source line that made it, and
// Build reports all of them at once. A Builder is for one goroutine.
type Builder struct {
	app     string
	nodes   []*node
	errs    []*BuildError
	named   map[string]*node  // processors and calls by name
	topics  map[string]*topic // every topic by name
	sources map[string]*node
}

// New starts the topology of an application. app is its application.id: the
// consumer group, and the prefix of client ids.
func New(app string) *Builder {
	b := &Builder{app: app, named: map[string]*node{}, topics: map[string]*topic{}, sources: map[string]*node{}}
	if app == "" {
		b.fault("", "name the application (application.id): it is also the name of its consumer group")
	}
	return b
}

// BuildError is one mistake in a topology.
type BuildError struct {
	At   string // file:line of the operator, as short as it is unambiguous in a program
	What string // what is wrong and what to do
}

func (e *BuildError) Error() string { return e.At + ": " + e.What }

// topic is what the builder knows of one topic.
type topic struct {
	name       string
	note       string // serde names
	types      reflect.Type
	at         string // where it was used first
	partitions int32
	created    bool // by Rondo: the target of Through
}

// node is one operator. Its typed function is made once for each task, so the
// assertion from any to the typed next function costs nothing per record.
type node struct {
	id       int
	kind     string
	name     string
	note     string
	at       string
	parents  []*node
	children []*node
	topic    *topic // of sources and sinks
	call     *callSpec
	// make builds the operator for one task from the functions of its children.
	make func(t *task, next []any) any
}

func (b *Builder) fault(at, format string, args ...any) {
	if at == "" {
		at = userLine()
	}
	b.errs = append(b.errs, &BuildError{At: at, What: fmt.Sprintf(format, args...)})
}

// add appends an operator below its parents.
func (b *Builder) add(n *node, parents ...*node) *node {
	n.id = len(b.nodes)
	if n.at == "" {
		n.at = userLine()
	}
	n.parents = parents
	for _, p := range parents {
		p.children = append(p.children, n)
	}
	b.nodes = append(b.nodes, n)
	return n
}

// name claims a name for a call or a processor.
func (b *Builder) name(n *node) {
	if n.name == "" {
		b.fault(n.at, "%s has no name: name it, its metrics, errors and dead letters carry the name", n.kind)
		return
	}
	if old := b.named[n.name]; old != nil {
		b.fault(n.at, "%s %q: the name was taken by the %s at %s", n.kind, n.name, old.kind, old.at)
		return
	}
	b.named[n.name] = n
}

// useTopic notes one use of a topic and checks it against the uses before.
func useTopic[K, V any](b *Builder, t Topic[K, V], at string) *topic {
	switch {
	case t.Name == "":
		b.fault(at, "topic has no name")
	case len(t.Name) > 249 || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" || t.Name == "." || t.Name == "..":
		b.fault(at, "topic %.60q: a name has at most 249 characters of a-z A-Z 0-9 . _ -", t.Name)
	}
	if t.Key == nil || t.Value == nil {
		b.fault(at, "topic %q has no serde for its key or its value: use rondo.TopicOf", t.Name)
	}
	old := b.topics[t.Name]
	if old == nil {
		old = &topic{name: t.Name, note: t.note(), types: reflect.TypeFor[Record[K, V]](), at: at}
		b.topics[t.Name] = old
	}
	if note := t.note(); note != old.note {
		b.fault(at, "topic %q is %s here and %s at %s: one topic has one pair of serdes", t.Name, note, old.note, old.at)
	} else if types := reflect.TypeFor[Record[K, V]](); types != old.types {
		b.fault(at, "topic %q holds %s here and %s at %s: one topic has one pair of types", t.Name, types, old.types, old.at)
	}
	old.partitions = max(old.partitions, t.Partitions)
	return old
}

// From reads a topic. Two calls with the same topic read it once.
func (b *Builder) From[K, V any](t Topic[K, V]) Stream[K, V] {
	at := userLine()
	tp := useTopic(b, t, at)
	return Stream[K, V]{b, sourceNode(b, t, tp, at)}
}

func sourceNode[K, V any](b *Builder, t Topic[K, V], tp *topic, at string) *node {
	// A topic that was declared with other serdes is a fault already; a node
	// of its own keeps the types of this program's chain sound until Build
	// reports it.
	if old := b.sources[t.Name]; old != nil && tp.note == t.note() && tp.types == reflect.TypeFor[Record[K, V]]() {
		return old
	}
	n := b.add(&node{kind: "source", name: t.Name, note: t.note(), at: at, topic: tp, make: makeSource(t)})
	b.sources[t.Name] = n
	return n
}

// Build checks the whole topology and freezes it. The error joins every
// *BuildError, each with file and line.
func (b *Builder) Build() (*Topology, error) {
	at := userLine()
	if len(b.sources) == 0 {
		b.fault(at, "topology reads no topic: begin with From")
	}
	for _, n := range b.nodes {
		b.checkEnds(n)
	}
	if len(b.errs) > 0 {
		errs := make([]error, len(b.errs))
		for i, e := range b.errs {
			errs[i] = e
		}
		return nil, errors.Join(errs...)
	}
	return newTopology(b), nil
}

func (b *Builder) checkEnds(n *node) {
	if n.call != nil && n.call.onFailure == failureUnset {
		b.fault(n.at, "call %q: say what becomes of failed calls: FailuresTo, SkipFailures or Values", n.name)
	}
	if len(n.children) > 0 {
		return
	}
	switch n.kind {
	case "source":
		b.fault(n.at, "source %q: nothing is done with its records", n.name)
	case "filter", "map", "map-values", "flat-map", "flat-map-values", "select-key", "merge":
		b.fault(n.at, "%s: its output goes nowhere: end the stream with To or Foreach", n.kind)
	}
}

const packagePath = "github.com/rondo-streams/rondo."

// userLine is the first frame outside of this package, as dir/file.go:line.
func userLine() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, packagePath) || !more {
			return shortPath(f.File) + ":" + fmt.Sprint(f.Line)
		}
	}
}

// shortPath keeps the file's name alone: a topology is printed in logs, where
// the directories of the machine that built it would only be noise.
func shortPath(file string) string { return filepath.Base(filepath.ToSlash(file)) }

// worst is the longest time a record may spend in the operator, 0 when only
// the user's own code bounds it.
func (n *node) worst() time.Duration {
	if n.call == nil {
		return 0
	}
	return n.call.worst()
}
