package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicsSchema is the version of what topics -o json prints; docs/groups.md
// describes it.
const topicsSchema = 1

// topicsCmd looks at topics and changes them. Its flags are those of
// kafka-topics, and for configs those of kafka-configs.
type topicsCmd struct {
	clientFlags
	List     bool `help:"List the topics." group:"action"`
	Create   bool `help:"Create topics." group:"action"`
	Describe bool `help:"Show topics, their configs and partitions." group:"action"`
	Alter    bool `help:"Add partitions to topics, set or delete configs of theirs." group:"action"`
	Delete   bool `help:"Delete topics." group:"action"`

	Topic             []string `placeholder:"TOPIC" sep:"none" help:"Topic to act on, or, but for --create, a regular expression; may be repeated."`
	TopicID           []string `name:"topic-id" placeholder:"ID" help:"With --describe: topic by its id."`
	Partitions        *int32   `placeholder:"N" help:"Number of partitions, by default the cluster's."`
	ReplicationFactor *int16   `placeholder:"N" help:"Replicas of each partition, by default the cluster's."`
	ReplicaAssignment string   `placeholder:"ID:ID,ID:ID" help:"Brokers of each partition, separated by commas; with --alter all partitions, old and new."`
	Config            []string `placeholder:"NAME=VALUE" sep:"none" help:"Config of the topic under Kafka's name; may be repeated."`
	DeleteConfig      []string `placeholder:"NAME" help:"With --alter: config to go back to its default."`
	IfExists          bool     `help:"With --alter, --delete, --describe: a topic that is not there is fine."`
	IfNotExists       bool     `help:"With --create: a topic that is there is fine."`
	PageSize          int32    `name:"partition-size-limit-per-response" placeholder:"N" default:"2000" help:"With --describe: most partitions of one answer."`
	ExcludeInternal   bool     `help:"With --list, --describe: leave out internal topics."`

	TopicsWithOverrides       bool   `help:"With --describe: only topics that have configs of their own."`
	UnavailablePartitions     bool   `help:"With --describe: only partitions without a leader."`
	UnderReplicatedPartitions bool   `help:"With --describe: only partitions that miss replicas."`
	UnderMinIsrPartitions     bool   `help:"With --describe: only partitions with fewer replicas than min.insync.replicas."`
	AtMinIsrPartitions        bool   `help:"With --describe: only partitions with as many replicas as min.insync.replicas."`
	Output                    string `short:"o" default:"table" enum:"table,json" help:"Form of the output (${enum})."`
}

// Validate refuses flags that contradict each other or miss their object.
func (c *topicsCmd) Validate() error {
	actions := chosen(map[string]bool{"list": c.List, "create": c.Create, "describe": c.Describe, "alter": c.Alter, "delete": c.Delete})
	if len(actions) != 1 {
		return fmt.Errorf("want one of --list, --create, --describe, --alter, --delete%s", butGot(actions))
	}
	if (c.Create || c.Alter || c.Delete) && len(c.Topic) == 0 {
		return fmt.Errorf("%s wants --topic TOPIC", actions[0])
	}
	for _, rule := range []struct {
		flag    string
		given   bool
		allowed bool
		with    string
	}{
		{"--partitions", c.Partitions != nil, c.Create || c.Alter, "--create or --alter"},
		{"--replica-assignment", c.ReplicaAssignment != "", c.Create || c.Alter, "--create or --alter"},
		{"--config", len(c.Config) > 0, c.Create || c.Alter, "--create or --alter"},
		{"--replication-factor", c.ReplicationFactor != nil, c.Create, "--create"},
		{"--delete-config", len(c.DeleteConfig) > 0, c.Alter, "--alter"},
		{"--if-not-exists", c.IfNotExists, c.Create, "--create"},
		{"--if-exists", c.IfExists, c.Alter || c.Delete || c.Describe, "--alter, --delete or --describe"},
		{"--exclude-internal", c.ExcludeInternal, c.List || c.Describe, "--list or --describe"},
		{"--topic-id", len(c.TopicID) > 0, c.Describe, "--describe"},
	} {
		if rule.given && !rule.allowed {
			return fmt.Errorf("%s belongs to %s", rule.flag, rule.with)
		}
	}
	filters := chosen(map[string]bool{
		"topics-with-overrides": c.TopicsWithOverrides, "unavailable-partitions": c.UnavailablePartitions, "at-min-isr-partitions": c.AtMinIsrPartitions,
		"under-replicated-partitions": c.UnderReplicatedPartitions, "under-min-isr-partitions": c.UnderMinIsrPartitions,
	})
	switch {
	case len(filters) > 0 && !c.Describe:
		return fmt.Errorf("%s belongs to --describe", filters[0])
	case len(filters) > 1:
		return fmt.Errorf("%s exclude each other", strings.Join(filters, " and "))
	case c.Partitions != nil && *c.Partitions < 1, c.ReplicationFactor != nil && *c.ReplicationFactor < 1:
		return errors.New("--partitions and --replication-factor want numbers from 1")
	case c.PageSize < 1:
		return errors.New("--partition-size-limit-per-response wants a number from 1")
	case c.ReplicaAssignment != "" && c.Create && (c.Partitions != nil || c.ReplicationFactor != nil):
		return errors.New("--replica-assignment already says how many partitions and replicas there are")
	case c.Alter && c.Partitions == nil && len(c.Config) == 0 && len(c.DeleteConfig) == 0:
		return errors.New("--alter wants --partitions, --config or --delete-config")
	}
	return nil
}

