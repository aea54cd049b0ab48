package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// loadCell commits offsets to many groups again and again, restarts the broker,
// and times it from there until the offsets of every group can be read. It does
// so with a second broker in a directory of its own: one that compiles while it
// runs would be cold in the cells that follow. The CPU is that of the whole
// start.
func loadCell(groups, offsets, rounds int) func(*broker, float64, int) (reading, error) {
	return func(b *broker, _ float64, rep int) (reading, error) {
		if rep < 0 {
			return reading{}, nil
		}
		other := *b
		other.dir, other.pid = fmt.Sprintf("%s-load-%d", b.dir, rep), 0
		b = &other
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			return nil, err
		}
		r, err := b.measureLoad(groups, offsets, rounds)
		if b.pid != 0 {
			err = errors.Join(err, b.stop())
		}
		return r, errors.Join(err, os.RemoveAll(b.dir))
	}
}

func (b *broker) measureLoad(groups, offsets, rounds int) (reading, error) {
	if err := b.start(); err != nil {
		return nil, err
	}
	topic := "load"
	if err := newTopic(b, topic, int32(offsets), false); err != nil {
		return nil, err
	}
	name := func(g int) string { return fmt.Sprintf("loaders-%d", g) }
	if err := waitForCoordinator(b, commitOf(name(0), topic, offsets, 0)); err != nil {
		return nil, err
	}
	err := inTurn(b, groups, func(c *conn, g int) error {
		for round := range rounds {
			answer, err := c.ask(commitOf(name(g), topic, offsets, int64(round)))
			if err != nil {
				return err
			}
			for _, p := range answer.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	err = b.stop()
	if b.pid = 0; err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.start(); err != nil {
		return nil, err
	}
	if err := inTurn(b, groups, func(c *conn, g int) error { return awaitOffsets(c, name(g), offsets, int64(rounds-1)) }); err != nil {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	took := time.Since(began).Seconds()
	cpu, err := cpuSeconds(b.pid)
	return reading{"start to the last offset, ms": took * 1e3, "broker CPU, s": cpu,
		"records/s +": float64(groups*offsets*rounds) / took}, err
}

// inTurn does something for each group, over a few connections.
func inTurn(b *broker, groups int, do func(c *conn, g int) error) error {
	const conns = 8
	errs := make([]error, conns)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			c, err := dial(b.addr)
			if err != nil {
				errs[i] = err
				return
			}
			for g := i; g < groups && errs[i] == nil; g += conns {
				errs[i] = do(c, g)
			}
			errs[i] = errors.Join(errs[i], c.Close())
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func commitOf(group, topic string, offsets int, offset int64) *kmsg.OffsetCommitRequest {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for n := range int32(offsets) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = n, offset
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(7)
	req.Group, req.Generation = group, -1
	req.Topics = append(req.Topics, t)
	return req
}

// awaitOffsets asks for all offsets of a group until its coordinator is there,
// and looks whether they are the last ones.
func awaitOffsets(c *conn, group string, offsets int, offset int64) error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(1)
	find.CoordinatorKey = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(5)
	req.Group, req.Topics = group, nil
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		answer, err := c.ask(find)
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.FindCoordinatorResponse).ErrorCode)
		}
		if err == nil {
			answer, err = c.ask(req)
		}
		if err == nil {
			err = kerr.ErrorForCode(answer.(*kmsg.OffsetFetchResponse).ErrorCode)
		}
		if err == nil {
			return checkOffsets(answer.(*kmsg.OffsetFetchResponse), group, offsets, offset)
		}
		var known *kerr.Error
		if !errors.As(err, &known) || time.Now().After(deadline) {
			return err
		}
	}
}

func checkOffsets(resp *kmsg.OffsetFetchResponse, group string, offsets int, offset int64) error {
	n := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.Offset != offset {
				return fmt.Errorf("group %s, partition %d: offset %d, want %d", group, p.Partition, p.Offset, offset)
			}
			n++
		}
	}
	if n != offsets {
		return fmt.Errorf("group %s has %d offsets, want %d", group, n, offsets)
	}
	return nil
}
