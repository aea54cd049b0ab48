package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceCmd writes records. Its letters are kcat's.
type produceCmd struct {
	clientFlags
	Topic        string   `short:"t" env:"RONDO_TOPIC" help:"Topic to write to; a recording has its own."`
	Partition    int32    `short:"p" default:"-1" help:"Partition to write to, -1 lets the key choose."`
	KeyDelimiter string   `short:"K" placeholder:"DELIM" help:"A record is KEY DELIM VALUE."`
	Key          *string  `short:"k" help:"The key of every record."`
	KeyField     string   `placeholder:"PATH" help:"Take the key from this field of a JSON value, as in cve or package.name."`
	Delimiter    string   `short:"D" default:"\\n" help:"What ends a record in the input; \\n \\t \\0 \\xNN are understood."`
	Header       []string `short:"H" sep:"none" placeholder:"NAME=VALUE" help:"Header of every record; may be repeated."`
	Codec        string   `short:"z" placeholder:"CODEC" help:"Compression: none, gzip, snappy, lz4, zstd."`
	Whole        bool     `help:"Every file is one record."`
	Count        int64    `short:"c" help:"Stop after so many records, 0 is no limit."`
	Rate         float64  `short:"r" help:"Records a second, 0 is as fast as the broker takes them."`

	JSON           bool    `name:"json" short:"J" help:"The input is a recording of rondo consume -J (or kcat -J)."`
	Replay         bool    `help:"Play a recording in the order and at the spacing of its timestamps; implies -J. The recording is held in memory."`
	Speed          float64 `default:"1" help:"Speed of --replay: 10 is ten times as fast."`
	KeepTimestamps bool    `help:"Records keep the timestamps of the recording instead of getting new ones."`
	KeepPartitions bool    `help:"Records keep the partitions of the recording."`

	Partitions int32 `placeholder:"N" help:"Make the topic with N partitions when it is not there."`
	Quiet      bool  `short:"q" help:"Do not print the count at the end."`

	Files []string `arg:"" optional:"" help:"Files to read, - or none is standard input."`
}

// Validate refuses flags that contradict each other.
func (c *produceCmd) Validate() error {
	c.JSON = c.JSON || c.Replay
	keys := 0
	for _, set := range []bool{c.KeyDelimiter != "", c.Key != nil, c.KeyField != ""} {
		if set {
			keys++
		}
	}
	switch {
	case c.Topic == "" && !c.JSON:
		return fmt.Errorf("-t TOPIC is missing")
	case keys > 1:
		return fmt.Errorf("-K, -k and --key-field exclude each other: each says where the key comes from")
	case c.Whole && c.JSON:
		return fmt.Errorf("--whole and -J exclude each other")
	case c.Rate < 0 || c.Speed <= 0:
		return fmt.Errorf("--rate is 0 or more and --speed is more than 0")
	case c.Replay && c.Rate > 0:
		return fmt.Errorf("--replay keeps the spacing of the recording, --rate sets another one: choose one")
	case c.Partition >= 0 && c.KeepPartitions:
		return fmt.Errorf("-p and --keep-partitions exclude each other")
	}
	return nil
}

