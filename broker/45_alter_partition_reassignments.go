package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleAlterPartitionReassignments gives partitions other replicas. All
// brokers of the process have the same store: a reassignment is done when it is
// written, and there is never one to list or to cancel.
func (b *Broker) handleAlterPartitionReassignments(rq *request) {
	msg := rq.msg.(*kmsg.AlterPartitionAssignmentsRequest)
	b.meta.do(func() {
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.AllowReplicationFactorChange = rq.version == 0 || msg.AllowReplicationFactorChange
		if len(msg.Topics) == 0 {
			resp.ErrorMessage = kmsg.StringPtr("")
		}
		for _, asked := range msg.Topics {
			t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			t.Topic = asked.Topic
			for _, a := range asked.Partitions {
				p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				p.Partition = a.Partition
				if f := b.reassign(asked.Topic, a, resp.AllowReplicationFactorChange); f != nil {
					p.ErrorCode = f.code
					if f.text != "" {
						p.ErrorMessage = &f.text
					}
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		rq.reply(resp)
	})
}

// reassign runs on the metadata goroutine. The leader stays when it is among
// the new replicas, else the first of them takes over.
func (b *Broker) reassign(name string, a kmsg.AlterPartitionAssignmentsRequestTopicPartition, mayGrow bool) *failure {
	t := b.catalog().topic(name)
	p := t.partition(a.Partition)
	switch {
	case t == nil:
		return fail(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", name)
	case p == nil:
		return fail(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", name, a.Partition)
	case a.Replicas == nil:
		return &failure{code: kerr.NoReassignmentInProgress.Code}
	}
	if f := b.checkAssignment(a.Replicas); f != nil {
		return f
	}
	if !mayGrow && len(a.Replicas) != len(p.replicas) {
		return fail(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", len(p.replicas), len(a.Replicas))
	}
	if slices.Equal(a.Replicas, p.replicas) {
		return nil
	}
	leader := p.leader
	if !slices.Contains(a.Replicas, leader) {
		leader = a.Replicas[0]
	}
	if err := b.meta.movePartition(t, a.Partition, a.Replicas, leader); err != nil {
		b.log.Error("reassign a partition", "topic", name, "partition", a.Partition, "cause", err)
		return storageFailure(err)
	}
	return nil
}

// handleListPartitionReassignments: see handleAlterPartitionReassignments.
func (b *Broker) handleListPartitionReassignments(rq *request) {
	rq.reply(kmsg.NewPtrListPartitionReassignmentsResponse())
}
