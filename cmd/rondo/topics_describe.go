package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicView is one topic. Its JSON is an object of topics -o json.
type topicView struct {
	Topic             string                `json:"topic"`
	ID                string                `json:"topic_id,omitempty"`
	Internal          bool                  `json:"internal"`
	PartitionCount    int                   `json:"partition_count"`
	ReplicationFactor int                   `json:"replication_factor,omitempty"`
	Configs           map[string]configView `json:"configs,omitempty"`
	Partitions        []partitionView       `json:"partitions,omitempty"`
}

// configView is a config that is not at its default.
type configView struct {
	Value  *string `json:"value"`  // null: it is secret
	Source string  `json:"source"` // DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG ...
}

// partitionView is one partition. Elr and LastKnownElr are null where the
// cluster does not tell them.
type partitionView struct {
	Partition    int32   `json:"partition"`
	Leader       int32   `json:"leader"` // -1: none
	LeaderEpoch  int32   `json:"leader_epoch"`
	Replicas     []int32 `json:"replicas"`
	ISR          []int32 `json:"isr"`
	Elr          []int32 `json:"elr"`
	LastKnownElr []int32 `json:"last_known_elr"`
	Offline      []int32 `json:"offline_replicas,omitempty"`
}

// idText is the id of a topic as Kafka writes it.
func idText(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// describe prints topics with their partitions.
func (r *topicsRun) describe(ctx context.Context) error {
	topics, err := r.matched(ctx)
	if err != nil {
		return err
	}
	views := make([]topicView, len(topics))
	at := map[string]*topicView{}
	for i, d := range topics {
		if d.Err != nil {
			return fmt.Errorf("describe topic %s: %w", d.Topic, d.Err)
		}
		v := topicView{Topic: d.Topic, ID: idText(d.ID), Internal: d.IsInternal, PartitionCount: len(d.Partitions)}
		for _, p := range d.Partitions.Sorted() {
			v.ReplicationFactor = len(p.Replicas)
			v.Partitions = append(v.Partitions, partitionView{
				Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas,
			})
		}
		views[i] = v
		at[d.Topic] = &views[i]
	}
	if len(views) > 0 {
		if err := r.addConfigs(ctx, at); err != nil {
			return err
		}
		if err := r.addEligible(ctx, at); err != nil {
			return err
		}
	}
	views = r.filter(views)
	if r.Output == "json" {
		return printJSON(r.t.out, topicsSchema, "topics.describe", "topics", views)
	}
	return r.show(views)
}

// addConfigs adds the configs that are not at their defaults.
func (r *topicsRun) addConfigs(ctx context.Context, at map[string]*topicView) error {
	resources, err := r.admin.DescribeTopicConfigs(ctx, sortedNames(at)...)
	if err != nil {
		return fmt.Errorf("describe configs: %w", err)
	}
	for _, resource := range resources {
		if err := answer("describe configs of", resource.Name, resource.Err, resource.ErrMessage); err != nil {
			return err
		}
		v := at[resource.Name]
		v.Configs = map[string]configView{}
		for _, c := range resource.Configs {
			if c.Source != kmsg.ConfigSourceDefaultConfig {
				v.Configs[c.Key] = configView{c.Value, c.Source.String()}
			}
		}
	}
	return nil
}

// addEligible adds the eligible leader replicas (KIP-966), which only
// DescribeTopicPartitions tells, page by page.
func (r *topicsRun) addEligible(ctx context.Context, at map[string]*topicView) error {
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "rondo", "1"
	served, err := versions.RequestWith(ctx, r.client)
	if err != nil {
		return fmt.Errorf("ask for the APIs of the cluster: %w", err)
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	if !slices.ContainsFunc(served.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == req.Key() }) {
		return nil
	}
	req.ResponsePartitionLimit = r.PageSize
	for _, name := range sortedNames(at) {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	for {
		resp, err := req.RequestWith(ctx, r.client)
		if err != nil {
			return fmt.Errorf("describe partitions: %w", err)
		}
		for _, t := range resp.Topics {
			if t.Topic == nil || at[*t.Topic] == nil {
				continue
			}
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("describe partitions of topic %s: %w", *t.Topic, err)
			}
			at[*t.Topic].addEligible(t.Partitions)
		}
		if resp.NextCursor == nil {
			return nil
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
	}
}

func (v *topicView) addEligible(partitions []kmsg.DescribeTopicPartitionsResponseTopicPartition) {
	for _, p := range partitions {
		for i := range v.Partitions {
			if v.Partitions[i].Partition == p.Partition {
				v.Partitions[i].Elr = append([]int32{}, p.EligibleLeaderReplicas...)
				v.Partitions[i].LastKnownElr = append([]int32{}, p.LastKnownELR...)
			}
		}
	}
}

// filter leaves out the topics and partitions that were not asked for.
func (r *topicsRun) filter(views []topicView) []topicView {
	kept := []topicView{}
	for _, v := range views {
		v.Partitions = slices.DeleteFunc(v.Partitions, func(p partitionView) bool { return !r.keeps(v, p) })
		own := false
		for _, c := range v.Configs {
			own = own || c.Source == kmsg.ConfigSourceDynamicTopicConfig.String()
		}
		if r.TopicsWithOverrides && !own || r.filtered() && len(v.Partitions) == 0 {
			continue
		}
		kept = append(kept, v)
	}
	return kept
}

// keeps says whether the filters keep a partition.
func (r *topicsRun) keeps(v topicView, p partitionView) bool {
	minISR := 1
	if c, ok := v.Configs["min.insync.replicas"]; ok && c.Value != nil {
		if n, err := strconv.Atoi(*c.Value); err == nil {
			minISR = n
		}
	}
	switch {
	case r.UnavailablePartitions:
		return p.Leader < 0
	case r.UnderReplicatedPartitions:
		return len(p.ISR) < len(p.Replicas)
	case r.UnderMinIsrPartitions:
		return len(p.ISR) < minISR
	case r.AtMinIsrPartitions:
		return len(p.ISR) == minISR
	}
	return true
}

// filtered says whether partitions were asked for, not topics.
func (r *topicsRun) filtered() bool {
	return r.UnavailablePartitions || r.UnderReplicatedPartitions || r.UnderMinIsrPartitions || r.AtMinIsrPartitions
}

// show prints topics in the lines of kafka-topics.
func (r *topicsRun) show(views []topicView) error {
	var out strings.Builder
	for _, v := range views {
		if !r.filtered() {
			fmt.Fprintf(&out, "Topic: %s\tTopicId: %s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n",
				v.Topic, v.ID, v.PartitionCount, v.ReplicationFactor, configText(v.Configs))
		}
		if r.TopicsWithOverrides {
			continue
		}
		for _, p := range v.Partitions {
			leader := "none"
			if p.Leader >= 0 {
				leader = strconv.Itoa(int(p.Leader))
			}
			elr, lastKnown := "N/A", "N/A"
			if p.Elr != nil {
				elr, lastKnown = brokerList(p.Elr), brokerList(p.LastKnownElr)
			}
			fmt.Fprintf(&out, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s\tElr: %s\tLastKnownElr: %s\n",
				v.Topic, p.Partition, leader, brokerList(p.Replicas), brokerList(p.ISR), elr, lastKnown)
		}
	}
	if _, err := io.WriteString(r.t.out, out.String()); err != nil {
		return fmt.Errorf("write topics: %w", err)
	}
	return nil
}

func configText(configs map[string]configView) string {
	var pairs []string
	for _, name := range sortedNames(configs) {
		value := "null"
		if v := configs[name].Value; v != nil {
			value = *v
		}
		pairs = append(pairs, name+"="+value)
	}
	return strings.Join(pairs, ",")
}

func brokerList(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}
