package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupSettings are the settings of a member of a group, which -G takes
// besides clientSettings.
func groupSettings() map[string]clientSetting {
	reset := map[string][]kgo.Opt{
		"earliest": one(kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), "latest": one(kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())),
		"none": one(kgo.ConsumeResetOffset(kgo.NoResetOffset())),
	}
	return map[string]clientSetting{
		"auto.offset.reset":       choice(reset),
		"auto.commit.interval.ms": milliseconds(func(d time.Duration) kgo.Opt { return kgo.AutoCommitInterval(d) }),
		"session.timeout.ms":      milliseconds(func(d time.Duration) kgo.Opt { return kgo.SessionTimeout(d) }),
		"heartbeat.interval.ms":   milliseconds(func(d time.Duration) kgo.Opt { return kgo.HeartbeatInterval(d) }),
		"max.poll.interval.ms":    milliseconds(func(d time.Duration) kgo.Opt { return kgo.RebalanceTimeout(d) }),
		"group.instance.id":       func(v string) ([]kgo.Opt, error) { return one(kgo.InstanceID(v)), nil },
		"group.protocol":          choice(map[string][]kgo.Opt{"classic": nil, "consumer": one(kgo.ServerSideBalancer())}),
		"partition.assignment.strategy": choice(map[string][]kgo.Opt{
			"range": one(kgo.Balancers(kgo.RangeBalancer())), "roundrobin": one(kgo.Balancers(kgo.RoundRobinBalancer())),
			"sticky": one(kgo.Balancers(kgo.StickyBalancer())), "cooperative-sticky": one(kgo.Balancers(kgo.CooperativeStickyBalancer())),
		}),
	}
}

// groupConsumer is the balanced consumer of -G. What has been written to the
// output is committed, so that nothing is lost when it ends in the middle.
type groupConsumer struct {
	*consumeCmd
	t      *terminal
	client *kgo.Client
	admin  *kadm.Client
	out    *bufio.Writer
	form   form

	mu   sync.Mutex
	mine map[string]map[int32]span // assigned: where the next record is, and where -e ends
	ever bool                      // something was assigned once
}

// runGroup prints the records of the group's partitions that fall to this
// member, until the count, an interrupt, or with -e the end of all of them.
func (c *consumeCmd) runGroup(ctx context.Context, t *terminal, form form) (err error) {
	g := &groupConsumer{consumeCmd: c, t: t, form: form, out: bufio.NewWriterSize(t.out, 64<<10), mine: map[string]map[int32]span{}}
	opts := []kgo.Opt{
		kgo.RebalanceTimeout(5 * time.Minute), // Kafka's default of max.poll.interval.ms
		kgo.ConsumerGroup(c.Group), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll(), kgo.KeepControlRecords(),
		kgo.OnPartitionsAssigned(g.assigned), kgo.OnPartitionsRevoked(g.revoked), kgo.OnPartitionsLost(g.lost),
	}
	switch c.Offset {
	case "beginning":
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	case "end":
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	}
	topics := c.Topics
	if slices.ContainsFunc(topics, isPattern) {
		opts = append(opts, kgo.ConsumeRegex())
		topics = slices.Clone(topics)
		for i, topic := range topics {
			if !isPattern(topic) {
				topics[i] = "^" + regexp.QuoteMeta(topic) + "$"
			}
		}
	}
	c.member = append(opts, kgo.ConsumeTopics(topics...))
	g.client, err = c.connect(ctx, t)
	if err != nil {
		return err
	}
	g.admin = kadm.NewClient(g.client)
	defer g.client.CloseAllowingRebalance()
	if err := g.look(ctx, c.Topics); err != nil {
		return err
	}
	err = g.print(ctx)
	// A leave that does not come through ends with the session; the records
	// that were written are committed first.
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	g.client.AllowRebalance()
	if commitErr := g.client.CommitMarkedOffsets(leave); commitErr != nil {
		err = errors.Join(err, fmt.Errorf("commit offsets of group %s: %w", c.Group, commitErr))
	}
	if leaveErr := g.client.LeaveGroupContext(leave); leaveErr != nil {
		t.log.Warn("leave group", "group", c.Group, "cause", leaveErr)
	}
	return err
}

// look tells of topics that are not there. They may be made later; but with -e
// there is no end to wait for.
func (g *groupConsumer) look(ctx context.Context, topics []string) error {
	for _, topic := range topics {
		if isPattern(topic) {
			continue
		}
		_, err := partitionsOf(ctx, g.client, topic)
		switch {
		case err != nil && g.Exit:
			return err
		case err != nil && !g.Quiet:
			g.t.say("%% %v; waiting for it", err)
		}
	}
	return nil
}

// isPattern tells a regular expression from the name of a topic, as kcat does.
func isPattern(topic string) bool { return strings.HasPrefix(topic, "^") }

