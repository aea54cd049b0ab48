package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeCmd reads records. Its letters are kcat's.
type consumeCmd struct {
	clientFlags
	Topic        string   `short:"t" env:"RONDO_TOPIC" help:"Topic to read."`
	Group        string   `short:"G" placeholder:"GROUP" help:"Read as a member of this group, which commits what was printed: -G GROUP TOPIC ... The balanced consumer of kcat."`
	Topics       []string `arg:"" optional:"" help:"With -G: topics, or regular expressions that start with ^."`
	Partition    []int32  `short:"p" help:"Partition to read, default all; may be repeated."`
	Offset       string   `short:"o" default:"beginning" help:"Where to start: beginning, end, N, -N (before the end), s@MILLIS. e@MILLIS is where to stop."`
	Exit         bool     `short:"e" help:"Exit at the end that the topic had when the command started."`
	Count        int64    `short:"c" help:"Exit after so many records, 0 is no limit."`
	Format       string   `short:"f" help:"Form of a record: %t topic %p partition %o offset %k key %K its length %s or %v value %S its length %T or %d timestamp in ms %h headers, and the modifiers of franz-go."`
	KeyDelimiter string   `short:"K" placeholder:"DELIM" help:"Print KEY DELIM VALUE."`
	Delimiter    string   `short:"D" default:"\\n" help:"What ends a record in the output."`
	JSON         bool     `name:"json" short:"J" help:"One JSON object a line; rondo produce -J and --replay take it back."`
	Quiet        bool     `short:"q" help:"Do not say where a partition ends."`
	Unbuffered   bool     `short:"u" help:"Write every record at once."`
}

// Validate refuses flags that contradict each other.
func (c *consumeCmd) Validate() error {
	switch {
	case c.Group == "" && len(c.Topics) > 0:
		return fmt.Errorf("%s: topics without a flag belong to -G GROUP; -t TOPIC reads without a group", c.Topics[0])
	case c.Group == "" && c.Topic == "":
		return errors.New("-t TOPIC is missing, or -G GROUP TOPIC ...")
	case c.Group != "" && len(c.Partition) > 0:
		return errors.New("-G and -p exclude each other: the group hands out the partitions")
	case c.Group != "" && c.Offset != "" && c.Offset != "beginning" && c.Offset != "end":
		return errors.New("with -G, -o is where to start without a committed offset: beginning or end")
	}
	if c.Group != "" && c.Topic != "" {
		c.Topics = append(c.Topics, c.Topic)
	}
	if c.Group != "" && len(c.Topics) == 0 {
		return errors.New("-G GROUP wants at least one topic")
	}
	forms := 0
	for _, set := range []bool{c.Format != "", c.KeyDelimiter != "", c.JSON} {
		if set {
			forms++
		}
	}
	if forms > 1 {
		return fmt.Errorf("-f, -K and -J exclude each other: each says what a record looks like")
	}
	return nil
}

// Run prints records until the end, the count or an interrupt.
func (c *consumeCmd) Run(ctx context.Context, t *terminal) error {
	form, err := c.form()
	if err != nil {
		return err
	}
	if c.Group != "" {
		return c.runGroup(ctx, t, form)
	}
	client, err := c.connect(ctx, t, kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	spans, err := c.spans(ctx, client)
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	for partition, s := range spans {
		if c.Exit && s.from >= s.to {
			c.sayEnd(t, partition, s.to)
			delete(spans, partition)
			continue
		}
		starts[partition] = kgo.NewOffset().At(s.from)
	}
	if len(starts) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: starts})
	out := bufio.NewWriterSize(t.out, 64<<10)
	err = c.print(ctx, t, client, spans, out, form)
	if flushErr := out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write records: %w", flushErr)
	}
	return err
}

// span is the part of a partition to read: from, and where -e ends.
type span struct{ from, to int64 }

