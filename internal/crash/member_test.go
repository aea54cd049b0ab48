package crash

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A reader is a group's only member: it reads, commits, and remembers what it
// was told about its commits.
type reader struct {
	client *kgo.Client
	group  string

	mu        sync.Mutex
	tried     map[int32]int64
	committed map[int32]int64
	moved     int // how often partitions came or went
}

// session is so long that no restart of the broker may cost the member its
// place: whatever does is a loss of what was acknowledged.
const session = 10 * time.Minute

func newReader(t *testing.T, addr, topic, group string) *reader {
	t.Helper()
	r := &reader{group: group, tried: map[int32]int64{}, committed: map[int32]int64{}}
	change := func(context.Context, *kgo.Client, map[string][]int32) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.moved++
	}
	r.client = client(t, addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(session), kgo.RebalanceTimeout(session),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(250*time.Millisecond),
		kgo.OnPartitionsAssigned(change), kgo.OnPartitionsRevoked(change), kgo.OnPartitionsLost(change))
	return r
}

func (r *reader) run(ctx context.Context, l *ledger) {
	for ctx.Err() == nil {
		fetches := r.client.PollRecords(ctx, 2000)
		offsets := map[string]map[int32]kgo.EpochOffset{}
		next := map[int32]int64{}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				last := p.Records[n-1]
				next[p.Partition] = last.Offset + 1
				if offsets[p.Topic] == nil {
					offsets[p.Topic] = map[int32]kgo.EpochOffset{}
				}
				offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: -1, Offset: last.Offset + 1}
			}
		})
		if len(next) == 0 {
			continue
		}
		r.mu.Lock()
		maps.Copy(r.tried, next)
		r.mu.Unlock()
		if err := r.commit(ctx, offsets); err != nil {
			if ctx.Err() == nil {
				l.problemf("group %s: commit: %v", r.group, err)
			}
			return
		}
		r.mu.Lock()
		maps.Copy(r.committed, next)
		r.mu.Unlock()
	}
}

func (r *reader) commit(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) (err error) {
	r.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, e error) {
		err = e
		if e != nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					err = fmt.Errorf("partition %d: error code %d", p.Partition, p.ErrorCode)
				}
			}
		}
	})
	return err
}

// check compares what the broker has with what the member was told before.
// Both are taken in that order, for the member goes on meanwhile.
func (r *reader) check(ctx context.Context, t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	r.mu.Lock()
	acknowledged := maps.Clone(r.committed)
	r.mu.Unlock()
	has, err := admin.FetchOffsets(ctx, r.group)
	if err != nil {
		t.Errorf("offsets of group %s: %v", r.group, err)
		return
	}
	for partition, offset := range acknowledged {
		got, ok := has.Lookup(topic, partition)
		r.mu.Lock()
		tried := r.tried[partition]
		r.mu.Unlock()
		switch {
		case !ok:
			t.Errorf("group %s, partition %d: the commit of %d was acknowledged and is gone", r.group, partition, offset)
		case got.At < offset:
			t.Errorf("group %s, partition %d: the commit of %d was acknowledged, %d is there", r.group, partition, offset, got.At)
		case got.At > tried:
			t.Errorf("group %s, partition %d: %d is committed, nobody committed more than %d", r.group, partition, got.At, tried)
		}
	}
}

// settled waits until the member has its partitions and has committed.
func (r *reader) settled(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		r.mu.Lock()
		n := len(r.committed)
		r.mu.Unlock()
		if n > 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("group %s: no commit was acknowledged: %v", r.group, ctx.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// held says whether the member kept its place: its partitions came once and
// never went.
func (r *reader) held(t *testing.T) {
	t.Helper()
	_, generation := r.client.GroupMetadata()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved != 1 || generation != 1 {
		t.Errorf("group %s: generation %d after %d changes of its partitions; a restart cost the member its place", r.group, generation, r.moved)
	}
	t.Logf("group %s: generation %d, committed %v", r.group, generation, r.committed)
}
