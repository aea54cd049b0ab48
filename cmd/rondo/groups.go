package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupsSchema is the version of what groups -o json prints; docs/groups.md
// describes it.
const groupsSchema = 1

// groupsCmd looks at consumer groups and changes them. Its flags are those of
// kafka-consumer-groups.
type groupsCmd struct {
	clientFlags
	List          bool `help:"List the groups." group:"action"`
	Describe      bool `help:"Show offsets and lag of groups (--offsets), their members or their state." group:"action"`
	History       bool `help:"Show why each rebalance happened. Rondo's broker keeps this, Apache Kafka does not." group:"action"`
	ResetOffsets  bool `help:"Set the committed offsets of groups that have no members." group:"action"`
	DeleteOffsets bool `help:"Delete the committed offsets of topics." group:"action"`
	Delete        bool `help:"Delete groups that have no members." group:"action"`

	ValidateRegex *string `placeholder:"REGEX" help:"Say whether brokers take a regular expression that members subscribe to (RE2)." group:"action"`

	Group     []string     `placeholder:"GROUP" sep:"none" help:"Group to act on; may be repeated."`
	AllGroups bool         `help:"Act on every group."`
	Offsets   bool         `help:"With --describe: offsets and lag of every partition, the default."`
	Members   bool         `help:"With --describe: the members."`
	State     optionalList `placeholder:"STATE" help:"With --describe: the state of the group. With --list: show states, or only groups in these states."`
	Type      optionalList `placeholder:"TYPE" help:"With --list: show types, or only groups of these types (classic, consumer, streams, share)."`
	Verbose   bool         `help:"With --describe and --history: everything there is to know."`
	Output    string       `short:"o" default:"table" enum:"table,json" help:"Form of the output (${enum})."`

	Topic     []string `placeholder:"TOPIC[:P,P]" sep:"none" help:"Topic, or some of its partitions, to reset or delete offsets of; may be repeated."`
	AllTopics bool     `help:"Reset every partition that the group has committed."`
	resetMode
	DryRun  bool `help:"Show the new offsets and change nothing, the default."`
	Execute bool `help:"Write the new offsets."`
	Export  bool `help:"Print the new offsets as CSV, which --from-file takes."`
}

// optionalList is a flag whose value may be left out: --state, --state stable,empty.
type optionalList struct {
	given  bool
	values []string
}

// Decode reads --flag and --flag=a,b.
func (o *optionalList) Decode(ctx *kong.DecodeContext) error {
	o.given = true
	token := ctx.Scan.Peek()
	if token.Type != kong.FlagValueToken {
		return nil
	}
	text, ok := ctx.Scan.Pop().Value.(string)
	if !ok {
		return fmt.Errorf("want a list of names")
	}
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value != "" {
			o.values = append(o.values, value)
		}
	}
	return nil
}

// IsBool says that the flag may stand alone.
func (*optionalList) IsBool() bool { return true }

// has says whether the list is empty or has name, in whatever case.
func (o *optionalList) has(name string) bool {
	return len(o.values) == 0 || slices.ContainsFunc(o.values, func(v string) bool { return strings.EqualFold(v, name) })
}

// check refuses what is none of known.
func (o *optionalList) check(flag string, known []string) error {
	for _, v := range o.values {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, v) }) {
			return fmt.Errorf("--%s %s: unknown: want %s", flag, v, strings.Join(known, ", "))
		}
	}
	return nil
}

// groupStates are the states of all types of groups (GroupState.java).
func groupStates() []string {
	return []string{"Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling", "Stable"}
}

func groupTypes() []string { return []string{"Classic", "Consumer", "Share", "Streams"} }

// chosen lists which of some flags were given.
func chosen(flags map[string]bool) []string {
	var given []string
	for name, set := range flags {
		if set {
			given = append(given, "--"+name)
		}
	}
	slices.Sort(given)
	return given
}

