package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/broker"
)

// recordedGroups are the groups of testdata/columns.txt, built from responses
// as the broker sends them.
func recordedGroups(t *testing.T) map[string]groupView {
	t.Helper()
	plan := kmsg.NewConsumerMemberAssignment()
	plan.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "one", Partitions: []int32{0}}, {Topic: "facts", Partitions: []int32{2, 0, 1}}}
	member := kmsg.NewDescribeGroupsResponseGroupMember()
	member.MemberID, member.ClientID, member.ClientHost, member.MemberAssignment = "worker-76fb", "worker", "/127.0.0.1", plan.AppendTo(nil)
	classic := classicView(kmsg.DescribeGroupsResponseGroup{
		Group: "classic", State: "Stable", ProtocolType: "consumer", Protocol: "range", Members: []kmsg.DescribeGroupsResponseGroupMember{member},
	})

	assignment := kmsg.Assignment{TopicPartitions: []kmsg.AssignmentTopicPartition{{Topic: "facts", Partitions: []int32{0, 1, 2}}}}
	native := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	native.MemberID, native.ClientID, native.ClientHost, native.MemberEpoch, native.MemberType = "i-fFhUuF", "m1", "/127.0.0.1", 1, 1
	native.Assignment, native.TargetAssignment = assignment, assignment
	modern := consumerView(kmsg.ConsumerGroupDescribeResponseGroup{
		Group: "modern", State: "Stable", Epoch: 1, AssignmentEpoch: 1, AssignorName: "uniform", Members: []kmsg.ConsumerGroupDescribeResponseGroupMember{native},
	})
	empty := classicView(kmsg.DescribeGroupsResponseGroup{Group: "empty", State: "Empty", ProtocolType: "consumer"})

	ends := kadm.ListedOffsets{
		"facts": {0: {Offset: 10}, 1: {Offset: 5}, 2: {Offset: 0}}, "one": {0: {Offset: 3}},
	}
	committed := func(epoch int32, offsets ...kadm.Offset) kadm.OffsetResponses {
		out := kadm.OffsetResponses{}
		for _, o := range offsets {
			o.LeaderEpoch = epoch
			if o.At == 0 {
				o.LeaderEpoch = -1 // committed before there was a record
			}
			out.Add(kadm.OffsetResponse{Offset: o})
		}
		return out
	}
	facts := func(p int32, at int64) kadm.Offset { return kadm.Offset{Topic: "facts", Partition: p, At: at} }
	classic.addOffsets(committed(-1, facts(0, 10), facts(1, 5), kadm.Offset{Topic: "one", At: 3}), ends)
	modern.addOffsets(committed(0, facts(0, 10), facts(1, 5), facts(2, 0)), ends)
	empty.addOffsets(committed(-1, facts(0, 10), facts(1, 5)), ends)
	groups := map[string]groupView{}
	for _, v := range []groupView{classic, modern, empty} {
		v.Coordinator = &nodeView{1, "127.0.0.1", 9092}
		groups[v.ID] = v
	}
	return groups
}

func TestColumnsAreKafkas(t *testing.T) {
	groups := recordedGroups(t)
	datadriven.RunTest(t, "testdata/columns.txt", func(t *testing.T, d *datadriven.TestData) string {
		var id string
		d.ScanArgs(t, "group", &id)
		run := &groupsRun{groupsCmd: &groupsCmd{Verbose: d.HasArg("verbose")}}
		view := map[string]func(groupView, bool) table{"offsets": run.offsetsTable, "members": run.membersTable, "state": run.stateTable}[d.Cmd]
		printed := view(groups[id], false)
		var out strings.Builder
		if err := printed.write(&out); err != nil {
			t.Fatal(err)
		}
		var cells strings.Builder
		for line := range strings.Lines(out.String()) {
			cells.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
		return cells.String()
	})
}

// A streams group shows the input partitions of its active tasks as what its
// members have, and the tasks behind them.
func TestStreamsGroup(t *testing.T) {
	member := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	member.MemberID, member.ClientID, member.ClientHost, member.MemberEpoch = "m", "app", "/127.0.0.1", 3
	member.Assignment.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{1, 0}}, {SubtopologyID: "1", Partitions: []int32{1}}}
	member.Assignment.StandbyTasks = []kmsg.TaskIDs{{SubtopologyID: "1", Partitions: []int32{0}}}
	v := streamsView(kmsg.StreamsGroupDescribeResponseGroup{
		Group: "app", State: "Stable", Epoch: 3, AssignmentEpoch: 3, Members: []kmsg.StreamsGroupDescribeResponseGroupMember{member},
		Topology: &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{
			{SubtopologyID: "0", SourceTopics: []string{"facts"}},
			{SubtopologyID: "1", RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "app-by-key-repartition"}}},
		}},
	})
	if got, want := memberAssignment(v.Members[0]), "app-by-key-repartition:1;facts:0,1;active 0_0,0_1,1_1;standby 1_0"; got != want || v.Members[0].Partitions != 3 {
		t.Errorf("%d partitions: %s, want %s", v.Members[0].Partitions, got, want)
	}
}

// resetOf makes the mode of a case.
func resetOf(t *testing.T, d *datadriven.TestData) resetMode {
	m := resetMode{ToEarliest: d.HasArg("to-earliest"), ToLatest: d.HasArg("to-latest"), ToCurrent: d.HasArg("to-current")}
	for name, field := range map[string]**int64{"to-offset": &m.ToOffset, "shift-by": &m.ShiftBy} {
		if d.HasArg(name) {
			n := numberArg(t, d, name, 0)
			*field = &n
		}
	}
	return m
}

