package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topology is what the members of a streams group run: subtopologies that read
// source topics and are joined by repartition topics. It never changes once
// the group has it.
type topology struct {
	epoch int32
	subs  []subtopology // sorted by id
}

type subtopology struct {
	id                 string
	sources            []string
	sourceRegex        []string
	changelogs         []internalTopic // of its state stores
	sinks              []string        // repartition topics that it writes
	repartitionSources []internalTopic // repartition topics that it reads
	copartitioned      []copartition
}

// internalTopic is a topic that belongs to the application alone.
type internalTopic struct {
	name        string
	partitions  int32 // 0: what the topology makes it
	replication int16 // 0: the broker's default
	configs     []config
}

type config struct{ key, value string }

// copartition names topics that must have equally many partitions, by their
// places in the lists of a subtopology.
type copartition struct{ sources, sourceRegex, repartitionSources []int16 }

// topologyOf reads the topology of a heartbeat. It reports false for one that
// nobody can mean; Kafka stumbles over those, and so the answer has no text.
func topologyOf(req *kmsg.StreamsGroupHeartbeatRequestTopology) (*topology, bool) {
	t := &topology{epoch: req.Epoch}
	for i := range req.Subtopologies {
		in := &req.Subtopologies[i]
		sub := subtopology{
			id: in.SubtopologyID, sources: slices.Clone(in.SourceTopics), sourceRegex: slices.Clone(in.SourceTopicRegex),
			sinks: slices.Clone(in.RepartitionSinkTopics), changelogs: internalTopics(in.StateChangelogTopics),
			repartitionSources: internalTopics(in.RepartitionSourceTopics),
		}
		for _, g := range in.CopartitionGroups {
			sub.copartitioned = append(sub.copartitioned, copartition{
				slices.Clone(g.SourceTopics), slices.Clone(g.SourceTopicRegex), slices.Clone(g.RepartitionSourceTopics),
			})
		}
		t.subs = append(t.subs, sub)
	}
	t.sort()
	return t, t.epoch >= 0 && !t.repeats()
}

func internalTopics(list []kmsg.TopicInfo) []internalTopic {
	var topics []internalTopic
	for _, in := range list {
		topic := internalTopic{name: in.Topic, partitions: in.NumPartitions, replication: in.ReplicationFactor}
		for _, c := range in.Configs {
			topic.configs = append(topic.configs, config{c.Key, c.Value})
		}
		topics = append(topics, topic)
	}
	return topics
}

func (t *topology) sort() {
	slices.SortStableFunc(t.subs, func(a, b subtopology) int { return cmp.Compare(a.id, b.id) })
}

// repeats says whether a subtopology is there twice.
func (t *topology) repeats() bool {
	for i := range t.subs {
		if i > 0 && t.subs[i].id == t.subs[i-1].id {
			return true
		}
	}
	return false
}

func (t *topology) equal(o *topology) bool {
	same := func(a, b internalTopic) bool {
		return a.name == b.name && a.partitions == b.partitions && a.replication == b.replication && slices.Equal(a.configs, b.configs)
	}
	return t.epoch == o.epoch && slices.EqualFunc(t.subs, o.subs, func(a, b subtopology) bool {
		return a.id == b.id && slices.Equal(a.sources, b.sources) && slices.Equal(a.sourceRegex, b.sourceRegex) &&
			slices.EqualFunc(a.changelogs, b.changelogs, same) && slices.Equal(a.sinks, b.sinks) &&
			slices.EqualFunc(a.repartitionSources, b.repartitionSources, same) &&
			slices.EqualFunc(a.copartitioned, b.copartitioned, copartition.equal)
	})
}

func (c copartition) equal(o copartition) bool {
	return slices.Equal(c.sources, o.sources) && slices.Equal(c.sourceRegex, o.sourceRegex) &&
		slices.Equal(c.repartitionSources, o.repartitionSources)
}