// Run does the one action.
func (c *topicsCmd) Run(ctx context.Context, t *terminal) error {
	configs := map[string]string{}
	for _, pair := range c.Config {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fail(exitUsage, fmt.Errorf("--config %s: no name=value", pair), "--config retention.ms=3600000")
		}
		configs[name] = value
	}
	assignment, err := parseAssignment(c.ReplicaAssignment)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--replica-assignment %s: %w", c.ReplicaAssignment, err), "--replica-assignment 1:2,2:3 is two partitions on brokers 1 and 2, 2 and 3")
	}
	client, err := c.connect(ctx, t)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, max(c.Timeout, 30*time.Second))
	defer cancel()
	r := &topicsRun{topicsCmd: c, t: t, client: client, admin: kadm.NewClient(client), configs: configs, assignment: assignment}
	switch {
	case c.List:
		err = r.list(ctx)
	case c.Create:
		err = r.create(ctx)
	case c.Describe:
		err = r.describe(ctx)
	case c.Alter:
		err = r.alter(ctx)
	default:
		err = r.delete(ctx)
	}
	return explainCluster(ctx, err)
}

// topicsRun is one run of the command with what it talks to.
type topicsRun struct {
	*topicsCmd
	t          *terminal
	client     *kgo.Client
	admin      *kadm.Client
	configs    map[string]string
	assignment [][]int32
}

// parseAssignment reads --replica-assignment: brokers joined by colons,
// partitions by commas.
func parseAssignment(text string) ([][]int32, error) {
	if text == "" {
		return nil, nil
	}
	var partitions [][]int32
	for partition := range strings.SplitSeq(text, ",") {
		var brokers []int32
		for number := range strings.SplitSeq(partition, ":") {
			id, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
			if err != nil || id < 0 {
				return nil, fmt.Errorf("%q is no broker", number)
			}
			if slices.Contains(brokers, int32(id)) {
				return nil, fmt.Errorf("partition %d has broker %d twice", len(partitions), id)
			}
			brokers = append(brokers, int32(id))
		}
		if len(partitions) > 0 && len(brokers) != len(partitions[0]) {
			return nil, fmt.Errorf("partition %d has %d replicas, partition 0 has %d", len(partitions), len(brokers), len(partitions[0]))
		}
		partitions = append(partitions, brokers)
	}
	return partitions, nil
}

// answer is the error of a topic in a response, with the text that the cluster
// gave. A text says more than the words of the code.
func answer(action, topic string, err error, text string) error {
	if err == nil {
		return nil
	}
	if text != "" {
		return fmt.Errorf("%s topic %s: %w", action, topic, &worded{err, text})
	}
	return fmt.Errorf("%s topic %s: %w", action, topic, err)
}

// worded is an error of the protocol in the cluster's own words.
type worded struct {
	code error
	text string
}

func (w *worded) Error() string {
	if e, ok := errors.AsType[*kerr.Error](w.code); ok {
		return e.Message + ": " + w.text
	}
	return w.text
}

func (w *worded) Unwrap() error { return w.code }

// all are the topics of the cluster.
func (r *topicsRun) all(ctx context.Context) (kadm.TopicDetails, error) {
	details, err := r.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if r.ExcludeInternal {
		details.FilterInternal()
	}
	return details, nil
}

