package main

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// durableCommits is commitCell where a commit is answered when it is on the
// disk: Kafka is told to flush each batch of the topic of the offsets meanwhile.
func durableCommits(b *broker, secs float64, rep int) (_ reading, err error) {
	if rep < 0 {
		return commitCell(b, secs, rep)
	}
	rep += 1000 // apart from the other cell of commits
	if b.topic == nil {
		return commitCell(b, secs, rep)
	}
	if err := b.setOffsetsTopic(kmsg.IncrementalAlterConfigOpSet); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.setOffsetsTopic(kmsg.IncrementalAlterConfigOpDelete)) }()
	return commitCell(b, secs, rep)
}

// setOffsetsTopic sets or deletes what makes appends durable, on the topic that
// groups live in.
func (b *broker) setOffsetsTopic(op kmsg.IncrementalAlterConfigOp) error {
	c, err := dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := waitForGroup(c, "durable"); err != nil {
		return err
	}
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "__consumer_offsets"
	for name, value := range b.topic {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = name, op, value
		r.Configs = append(r.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.SetVersion(0)
	req.Resources = append(req.Resources, r)
	answer, err := c.ask(req)
	if err == nil {
		err = kerr.ErrorForCode(answer.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("configs of __consumer_offsets: %w", err)
	}
	return nil
}
