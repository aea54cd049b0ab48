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
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// describe prints groups: their offsets, members or state. A group that cannot
// be described does not keep the others from being shown.
func (g *groupsRun) describe(ctx context.Context) error {
	ids, err := g.targets(ctx)
	if err != nil {
		return err
	}
	found, failed := g.lookUp(ctx, ids)
	last, onRondo, err := g.lastEvents(ctx)
	if err != nil {
		return err
	}
	views := []groupView{}
	for _, id := range ids {
		v, ok := found[id]
		if !ok {
			continue
		}
		if !g.Members && !g.State.given {
			if err := g.fetchOffsets(ctx, &v); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		if e, ok := last[id]; ok {
			v.Last = &eventView{e}
		}
		views = append(views, v)
	}
	if err := g.show(views, onRondo); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// show prints described groups.
func (g *groupsRun) show(views []groupView, onRondo bool) error {
	if g.Output == "json" {
		for i := range views {
			n := len(views[i].Members)
			views[i].MemberCount = &n
			if !g.Members {
				views[i].Members = nil
			}
		}
		return printJSON(g.t.out, groupsSchema, "groups.describe", "groups", views)
	}
	for _, v := range views {
		g.sayState(v)
		table := g.offsetsTable
		switch {
		case g.Members:
			table = g.membersTable
		case g.State.given:
			table = g.stateTable
		}
		fmt.Fprintln(g.t.out)
		t := table(v, onRondo)
		if err := t.write(g.t.out); err != nil {
			return err
		}
	}
	return nil
}

// sayState says what Kafka's tool says of a group that is not stable.
func (g *groupsRun) sayState(v groupView) {
	switch v.State {
	case "Empty":
		g.t.say("\nConsumer group '%s' has no active members.", v.ID)
	case "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling":
		g.t.say("\nWarning: Consumer group '%s' is rebalancing.", v.ID)
	case "Dead":
		g.t.say("\nConsumer group '%s' does not exist.", v.ID)
	}
}

// rondoColumns are what this command adds at the right on Rondo's broker.
func rondoColumns(to []column) []column { return append(to, column{"CAUSE", 15}, column{"CLOCKS", 0}) }

func (g *groupsRun) offsetsTable(v groupView, onRondo bool) table {
	t := table{columns: []column{{"GROUP", 15}, {"TOPIC", 15}, {"PARTITION", 10}}}
	if g.Verbose {
		t.columns = append(t.columns, column{"LEADER-EPOCH", 15})
	}
	t.columns = append(t.columns, column{"CURRENT-OFFSET", 15}, column{"LOG-END-OFFSET", 15}, column{"LAG", 15},
		column{"CONSUMER-ID", 15}, column{"HOST", 15}, column{"CLIENT-ID", 0})
	if onRondo {
		t.columns = rondoColumns(t.columns)
	}
	for _, o := range v.Offsets {
		cells := []string{v.ID, o.Topic, number(o.Partition)}
		if g.Verbose {
			cells = append(cells, number(o.LeaderEpoch))
		}
		cells = append(cells, number(o.Current), number(o.End), number(o.Lag), o.MemberID, o.Host, o.ClientID)
		if onRondo {
			cells = append(cells, causeText(v.Last), clocksText(o.clocks))
		}
		t.add(cells...)
	}
	return t
}

func (g *groupsRun) membersTable(v groupView, onRondo bool) table {
	static := slices.ContainsFunc(v.Members, func(m memberView) bool { return m.Instance != "" })
	mixed := slices.ContainsFunc(v.Members, func(m memberView) bool { return m.Upgraded != nil })
	t := table{columns: []column{{"GROUP", 15}, {"CONSUMER-ID", 15}}}
	if static {
		t.columns = append(t.columns, column{"GROUP-INSTANCE-ID", 15})
	}
	t.columns = append(t.columns, column{"HOST", 15}, column{"CLIENT-ID", 15}, column{"#PARTITIONS", 15})
	if g.Verbose {
		t.columns = append(t.columns, column{"CURRENT-EPOCH", 15}, column{"CURRENT-ASSIGNMENT", 20}, column{"TARGET-EPOCH", 15}, column{"TARGET-ASSIGNMENT", 20})
		if mixed {
			t.columns = append(t.columns, column{"UPGRADED", 15})
		}
	}
	if onRondo {
		t.columns = rondoColumns(t.columns)
	}
	for _, m := range v.Members {
		cells := []string{v.ID, m.ID}
		if static {
			cells = append(cells, m.Instance)
		}
		cells = append(cells, m.Host, m.ClientID, strconv.Itoa(m.Partitions))
		if g.Verbose {
			cells = append(cells, number(m.Epoch), memberAssignment(m), number(v.TargetEpoch), assignmentText(m.Target))
			if mixed {
				cells = append(cells, fmt.Sprint(m.Upgraded != nil && *m.Upgraded))
			}
		}
		if onRondo {
			cells = append(cells, roleText(v.Last, m), clocksText(m.Clocks))
		}
		t.add(cells...)
	}
	return t
}

// memberAssignment is what a member has: its partitions, and for streams
// groups the tasks behind them.
func memberAssignment(m memberView) string {
	parts := []string{assignmentText(m.Assignment)}
	for _, role := range []string{"active", "standby", "warmup"} {
		if tasks := m.Tasks[role]; tasks != "" {
			parts = append(parts, role+" "+strings.ReplaceAll(tasks, " ", ","))
		}
	}
	return strings.TrimPrefix(strings.Join(parts, ";"), ";")
}

func (g *groupsRun) stateTable(v groupView, onRondo bool) table {
	t := table{columns: []column{{"GROUP", 15}, {"COORDINATOR (ID)", 25}, {"ASSIGNMENT-STRATEGY", 20}, {"STATE", 20}}}
	if g.Verbose {
		t.columns = append(t.columns, column{"GROUP-EPOCH", 15}, column{"TARGET-ASSIGNMENT-EPOCH", 25})
	}
	t.columns = append(t.columns, column{"#MEMBERS", 0})
	if onRondo {
		t.columns = append(rondoColumns(t.columns), column{"SINCE", 0})
	}
	cells := []string{v.ID, "", v.Assignor, v.State}
	if v.Coordinator != nil {
		cells[1] = fmt.Sprintf("%s:%d  (%d)", v.Coordinator.Host, v.Coordinator.Port, v.Coordinator.ID)
	}
	if g.Verbose {
		cells = append(cells, number(v.Epoch), number(v.TargetEpoch))
	}
	cells = append(cells, strconv.Itoa(len(v.Members)))
	if onRondo {
		cells = append(cells, causeText(v.Last))
		if v.Last == nil {
			cells = append(cells, "", "")
		} else {
			cells = append(cells, clocksText(&v.Last.Clocks), timeText(v.Last.At))
		}
	}
	t.add(cells...)
	return t
}

// describing is one API that describes groups of a type.
type describing struct {
	api  int16
	ask  func(groups []string) kmsg.Request
	read func(kmsg.Response, func(groupView, int16))
}

// describings are in the order in which Kafka's Admin asks: a group that is
// none of the first type may be one of the next. Each request asks for the
// clocks of the members as well.
func describings() []describing {
	return []describing{
		{(&kmsg.ConsumerGroupDescribeRequest{}).Key(), func(groups []string) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups = groups
			req.UnknownTags.Set(cause.ClocksTag, nil)
			return req
		}, func(resp kmsg.Response, each func(groupView, int16)) {
			for _, r := range resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
				each(consumerView(r), r.ErrorCode)
			}
		}},
		{(&kmsg.StreamsGroupDescribeRequest{}).Key(), func(groups []string) kmsg.Request {
			req := kmsg.NewPtrStreamsGroupDescribeRequest()
			req.Groups = groups
			req.UnknownTags.Set(cause.ClocksTag, nil)
			return req
		}, func(resp kmsg.Response, each func(groupView, int16)) {
			for _, r := range resp.(*kmsg.StreamsGroupDescribeResponse).Groups {
				each(streamsView(r), r.ErrorCode)
			}
		}},
		{(&kmsg.DescribeGroupsRequest{}).Key(), func(groups []string) kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups = groups
			req.UnknownTags.Set(cause.ClocksTag, nil)
			return req
		}, func(resp kmsg.Response, each func(groupView, int16)) {
			for _, r := range resp.(*kmsg.DescribeGroupsResponse).Groups {
				each(classicView(r), r.ErrorCode)
			}
		}},
	}
}