// matched are the topics that --topic and --topic-id mean, in order; all when
// neither was given. The name of a topic that is there means that topic alone,
// though it is a regular expression too.
func (r *topicsRun) matched(ctx context.Context) ([]kadm.TopicDetail, error) {
	details, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	if len(r.Topic) == 0 && len(r.TopicID) == 0 {
		return details.Sorted(), nil
	}
	wanted := map[string]bool{}
	for _, text := range r.Topic {
		found := details.Has(text)
		if found {
			wanted[text] = true
			continue
		}
		pattern, err := regexp.Compile("^(?:" + strings.ReplaceAll(text, ",", "|") + ")$")
		if err != nil {
			return nil, fail(exitUsage, fmt.Errorf("--topic %s: %w", text, err), "--topic takes a name or a regular expression")
		}
		for name := range details {
			if pattern.MatchString(name) {
				wanted[name], found = true, true
			}
		}
		if !found && !r.IfExists && !r.List {
			return nil, fmt.Errorf("topic %s: %w", text, kerr.UnknownTopicOrPartition)
		}
	}
	for _, id := range r.TopicID {
		found := false
		for name, d := range details {
			if idText(d.ID) == id {
				wanted[name], found = true, true
			}
		}
		if !found && !r.IfExists {
			return nil, fmt.Errorf("topic id %s: %w", id, kerr.UnknownTopicID)
		}
	}
	return slices.DeleteFunc(details.Sorted(), func(d kadm.TopicDetail) bool { return !wanted[d.Topic] }), nil
}

// list prints the topics by name.
func (r *topicsRun) list(ctx context.Context) error {
	topics, err := r.matched(ctx)
	if err != nil {
		return err
	}
	if r.Output == "json" {
		views := []topicView{}
		for _, d := range topics {
			views = append(views, topicView{Topic: d.Topic, ID: idText(d.ID), Internal: d.IsInternal, PartitionCount: len(d.Partitions)})
		}
		return printJSON(r.t.out, topicsSchema, "topics.list", "topics", views)
	}
	for _, d := range topics {
		if _, err := fmt.Fprintln(r.t.out, d.Topic); err != nil {
			return fmt.Errorf("write topics: %w", err)
		}
	}
	return nil
}

// changed says in the form that was asked for what was done to topics, and
// returns what failed.
func (r *topicsRun) changed(kind, word string, topics []string, failed []error) error {
	if r.Output == "json" {
		if topics == nil {
			topics = []string{}
		}
		failed = append(failed, printJSON(r.t.out, topicsSchema, kind, "topics", topics))
		return errors.Join(failed...)
	}
	for _, topic := range topics {
		fmt.Fprintf(r.t.out, "%s topic %s.\n", word, topic)
	}
	return errors.Join(failed...)
}

// create makes topics.
func (r *topicsRun) create(ctx context.Context) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	for _, name := range r.Topic {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		if r.Partitions != nil {
			topic.NumPartitions = *r.Partitions
		}
		if r.ReplicationFactor != nil {
			topic.ReplicationFactor = *r.ReplicationFactor
		}
		for p, brokers := range r.assignment {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(p), brokers
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
		}
		for _, config := range sortedNames(r.configs) {
			value := r.configs[config]
			topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: config, Value: &value})
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var made []string
	var failed []error
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case err == nil:
			made = append(made, t.Topic)
		case r.IfNotExists && errors.Is(err, kerr.TopicAlreadyExists):
		default:
			text := ""
			if t.ErrorMessage != nil {
				text = *t.ErrorMessage
			}
			failed = append(failed, answer("create", t.Topic, err, text))
		}
	}
	return r.changed("topics.create", "Created", made, failed)
}

// delete removes topics.
func (r *topicsRun) delete(ctx context.Context) error {
	topics, err := r.matched(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	names := make([]string, len(topics))
	for i, d := range topics {
		names[i] = d.Topic
	}
	responses, err := r.admin.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	var gone []string
	var failed []error
	for _, name := range names {
		if resp := responses[name]; resp.Err != nil {
			failed = append(failed, answer("delete", name, resp.Err, resp.ErrMessage))
			continue
		}
		gone = append(gone, name)
	}
	return r.changed("topics.delete", "Deleted", gone, failed)
}
