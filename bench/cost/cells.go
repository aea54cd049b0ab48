package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A reading is what one repetition of a cell gave: name of a column -> value.
type reading map[string]float64

// A cell is one workload.
type cell struct {
	name string
	// columns are the names in the reading, in order; a trailing "+" says that
	// more is better.
	columns []string
	lazy    bool // also with Rondo's --flush never, which is how Kafka is shipped
	run     func(b *broker, secs float64, rep int) (reading, error)
}

func cells() []cell {
	durable := []string{"acks/s +", "p50, ms", "p99, ms", "broker CPU, us an ack"}
	batches := []string{"records/s +", "broker CPU, s a million"}
	latency := []string{"p50, ms", "p99, ms", "broker CPU, us a record"}
	return append([]cell{
		{name: "durable acks, 1 KiB records, 64 producers", columns: durable, run: produceCell(64, 1, 1024, 64, true)},
		{name: "durable acks, 1 KiB records, 512 producers", columns: durable, run: produceCell(512, 1, 1024, 64, true)},
		{name: "acks as shipped, 100 B records, 16 producers", columns: durable, lazy: true, run: produceCell(16, 1, 100, 8, false)},
		{name: "batches of 100 records of 100 B, as shipped", columns: batches, lazy: true, run: batchCell(16, 100, 100, 8)},
		{name: "batches of 1,000 records of 100 B, as shipped", columns: batches, lazy: true, run: batchCell(16, 1000, 100, 8)},
		{name: "batches of 100 records of 1 KiB, as shipped", columns: batches, lazy: true, run: batchCell(16, 100, 1024, 8)},
		{name: "batches of 1,000 records of 1,000 B, as shipped", columns: batches, lazy: true, run: batchCell(16, 1000, 1000, 8)},
		{name: "produce to fetch, 1,000 records/s singly", columns: latency, run: latencyCell(1000, 1)},
		{name: "produce to fetch, 5,000 records/s singly", columns: latency, run: latencyCell(5000, 1)},
		{name: "produce to fetch, 5,000 records/s in tens", columns: latency, run: latencyCell(5000, 10)},
		{name: "fetch what is in memory", columns: []string{"MB/s +", "broker CPU, s a GB"}, run: fetchCell},
		{name: "catch up from a cold disk: 64 partitions written in turn, 16 KB batches", columns: []string{"MB/s +", "broker CPU, s a GB"}, run: coldCell},
		{name: "start with 2,000,000 records in 1,000 partitions", columns: []string{
			"first answer after orderly end, ms", "all served after orderly end, ms", "CPU after orderly end, s",
			"first answer after SIGKILL, ms", "all served after SIGKILL, ms", "CPU after SIGKILL, s",
		}, run: startCell},
		{name: "commits of 10 offsets, 16 groups", columns: []string{"commits/s +", "p50, ms", "p99, ms", "broker CPU, us a commit"}, run: commitCell},
	}, groupCells()...)
}

// drive sends one frame a connection over and over for some seconds and counts
// the answers, each checked by accept.
func drive(b *broker, secs float64, frames [][]byte, accept func([]byte) error) (n int, latencies []time.Duration, cpu float64, err error) {
	conns := make([]*conn, len(frames))
	for i := range conns {
		if conns[i], err = dial(b.addr); err != nil {
			return 0, nil, 0, err
		}
		defer conns[i].Close()
	}
	before, err := cpuSeconds(b.pid)
	if err != nil {
		return 0, nil, 0, err
	}
	end := time.Now().Add(time.Duration(secs * float64(time.Second)))
	each := make([][]time.Duration, len(conns))
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			for now := time.Now(); now.Before(end) && errs[i] == nil; {
				answer, err := c.roundTrip(frames[i])
				if err == nil {
					err = accept(answer)
				}
				errs[i] = err
				then := time.Now()
				each[i] = append(each[i], then.Sub(now))
				now = then
			}
		})
	}
	wg.Wait()
	after, err := cpuSeconds(b.pid)
	if err := errors.Join(append(errs, err)...); err != nil {
		return 0, nil, 0, err
	}
	latencies = slices.Concat(each...)
	slices.Sort(latencies)
	return len(latencies), latencies, after - before, nil
}

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Seconds() * 1000
}

// produceFrame is a Produce request of one batch onto one partition.
func produceFrame(topic string, partition int32, records, size int) []byte {
	rs := make([]wire.Record, records)
	for i := range rs {
		rs[i] = wire.Record{Offset: int64(i), Timestamp: time.Now().UnixMilli(), Value: bytes.Repeat([]byte{'x'}, size)}
	}
	return frameOf(topic, partition, wire.AppendBatch(nil, wire.BatchOptions{}, rs...))
}

// frameOf is a Produce request of one batch that is there already.
func frameOf(topic string, partition int32, batch []byte) []byte {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(7)
	req.Acks, req.TimeoutMillis = -1, 30_000
	req.Topics = append(req.Topics, t)
	return encode(req)
}

// produced checks the answer of one partition: its error code stands after the
// topic's name.
func produced(answer []byte) error {
	if len(answer) < 6 {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	at := 4 + 2 + int(binary.BigEndian.Uint16(answer[4:])) + 4 + 4
	if len(answer) < at+2 {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[at:])))
}