// lookUp describes groups, whatever their type. The errors are those of groups
// that could not be described.
func (g *groupsRun) lookUp(ctx context.Context, ids []string) (map[string]groupView, []error) {
	found, failed := map[string]groupView{}, map[string]error{}
	if len(ids) == 0 {
		return found, nil
	}
	served, err := g.served(ctx)
	if err != nil {
		return found, []error{err}
	}
	for _, d := range describings() {
		rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, ok := found[id]
			return ok || failed[id] != nil && !errors.Is(failed[id], kerr.GroupIDNotFound)
		})
		if !served[d.api] || len(rest) == 0 {
			continue
		}
		if err := g.askAll(ctx, d, rest, found, failed); err != nil {
			return found, []error{fmt.Errorf("describe groups: %w", err)}
		}
	}
	var errs []error
	for _, id := range ids {
		if err := failed[id]; err != nil {
			errs = append(errs, fmt.Errorf("describe group %s: %w", id, err))
		}
	}
	return found, errs
}

// served are the APIs that the cluster has.
func (g *groupsRun) served(ctx context.Context) (map[int16]bool, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "rondo", "1"
	resp, err := req.RequestWith(ctx, g.client)
	if err != nil {
		return nil, fmt.Errorf("ask for the APIs of the cluster: %w", err)
	}
	served := map[int16]bool{}
	for _, k := range resp.ApiKeys {
		served[k.ApiKey] = true
	}
	return served, nil
}

