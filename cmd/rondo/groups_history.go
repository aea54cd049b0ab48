package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/cause"
)

// recentEvents is how far back in the history of all groups the last event of
// a group is looked for, in records. What is older shows no cause.
const recentEvents = 10_000

// events reads the history of causes from newest - back records on, or all of
// it, and hands over one event for each change of a generation, in order. It
// reports false when the cluster keeps none.
func (g *groupsRun) events(ctx context.Context, back int64, each func(cause.Event)) (bool, error) {
	details, err := g.admin.ListTopicsWithInternal(ctx, cause.HistoryTopic)
	if err != nil {
		return false, fmt.Errorf("describe topic %s: %w", cause.HistoryTopic, err)
	}
	if details[cause.HistoryTopic].Err != nil {
		return false, nil
	}
	one := map[string][]int32{cause.HistoryTopic: {0}}
	starts, err := listOffsets(ctx, g.client, firstOffset, one)
	if err != nil {
		return false, err
	}
	ends, err := listOffsets(ctx, g.client, endOffset, one)
	if err != nil {
		return false, err
	}
	start, end := starts[cause.HistoryTopic][0], ends[cause.HistoryTopic][0]
	if err := firstError(start.Err, end.Err); err != nil {
		return false, fmt.Errorf("list offsets of %s: %w", cause.HistoryTopic, err)
	}
	from := start.Offset
	if back > 0 {
		from = max(from, end.Offset-back)
	}
	if from >= end.Offset {
		return true, nil
	}
	partition := map[string]map[int32]kgo.Offset{cause.HistoryTopic: {0: kgo.NewOffset().At(from)}}
	g.client.AddConsumePartitions(partition)
	defer g.client.RemoveConsumePartitions(one)
	var records []cause.Event
	for next := from; next < end.Offset; {
		fetches := g.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return true, fmt.Errorf("read %s: %w", cause.HistoryTopic, err)
		}
		for _, e := range fetches.Errors() {
			return true, fmt.Errorf("read %s: %w", cause.HistoryTopic, e.Err)
		}
		for r := range fetches.RecordsAll() {
			next = r.Offset + 1
			e, err := cause.ParseRecord(r.Value)
			if err != nil {
				return true, fmt.Errorf("read %s: offset %d: %w", cause.HistoryTopic, r.Offset, err)
			}
			records = append(records, e)
		}
	}
	for _, e := range cause.Settle(records) {
		each(e)
	}
	return true, nil
}

// lastEvents finds the last event of every group; onRondo says whether the
// cluster keeps any.
func (g *groupsRun) lastEvents(ctx context.Context) (last map[string]cause.Event, onRondo bool, err error) {
	last = map[string]cause.Event{}
	onRondo, err = g.events(ctx, recentEvents, func(e cause.Event) { last[e.Group] = e })
	return last, onRondo, err
}

// history prints why each rebalance happened, oldest first.
func (g *groupsRun) history(ctx context.Context) error {
	events := []eventView{}
	kept, err := g.events(ctx, 0, func(e cause.Event) {
		if len(g.Group) == 0 || slices.Contains(g.Group, e.Group) {
			events = append(events, eventView{e})
		}
	})
	if err != nil {
		return err
	}
	if !kept {
		return fail(exitNotFound, fmt.Errorf("topic %s: not found", cause.HistoryTopic),
			"either no group has rebalanced yet, or this is no broker of Rondo: Apache Kafka does not keep why its groups rebalance")
	}
	if g.Output == "json" {
		return printJSON(g.t.out, groupsSchema, "groups.history", "events", events)
	}
	t := table{columns: []column{{"TIME", 23}, {"GROUP", 15}, {"FROM", 5}, {"TO", 5}, {"CAUSE", 15}, {"CLIENT-ID", 15}, {"HOST", 12}, {"TOOK", 8}, {"#MEMBERS", 8}, {"CLOCKS", 0}}}
	if g.Verbose {
		t.columns = slices.Insert(t.columns, 5, column{"CONSUMER-ID", 15})
		t.columns = append(t.columns, column{"REASON", 0}, column{"LOST", 0}, column{"HELD-OPEN-BY", 0}, column{"KNOB", 0})
	}
	for _, e := range events {
		cells := []string{timeText(e.At), e.Group, strconv.Itoa(int(e.From)), strconv.Itoa(int(e.To)), causeText(&e), e.Trigger.ClientID, e.Trigger.Host,
			tookText(e.Event), strconv.Itoa(e.Members), e.Clocks.String()}
		if g.Verbose {
			knob, _ := e.Cause.Knob()
			cells = slices.Insert(cells, 5, e.Trigger.ID)
			cells = append(cells, e.Reason, idList(e.Casualties), idList(e.HeldOpen), knob)
		}
		t.add(cells...)
	}
	return t.write(g.t.out)
}

// tookText is how long it took; of one that goes on, or that a broker was killed in,
// nobody knows.
func tookText(e cause.Event) string {
	if e.Stage == cause.Begun {
		return "-"
	}
	return e.Took.Round(time.Millisecond).String()
}

func idList(members []cause.Member) string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return strings.Join(ids, ",")
}

// timeText is a time in UTC, as long for every time: 2026-11-30T21:00:00.000Z.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
