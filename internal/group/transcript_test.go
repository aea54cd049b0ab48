package group

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTranscripts plays testdata/*.txt: stories of clients, a coordinator and a
// log, drawn as timelines. "world" begins a new one, with settings under
// Kafka's property names; "play" goes on with it, one act a line:
//
//	ask a               a asks for a member id
//	join a ...          a joins; asks for an id first when it has none
//	sync a a=A b=B      a fetches its assignment; the leader hands all in
//	beat a              a sends a heartbeat
//	leave a b reason=.. they leave, in one batch
//	commit a t:0=5      a commits offset 5 of partition 0 of topic t
//	fetch t:0 t:1       reads committed offsets
//	advance 45s         time passes
//	log hold|ok|CODE    appends wait; those that wait are durable, or fail
//	restart, unload     of the coordinator
//	state a 9           the last record of what a has says another state
//	late a              the last record of what a has comes at the end of the log
//
// Answers, records and causes are drawn at the time at which they come. A
// member id is shown as its client's name with a number.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(settings(t, &datadriven.TestData{}))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.paper.Reset()
			switch d.Cmd {
			case "world":
				w = newWorld(settings(t, d))
			case "play":
				for line := range strings.Lines(d.Input) {
					if line = strings.TrimSpace(line); line != "" {
						w.play(t, line)
					}
				}
			default:
				d.Fatalf(t, "unknown command %q: want world or play", d.Cmd)
			}
			return w.paper.String()
		})
	})
}

func settings(t *testing.T, d *datadriven.TestData) Config {
	c := Config{ConsumerHeartbeat: 5 * time.Second, StreamsHeartbeat: 5 * time.Second}
	for _, arg := range d.CmdArgs {
		ms := func() time.Duration { return duration(t, arg.Vals[0]) }
		switch arg.Key {
		case "group.initial.rebalance.delay":
			if c.InitialRebalanceDelay = ms(); c.InitialRebalanceDelay == 0 {
				c.InitialRebalanceDelay = -1
			}
		case "group.max.size":
			c.MaxSize = number(t, arg.Vals[0])
		case "offsets.retention":
			c.OffsetsRetention = ms()
		case "offsets.retention.check.interval":
			c.RetentionCheck = ms()
		case "group.streams.initial.rebalance.delay":
			if c.StreamsDelay = ms(); c.StreamsDelay == 0 {
				c.StreamsDelay = -1
			}
		case "group.consumer.max.size":
			c.ConsumerMaxSize = number(t, arg.Vals[0])
		case "group.consumer.migration.policy":
			c.Migration = arg.Vals[0]
		case "group.consumer.heartbeat.interval":
			c.ConsumerHeartbeat = ms() // 0: not set
		case "group.streams.heartbeat.interval":
			c.StreamsHeartbeat = ms()
		case "offset.metadata.max.bytes":
			c.MetadataMaxBytes = number(t, arg.Vals[0])
		default:
			d.Fatalf(t, "unknown setting %q", arg.Key)
		}
	}
	return c
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// act is one line of a transcript: words, and settings of the form key=value.
type act struct {
	t     *testing.T
	verb  string
	words []string
	set   map[string]string
}

func parse(t *testing.T, line string) act {
	a := act{t: t, set: map[string]string{}}
	for i, field := range splitQuoted(line) {
		key, value, isSet := strings.Cut(field, "=")
		switch {
		case i == 0:
			a.verb = field
		case isSet:
			a.set[key] = value
			a.words = append(a.words, field)
		default:
			a.words = append(a.words, field)
		}
	}
	return a
}

// splitQuoted splits at blanks outside of double quotes, and drops the quotes.
func splitQuoted(line string) []string {
	quoted := false
	fields := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], `"`, "")
	}
	return fields
}

func (a act) int(key string, otherwise int) int {
	if v, ok := a.set[key]; ok {
		return number(a.t, v)
	}
	return otherwise
}

func (a act) group() string {
	if g, ok := a.set["group"]; ok {
		return g
	}
	return "g"
}

func (a act) optional(key string) *string {
	if v, ok := a.set[key]; ok {
		return &v
	}
	return nil
}

// plain are the words without those that are settings.
func (a act) plain() []string {
	var names []string
	for _, w := range a.words {
		if !strings.Contains(w, "=") {
			names = append(names, w)
		}
	}
	return names
}

func (w *world) play(t *testing.T, line string) {
	a := parse(t, line)
	switch a.verb {
	case "ask", "join":
		w.playJoin(a)
	case "sync":
		w.playSync(a)
	case "beat":
		w.playBeat(a)
	case "leave":
		w.playLeave(a)
	case "commit", "txncommit":
		w.playCommit(a)
	case "fetch":
		w.playFetch(a)
	case "uncommit":
		w.playOffsetDelete(a)
	case "describe", "list", "delete":
		w.playAdmin(a)
	case "records":
		w.playRecords()
	case "log":
		w.playLog(a)
	case "advance":
		w.advance(duration(t, a.words[0]))
	case "limit":
		w.cfg.MaxSize = number(t, a.words[0])
	case "restart":
		w.draw("--", "the coordinator starts again and reads %d records", len(w.durable))
		w.restart()
	case "unload":
		w.draw("--", "the coordinator is unloaded")
		w.step(Unload{})
	case "reload":
		w.draw("--", "the coordinator begins to read its log")
		w.s = New(w.cfg, w.s.rng)
		w.replay()
	case "loaded":
		w.step(Loaded{})
	case "state":
		w.rewriteState(a.words[0], byte(number(t, a.words[1])))
	case "late":
		w.moveLast(a.words[0])
	case "endtxn":
		w.step(TxnEnded{Producer: int64(number(t, a.words[0])), Commit: a.words[1] == "commit"})
	case "delete-topics":
		w.step(TopicsDeleted{Topics: a.words})
	case "streams":
		w.playStreams(a)
	case "consumer":
		w.playConsumer(a)
	case "partition":
		for _, id := range a.words {
			w.draw("--", "group %s lives in partition %d", id, PartitionFor(id, 50))
		}
	default:
		t.Fatalf("unknown act %q", line)
	}
}

func (w *world) playLog(a act) {
	switch what := a.words[0]; what {
	case "hold":
		w.hold = true
	case "ok":
		w.hold = false
		w.land(0)
	default:
		w.draw("--", "the append fails: %s", what)
		w.hold = false
		for _, err := range []*kerr.Error{kerr.KafkaStorageError, kerr.NotEnoughReplicas, kerr.MessageTooLarge} {
			if err.Message == what {
				w.land(err.Code)
				return
			}
		}
		a.t.Fatalf("unknown append error %q", what)
	}
}

func (w *world) playRecords() {
	for _, r := range w.durable[w.printed:] {
		w.draw("##", "%s", w.record(r))
	}
	w.printed = len(w.durable)
}

func (w *world) record(r Record) string {
	var ok kmsg.OffsetCommitKey
	var gk kmsg.GroupMetadataKey
	switch {
	case r.Key[1] == keyOffset && ok.ReadFrom(r.Key) == nil:
		if r.Value == nil {
			return fmt.Sprintf("offset %s %s:%d = tombstone", ok.Group, ok.Topic, ok.Partition)
		}
		var v kmsg.OffsetCommitValue
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("offset %s %s:%d = %d (v%d)", ok.Group, ok.Topic, ok.Partition, v.Offset, v.Version)
	case r.Key[1] == keyClassic && gk.ReadFrom(r.Key) == nil:
		if r.Value == nil {
			return fmt.Sprintf("group %s = tombstone", gk.Group)
		}
		var v kmsg.GroupMetadataValue
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		var members []string
		for _, m := range v.Members {
			members = append(members, fmt.Sprintf("%s=%s", m.MemberID, m.Assignment))
		}
		return fmt.Sprintf("group %s = generation %d, protocol %q, leader %q, members %v", gk.Group, v.Generation, text(v.Protocol), text(v.Leader), members)
	}
	if line := streamsRecord(r); line != "" {
		return line
	}
	if line := consumerRecord(r); line != "" {
		return line
	}
	return fmt.Sprintf("%x = %x", r.Key, r.Value)
}