func (g *groupConsumer) print(ctx context.Context) error {
	left := g.Count
	if left == 0 {
		left = math.MaxInt64
	}
	for left > 0 && !g.atEnd() {
		records, err := g.poll(ctx, left)
		if err != nil {
			return err
		}
		var buffer []byte
		for _, r := range records {
			if !r.Attrs.IsControl() {
				buffer = g.form(buffer[:0], r)
				if _, err := g.out.Write(buffer); err != nil {
					return fmt.Errorf("write records: %w", err)
				}
				left--
			}
		}
		if err := g.out.Flush(); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
		g.client.MarkCommitRecords(records...)
		g.passed(records)
		g.client.AllowRebalance()
	}
	return nil
}

// poll waits for records, not longer than it may take to notice that -e has
// come to its end.
func (g *groupConsumer) poll(ctx context.Context, left int64) ([]*kgo.Record, error) {
	wait, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	fetches := g.client.PollRecords(wait, int(min(left, 10_000)))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, e := range fetches.Errors() {
		if errors.Is(e.Err, context.DeadlineExceeded) {
			continue
		}
		if e.Topic == "" {
			return nil, fmt.Errorf("group %s: %w", g.Group, e.Err)
		}
		return nil, fmt.Errorf("read %s partition %d: %w", e.Topic, e.Partition, e.Err)
	}
	return fetches.Records(), nil
}

// assigned notes new partitions, and with -e where they end now.
func (g *groupConsumer) assigned(ctx context.Context, _ *kgo.Client, added map[string][]int32) {
	g.say("assigned", added)
	spans := map[string]map[int32]span{}
	for topic := range added {
		spans[topic] = map[int32]span{}
	}
	if g.Exit {
		if err := g.measure(ctx, added, spans); err != nil {
			g.t.log.Error("find the end of the partitions, -e will not see it", "group", g.Group, "cause", err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ever = true
	for topic, partitions := range added {
		if g.mine[topic] == nil {
			g.mine[topic] = map[int32]span{}
		}
		for _, p := range partitions {
			s, ok := spans[topic][p]
			if !ok {
				s = span{0, math.MaxInt64}
			}
			g.mine[topic][p] = s
		}
	}
}

// measure finds where this member will read on, and where the logs end.
func (g *groupConsumer) measure(ctx context.Context, added map[string][]int32, spans map[string]map[int32]span) error {
	committed, err := g.admin.FetchOffsets(ctx, g.Group)
	if err != nil {
		return fmt.Errorf("fetch offsets of group %s: %w", g.Group, err)
	}
	first, err := listOffsets(ctx, g.client, firstOffset, added)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, g.client, endOffset, added)
	if err != nil {
		return err
	}
	for topic, partitions := range added {
		for _, p := range partitions {
			if err := firstError(first[topic][p].Err, ends[topic][p].Err); err != nil {
				return fmt.Errorf("list offsets of %s-%d: %w", topic, p, err)
			}
			s := span{from: first[topic][p].Offset, to: ends[topic][p].Offset}
			if g.Offset == "end" {
				s.from = s.to
			}
			if c, ok := committed.Lookup(topic, p); ok && c.At >= 0 {
				s.from = c.At
			}
			spans[topic][p] = s
		}
	}
	return nil
}

func (g *groupConsumer) revoked(ctx context.Context, client *kgo.Client, gone map[string][]int32) {
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		g.t.log.Warn("commit before partitions go, their next owner reads some records again", "group", g.Group, "cause", err)
	}
	g.drop("revoked", gone)
}

func (g *groupConsumer) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	g.drop("lost", gone)
}

func (g *groupConsumer) drop(word string, gone map[string][]int32) {
	g.say(word, gone)
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, partitions := range gone {
		for _, p := range partitions {
			delete(g.mine[topic], p)
		}
	}
}

// passed notes how far the partitions have been read.
func (g *groupConsumer) passed(records []*kgo.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		if s, ok := g.mine[r.Topic][r.Partition]; ok {
			s.from = r.Offset + 1
			g.mine[r.Topic][r.Partition] = s
		}
	}
}

// atEnd says whether -e is done: this member has had partitions, and has read
// all that it has now to where they ended when it got them.
func (g *groupConsumer) atEnd() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.Exit || !g.ever {
		return false
	}
	for _, partitions := range g.mine {
		for _, s := range partitions {
			if s.from < s.to {
				return false
			}
		}
	}
	return true
}

// say tells of a rebalance in kcat's words.
func (g *groupConsumer) say(word string, partitions map[string][]int32) {
	if g.Quiet || len(partitions) == 0 {
		return
	}
	var names []string
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		for _, p := range slices.Sorted(slices.Values(partitions[topic])) {
			names = append(names, topic+" ["+strconv.Itoa(int(p))+"]")
		}
	}
	g.t.say("%% Group %s rebalanced: %s: %s", g.Group, word, strings.Join(names, ", "))
}