// spans asks the cluster where each partition starts and ends.
func (c *consumeCmd) spans(ctx context.Context, client *kgo.Client) (map[int32]span, error) {
	partitions, err := partitionsOf(ctx, client, c.Topic)
	if err != nil {
		return nil, err
	}
	wanted := map[int32]bool{}
	for _, p := range partitions {
		wanted[p] = len(c.Partition) == 0
	}
	for _, p := range c.Partition {
		if _, ok := wanted[p]; !ok {
			return nil, fail(exitNotFound, fmt.Errorf("topic %s partition %d: not found", c.Topic, p), "it has partitions 0 to %d", len(partitions)-1)
		}
		wanted[p] = true
	}
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", c.Topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", c.Topic, err)
	}
	spans := map[int32]span{}
	for p, want := range wanted {
		if want {
			s := span{from: starts[c.Topic][p].Offset, to: ends[c.Topic][p].Offset}
			if spans[p], err = c.place(ctx, admin, p, s); err != nil {
				return nil, err
			}
		}
	}
	return spans, nil
}

// place applies -o to the whole of a partition.
func (c *consumeCmd) place(ctx context.Context, admin *kadm.Client, p int32, whole span) (span, error) {
	s := whole
	for _, word := range strings.Split(c.Offset, ",") {
		switch {
		case word == "beginning":
			s.from = whole.from
		case word == "end":
			s.from = whole.to
		case strings.HasPrefix(word, "s@"), strings.HasPrefix(word, "e@"):
			ms, err := strconv.ParseInt(word[2:], 10, 64)
			if err != nil {
				return s, c.badOffset(word)
			}
			listed, err := admin.ListOffsetsAfterMilli(ctx, ms, c.Topic)
			if err != nil {
				return s, fmt.Errorf("find %s in %s: %w", word, c.Topic, err)
			}
			at := listed[c.Topic][p].Offset
			if word[0] == 's' {
				s.from = at
			} else {
				s.to, c.Exit = at, true
			}
		default:
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return s, c.badOffset(word)
			}
			if strings.HasPrefix(word, "-") {
				s.from = max(whole.from, whole.to+n)
			} else {
				s.from = min(max(whole.from, n), whole.to)
			}
		}
	}
	return s, nil
}

func (c *consumeCmd) badOffset(word string) error {
	return fail(exitUsage, fmt.Errorf("-o %s: not an offset", word), "beginning, end, N, -N, s@MILLIS or e@MILLIS")
}

// print is the loop: one poll, its records in form, and what has ended.
func (c *consumeCmd) print(ctx context.Context, t *terminal, client *kgo.Client, spans map[int32]span, out *bufio.Writer, form form) error {
	left := c.Count
	if left == 0 {
		left = math.MaxInt64
	}
	var buffer []byte
	for len(spans) > 0 && left > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		for r := range fetches.RecordsAll() {
			s, open := spans[r.Partition]
			if !open || left == 0 {
				continue
			}
			if !r.Attrs.IsControl() && (!c.Exit || r.Offset < s.to) {
				buffer = form(buffer[:0], r)
				if _, err := out.Write(buffer); err != nil {
					return fmt.Errorf("write records: %w", err)
				}
				left--
				if c.Unbuffered {
					if err := out.Flush(); err != nil {
						return fmt.Errorf("write records: %w", err)
					}
				}
			}
			if c.Exit && r.Offset+1 >= s.to {
				c.sayEnd(t, r.Partition, s.to)
				delete(spans, r.Partition)
			}
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	return nil
}

func (c *consumeCmd) sayEnd(t *terminal, partition int32, offset int64) {
	if !c.Quiet {
		t.say("%% reached end of topic %s [%d] at offset %d", c.Topic, partition, offset)
	}
}

// form appends a record as it is printed.
type form func(dst []byte, r *kgo.Record) []byte

// form chooses what a record looks like.
func (c *consumeCmd) form() (form, error) {
	delimiter, err := unescape(c.Delimiter)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("-D %q: %w", c.Delimiter, err), `-D '\n'`)
	}
	switch {
	case c.JSON:
		return func(dst []byte, r *kgo.Record) []byte {
			line, err := json.Marshal(record(r))
			if err != nil {
				// Strings, bytes and numbers alone: there is nothing to refuse.
				panic(err)
			}
			return append(append(dst, line...), '\n')
		}, nil
	case c.Format != "":
		return newFormat(c.Format)
	}
	return func(dst []byte, r *kgo.Record) []byte {
		if c.KeyDelimiter != "" {
			dst = append(append(dst, r.Key...), c.KeyDelimiter...)
		}
		return append(append(dst, r.Value...), delimiter...)
	}, nil
}