func numberArg(t *testing.T, d *datadriven.TestData, name string, otherwise int64) int64 {
	if !d.HasArg(name) {
		return otherwise
	}
	var text string
	d.ScanArgs(t, name, &text)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReset(t *testing.T) {
	each := func(d *datadriven.TestData, parse func(string) (any, error)) string {
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			value, err := parse(line)
			if err != nil {
				value = err
			}
			fmt.Fprintf(&out, "%s: %v\n", line, value)
		}
		return out.String()
	}
	datadriven.RunTest(t, "testdata/reset.txt", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "place":
			m := resetOf(t, d)
			offset, note, err := m.place(standing{
				earliest: numberArg(t, d, "first", 0), latest: numberArg(t, d, "end", 0),
				committed: numberArg(t, d, "committed", -1), timed: numberArg(t, d, "timed", -1),
			})
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return strings.TrimSuffix(fmt.Sprintf("%d: %s", offset, note), ": ") + "\n"
		case "duration":
			return each(d, func(s string) (any, error) { return parseJavaDuration(s) })
		case "time":
			return each(d, func(s string) (any, error) {
				at, err := parseTime(s)
				return at.UTC().Format(time.RFC3339Nano), err
			})
		case "file":
			var groups []string
			for _, arg := range d.CmdArgs {
				groups = arg.Vals
			}
			plan, err := fileOffsets(strings.NewReader(d.Input), groups)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			var out strings.Builder
			for _, group := range sortedNames(plan) {
				for _, topic := range sortedNames(plan[group]) {
					for p := range int32(len(plan[group][topic])) {
						fmt.Fprintf(&out, "%s %s %d %d\n", group, topic, p, plan[group][topic][p])
					}
				}
			}
			return out.String()
		}
		t.Fatalf("unknown command %s", d.Cmd)
		return ""
	})
}

func FuzzResetInput(f *testing.F) {
	f.Add("facts:0,2", "P1DT2H", "2026-11-30T12:00:00.000", "facts,0,1\ng,facts,1,2\n")
	f.Add("a:", "PT", "T", "\"a\n")
	f.Fuzz(func(t *testing.T, scope, duration, at, file string) {
		if s, err := parseScope([]string{scope}); err == nil && len(s) != 1 {
			t.Fatalf("%q is %d topics", scope, len(s))
		}
		if d, err := parseJavaDuration(duration); err == nil && d < 0 {
			t.Fatalf("%q is %s", duration, d)
		}
		if _, err := parseTime(at); err == nil && len(at) < len("2006-01-02T15:04") {
			t.Fatalf("%q is a time", at)
		}
		plan, err := fileOffsets(strings.NewReader(file), []string{"g"})
		for _, topics := range plan {
			for _, partitions := range topics {
				for p, offset := range partitions {
					if err == nil && (p < 0 || offset < 0) {
						t.Fatalf("%q has partition %d, offset %d", file, p, offset)
					}
				}
			}
		}
	})
}

func TestReplicaAssignment(t *testing.T) {
	for text, want := range map[string]string{
		"":            "[] <nil>",
		"1:2, 2:3":    "[[1 2] [2 3]] <nil>",
		"1:1":         "[] partition 0 has broker 1 twice",
		"1:2,3":       "[] partition 1 has 1 replicas, partition 0 has 2",
		"1,-2":        `[] "-2" is no broker`,
		"9999999999,": `[] "9999999999" is no broker`,
	} {
		got, err := parseAssignment(text)
		if s := fmt.Sprint(got, " ", err); s != want {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
}

// --all-groups changes consumer groups only: the group of a stopped Connect
// cluster is shown and stays.
func TestAllGroupsAreConsumersToChange(t *testing.T) {
	b, err := broker.Start(t.Context(), broker.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	seed := kgo.SeedBrokers(b.Addr())
	for group, protocol := range map[string]string{"readers": "consumer", "workers": "connect"} {
		client, err := kgo.NewClient(seed, kgo.ConsumerGroup(group), kgo.GroupProtocol(protocol), kgo.ConsumeTopics("facts"), kgo.AllowAutoTopicCreation())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		for generation := int32(-1); generation < 1 && ctx.Err() == nil; _, generation = client.GroupMetadata() {
			time.Sleep(10 * time.Millisecond)
		}
		if err := client.LeaveGroupContext(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		client.Close()
	}
	do := func(flags ...string) (string, string, int) {
		var out, talk bytes.Buffer
		code := run(&terminal{in: strings.NewReader(""), out: &out, err: &talk}, append([]string{"groups", "-b", b.Addr()}, flags...))
		return out.String(), talk.String(), code
	}
	if out, talk, code := do("--list"); out != "readers\nworkers\n" {
		t.Fatalf("exit %d: groups %q %s", code, out, talk)
	}
	if out, talk, code := do("--delete", "--all-groups"); code != exitOK || out != "Deletion of requested consumer groups ('readers') was successful.\n" {
		t.Errorf("exit %d: %s%s", code, out, talk)
	}
	if out, _, _ := do("--list"); out != "workers\n" {
		t.Errorf("left are %q", out)
	}
	if out, talk, code := do("--delete", "--group", "workers"); code != exitOK {
		t.Errorf("exit %d: %s%s", code, out, talk)
	}
}