// Validate refuses flags that contradict each other or miss their object.
func (c *groupsCmd) Validate() error {
	actions := chosen(map[string]bool{
		"list": c.List, "describe": c.Describe, "history": c.History, "reset-offsets": c.ResetOffsets,
		"delete": c.Delete, "delete-offsets": c.DeleteOffsets, "validate-regex": c.ValidateRegex != nil,
	})
	if len(actions) != 1 {
		return fmt.Errorf("want one of --list, --describe, --history, --reset-offsets, --delete, --delete-offsets, --validate-regex%s", butGot(actions))
	}
	if err := c.strangers(actions[0]); err != nil {
		return err
	}
	if c.AllGroups && len(c.Group) > 0 {
		return errors.New("--group and --all-groups exclude each other")
	}
	if (c.Describe || c.ResetOffsets || c.Delete) && !c.AllGroups && len(c.Group) == 0 {
		return fmt.Errorf("%s wants --group GROUP or --all-groups", actions[0])
	}
	if views := chosen(map[string]bool{"offsets": c.Offsets, "members": c.Members, "state": c.State.given}); c.Describe && len(views) > 1 {
		return fmt.Errorf("%s exclude each other", strings.Join(views, " and "))
	}
	if c.Describe && len(c.State.values) > 0 {
		return errors.New("--describe --state takes no names: they filter --list")
	}
	if c.DeleteOffsets && (len(c.Group) != 1 || len(c.Topic) == 0) {
		return errors.New("--delete-offsets wants one --group and at least one --topic")
	}
	if err := c.State.check("state", groupStates()); err != nil {
		return err
	}
	if err := c.Type.check("type", groupTypes()); err != nil {
		return err
	}
	if modes := c.resetMode.given(); !c.ResetOffsets && len(modes) > 0 {
		return fmt.Errorf("%s belongs to --reset-offsets", modes[0])
	}
	if c.ResetOffsets {
		return c.validateReset()
	}
	return nil
}

// strangers refuses flags that the action has no part for: who gives them expects
// something else of it. Above all a group is not deleted where a topic of it, or
// a rehearsal, was asked for.
func (c *groupsCmd) strangers(action string) error {
	for _, f := range []struct {
		flag    string
		given   bool
		actions []string
	}{
		{"--topic", len(c.Topic) > 0, []string{"--reset-offsets", "--delete-offsets"}},
		{"--all-topics", c.AllTopics, []string{"--reset-offsets"}},
		{"--dry-run", c.DryRun, []string{"--reset-offsets"}},
		{"--export", c.Export, []string{"--reset-offsets"}},
		{"--offsets", c.Offsets, []string{"--describe"}},
		{"--members", c.Members, []string{"--describe"}},
		{"--state", c.State.given, []string{"--list", "--describe"}},
		{"--type", c.Type.given, []string{"--list"}},
		{"--verbose", c.Verbose, []string{"--describe", "--history"}},
		{"--group", len(c.Group) > 0 && action == "--list", nil},
	} {
		if f.given && !slices.Contains(f.actions, action) {
			if f.actions == nil {
				return fmt.Errorf("%s has no part in %s", f.flag, action)
			}
			return fmt.Errorf("%s belongs to %s, not to %s", f.flag, strings.Join(f.actions, " or "), action)
		}
	}
	return nil
}

func butGot(flags []string) string {
	if len(flags) == 0 {
		return ""
	}
	return ", got " + strings.Join(flags, " and ")
}

// Run does the one action.
func (c *groupsCmd) Run(ctx context.Context, t *terminal) error {
	if c.ValidateRegex != nil {
		return validateRegex(t.out, *c.ValidateRegex)
	}
	client, err := c.connect(ctx, t)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, max(c.Timeout, 30*time.Second))
	defer cancel()
	g := &groupsRun{groupsCmd: c, t: t, client: client, admin: kadm.NewClient(client)}
	switch {
	case c.List:
		err = g.list(ctx)
	case c.Describe:
		err = g.describe(ctx)
	case c.History:
		err = g.history(ctx)
	case c.ResetOffsets:
		err = g.reset(ctx)
	case c.DeleteOffsets:
		err = g.deleteOffsets(ctx)
	default:
		err = g.delete(ctx)
	}
	return explainCluster(ctx, err)
}

