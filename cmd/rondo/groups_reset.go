package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetMode says where --reset-offsets sets offsets to; one of it is given.
type resetMode struct {
	ToEarliest bool   `help:"Reset to the first offset."`
	ToLatest   bool   `help:"Reset to the end."`
	ToCurrent  bool   `help:"Reset to what is committed, or to the end where nothing is: with --export, a copy."`
	ToOffset   *int64 `placeholder:"OFFSET" help:"Reset to an offset, or the nearest that there is."`
	ShiftBy    *int64 `placeholder:"N" help:"Move what is committed by N, which may be negative."`
	ToDatetime string `placeholder:"TIME" help:"Reset to the first record of a time on, YYYY-MM-DDThh:mm:ss.sss with a zone or in UTC."`
	ByDuration string `placeholder:"DURATION" help:"Reset to the first record of so long ago: PnDTnHnMnS, or 1h30m."`
	FromFile   string `placeholder:"FILE" help:"Reset to the offsets of a CSV file: topic,partition,offset, or group,topic,partition,offset."`
}

func (m *resetMode) given() []string {
	return chosen(map[string]bool{
		"to-earliest": m.ToEarliest, "to-latest": m.ToLatest, "to-current": m.ToCurrent, "to-offset": m.ToOffset != nil,
		"shift-by": m.ShiftBy != nil, "to-datetime": m.ToDatetime != "", "by-duration": m.ByDuration != "", "from-file": m.FromFile != "",
	})
}

func (c *groupsCmd) validateReset() error {
	modes := c.resetMode.given()
	if len(modes) != 1 {
		return fmt.Errorf("--reset-offsets wants one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, --from-file%s", butGot(modes))
	}
	if c.DryRun && c.Execute {
		return errors.New("--dry-run and --execute exclude each other")
	}
	if c.FromFile != "" {
		return nil // the file says which partitions
	}
	if c.AllTopics == (len(c.Topic) > 0) {
		return errors.New("--reset-offsets wants either --all-topics or --topic")
	}
	return nil
}

// parseScope reads --topic flags: T, or T:p,p. No numbers mean all partitions.
func parseScope(topics []string) (map[string][]int32, error) {
	scope := map[string][]int32{}
	for _, text := range topics {
		topic, list, some := strings.Cut(text, ":")
		if !some {
			scope[topic] = nil
			continue
		}
		for number := range strings.SplitSeq(list, ",") {
			p, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
			if err != nil || p < 0 {
				return nil, fail(exitUsage, fmt.Errorf("--topic %s: %q is no partition", text, number), "--topic facts:0,2")
			}
			if all, ok := scope[topic]; !ok || all != nil {
				scope[topic] = append(scope[topic], int32(p))
			}
		}
	}
	return scope, nil
}

