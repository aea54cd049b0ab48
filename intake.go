package rondo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/internal/member"
)

// intake fetches the partitions of one thread. Partitions are added and
// removed by commands that are carried out between two polls, by the goroutine
// that polls, and every add has a number. Records carry the number of the add
// that they belong to: what was fetched before a partition went away and came
// back cannot be taken for what comes after.
type intake struct {
	client *kgo.Client
	max    int
	out    chan batch
	done   chan struct{}

	numbers map[member.TopicPartition]uint64 // of the polling goroutine

	mu       sync.Mutex
	commands []func()
	wake     context.CancelFunc // ends the poll that is under way; nil when there is none
	last     uint64
}

// batch is what was fetched of one partition.
type batch struct {
	at      member.TopicPartition
	number  uint64
	records []*kgo.Record
	err     error
}

func newIntake(client *kgo.Client, max int) *intake {
	return &intake{client: client, max: max, out: make(chan batch), done: make(chan struct{}), numbers: map[member.TopicPartition]uint64{}}
}

// poll fetches until ctx ends, and delivers on out.
func (in *intake) poll(ctx context.Context) {
	defer close(in.done)
	for ctx.Err() == nil {
		for _, b := range in.once(ctx, 0) {
			select {
			case in.out <- b:
			case <-ctx.Done():
				return
			}
		}
	}
}

// once carries out commands and polls once, for at most timeout when it is not
// 0.
func (in *intake) once(ctx context.Context, timeout time.Duration) []batch {
	var poll context.Context
	var cancel context.CancelFunc
	if timeout > 0 {
		poll, cancel = context.WithTimeout(ctx, timeout)
	} else {
		poll, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	in.mu.Lock()
	commands := in.commands
	in.commands = nil
	in.wake = cancel
	in.mu.Unlock()
	for _, f := range commands {
		f()
	}
	fetches := in.client.PollRecords(poll, in.max)
	in.mu.Lock()
	in.wake = nil
	in.mu.Unlock()
	return in.batches(fetches)
}

func (in *intake) batches(fetches kgo.Fetches) []batch {
	var out []batch
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		at := member.TopicPartition{Topic: p.Topic, Partition: p.Partition}
		number, ours := in.numbers[at]
		if !ours {
			return // the end of a poll that was woken, or a partition that went away
		}
		if p.Err != nil && !errors.Is(p.Err, context.Canceled) && !errors.Is(p.Err, context.DeadlineExceeded) {
			out = append(out, batch{at: at, number: number, err: p.Err})
		}
		if len(p.Records) > 0 {
			out = append(out, batch{at: at, number: number, records: p.Records})
		}
	})
	return out
}

func (in *intake) command(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.commands = append(in.commands, f)
	if in.wake != nil {
		in.wake()
	}
}

// add begins to fetch a partition and answers the number that its records
// carry.
func (in *intake) add(at member.TopicPartition, offset int64) uint64 {
	in.mu.Lock()
	in.last++
	number := in.last
	in.mu.Unlock()
	in.command(func() {
		in.numbers[at] = number
		in.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {at.Partition: kgo.NewOffset().At(offset)}})
	})
	return number
}

func (in *intake) remove(at member.TopicPartition) {
	in.command(func() {
		delete(in.numbers, at)
		one := map[string][]int32{at.Topic: {at.Partition}}
		in.client.RemoveConsumePartitions(one)
		in.client.ResumeFetchPartitions(one)
	})
}

func (in *intake) pause(at member.TopicPartition) {
	in.command(func() { in.client.PauseFetchPartitions(map[string][]int32{at.Topic: {at.Partition}}) })
}

func (in *intake) resume(at member.TopicPartition) {
	in.command(func() { in.client.ResumeFetchPartitions(map[string][]int32{at.Topic: {at.Partition}}) })
}

// reset says where partitions without a valid offset begin: auto.offset.reset.
func (in *intake) reset(ctx context.Context, policy string, parts []member.TopicPartition) (map[member.TopicPartition]int64, error) {
	if policy == "none" {
		return nil, fmt.Errorf("%v has no valid committed offset, and auto.offset.reset is none", parts)
	}
	topics := make([]string, 0, len(parts))
	for _, p := range parts {
		topics = append(topics, p.Topic)
	}
	admin := kadm.NewClient(in.client)
	list := admin.ListStartOffsets
	if policy == "latest" {
		list = admin.ListEndOffsets
	}
	listed, err := list(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list the %s offsets of %v: %w", policy, parts, err)
	}
	out := map[member.TopicPartition]int64{}
	for _, p := range parts {
		o, ok := listed.Lookup(p.Topic, p.Partition)
		if !ok {
			return nil, fmt.Errorf("list the %s offset of %s: the cluster did not answer for it", policy, p)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("list the %s offset of %s: %w", policy, p, o.Err)
		}
		out[p] = o.Offset
	}
	return out, nil
}

// outOfRange says that a fetch error means that the position is gone: older
// than the log's start, or beyond its end after a truncation.
func outOfRange(err error) bool {
	var loss *kgo.ErrDataLoss
	return errors.Is(err, kerr.OffsetOutOfRange) || errors.As(err, &loss)
}

// fatalFetch says that fetching again would fail again.
func fatalFetch(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kgo.ErrClientClosed)
}