// validateRegex compiles what members of the consumer protocol may subscribe to
// (KIP-848). Brokers compile it with RE2/J, whose syntax is that of Go.
func validateRegex(w io.Writer, text string) error {
	if _, err := regexp.Compile(text); err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			err = errors.New(e.Code.String())
		}
		return fmt.Errorf("the regular expression `%s` is invalid: %w", text, err)
	}
	if _, err := fmt.Fprintf(w, "The regular expression `%s` is valid.\n", text); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// groupsRun is one run of the command with what it talks to.
type groupsRun struct {
	*groupsCmd
	t      *terminal
	client *kgo.Client
	admin  *kadm.Client
}

// explainCluster gives an error of the cluster its exit code.
func explainCluster(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*failure](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return fail(exitUnreachable, err, "the cluster did not answer in time: look at -b and --timeout")
	case errors.Is(err, kerr.GroupIDNotFound):
		return fail(exitNotFound, err, "rondo groups --list shows the groups")
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fail(exitNotFound, err, "rondo topics --list shows the topics")
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.GroupSubscribedToTopic):
		return fail(exitFailed, err, "stop the members of the group first: rondo groups --describe --members shows them")
	}
	return err
}

// printJSON prints one document: its version and kind, then what it is about.
func printJSON(w io.Writer, version int, kind, name string, value any) error {
	document := struct {
		Version int    `json:"version"`
		Kind    string `json:"kind"`
	}{version, kind}
	head, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	body, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s,%s\n", head[:len(head)-1], body[1:]); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// targets are the groups to act on. --all-groups means every group to look at,
// but only consumer groups to change, as in Kafka's tool
// (ListGroupsOptions.forConsumerGroups, Kafka 4.2): the offsets of a streams
// group and the groups of Connect are not lost by the way.
func (g *groupsRun) targets(ctx context.Context) ([]string, error) {
	if !g.AllGroups {
		groups := slices.Clone(g.Group)
		slices.Sort(groups)
		return slices.Compact(groups), nil
	}
	listed, err := g.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if g.Delete || g.ResetOffsets {
		for id, l := range listed {
			if !consumers(l) {
				delete(listed, id)
			}
		}
	}
	return listed.Groups(), nil
}

// consumers says whether a group is one of consumers, or of offsets alone.
func consumers(l kadm.ListedGroup) bool {
	kind := typeName(l.GroupType)
	return (kind == "Classic" || kind == "Consumer") && (l.ProtocolType == "" || l.ProtocolType == "consumer")
}

// list prints the groups by name.
func (g *groupsRun) list(ctx context.Context) error {
	listed, err := g.admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	views := []groupView{}
	for _, l := range listed.Sorted() {
		v := groupView{ID: l.Group, Type: typeName(l.GroupType), State: l.State, ProtocolType: l.ProtocolType}
		if g.State.has(v.State) && g.Type.has(v.Type) {
			views = append(views, v)
		}
	}
	if g.Output == "json" {
		return printJSON(g.t.out, groupsSchema, "groups.list", "groups", views)
	}
	if !g.State.given && !g.Type.given {
		for _, v := range views {
			if _, err := fmt.Fprintln(g.t.out, v.ID); err != nil {
				return fmt.Errorf("write groups: %w", err)
			}
		}
		return nil
	}
	t := table{columns: []column{{"GROUP", 25}}}
	if g.Type.given {
		t.columns = append(t.columns, column{"TYPE", 20})
	}
	if g.State.given {
		t.columns = append(t.columns, column{"STATE", 20})
	}
	for _, v := range views {
		cells := []string{v.ID}
		if g.Type.given {
			cells = append(cells, v.Type)
		}
		if g.State.given {
			cells = append(cells, v.State)
		}
		t.add(cells...)
	}
	return t.write(g.t.out)
}

// typeName is a type of groups as Kafka's tools write it: "Consumer". Brokers
// before 3.8 have classic groups alone and do not say so.
func typeName(wire string) string {
	if wire == "" {
		return "Classic"
	}
	return strings.ToUpper(wire[:1]) + strings.ToLower(wire[1:])
}