// parseJavaDuration reads PnDTnHnMnS as java.time.Duration does, or a duration
// of Go.
func parseJavaDuration(text string) (time.Duration, error) {
	upper := strings.ToUpper(text)
	rest, java := strings.CutPrefix(upper, "P")
	if !java {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		return d, nil
	}
	days, hours, timed := strings.Cut(rest, "T")
	var total time.Duration
	if days != "" {
		number, ok := strings.CutSuffix(days, "D")
		n, err := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || n < 0 || n > 100_000 {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		total = time.Duration(n) * 24 * time.Hour
	}
	if timed {
		d, err := time.ParseDuration(strings.ToLower(hours))
		if err != nil || d < 0 || strings.Trim(hours, "0123456789.HMS") != "" || strings.Contains(hours, "MS") {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		total += d
	}
	if days == "" && !timed {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	return total, nil
}

// parseTime reads a time as Kafka's tool does: one without a zone is in UTC.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999Z07", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", text)
}

// since is the time that --to-datetime or --by-duration means.
func (m *resetMode) since(now time.Time) (at time.Time, timed bool, err error) {
	switch {
	case m.ToDatetime != "":
		if at, err = parseTime(m.ToDatetime); err != nil {
			return at, true, fail(exitUsage, fmt.Errorf("--to-datetime: %w", err), "--to-datetime 2026-11-30T12:00:00.000")
		}
		return at, true, nil
	case m.ByDuration != "":
		d, err := parseJavaDuration(m.ByDuration)
		if err != nil {
			return at, true, fail(exitUsage, fmt.Errorf("--by-duration: %w", err), "--by-duration PT1H30M, or 1h30m")
		}
		return now.Add(-d), true, nil
	}
	return at, false, nil
}

// standing is where a partition stands before its offset is reset.
type standing struct {
	earliest, latest int64
	committed        int64 // -1: nothing
	timed            int64 // the first offset of the time that was asked for, -1: none
	file             int64 // what the file says
}

// place is where the mode puts a partition, with a note on what was adjusted.
func (m *resetMode) place(s standing) (offset int64, note string, err error) {
	switch {
	case m.ToEarliest:
		return s.earliest, "", nil
	case m.ToLatest:
		return s.latest, "", nil
	case m.ToCurrent && s.committed < 0:
		return s.latest, "", nil
	case m.ToCurrent:
		offset = s.committed
	case m.ToOffset != nil:
		offset = *m.ToOffset
	case m.ShiftBy != nil && s.committed < 0:
		return 0, "", errors.New("cannot shift: nothing is committed")
	case m.ShiftBy != nil:
		offset = addOffset(s.committed, *m.ShiftBy)
	case m.FromFile != "":
		offset = s.file
	case s.timed < 0:
		return s.latest, "no record at or after that time, falling back to the end", nil
	default:
		offset = s.timed
	}
	switch {
	case offset < s.earliest:
		return s.earliest, fmt.Sprintf("offset %d is before the first, %d is taken", offset, s.earliest), nil
	case offset > s.latest:
		return s.latest, fmt.Sprintf("offset %d is past the end, %d is taken", offset, s.latest), nil
	}
	return offset, "", nil
}

// addOffset adds without wrapping round.
func addOffset(offset, n int64) int64 {
	sum := offset + n
	if n > 0 && sum < offset {
		return 1<<63 - 1
	}
	return sum
}

// fileOffsets reads the CSV of --from-file: offsets by group, topic and
// partition. Lines without a group need that there is just one.
func fileOffsets(r io.Reader, groups []string) (map[string]map[string]map[int32]int64, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord, reader.TrimLeadingSpace = -1, true
	plan := map[string]map[string]map[int32]int64{}
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return plan, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		var group string
		switch {
		case len(fields) == 4:
			group, fields = fields[0], fields[1:]
		case len(fields) == 3 && len(groups) == 1:
			group = groups[0]
		case len(fields) == 3:
			return nil, fmt.Errorf("line %d: for several groups want group,topic,partition,offset", line)
		default:
			return nil, fmt.Errorf("line %d: %d fields, want topic,partition,offset or group,topic,partition,offset", line, len(fields))
		}
		if !slices.Contains(groups, group) {
			return nil, fmt.Errorf("line %d: group %s is none of those to reset", line, group)
		}
		p, err := strconv.ParseInt(strings.TrimSpace(fields[1]), 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("line %d: %q is no partition", line, fields[1])
		}
		offset, err := strconv.ParseInt(strings.TrimSpace(fields[2]), 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("line %d: %q is no offset", line, fields[2])
		}
		if plan[group] == nil {
			plan[group] = map[string]map[int32]int64{}
		}
		if plan[group][fields[0]] == nil {
			plan[group][fields[0]] = map[int32]int64{}
		}
		plan[group][fields[0]][int32(p)] = offset
	}
}

// newOffset is one line of the plan.
type newOffset struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"new_offset"`
	Before    *int64 `json:"current_offset"`
	Note      string `json:"note,omitempty"`
}

// reset makes the plan for every group and, with --execute, writes it. A group
// that cannot be reset does not keep the others from it.
func (g *groupsRun) reset(ctx context.Context) error {
	ids, err := g.targets(ctx)
	if err != nil {
		return err
	}
	job := resetJob{groupsRun: g}
	if job.scope, err = parseScope(g.Topic); err != nil {
		return err
	}
	if job.since, job.timed, err = g.since(time.Now()); err != nil {
		return err
	}
	if g.FromFile != "" {
		if job.file, err = readPlan(g.FromFile, ids); err != nil {
			return err
		}
	}
	described, failed := g.lookUp(ctx, ids)
	failed = slices.DeleteFunc(failed, func(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }) // it is made
	plan := []newOffset{}
	for _, id := range ids {
		if v, ok := described[id]; ok && v.State != "Empty" {
			failed = append(failed, fmt.Errorf("offsets can only be reset if the group '%s' is inactive, but the current state is %s", id, v.State))
			continue
		}
		rows, err := job.plan(ctx, id)
		if err == nil && g.Execute {
			err = g.commit(ctx, id, rows)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("reset group %s: %w", id, err))
			continue
		}
		plan = append(plan, rows...)
	}
	if len(plan) > 0 || len(failed) == 0 {
		failed = append(failed, g.showPlan(plan, len(ids) > 1))
	}
	if !g.Execute && !g.DryRun && len(plan) > 0 {
		g.t.say("This was a dry run: --execute writes these offsets.")
	}
	return errors.Join(failed...)
}

func readPlan(path string, groups []string) (map[string]map[string]map[int32]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fail(exitNotFound, fmt.Errorf("read --from-file: %w", err), "--export prints such a file")
	}
	defer file.Close() //nolint:errcheck // it was read
	plan, err := fileOffsets(file, groups)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read --from-file %s: %w", path, err), "--export prints such a file")
	}
	return plan, nil
}

// resetJob is what is the same for every group.
type resetJob struct {
	*groupsRun
	scope map[string][]int32
	since time.Time
	timed bool
	file  map[string]map[string]map[int32]int64
}

// plan says where the partitions of a group are set to.
func (j *resetJob) plan(ctx context.Context, id string) ([]newOffset, error) {
	committed, err := j.admin.FetchOffsets(ctx, id)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	wanted, err := j.partitions(ctx, id, committed)
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	starts, err := listOffsets(ctx, j.client, firstOffset, wanted)
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(ctx, j.client, endOffset, wanted)
	if err != nil {
		return nil, err
	}
	var timed kadm.ListedOffsets
	if j.timed {
		if timed, err = listOffsets(ctx, j.client, max(0, j.since.UnixMilli()), wanted); err != nil {
			return nil, err
		}
	}
	var rows []newOffset
	for _, topic := range sortedNames(wanted) {
		for _, p := range wanted[topic] {
			start, end := starts[topic][p], ends[topic][p]
			if err := firstError(start.Err, end.Err); err != nil {
				return nil, fmt.Errorf("list offsets of %s-%d: %w", topic, p, err)
			}
			s := standing{earliest: start.Offset, latest: end.Offset, committed: -1, timed: -1, file: j.file[id][topic][p]}
			row := newOffset{Group: id, Topic: topic, Partition: p}
			if c, ok := committed.Lookup(topic, p); ok && c.Err == nil && c.At >= 0 {
				s.committed, row.Before = c.At, &c.At
			}
			if at, ok := timed.Lookup(topic, p); ok && at.Err == nil {
				s.timed = at.Offset
			}
			if row.Offset, row.Note, err = j.place(s); err != nil {
				return nil, fmt.Errorf("partition %s-%d: %w", topic, p, err)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// partitions are those of the scope, which must exist.
func (j *resetJob) partitions(ctx context.Context, id string, committed kadm.OffsetResponses) (map[string][]int32, error) {
	scope := j.scope
	switch {
	case j.FromFile != "":
		scope = map[string][]int32{}
		for topic, offsets := range j.file[id] {
			scope[topic] = slices.Sorted(maps.Keys(offsets))
		}
	case j.AllTopics:
		scope = map[string][]int32{}
		for _, c := range committed.Sorted() {
			scope[c.Topic] = append(scope[c.Topic], c.Partition)
		}
	}
	if len(scope) == 0 {
		return nil, nil
	}
	details, err := j.admin.ListTopicsWithInternal(ctx, sortedNames(scope)...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	wanted := map[string][]int32{}
	for topic, partitions := range scope {
		if err := details[topic].Err; err != nil {
			return nil, fmt.Errorf("topic %s: %w", topic, err)
		}
		there := details[topic].Partitions.Numbers()
		if partitions == nil {
			partitions = there
		}
		for _, p := range partitions {
			if !slices.Contains(there, p) {
				return nil, fmt.Errorf("partition %s-%d: %w", topic, p, kerr.UnknownTopicOrPartition)
			}
		}
		wanted[topic] = partitions
	}
	return wanted, nil
}

// commit writes the plan of a group.
func (g *groupsRun) commit(ctx context.Context, id string, rows []newOffset) error {
	offsets := kadm.Offsets{}
	for _, r := range rows {
		offsets.AddOffset(r.Topic, r.Partition, r.Offset, -1)
	}
	if len(offsets) == 0 {
		return nil
	}
	return g.admin.CommitAllOffsets(ctx, id, offsets)
}

func (g *groupsRun) showPlan(plan []newOffset, several bool) error {
	for _, r := range plan {
		if r.Note != "" {
			g.t.say("Warn: partition %s-%d of group %s: %s.", r.Topic, r.Partition, r.Group, r.Note)
		}
	}
	if g.Output == "json" {
		return printJSON(g.t.out, groupsSchema, "groups.reset-offsets", "offsets", plan)
	}
	if g.Export {
		w := csv.NewWriter(g.t.out)
		for _, r := range plan {
			fields := []string{r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.Offset, 10)}
			if several {
				fields = append([]string{r.Group}, fields...)
			}
			if err := w.Write(fields); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
		}
		w.Flush()
		return w.Error()
	}
	t := table{columns: []column{{"GROUP", 15}, {"TOPIC", 15}, {"PARTITION", 10}, {"NEW-OFFSET", 0}}}
	for _, r := range plan {
		t.add(r.Group, r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.Offset, 10))
	}
	fmt.Fprintln(g.t.out)
	return t.write(g.t.out)
}

// sortedNames lists the keys of a map in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
