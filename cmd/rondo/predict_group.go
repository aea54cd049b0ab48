package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/predict"
)

// groupTopic is where the coordinator keeps groups.
const groupTopic = "__consumer_offsets"

// recentGroupRecords is how far back in its partition the record of a group is
// looked for.
const recentGroupRecords = 200_000

// fromGroup takes what a live group shows: members, partitions, time-outs where
// its record can be read, waiting records, and rates from two looks at its
// offsets. It says what it had to assume.
func (c *predictCmd) fromGroup(ctx context.Context, t *terminal, s *predict.Settings) (assumed []string, err error) {
	client, err := c.connect(ctx, t)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	g := &liveGroup{name: c.Group, client: client, admin: kadm.NewClient(client), wait: c.Timeout, settings: s}
	if err := g.members(ctx); err != nil {
		return nil, err
	}
	g.timeouts(ctx)
	if err := g.rates(ctx, c.Sample, c.Call == "" && c.Jump == "" && c.Ramp == ""); err != nil {
		return nil, err
	}
	return g.assumed, nil
}

type liveGroup struct {
	name     string
	client   *kgo.Client
	admin    *kadm.Client
	wait     time.Duration
	settings *predict.Settings
	topics   kadm.TopicsSet // what its members have
	assumed  []string
}

func (g *liveGroup) assume(format string, args ...any) {
	g.assumed = append(g.assumed, fmt.Sprintf("group %s: ", g.name)+fmt.Sprintf(format, args...))
}

// members counts members and partitions, and guesses the kind of client from
// the protocol.
func (g *liveGroup) members(ctx context.Context) error {
	described, err := g.describe(ctx)
	if err != nil {
		return fail(exitUnreachable, fmt.Errorf("describe group %s: %w", g.name, err), "look at -b and --timeout")
	}
	d, ok := described[g.name]
	switch {
	case !ok || d.State == "Dead" || errors.Is(d.Err, kerr.GroupIDNotFound):
		return fail(exitNotFound, fmt.Errorf("group %s: not found", g.name),
			"rondo groups --list lists the groups; one with group.protocol=consumer or streams is not shown by DescribeGroups: give its settings as flags")
	case d.Err != nil:
		return fail(exitFailed, fmt.Errorf("describe group %s: %w", g.name, d.Err), "may this user describe the group?")
	case len(d.Members) == 0:
		return fail(exitNotFound, fmt.Errorf("group %s: no members (state %s), so nothing to watch", g.name, d.State), "start the application, or give its settings with -c FILE or as flags")
	}
	g.topics = d.AssignedPartitions()
	partitions := 0
	for _, list := range g.topics {
		partitions += len(list)
	}
	if partitions == 0 {
		return fail(exitFailed, fmt.Errorf("group %s: its members have no partitions (state %s)", g.name, d.State), "is a rebalance going on? try again")
	}
	g.settings.Tasks, g.settings.Threads = partitions, len(d.Members)
	g.settings.Static = d.Members[0].InstanceID != nil
	switch {
	case d.Protocol == "stream":
		g.settings.Kind = predict.KafkaStreams
	case strings.HasPrefix(d.Protocol, "rondo"):
		g.settings.Kind = predict.Rondo
	default:
		g.settings.Kind = predict.JavaConsumer
		g.assume("its members are Java consumers (assignor %s tells no more): --kind says otherwise", d.Protocol)
	}
	g.assume("a task for each of %d assigned partitions, %d members", partitions, len(d.Members))
	return nil
}

