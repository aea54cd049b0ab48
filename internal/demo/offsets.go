package demo

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic is where a Kafka cluster keeps the commits of its groups.
const offsetsTopic = "__consumer_offsets"

// committed asks where a group stands: the sum of its offsets, and each one.
func (c *cluster) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	response, err := c.admin.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	offsets := map[int32]int64{}
	for partition, o := range response[topic] {
		if o.Err != nil {
			return nil, fmt.Errorf("fetch offset of group %s, %s partition %d: %w", group, topic, partition, o.Err)
		}
		offsets[partition] = max(o.At, 0)
	}
	return offsets, nil
}

// commitLog reads back every commit of the groups since the run began, each
// with the time that the broker gave it.
func (c *cluster) commitLog(ctx context.Context, since time.Time, topic string, groups ...string) (map[string][]Commit, error) {
	details, err := c.admin.ListTopics(ctx, offsetsTopic)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", offsetsTopic, err)
	}
	if err := details[offsetsTopic].Err; err != nil {
		return nil, fmt.Errorf("describe %s: %w", offsetsTopic, err)
	}
	count := int32(len(details[offsetsTopic].Partitions))
	wanted := map[string]bool{}
	partitions := map[int32]bool{}
	for _, group := range groups {
		wanted[group] = true
		partitions[offsetsPartition(group, count)] = true
	}
	commits := map[string][]Commit{}
	err = c.readAll(ctx, offsetsTopic, since, partitions, func(r *kgo.Record) error {
		group, commit, ok, err := parseCommit(r.Key, r.Value, topic)
		if ok && wanted[group] {
			commits[group] = append(commits[group], commit)
		}
		return err
	})
	return commits, err
}

// offsetsPartition is where Kafka keeps a group (GroupCoordinatorService's
// partitionFor): the hash of a Java string, Utils.abs, modulo the partitions.
func offsetsPartition(group string, partitions int32) int32 {
	var hash int32
	for _, c := range group {
		hash = 31*hash + c
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % partitions
}

// parseCommit reads an offset commit of a topic from a record of
// __consumer_offsets; ok is false for any other record.
func parseCommit(key, value []byte, topic string) (group string, c Commit, ok bool, err error) {
	if len(key) < 2 || key[0] != 0 || key[1] > 1 || value == nil {
		return "", c, false, nil
	}
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return "", c, false, fmt.Errorf("read key of a commit: %w", err)
	}
	if k.Topic != topic {
		return "", c, false, nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return "", c, false, fmt.Errorf("read commit of group %s: %w", k.Group, err)
	}
	return k.Group, Commit{Partition: k.Partition, Offset: v.Offset, At: time.UnixMilli(v.CommitTimestamp)}, true, nil
}

// readAll calls f for every record that some partitions (nil is all) have now,
// from a time on.
func (c *cluster) readAll(ctx context.Context, topic string, since time.Time, partitions map[int32]bool, f func(*kgo.Record) error) error {
	starts, err := c.admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topic)
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	left := map[int32]int64{} // by partition, where it ends
	from := map[int32]kgo.Offset{}
	for partition, end := range ends[topic] {
		start := starts[topic][partition]
		if partitions != nil && !partitions[partition] || start.Offset >= end.Offset {
			continue
		}
		left[partition] = end.Offset
		from[partition] = kgo.NewOffset().At(start.Offset)
	}
	if len(left) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(append(c.client.Opts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer reader.Close()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for r := range fetches.RecordsAll() {
			if !r.Attrs.IsControl() {
				if err := f(r); err != nil {
					return err
				}
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}