// newTopic creates the topic of a repetition.
func newTopic(b *broker, name string, partitions int32, durable bool) error {
	c, err := dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	configs := map[string]*string{}
	if durable {
		configs = b.topic
	}
	return c.createTopic(name, partitions, configs)
}

func produceFrames(topic string, conns, records, size int, partitions int32) [][]byte {
	frames := make([][]byte, conns)
	for i := range frames {
		frames[i] = produceFrame(topic, int32(i)%partitions, records, size)
	}
	return frames
}

func produceCell(conns, records, size int, partitions int32, durable bool) func(*broker, float64, int) (reading, error) {
	return func(b *broker, secs float64, rep int) (reading, error) {
		topic := fmt.Sprintf("acks-%d-%d-%d", conns, size, rep)
		if err := newTopic(b, topic, partitions, durable); err != nil {
			return nil, err
		}
		n, lat, cpu, err := drive(b, secs, produceFrames(topic, conns, records, size, partitions), produced)
		if err != nil {
			return nil, err
		}
		return reading{"acks/s +": float64(n) / secs, "p50, ms": quantile(lat, 0.5), "p99, ms": quantile(lat, 0.99),
			"broker CPU, us an ack": cpu / float64(n) * 1e6}, nil
	}
}

func batchCell(conns, records, size int, partitions int32) func(*broker, float64, int) (reading, error) {
	return func(b *broker, secs float64, rep int) (reading, error) {
		topic := fmt.Sprintf("batches-%d-%d-%d", records, size, rep)
		if err := newTopic(b, topic, partitions, false); err != nil {
			return nil, err
		}
		n, _, cpu, err := drive(b, secs, produceFrames(topic, conns, records, size, partitions), produced)
		if err != nil {
			return nil, err
		}
		all := float64(n * records)
		return reading{"records/s +": all / secs, "broker CPU, s a million": cpu / all * 1e6}, nil
	}
}

// fetchCell fills a topic of 8 partitions with 10 MB each and reads its
// beginning over and over.
func fetchCell(b *broker, secs float64, rep int) (reading, error) {
	const partitions = 8
	topic := fmt.Sprintf("fetch-%d", rep)
	if err := newTopic(b, topic, partitions, false); err != nil {
		return nil, err
	}
	c, err := dial(b.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	frames := make([][]byte, partitions)
	for i := range frames {
		fill := produceFrame(topic, int32(i), 100, 1024)
		for range 100 {
			answer, err := c.roundTrip(fill)
			if err == nil {
				err = produced(answer)
			}
			if err != nil {
				return nil, err
			}
		}
		frames[i] = fetchFrame(topic, int32(i))
	}
	var mu sync.Mutex
	bytes := 0
	_, _, cpu, err := drive(b, secs, frames, func(answer []byte) error {
		if len(answer) < 500_000 {
			return fmt.Errorf("a fetch of 1 MB was answered with %d bytes", len(answer))
		}
		mu.Lock()
		defer mu.Unlock()
		bytes += len(answer)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reading{"MB/s +": float64(bytes) / secs / 1e6, "broker CPU, s a GB": cpu / float64(bytes) * 1e9}, nil
}

func fetchFrame(topic string, partition int32) []byte {
	return encode(fetchRequest(topic, partition, 0))
}

func fetchRequest(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(11)
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 500, 1, 50<<20, -1
	req.Topics = append(req.Topics, t)
	return req
}

// commitCell commits ten offsets at a time to sixteen groups without members.
func commitCell(b *broker, secs float64, rep int) (reading, error) {
	const partitions = 10
	topic := fmt.Sprintf("commits-%d", rep)
	if err := newTopic(b, topic, partitions, false); err != nil {
		return nil, err
	}
	frames := make([][]byte, 16)
	for i := range frames {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topic
		for n := range int32(partitions) {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = n, 42
			t.Partitions = append(t.Partitions, p)
		}
		req := kmsg.NewPtrOffsetCommitRequest()
		req.SetVersion(7)
		req.Group, req.Generation = fmt.Sprintf("committers-%d-%d", rep, i), -1
		req.Topics = append(req.Topics, t)
		if err := waitForCoordinator(b, req); err != nil {
			return nil, err
		}
		frames[i] = encode(req)
	}
	n, lat, cpu, err := drive(b, secs, frames, func(answer []byte) error {
		if len(answer) < 2 {
			return fmt.Errorf("an answer of %d bytes", len(answer))
		}
		return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[len(answer)-2:]))) // of the last partition
	})
	if err != nil {
		return nil, err
	}
	return reading{"commits/s +": float64(n) / secs, "p50, ms": quantile(lat, 0.5), "p99, ms": quantile(lat, 0.99),
		"broker CPU, us a commit": cpu / float64(n) * 1e6}, nil
}

// waitForCoordinator finds the group's coordinator and commits once, until
// that works: a broker may still have to make the topic of the offsets.
func waitForCoordinator(b *broker, commit *kmsg.OffsetCommitRequest) error {
	c, err := dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(1)
		find.CoordinatorKey = commit.Group
		if _, err := c.ask(find); err != nil {
			return err
		}
		resp, err := c.ask(commit)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