// Run reads, paces and writes records until the input or the count ends.
func (c *produceCmd) Run(ctx context.Context, t *terminal) error {
	delimiter, err := unescape(c.Delimiter)
	if err != nil || delimiter == "" {
		return fail(exitUsage, fmt.Errorf("-D %q: not a delimiter", c.Delimiter), `-D '\n'`)
	}
	if c.Codec != "" {
		c.X = append(c.X, "compression.type="+c.Codec)
	}
	partitioner := kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))
	if c.Partition >= 0 || c.KeepPartitions {
		partitioner = kgo.RecordPartitioner(kgo.ManualPartitioner())
	}
	// A record that timed out may be there all the same, but nothing sends it
	// again: the command ends. So its time-out may be kept to.
	opts := []kgo.Opt{partitioner, kgo.MaxBufferedRecords(20_000), kgo.AllowIdempotentProduceCancellation()}
	if c.KeepTimestamps {
		// franz-go counts delivery.timeout.ms from a record's own timestamp:
		// those of a recording are over before they are sent.
		opts = append(opts, kgo.RecordDeliveryTimeout(0))
	}
	client, err := c.connect(ctx, t, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Topic != "" {
		if err := c.prepareTopic(ctx, client); err != nil {
			return err
		}
	}
	s := &sender{client: client, started: time.Now()}
	err = c.feed(ctx, t, []byte(delimiter), s)
	if flushErr := client.Flush(ctx); err == nil {
		err = flushErr
	}
	sent, failed := s.outcome()
	if err == nil {
		err = failed
	}
	if !c.Quiet {
		took := time.Since(s.started).Round(time.Millisecond)
		t.say("%d records acknowledged in %s", sent, took)
	}
	return err
}

// prepareTopic makes the topic when asked to, and otherwise checks that it is
// there: a producer would wait for it without a word.
func (c *produceCmd) prepareTopic(ctx context.Context, client *kgo.Client) error {
	if c.Partitions > 0 {
		created, err := kadm.NewClient(client).CreateTopics(ctx, c.Partitions, -1, nil, c.Topic)
		if err != nil {
			return fail(exitUnreachable, fmt.Errorf("create topic %s: %w", c.Topic, err), "look at -b and --timeout")
		}
		if err := created[c.Topic].Err; err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w %s", c.Topic, err, created[c.Topic].ErrMessage)
		}
	}
	partitions, err := partitionsOf(ctx, client, c.Topic)
	if err == nil && c.Partition >= 0 && !slices.Contains(partitions, c.Partition) {
		return fail(exitNotFound, fmt.Errorf("topic %s partition %d: not found", c.Topic, c.Partition), "it has partitions 0 to %d", len(partitions)-1)
	}
	return err
}

