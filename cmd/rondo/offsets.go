package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What may be asked for instead of a time in milliseconds.
const (
	firstOffset int64 = -2
	endOffset   int64 = -1
)

// listOffsets asks for one offset of each partition: the first, the end, or
// the first of a time on, which is -1 where no record is that late. Unlike
// kadm's, it takes internal topics and single partitions; a partition that the
// cluster does not have carries its error.
func listOffsets(ctx context.Context, client *kgo.Client, at int64, wanted map[string][]int32) (kadm.ListedOffsets, error) {
	listed := kadm.ListedOffsets{}
	if len(wanted) == 0 {
		return listed, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	for _, topic := range sortedNames(wanted) {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range wanted[topic] {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, at
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		listed[topic] = map[int32]kadm.ListedOffset{}
	}
	for _, shard := range client.RequestSharded(ctx, req) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				for _, p := range t.Partitions {
					listed[t.Topic][p.Partition] = kadm.ListedOffset{Topic: t.Topic, Partition: p.Partition, Offset: -1, Err: shard.Err}
				}
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				listed[t.Topic][p.Partition] = kadm.ListedOffset{
					Topic: t.Topic, Partition: p.Partition, Timestamp: p.Timestamp, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Err: kerr.ErrorForCode(p.ErrorCode),
				}
			}
		}
	}
	return listed, nil
}

// firstError is the first of errs that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
