package broker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleCreateTopics makes topics; each of them is made or refused on its own.
func (b *Broker) handleCreateTopics(rq *request) {
	msg := rq.msg.(*kmsg.CreateTopicsRequest)
	names := map[string]int{}
	for _, t := range msg.Topics {
		names[t.Topic]++
	}
	var wanted []*newTopic
	for _, t := range msg.Topics {
		if names[t.Topic] == 0 {
			continue // a name given twice is answered once
		}
		w := b.wantTopic(t)
		if names[t.Topic] > 1 {
			w.failed = fail(kerr.InvalidRequest, "Duplicate topic name.")
			names[t.Topic] = 0
		}
		w.dry = msg.ValidateOnly
		wanted = append(wanted, w)
	}
	boundPartitions(wanted)
	b.meta.do(func() {
		b.meta.createTopics(wanted)
		rq.reply(b.createdTopics(wanted))
	})
}

// boundPartitions refuses the topics of one request that are too many partitions.
func boundPartitions(wanted []*newTopic) {
	budget := maxPartitions
	for _, w := range wanted {
		if budget -= w.partitions; w.failed == nil && budget < 0 {
			w.failed = fail(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		}
	}
}

// wantTopic checks what can be checked without the catalog, in Kafka's order
// (ReplicationControlManager.createTopic).
func (b *Broker) wantTopic(t kmsg.CreateTopicsRequestTopic) *newTopic {
	w := &newTopic{name: t.Topic}
	if t.Topic == "__cluster_metadata" {
		w.failed = fail(kerr.InvalidRequest, "Creation of internal topic __cluster_metadata is prohibited.")
		return w
	}
	if text := checkTopicName(t.Topic); text != "" {
		w.failed = fail(kerr.InvalidTopicException, "%s", text)
		return w
	}
	for _, c := range t.Configs {
		if c.Value == nil {
			w.failed = fail(kerr.InvalidConfig, "Null value not supported for topic configs: %s", c.Name)
			return w
		}
		if w.configs == nil {
			w.configs = map[string]string{}
		}
		w.configs[c.Name] = *c.Value
	}
	if len(t.ReplicaAssignment) > 0 {
		w.failed = b.assignedPartitions(w, t)
	} else {
		w.failed = b.countedPartitions(w, t)
	}
	if w.failed == nil {
		if text := checkTopicConfigs(w.configs); text != "" {
			w.failed = fail(kerr.InvalidConfig, "%s", text)
		}
	}
	return w
}

func (b *Broker) assignedPartitions(w *newTopic, t kmsg.CreateTopicsRequestTopic) *failure {
	if t.ReplicationFactor != -1 {
		return fail(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return fail(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	seen := map[int32]bool{}
	for _, a := range t.ReplicaAssignment {
		if seen[a.Partition] {
			return fail(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		seen[a.Partition] = true
		if f := b.checkAssignment(a.Replicas); f != nil {
			return f
		}
		w.place(a.Partition, a.Replicas, b.nodeIDs())
	}
	for i := range int32(len(t.ReplicaAssignment)) {
		if !seen[i] {
			return fail(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	w.partitions, w.replication = len(t.ReplicaAssignment), len(t.ReplicaAssignment[0].Replicas)
	return nil
}

// place puts a partition on the brokers that somebody wants for it. On a
// single broker there is nothing to remember.
func (w *newTopic) place(n int32, replicas, nodes []int32) {
	if len(nodes) == 1 {
		return
	}
	if w.places == nil {
		w.places = map[int32]place{}
	}
	w.places[n] = place{Replicas: replicas, Leader: replicas[0]}
}

// checkAssignment checks the replicas that somebody wants a partition to have.
func (b *Broker) checkAssignment(replicas []int32) *failure {
	if len(replicas) == 0 {
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	for i, r := range replicas {
		if !slices.Contains(b.nodeIDs(), r) {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", r)
		}
		if slices.Contains(replicas[:i], r) {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", r)
		}
	}
	return nil
}

func (b *Broker) countedPartitions(w *newTopic, t kmsg.CreateTopicsRequestTopic) *failure {
	n := int(t.NumPartitions)
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return fail(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case n < -1 || n == 0:
		return fail(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	case int(t.ReplicationFactor) > len(b.nodes):
		return fail(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %[1]d cannot be reached because only %d broker(s) are registered.", t.ReplicationFactor, len(b.nodes))
	case n == -1:
		n = int(b.settings.int("num.partitions"))
	}
	w.partitions, w.replication = n, max(1, int(t.ReplicationFactor))
	return nil
}

func (b *Broker) createdTopics(wanted []*newTopic) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	view := b.viewOf(b.catalog())
	for _, w := range wanted {
		r := kmsg.NewCreateTopicsResponseTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor = w.name, -1, -1
		r.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		if w.failed != nil {
			r.ErrorCode, r.ErrorMessage = w.failed.code, &w.failed.text
			resp.Topics = append(resp.Topics, r)
			continue
		}
		r.TopicID, r.NumPartitions, r.ReplicationFactor = w.id, int32(w.partitions), int16(max(1, w.replication))
		for _, d := range topicConfigs() {
			value, source, _ := view.describeTopicConfig(d, w.configs)
			c := kmsg.NewCreateTopicsResponseTopicConfig()
			c.Name, c.Value, c.Source = d.name, &value, int8(source)
			r.Configs = append(r.Configs, c)
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

// handleCreatePartitions adds partitions to topics.
func (b *Broker) handleCreatePartitions(rq *request) {
	msg := rq.msg.(*kmsg.CreatePartitionsRequest)
	b.meta.do(func() {
		resp := kmsg.NewPtrCreatePartitionsResponse()
		names := map[string]int{}
		for _, t := range msg.Topics {
			names[t.Topic]++
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			i := slices.IndexFunc(msg.Topics, func(t kmsg.CreatePartitionsRequestTopic) bool { return t.Topic == name })
			f := fail(kerr.InvalidRequest, "Duplicate topic name.")
			if names[name] == 1 {
				f = b.growTopic(msg.Topics[i], msg.ValidateOnly)
			}
			r := kmsg.NewCreatePartitionsResponseTopic()
			r.Topic = name
			if f != nil {
				r.ErrorCode, r.ErrorMessage = f.code, &f.text
			}
			resp.Topics = append(resp.Topics, r)
		}
		rq.reply(resp)
	})
}

// growTopic runs on the metadata goroutine.
func (b *Broker) growTopic(want kmsg.CreatePartitionsRequestTopic, dry bool) *failure {
	t := b.catalog().topic(want.Topic)
	if t == nil {
		return fail(kerr.UnknownTopicOrPartition, "%s", "This server does not host this topic-partition.")
	}
	have, count := len(t.partitions), int(want.Count)
	switch {
	case t.internal:
		return fail(kerr.InvalidRequest, "The number of partitions of internal topic %s is fixed: groups are found by it.", t.name)
	case count == have:
		return fail(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case count < have:
		return fail(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.name, have, count)
	case count-have > maxPartitions || count > maxTopicPartitions:
		return fail(kerr.PolicyViolation, "Excessively large number of partitions per request.")
	case want.Assignment != nil && len(want.Assignment) != count-have:
		return fail(kerr.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", count-have, len(want.Assignment))
	}
	grown := &newTopic{places: maps.Clone(t.places)}
	for i, a := range want.Assignment {
		if f := b.checkAssignment(a.Replicas); f != nil {
			return f
		}
		grown.place(int32(have+i), a.Replicas, b.nodeIDs())
	}
	if dry {
		return nil
	}
	if err := b.meta.growTopic(t, count, grown.places); err != nil {
		b.log.Error("add partitions", "topic", t.name, "cause", err)
		return storageFailure(fmt.Errorf("add partitions to topic %s: %w", t.name, err))
	}
	return nil
}
