package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// deletedView is what became of one group.
type deletedView struct {
	ID    string `json:"group"`
	Error string `json:"error,omitempty"`
}

// delete removes groups that have no members.
func (g *groupsRun) delete(ctx context.Context) error {
	ids, err := g.targets(ctx)
	if err != nil {
		return err
	}
	results := []deletedView{}
	var gone []string
	var failed []error
	if len(ids) > 0 {
		responses, err := g.admin.DeleteGroups(ctx, ids...)
		if err != nil {
			return fmt.Errorf("delete groups: %w", err)
		}
		for _, id := range ids {
			if err := responses[id].Err; err != nil {
				failed = append(failed, fmt.Errorf("delete group %s: %w", id, err))
				results = append(results, deletedView{id, err.Error()})
				continue
			}
			gone = append(gone, "'"+id+"'")
			results = append(results, deletedView{ID: id})
		}
	}
	if g.Output == "json" {
		err = printJSON(g.t.out, groupsSchema, "groups.delete", "groups", results)
	} else if len(gone) > 0 {
		words := "Deletion of requested consumer groups (%s) was successful.\n"
		if len(failed) > 0 {
			words = "These consumer groups were deleted successfully: %s\n"
		}
		_, err = fmt.Fprintf(g.t.out, words, strings.Join(gone, ", "))
	}
	return errors.Join(append(failed, err)...)
}

// deletedOffset is what became of the offset of one partition.
type deletedOffset struct {
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"` // null: the topic was not found
	Error     string `json:"error,omitempty"`
}

// deleteOffsets removes what a group committed for topics that nobody of it
// reads.
func (g *groupsRun) deleteOffsets(ctx context.Context) error {
	id := g.Group[0]
	scope, err := parseScope(g.Topic)
	if err != nil {
		return err
	}
	details, err := g.admin.ListTopicsWithInternal(ctx, sortedNames(scope)...)
	if err != nil {
		return fmt.Errorf("describe topics: %w", err)
	}
	set := kadm.TopicsSet{}
	results := []deletedOffset{}
	var failed []error
	for _, topic := range sortedNames(scope) {
		if err := details[topic].Err; err != nil {
			failed = append(failed, fmt.Errorf("topic %s: %w", topic, err))
			results = append(results, deletedOffset{Topic: topic, Error: err.Error()})
			continue
		}
		partitions := scope[topic]
		if partitions == nil {
			partitions = details[topic].Partitions.Numbers()
		}
		set.Add(topic, partitions...)
	}
	if len(set) > 0 {
		more, errs := g.deleteSet(ctx, id, set)
		results, failed = append(results, more...), append(failed, errs...)
	}
	if len(results) > 0 {
		failed = append(failed, g.showDeleted(id, results))
	}
	return errors.Join(failed...)
}

func (g *groupsRun) deleteSet(ctx context.Context, id string, set kadm.TopicsSet) ([]deletedOffset, []error) {
	responses, err := g.admin.DeleteOffsets(ctx, id, set)
	if err != nil {
		return nil, []error{fmt.Errorf("delete offsets of group %s: %w", id, err)}
	}
	var results []deletedOffset
	failed := map[string]error{} // by topic: its partitions fail alike
	for _, t := range set.Sorted() {
		for _, p := range t.Partitions {
			result := deletedOffset{Topic: t.Topic, Partition: &p}
			perr, ok := responses.Lookup(t.Topic, p)
			if !ok {
				perr = kerr.UnknownServerError
			}
			if perr != nil {
				result.Error = perr.Error()
				failed[t.Topic] = fmt.Errorf("delete offsets of group %s for topic %s: %w", id, t.Topic, perr)
			}
			results = append(results, result)
		}
	}
	var errs []error
	for _, topic := range sortedNames(failed) {
		errs = append(errs, failed[topic])
	}
	return results, errs
}

func (g *groupsRun) showDeleted(id string, results []deletedOffset) error {
	if g.Output == "json" {
		return printJSON(g.t.out, groupsSchema, "groups.delete-offsets", "offsets", results)
	}
	if !slices.ContainsFunc(results, func(r deletedOffset) bool { return r.Error != "" }) {
		g.t.say("Request succeeded for deleting offsets from group %s.", id)
	}
	t := table{columns: []column{{"TOPIC", 15}, {"PARTITION", 10}, {"STATUS", 15}}}
	for _, r := range results {
		cells := []string{r.Topic, "", "Successful"}
		if r.Partition != nil {
			cells[1] = strconv.Itoa(int(*r.Partition))
		}
		if r.Error != "" {
			cells[2] = "Error: " + r.Error
		}
		t.add(cells...)
	}
	fmt.Fprintln(g.t.out)
	return t.write(g.t.out)
}