// feed sends every record of every file.
func (c *produceCmd) feed(ctx context.Context, t *terminal, delimiter []byte, s *sender) error {
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	var replay []timed
	for _, name := range files {
		in := t.in
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return fail(exitNotFound, fmt.Errorf("read records: %w", err), "- is standard input")
			}
			defer f.Close()
			in = f
		}
		err := c.eachRecord(in, delimiter, func(r *kgo.Record) error {
			if c.Replay {
				replay = append(replay, timed{at: r.Timestamp, record: r})
				return nil
			}
			return c.send(ctx, s, r, c.pace(s))
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.replay(ctx, s, replay)
}

// timed is a record of a recording and when it was made.
type timed struct {
	at     time.Time
	record *kgo.Record
}

// replay sends a recording at its own spacing. Consumers record partition by
// partition, so order comes from the timestamps.
func (c *produceCmd) replay(ctx context.Context, s *sender, records []timed) error {
	slices.SortStableFunc(records, func(a, b timed) int { return a.at.Compare(b.at) })
	for _, r := range records {
		since := time.Duration(float64(r.at.Sub(records[0].at)) / c.Speed)
		if err := c.send(ctx, s, r.record, s.started.Add(since)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

// pace is when the next record is due at --rate.
func (c *produceCmd) pace(s *sender) time.Time {
	if c.Rate == 0 {
		return time.Time{}
	}
	return s.started.Add(time.Duration(float64(s.handed) / c.Rate * float64(time.Second)))
}

// send waits until a record is due and hands it to the client; io.EOF says
// that the count is reached.
func (c *produceCmd) send(ctx context.Context, s *sender, r *kgo.Record, due time.Time) error {
	if err := sleepUntil(ctx, due); err != nil {
		return err
	}
	if !c.KeepTimestamps {
		r.Timestamp = time.Time{}
	}
	if !c.KeepPartitions {
		r.Partition = c.Partition
	}
	s.send(ctx, r)
	if _, failed := s.outcome(); failed != nil {
		return failed
	}
	if c.Count > 0 && s.handed >= c.Count {
		return io.EOF
	}
	return nil
}

func sleepUntil(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if due.IsZero() || wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxRecordBytes bounds one record of the input: more than any broker takes.
const maxRecordBytes = 128 << 20

// eachRecord cuts the input and makes a record of each piece.
func (c *produceCmd) eachRecord(in io.Reader, delimiter []byte, f func(*kgo.Record) error) error {
	if c.Whole {
		data, err := io.ReadAll(io.LimitReader(in, maxRecordBytes+1))
		if err != nil {
			return err
		}
		if len(data) > maxRecordBytes {
			return fail(exitUsage, fmt.Errorf("more than %d bytes in one record", maxRecordBytes), "leave --whole out to cut at the delimiter")
		}
		r, err := c.record(data)
		if err != nil {
			return err
		}
		return f(r)
	}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), maxRecordBytes)
	scanner.Split(cutAt(delimiter))
	line := 0
	for scanner.Scan() {
		line++
		r, err := c.record(bytes.Clone(scanner.Bytes()))
		if err != nil {
			return fail(exitUsage, fmt.Errorf("record %d: %w", line, err), "the input does not fit the flags; records before this one were sent")
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// cutAt splits at a delimiter of any length; the last piece needs none.
func cutAt(delimiter []byte) bufio.SplitFunc {
	return func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.Index(data, delimiter); i >= 0 {
			return i + len(delimiter), data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	}
}

// record makes a record of one piece of the input.
func (c *produceCmd) record(piece []byte) (*kgo.Record, error) {
	r := &kgo.Record{Value: piece}
	if c.JSON {
		in, parsed, err := parseRecorded(piece)
		if err != nil {
			return nil, err
		}
		r = parsed
		if r.Topic = in.Topic; c.Topic == "" && r.Topic == "" {
			return nil, fmt.Errorf("no topic in the recording and no -t")
		}
	}
	if c.Topic != "" {
		r.Topic = c.Topic
	}
	for _, h := range c.Header {
		name, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	switch {
	case c.Key != nil:
		r.Key = []byte(*c.Key)
	case c.KeyDelimiter != "":
		key, value, ok := bytes.Cut(piece, []byte(c.KeyDelimiter))
		if !ok {
			return nil, fmt.Errorf("no key delimiter %q in %q", c.KeyDelimiter, clip(piece))
		}
		r.Key, r.Value = key, value
	case c.KeyField != "":
		key, err := keyField(r.Value, strings.Split(c.KeyField, "."))
		if err != nil {
			return nil, fmt.Errorf("--key-field %s: %w in %q", c.KeyField, err, clip(r.Value))
		}
		r.Key = key
	}
	return r, nil
}

// clip shortens input for an error.
func clip(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "..."
	}
	return string(b)
}

// sender hands records to the client and counts what came of them.
type sender struct {
	client  *kgo.Client
	started time.Time
	handed  int64

	mu     sync.Mutex
	acked  int64
	failed error // the first
}

// send blocks while the client's buffer is full.
func (s *sender) send(ctx context.Context, r *kgo.Record) {
	s.handed++
	s.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.acked++
		} else if s.failed == nil {
			s.failed = failedWrite(r.Topic, err)
		}
	})
}

// failedWrite says what became of a record that was not acknowledged.
func failedWrite(topic string, err error) error {
	err = fmt.Errorf("write to %s: %w", topic, err)
	_, network := errors.AsType[*net.OpError](err)
	if network || errors.Is(err, kgo.ErrRecordTimeout) {
		return fail(exitUnreachable, err, "the broker did not acknowledge it in time; -X delivery.timeout.ms=MS sets how long to wait")
	}
	return err
}

func (s *sender) outcome() (acked int64, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked, s.failed
}
