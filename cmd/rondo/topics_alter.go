package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alter adds partitions and changes configs. A topic that refuses does not
// keep the others from being changed.
func (r *topicsRun) alter(ctx context.Context) error {
	topics, err := r.matched(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	failed := map[string]error{}
	if r.Partitions != nil {
		if err := r.grow(ctx, topics, failed); err != nil {
			return err
		}
	}
	if len(r.configs)+len(r.DeleteConfig) > 0 {
		if err := r.configure(ctx, topics, failed); err != nil {
			return err
		}
	}
	var done []string
	var errs []error
	for _, d := range topics {
		if err := failed[d.Topic]; err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, d.Topic)
	}
	return r.changed("topics.alter", "Altered", done, errs)
}

// grow sets the number of partitions.
func (r *topicsRun) grow(ctx context.Context, topics []kadm.TopicDetail, failed map[string]error) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 30_000
	for _, d := range topics {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = d.Topic, *r.Partitions
		for p := len(d.Partitions); p < len(r.assignment); p++ { // of new partitions alone
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = r.assignment[p]
			topic.Assignment = append(topic.Assignment, a)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return fmt.Errorf("add partitions: %w", err)
	}
	for _, t := range resp.Topics {
		text := ""
		if t.ErrorMessage != nil {
			text = *t.ErrorMessage
		}
		if err := answer("alter", t.Topic, kerr.ErrorForCode(t.ErrorCode), text); err != nil {
			failed[t.Topic] = err
		}
	}
	return nil
}

// configure sets and deletes configs, one by one: the others stay.
func (r *topicsRun) configure(ctx context.Context, topics []kadm.TopicDetail, failed map[string]error) error {
	var changes []kadm.AlterConfig
	for _, name := range sortedNames(r.configs) {
		value := r.configs[name]
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range r.DeleteConfig {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	var names []string
	for _, d := range topics {
		if failed[d.Topic] == nil {
			names = append(names, d.Topic)
		}
	}
	if len(names) == 0 {
		return nil
	}
	responses, err := r.admin.AlterTopicConfigs(ctx, changes, names...)
	if err != nil {
		return fmt.Errorf("alter configs: %w", err)
	}
	for _, resp := range responses {
		if err := answer("alter", resp.Name, resp.Err, resp.ErrMessage); err != nil {
			failed[resp.Name] = err
		}
	}
	return nil
}