// askAll asks the coordinators of the groups, again while one is loading or
// has moved. It goes to them itself, since franz-go drops the tags of requests
// that it splits.
func (g *groupsRun) askAll(ctx context.Context, d describing, ids []string, found map[string]groupView, failed map[string]error) error {
	for {
		var again []string
		byNode := map[int32][]string{}
		nodes := map[int32]kadm.BrokerDetail{}
		for id, c := range g.admin.FindGroupCoordinators(ctx, ids...) {
			switch {
			case c.Err == nil:
				byNode[c.NodeID] = append(byNode[c.NodeID], id)
				nodes[c.NodeID] = kadm.BrokerDetail{NodeID: c.NodeID, Host: c.Host, Port: c.Port}
			case kerr.IsRetriable(c.Err):
				again = append(again, id)
			default:
				failed[id] = fmt.Errorf("find its coordinator: %w", c.Err)
			}
		}
		for node, groups := range byNode {
			resp, err := g.client.Broker(int(node)).RetriableRequest(ctx, d.ask(groups))
			if err != nil {
				return err
			}
			d.read(resp, func(v groupView, code int16) {
				err := kerr.ErrorForCode(code)
				switch {
				case err != nil && kerr.IsRetriable(err):
					again = append(again, v.ID)
				case err == nil && v.State == "Dead":
					failed[v.ID] = kerr.GroupIDNotFound // before DescribeGroups v6
				case err != nil:
					failed[v.ID] = err
				default:
					n := nodes[node]
					v.Coordinator = &nodeView{n.NodeID, n.Host, n.Port}
					found[v.ID] = v
					delete(failed, v.ID)
				}
			})
		}
		if len(again) == 0 {
			return nil
		}
		ids = again
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the coordinator of group %s: %w", ids[0], ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fetchOffsets adds what the group committed and where its logs end.
func (g *groupsRun) fetchOffsets(ctx context.Context, v *groupView) error {
	committed, err := g.admin.FetchOffsets(ctx, v.ID)
	if err != nil {
		return fmt.Errorf("fetch offsets of group %s: %w", v.ID, err)
	}
	wanted := map[string][]int32{}
	for _, c := range committed.Sorted() {
		wanted[c.Topic] = append(wanted[c.Topic], c.Partition)
	}
	for _, m := range v.Members {
		for topic, partitions := range m.Assignment {
			for _, p := range partitions {
				if !slices.Contains(wanted[topic], p) {
					wanted[topic] = append(wanted[topic], p)
				}
			}
		}
	}
	ends, err := listOffsets(ctx, g.client, endOffset, wanted)
	if err != nil {
		return fmt.Errorf("group %s: %w", v.ID, err)
	}
	v.addOffsets(committed, ends)
	return nil
}

// causeText is the cause of a group's last change: "poll clock", with a
// question mark when it was inferred.
func causeText(e *eventView) string {
	if e == nil {
		return ""
	}
	if e.Confidence == cause.Inferred {
		return e.Cause.String() + "?"
	}
	return e.Cause.String()
}

// roleText is the part that a member had in its group's last change.
func roleText(e *eventView, m memberView) string {
	if e == nil {
		return ""
	}
	is := func(who cause.Member) bool { return who.ID == m.ID }
	switch {
	case is(e.Trigger):
		return causeText(e)
	case slices.ContainsFunc(e.HeldOpen, is):
		return causeText(e) + " (held open)"
	case slices.ContainsFunc(e.Casualties, is):
		return causeText(e) + " (lost)"
	}
	return ""
}

// clocksText is what both clocks of a member show.
func clocksText(c *cause.Clocks) string {
	if c == nil {
		return ""
	}
	return c.String()
}