// describe waits for a coordinator that is still loading, or is made by the
// first request of a new cluster.
func (g *liveGroup) describe(ctx context.Context) (kadm.DescribedGroups, error) {
	deadline := time.Now().Add(g.wait)
	for {
		described, err := g.admin.DescribeGroups(ctx, g.name)
		failed := err
		if failed == nil {
			failed = described[g.name].Err
		}
		if !errors.Is(failed, kerr.CoordinatorNotAvailable) && !errors.Is(failed, kerr.CoordinatorLoadInProgress) || time.Now().After(deadline) {
			return described, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// timeouts reads the newest record of the group. Where that is not allowed or
// not to be found, the defaults are assumed, which the report lists.
func (g *liveGroup) timeouts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	value, err := g.record(ctx)
	if err != nil {
		g.assume("time-outs could not be read from %s (%v)", groupTopic, err)
		return
	}
	session, rebalance := int32(0), int32(0)
	for _, m := range value.Members {
		session, rebalance = max(session, m.SessionTimeoutMillis), max(rebalance, m.RebalanceTimeoutMillis)
	}
	g.settings.SessionTimeout = time.Duration(session) * time.Millisecond
	g.settings.MaxPollInterval = time.Duration(rebalance) * time.Millisecond
	g.assume("session.timeout.ms=%d and max.poll.interval.ms=%d, read from its record of generation %d", session, rebalance, value.Generation)
}

func (g *liveGroup) record(ctx context.Context) (*kmsg.GroupMetadataValue, error) {
	ends, err := g.admin.ListEndOffsets(ctx, groupTopic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	partition := group.PartitionFor(g.name, int32(max(len(ends[groupTopic]), 1)))
	end, ok := ends.Lookup(groupTopic, partition)
	if !ok {
		return nil, errors.New("the topic has no such partition")
	}
	from := max(0, end.Offset-recentGroupRecords)
	g.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{groupTopic: {partition: kgo.NewOffset().At(from)}})
	defer g.client.RemoveConsumePartitions(map[string][]int32{groupTopic: {partition}})
	var newest *kmsg.GroupMetadataValue
	for next := from; next < end.Offset; {
		fetches := g.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if v := g.mine(r); v != nil {
				newest = v
			}
		})
		if fetches.NumRecords() == 0 && newest != nil {
			break // only control records follow
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("no record of the group among the last %d", recentGroupRecords)
	}
	return newest, nil
}

// mine is a record's value when it is one of the group and has members.
func (g *liveGroup) mine(r *kgo.Record) *kmsg.GroupMetadataValue {
	var key kmsg.GroupMetadataKey
	if len(r.Value) == 0 || len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] != 2 || key.ReadFrom(r.Key) != nil || key.Group != g.name {
		return nil
	}
	var value kmsg.GroupMetadataValue
	if value.ReadFrom(r.Value) != nil || len(value.Members) == 0 {
		return nil
	}
	return &value
}

// rates looks at committed and end offsets twice. When the length of a call is
// not given, a group with records waiting shows it: each thread makes one call
// after the other.
func (g *liveGroup) rates(ctx context.Context, sample time.Duration, needCall bool) error {
	if sample <= 0 {
		return fail(exitUsage, fmt.Errorf("--sample %s: want a time above zero", sample), "--sample 3s")
	}
	before, err := g.look(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(sample):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := g.look(ctx)
	if err != nil {
		return err
	}
	took := after.at.Sub(before.at).Seconds()
	arrival, commits := float64(after.end-before.end)/took, float64(after.committed-before.committed)/took
	threads := float64(min(g.settings.Threads, g.settings.Tasks))
	g.settings.Arrival = max(0, arrival) / threads
	if g.settings.Queued = int(after.longest); g.settings.Queued == 0 && arrival == 0 {
		g.settings.Queued = 1
	}
	g.assume("%.3g records a second arrive and %.3g are committed, seen for %s; at most %d wait in a partition", arrival, commits, sample, after.longest)
	if !needCall {
		return nil
	}
	if commits <= 0 || after.longest == 0 {
		return fail(exitUsage, fmt.Errorf("group %s: how long a call takes cannot be seen: %.3g records a second committed, %d waiting", g.name, commits, after.longest),
			"give it with --call, or watch for longer than a commit interval with --sample 1m")
	}
	call := time.Duration(threads / commits * float64(time.Second))
	g.settings.Latency = predict.Always(call)
	g.assume("a call takes %s: %g busy threads, one call after the other", call.Round(time.Millisecond), threads)
	return nil
}

type glance struct {
	at                      time.Time
	committed, end, longest int64
}

func (g *liveGroup) look(ctx context.Context) (glance, error) {
	out := glance{at: time.Now()}
	committed, err := g.admin.FetchOffsets(ctx, g.name)
	if err != nil {
		return out, fail(exitUnreachable, fmt.Errorf("fetch offsets of group %s: %w", g.name, err), "look at -b and --timeout")
	}
	ends, err := g.admin.ListEndOffsets(ctx, g.topics.Topics()...)
	if err != nil {
		return out, fail(exitUnreachable, fmt.Errorf("list end offsets: %w", err), "look at -b and --timeout")
	}
	for topic, partitions := range g.topics {
		for p := range partitions {
			end, ok := ends.Lookup(topic, p)
			if !ok || end.Err != nil {
				continue
			}
			out.end += end.Offset
			if at, ok := committed.Lookup(topic, p); ok && at.At >= 0 {
				out.committed += at.At
				out.longest = max(out.longest, end.Offset-at.At)
			}
		}
	}
	return out, nil
}
