package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	seen     groupView
	topics   kadm.TopicsSet // what its members have
	assumed  []string
}

func (g *liveGroup) assume(format string, args ...any) {
	g.assumed = append(g.assumed, fmt.Sprintf("group %s: ", g.name)+fmt.Sprintf(format, args...))
}

// members counts members and tasks, and takes the protocol and the kind of
// client from what the group is.
func (g *liveGroup) members(ctx context.Context) error {
	if err := g.describe(ctx); err != nil {
		return err
	}
	d, s := &g.seen, g.settings
	if len(d.Members) == 0 {
		return fail(exitNotFound, fmt.Errorf("group %s: no members (state %s), so nothing to watch", g.name, d.State), "start the application, or give its settings with -c FILE or as flags")
	}
	g.topics = kadm.TopicsSet{}
	partitions, active := 0, 0
	for _, m := range d.Members {
		for topic, list := range m.Assignment {
			g.topics.Add(topic, list...)
		}
		partitions += m.Partitions
		active += len(strings.Fields(m.Tasks["active"]))
	}
	if partitions == 0 {
		return fail(exitFailed, fmt.Errorf("group %s: its members have no partitions (state %s)", g.name, d.State), "is a rebalance going on? try again")
	}
	s.Tasks, s.Threads, s.Static = partitions, len(d.Members), d.Members[0].Instance != ""
	switch {
	case d.Type == "Streams":
		s.Kind, s.Protocol, s.Tasks = predict.KafkaStreams, predict.Streams, active
		g.assume("its topology has %d active tasks, on %d members", active, len(d.Members))
		return nil
	case d.Type == "Consumer":
		s.Kind, s.Protocol = predict.JavaConsumer, predict.Consumer
		g.assume("its members are Java consumers with group.protocol=consumer: --kind says otherwise")
	case d.Assignor == "stream":
		s.Kind = predict.KafkaStreams
	case strings.HasPrefix(d.Assignor, "rondo"):
		s.Kind = predict.Rondo
	default:
		s.Kind = predict.JavaConsumer
		g.assume("its members are Java consumers (assignor %s tells no more): --kind says otherwise", d.Assignor)
	}
	g.assume("a task for each of %d assigned partitions, %d members", partitions, len(d.Members))
	return nil
}

// describe looks the group up, whatever its type, and waits for a coordinator
// that is still loading, or is made by the first request of a new cluster.
func (g *liveGroup) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	found, errs := (&groupsRun{client: g.client, admin: g.admin}).lookUp(ctx, []string{g.name})
	if len(errs) > 0 && errors.Is(errs[0], kerr.GroupIDNotFound) {
		return fail(exitNotFound, fmt.Errorf("group %s: not found", g.name), "rondo groups --list lists the groups")
	}
	if len(errs) > 0 {
		return explainCluster(ctx, errs[0])
	}
	g.seen = found[g.name]
	return nil
}

// timeouts reads what the members have told the group. Where that is not
// allowed or not to be found, the defaults are assumed, which the report lists.
func (g *liveGroup) timeouts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if g.seen.Type != "Classic" {
		g.groupConfigs(ctx)
	}
	records, err := g.records(ctx)
	if err != nil {
		g.assume("time-outs could not be read from %s (%v)", groupTopic, err)
		return
	}
	var session, rebalance time.Duration
	for _, m := range g.seen.Members {
		session, rebalance = max(session, records[m.ID].Session), max(rebalance, records[m.ID].Rebalance)
	}
	g.settings.MaxPollInterval = rebalance
	if session > 0 {
		g.settings.SessionTimeout = session
		g.assume("session.timeout.ms=%d and max.poll.interval.ms=%d, read from its records", session.Milliseconds(), rebalance.Milliseconds())
		return
	}
	g.assume("max.poll.interval.ms=%d, the rebalance time-out in the records of its members", rebalance.Milliseconds())
}

// groupConfigs asks for the clocks that the coordinator gives to members of
// the newer protocols: configs of the group, or of the broker.
func (g *liveGroup) groupConfigs(ctx context.Context) {
	prefix := strings.ToLower(g.seen.Type)
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, g.name
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, g.client)
	if err == nil && len(resp.Resources) != 1 {
		err = errors.New("no answer for the group")
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		g.assume("the configs of the group could not be read (%v)", err)
		return
	}
	for _, c := range resp.Resources[0].Configs {
		if c.Value == nil {
			continue
		}
		ms, err := strconv.ParseInt(*c.Value, 10, 32)
		switch {
		case err != nil:
			continue // not a time
		case c.Name == prefix+".session.timeout.ms":
			g.settings.SessionTimeout = time.Duration(ms) * time.Millisecond
		case c.Name == prefix+".heartbeat.interval.ms":
			g.settings.HeartbeatInterval = time.Duration(ms) * time.Millisecond
		default:
			continue
		}
		g.assume("%s=%s, a config of the group", c.Name, *c.Value)
	}
}

// records reads what the newest records say of each member's time-outs.
func (g *liveGroup) records(ctx context.Context) (map[string]group.Timeouts, error) {
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
	newest := map[string]group.Timeouts{}
	for next := from; next < end.Offset; {
		fetches := g.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			for _, t := range group.TimeoutsOf(g.name, group.Record{Key: r.Key, Value: r.Value}) {
				newest[t.Member] = t
			}
		})
		if fetches.NumRecords() == 0 && g.complete(newest) {
			break // only control records follow
		}
	}
	if !g.complete(newest) {
		return nil, fmt.Errorf("no record of all its members among the last %d", recentGroupRecords)
	}
	return newest, nil
}

func (g *liveGroup) complete(records map[string]group.Timeouts) bool {
	return !slices.ContainsFunc(g.seen.Members, func(m memberView) bool {
		_, ok := records[m.ID]
		return !ok
	})
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
