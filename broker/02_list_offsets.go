package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timestamps with a meaning of their own (ListOffsetsRequest.java).
const (
	latestOffset        = -1
	earliestOffset      = -2
	maxTimestampOffset  = -3 // v7
	earliestLocalOffset = -4 // v8
	latestTieredOffset  = -5 // v9
	earliestPending     = -6 // v11
)

// handleListOffsets finds offsets by time, or the ends of a partition.
func (b *Broker) handleListOffsets(rq *request) {
	msg := rq.msg.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	c := b.catalog()
	type key struct {
		topic string
		n     int32
	}
	times := map[key]int{}
	for _, t := range msg.Topics {
		for _, p := range t.Partitions {
			times[key{t.Topic, p.Partition}]++
		}
	}
	for _, asked := range msg.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = asked.Topic
		t := c.topic(asked.Topic)
		for _, p := range asked.Partitions {
			n := times[key{asked.Topic, p.Partition}]
			if n == 0 {
				continue // a duplicate is answered once
			}
			if n > 1 {
				times[key{asked.Topic, p.Partition}] = 0
				rp := noOffset(p.Partition)
				rp.ErrorCode = kerr.InvalidRequest.Code
				rt.Partitions = append(rt.Partitions, rp)
				continue
			}
			rt.Partitions = append(rt.Partitions, b.listOffset(rq, t.partition(p.Partition), p))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	rq.reply(resp)
}

func noOffset(n int32) kmsg.ListOffsetsResponseTopicPartition {
	r := kmsg.NewListOffsetsResponseTopicPartition()
	r.Partition, r.Timestamp, r.Offset, r.LeaderEpoch = n, -1, -1, -1
	return r
}

func (b *Broker) listOffset(rq *request, p *partition, asked kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
	r := noOffset(asked.Partition)
	if r.ErrorCode = rq.checkLeader(p, asked.CurrentLeaderEpoch); r.ErrorCode != 0 {
		return r
	}
	since := map[int64]int16{maxTimestampOffset: 7, earliestLocalOffset: 8, latestTieredOffset: 9, earliestPending: 11}
	if asked.Timestamp < 0 && asked.Timestamp != latestOffset && asked.Timestamp != earliestOffset {
		if first, known := since[asked.Timestamp]; !known || rq.version < first {
			r.ErrorCode = kerr.UnsupportedVersion.Code
			return r
		}
	}
	found, err := false, error(nil)
	switch asked.Timestamp {
	case latestOffset:
		r.Offset, r.LeaderEpoch = p.log.HighWatermark(), p.epoch
	case earliestOffset, earliestLocalOffset:
		r.Offset = p.log.Start()
		r.LeaderEpoch = p.epochAt(r.Offset)
	case latestTieredOffset, earliestPending: // nothing is tiered
	case maxTimestampOffset:
		var offset, ts int64
		if offset, ts, found, err = p.log.MaxTimestamp(); found {
			r.Offset, r.Timestamp, r.LeaderEpoch = offset, ts, p.epochAt(offset)
		}
	default:
		var offset, ts int64
		var epoch int32
		if offset, ts, epoch, found, err = p.log.OffsetForTime(asked.Timestamp); found {
			r.Offset, r.Timestamp, r.LeaderEpoch = offset, ts, epoch
		}
	}
	if err != nil {
		b.log.Error("list offsets", "partition", asked.Partition, "timestamp", asked.Timestamp, "cause", err)
		r = noOffset(asked.Partition)
		r.ErrorCode = errorCode(err)
	}
	return r
}

// handleOffsetForLeaderEpoch answers where a leader epoch ends.
func (b *Broker) handleOffsetForLeaderEpoch(rq *request) {
	msg := rq.msg.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	c := b.catalog()
	for _, asked := range msg.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = asked.Topic
		t := c.topic(asked.Topic)
		for _, p := range asked.Partitions {
			r := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			r.Partition, r.LeaderEpoch, r.EndOffset = p.Partition, -1, -1
			at := t.partition(p.Partition)
			if r.ErrorCode = rq.checkLeader(at, p.CurrentLeaderEpoch); r.ErrorCode == 0 {
				r.LeaderEpoch, r.EndOffset = at.epochEnd(p.LeaderEpoch)
			}
			rt.Partitions = append(rt.Partitions, r)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	rq.reply(resp)
}