// required lists the topics that must be there, sorted.
func (t *topology) required() []string {
	var names []string
	for i := range t.subs {
		sub := &t.subs[i]
		names = append(names, sub.inputs()...)
		for _, topic := range sub.changelogs {
			names = append(names, topic.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sourceOf finds the subtopology that reads a topic.
func (t *topology) sourceOf(topic string) (sub string, ok bool) {
	for i := range t.subs {
		if slices.Contains(t.subs[i].inputs(), topic) {
			return t.subs[i].id, true
		}
	}
	return "", false
}

// inputs lists what a subtopology reads.
func (sub *subtopology) inputs() []string {
	names := slices.Clone(sub.sources)
	for _, topic := range sub.repartitionSources {
		names = append(names, topic.name)
	}
	return names
}

// The statuses of StreamsGroupHeartbeat (StreamsGroupHeartbeatResponse.Status
// of Kafka 4.2).
const (
	statusStaleTopology          = 0
	statusMissingSources         = 1
	statusIncorrectlyPartitioned = 2
	statusMissingInternal        = 3
	statusShutdown               = 4
	statusDelayed                = 5
)

// trouble is why a topology cannot run on the topics that there are.
type trouble struct {
	status int8
	text   string
}

// configured is a topology on the topics that there are: how many tasks each
// subtopology has, and how many partitions the internal topics.
type configured struct {
	topology *topology
	tasks    map[string]int32 // by subtopology
	counts   map[string]int32 // partitions of internal topics
	create   []InternalTopic  // that are missing, sorted by name
	trouble  *trouble
}

func (c *configured) ready() bool { return c.trouble == nil }

// configurer works a topology out, as InternalTopicManager of Kafka 4.2 does.
type configurer struct {
	im     *Image
	t      *topology
	counts map[string]int32 // decided for internal topics
}

// configure works out what a topology needs. It is refused when it makes no
// sense whatever topics there are; where Kafka stumbles, without a text.
func configure(im *Image, t *topology) (*configured, *refused) {
	w := configurer{im: im, t: t, counts: map[string]int32{}}
	out := &configured{topology: t, counts: w.counts}
	if out.trouble = w.missingSources(); out.trouble != nil {
		return out, nil
	}
	var err *refused
	if out.trouble, err = w.decide(); out.trouble != nil || err != nil {
		return out, err
	}
	out.tasks = map[string]int32{}
	for i := range t.subs {
		if out.tasks[t.subs[i].id], err = w.tasks(&t.subs[i]); err != nil {
			return nil, err
		}
	}
	out.create, out.trouble = w.missingInternal()
	return out, nil
}

// partitions is how many partitions a topic has, or will have; 0: unknown.
func (w *configurer) partitions(topic string) int32 {
	if t := w.im.byName[topic]; t != nil {
		return t.Partitions
	}
	return w.counts[topic]
}

func (w *configurer) missingSources() *trouble {
	var missing []string
	for i := range w.t.subs {
		for _, topic := range w.t.subs[i].sources {
			if w.im.byName[topic] == nil {
				missing = append(missing, topic)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &trouble{statusMissingSources, "Source topics " + summary(slices.Compact(missing)) + " are missing."}
}

// summary names the first topics of a sorted list, and counts the rest.
func summary(names []string) string {
	const some = 3
	if len(names) <= some {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d additional topics", strings.Join(names[:some], ", "), len(names)-some)
}

// decide finds the numbers of partitions of all internal topics: of those that
// say one, of those that a subtopology writes, and last of the changelogs.
func (w *configurer) decide() (*trouble, *refused) {
	if err := w.decideRepartition(); err != nil {
		return nil, err
	}
	for i := range w.t.subs {
		sub := &w.t.subs[i]
		for _, c := range sub.copartitioned {
			names, err := sub.names(c)
			if err != nil {
				return nil, err
			}
			if wrong := w.enforce(names); wrong != nil {
				return wrong, nil
			}
		}
	}
	for i := range w.t.subs {
		n, err := w.tasks(&w.t.subs[i])
		if err != nil {
			return nil, err
		}
		for _, topic := range w.t.subs[i].changelogs {
			w.counts[topic.name] = n
		}
	}
	return nil, nil
}

// decideRepartition gives repartition topics the most partitions that the
// inputs of the subtopology that writes them have.
func (w *configurer) decideRepartition() *refused {
	open := map[string]bool{}
	for i := range w.t.subs {
		for _, topic := range w.t.subs[i].repartitionSources {
			if topic.partitions != 0 {
				w.counts[topic.name] = topic.partitions
			} else {
				open[topic.name] = true
			}
		}
	}
	for left, before := w.sinksLeft(), -1; left > 0; left = w.sinksLeft() {
		if left == before {
			return refuse(kerr.StreamsInvalidTopology, "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved.")
		}
		before = left
		for i := range w.t.subs {
			sub := &w.t.subs[i]
			for _, sink := range sub.sinks {
				if w.counts[sink] == 0 {
					if n := w.upstream(sub); n > 0 {
						w.counts[sink] = n
					}
				}
			}
		}
	}
	for name := range open {
		if w.counts[name] == 0 {
			return refuse(kerr.StreamsInvalidTopology, "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic.")
		}
	}
	return nil
}

func (w *configurer) sinksLeft() int {
	n := 0
	for i := range w.t.subs {
		for _, sink := range w.t.subs[i].sinks {
			if w.counts[sink] == 0 {
				n++
			}
		}
	}
	return n
}

// upstream is the most partitions of a subtopology's inputs, 0 while one of
// them is open.
func (w *configurer) upstream(sub *subtopology) int32 {
	n := int32(0)
	for _, topic := range sub.repartitionSources {
		n = max(n, w.counts[topic.name])
	}
	for _, topic := range sub.sources {
		n = max(n, w.partitions(topic))
	}
	return n
}

// names looks the topics of a copartition group up.
func (sub *subtopology) names(c copartition) ([]string, *refused) {
	var names []string
	for _, i := range c.sources {
		if i < 0 || int(i) >= len(sub.sources) {
			return nil, &refused{code: kerr.UnknownServerError.Code}
		}
		names = append(names, sub.sources[i])
	}
	for _, i := range c.repartitionSources {
		if i < 0 || int(i) >= len(sub.repartitionSources) {
			return nil, &refused{code: kerr.UnknownServerError.Code}
		}
		names = append(names, sub.repartitionSources[i].name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// enforce makes copartitioned topics equal: sources have to be, repartition
// topics without a number of their own follow.
func (w *configurer) enforce(names []string) *trouble {
	if len(names) == 0 {
		return nil
	}
	repartition, others, fixed := w.split(names)
	var n int32
	switch {
	case len(others) > 0:
		if n = others[slices.Min(slices.Collect(maps.Keys(others)))]; !sameCount(others) {
			return unequal(others)
		}
	case len(fixed) > 0:
		if n = slices.Collect(maps.Values(fixed))[0]; !sameCount(fixed) {
			return unequal(repartition)
		}
	default:
		n = slices.Max(slices.Collect(maps.Values(repartition)))
	}
	for _, name := range slices.Sorted(maps.Keys(repartition)) {
		if have, is := fixed[name]; is && have != n {
			return &trouble{statusIncorrectlyPartitioned, fmt.Sprintf(
				"Number of partitions [%d] of repartition topic [%s] doesn't match number of partitions [%d] of the source topic.", have, name, n)}
		}
		w.counts[name] = n
	}
	return nil
}

// split tells repartition topics from others, and those with a number of their
// own from the rest.
func (w *configurer) split(names []string) (repartition, others, fixed map[string]int32) {
	kinds := map[string]int32{}
	for i := range w.t.subs {
		for _, topic := range w.t.subs[i].repartitionSources {
			kinds[topic.name] = topic.partitions
		}
	}
	repartition, others, fixed = map[string]int32{}, map[string]int32{}, map[string]int32{}
	for _, name := range names {
		own, is := kinds[name]
		switch {
		case !is:
			others[name] = w.partitions(name)
		default:
			repartition[name] = w.partitions(name)
			if own != 0 {
				fixed[name] = w.partitions(name)
			}
		}
	}
	return repartition, others, fixed
}

func sameCount(counts map[string]int32) bool {
	var first int32
	for _, n := range counts {
		if first != 0 && n != first {
			return false
		}
		first = n
	}
	return true
}

func unequal(counts map[string]int32) *trouble {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, counts[name]))
	}
	return &trouble{statusIncorrectlyPartitioned,
		"Following topics do not have the same number of partitions: [{" + strings.Join(parts, ", ") + "}]"}
}

// tasks is how many tasks a subtopology has: as many as its largest input has
// partitions.
func (w *configurer) tasks(sub *subtopology) (int32, *refused) {
	n := int32(0)
	for _, topic := range sub.inputs() {
		n = max(n, w.partitions(topic))
	}
	if n == 0 {
		return 0, &refused{code: kerr.UnknownServerError.Code}
	}
	return n, nil
}

// missingInternal lists the internal topics that have to be made, and checks
// those that are there.
func (w *configurer) missingInternal() ([]InternalTopic, *trouble) {
	wanted := map[string]InternalTopic{}
	for i := range w.t.subs {
		for _, topic := range slices.Concat(w.t.subs[i].repartitionSources, w.t.subs[i].changelogs) {
			wanted[topic.name] = topic.wanted(w.counts[topic.name])
		}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		have := w.im.byName[name]
		switch {
		case have == nil:
			missing = append(missing, name)
		case have.Partitions != wanted[name].Partitions:
			return nil, &trouble{statusIncorrectlyPartitioned, fmt.Sprintf(
				"Existing topic %s has different number of partitions: expected %d, found %d", name, wanted[name].Partitions, have.Partitions)}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	var create []InternalTopic
	for _, name := range missing {
		create = append(create, wanted[name])
	}
	return create, &trouble{statusMissingInternal, "Internal topics are missing: " + summary(missing)}
}

func (t *internalTopic) wanted(partitions int32) InternalTopic {
	w := InternalTopic{Name: t.name, Partitions: partitions, ReplicationFactor: -1, Configs: map[string]string{}}
	if t.replication != 0 {
		w.ReplicationFactor = t.replication
	}
	for _, c := range t.configs {
		w.Configs[c.key] = c.value
	}
	return w
}

// checkTasks refuses tasks that the topology does not have.
func (c *configured) checkTasks(list []kmsg.TaskIDs) *refused {
	for _, ids := range list {
		n, ok := c.tasks[ids.SubtopologyID]
		if !ok {
			return refuse(kerr.InvalidRequest, "Subtopology %s does not exist in the topology.", ids.SubtopologyID)
		}
		for _, part := range ids.Partitions {
			if part < 0 || part >= n {
				return refuse(kerr.InvalidRequest, "Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d", part, ids.SubtopologyID, n)
			}
		}
	}
	return nil
}
