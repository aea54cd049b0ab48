package main

import (
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

// latencyCell produces at a fixed rate, whether or not the answers keep up, and
// reads the records back: four producers, each with a partition, a connection
// and a reader of its own. The time of a record counts from when it was due, so
// a broker that falls behind cannot hide it.
func latencyCell(rate, batch int) func(*broker, float64, int) (reading, error) {
	return func(b *broker, secs float64, rep int) (reading, error) {
		const lanes = 4
		topic := fmt.Sprintf("latency-%d-%d-%d", rate, batch, rep)
		if err := newTopic(b, topic, lanes, false); err != nil {
			return nil, err
		}
		every := time.Duration(lanes * batch * int(time.Second) / rate)
		batches := int(secs * float64(time.Second) / float64(every))
		before, err := cpuSeconds(b.pid)
		if err != nil {
			return nil, err
		}
		seen := make([][]time.Duration, lanes)
		errs := make([]error, 2*lanes)
		began := time.Now().Add(50 * time.Millisecond)
		var wg sync.WaitGroup
		for i := range lanes {
			wg.Go(func() {
				errs[2*i] = paced(b, topic, int32(i), batch, batches, began.Add(every*time.Duration(i)/lanes), every)
			})
			wg.Go(func() { seen[i], errs[2*i+1] = follow(b, topic, int32(i), batch*batches, began) })
		}
		wg.Wait()
		after, err := cpuSeconds(b.pid)
		if err := errors.Join(append(errs, err)...); err != nil {
			return nil, err
		}
		all := slices.Concat(seen...)
		slices.Sort(all)
		return reading{"p50, ms": quantile(all, 0.5), "p99, ms": quantile(all, 0.99),
			"broker CPU, us a record": (after - before) / float64(len(all)) * 1e6}, nil
	}
}

// paced sends a batch each time that one is due, whether the ones before were
// answered or not, as a producer with several requests in flight does. The first
// eight bytes of each value are when that was.
func paced(b *broker, topic string, partition int32, batch, batches int, first time.Time, every time.Duration) error {
	c, err := dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(first.Add(time.Duration(batches)*every + time.Minute)); err != nil {
		return err
	}
	acked := make(chan error, 1)
	go func() {
		for range batches {
			answer, err := c.receive()
			if err == nil {
				err = produced(answer)
			}
			if err != nil {
				// A broker that takes no more would block the sender.
				acked <- errors.Join(err, c.Close())
				return
			}
		}
		acked <- nil
	}()
	records := make([]wire.Record, batch)
	for n := range batches {
		due := first.Add(time.Duration(n) * every)
		time.Sleep(time.Until(due))
		value := make([]byte, 100)
		binary.BigEndian.PutUint64(value, uint64(due.UnixNano()))
		for i := range records {
			records[i] = wire.Record{Offset: int64(i), Timestamp: due.UnixMilli(), Value: value}
		}
		if _, err := c.Write(frameOf(topic, partition, wire.AppendBatch(nil, wire.BatchOptions{}, records...))); err != nil {
			return errors.Join(err, c.Close(), <-acked)
		}
	}
	return <-acked
}

// follow reads so many records of a partition as they come, and says how old
// each was.
func follow(b *broker, topic string, partition int32, records int, began time.Time) ([]time.Duration, error) {
	c, err := dial(b.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	seen := make([]time.Duration, 0, records)
	for next := int64(0); len(seen) < records; {
		data, err := c.fetch(topic, partition, next)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		err = wire.EachBatch(data, func(h wire.Header, batch []byte) error {
			next = h.LastOffset() + 1
			return wire.EachRecord(batch, func(r wire.Record) error {
				seen = append(seen, now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(r.Value)))))
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		if now.Sub(began) > 2*time.Minute {
			return nil, fmt.Errorf("%s, partition %d: %d of %d records after two minutes", topic, partition, len(seen), records)
		}
	}
	return seen, nil
}

// fetch gives the whole batches of one partition from an offset on.
func (c *conn) fetch(topic string, partition int32, offset int64) ([]byte, error) {
	req := fetchRequest(topic, partition, offset)
	resp, err := c.ask(req)
	if err != nil {
		return nil, err
	}
	p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch %s, partition %d from %d: %w", topic, partition, offset, err)
	}
	return whole(p.RecordBatches), nil
}

// whole cuts a batch off that did not fit.
func whole(b []byte) []byte {
	n := 0
	for len(b)-n >= 12 {
		size := 12 + int(binary.BigEndian.Uint32(b[n+8:]))
		if size > len(b)-n {
			break
		}
		n += size
	}
	return b[:n]
}
