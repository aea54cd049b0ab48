package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/internal/wire"
)

// TestTranscripts runs the stories in testdata. Each line of a story's input is
// one command; what it did to the disk and what was answered is below it.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := &story{t: t, fs: &MemFS{}, cfg: Config{Dir: "data", Logger: quiet(), Ballast: -1, Spares: -1, Ahead: -1}}
			s.fs.Before = s.before
			s.cfg.FS = s.fs
			datadriven.RunTest(t, path, s.command)
			if s.l != nil {
				s.letGo()
				s.l.Close()
			}
		})
	})
}

// story is one log and what a transcript may do to it.
type story struct {
	t   *testing.T
	fs  *MemFS
	cfg Config
	l   *Log

	mu      sync.Mutex
	front   []string // what the committer did, and answers
	back    []string // what the keeper did
	silent  bool
	failing []*failure
	holding string // a prefix of operations that wait
	gate    chan struct{}
}

// before writes the trace, and fails or holds what it was told to.
func (s *story) before(op Op) error {
	if !op.Changes() {
		return nil
	}
	text := strings.ReplaceAll(op.String(), "data/", "")
	text = strings.ReplaceAll(text, "000000000000000000000000000000", "..")
	s.mu.Lock()
	gate := s.gate
	held := gate != nil && strings.HasPrefix(text, s.holding)
	if held {
		text += " (held)"
	}
	err := s.fails(text)
	if err != nil && !held {
		text += " -> " + err.Error()
	}
	if s.silent {
		// A story about something else.
	} else if strings.Contains(op.Path, journalDir) && op.Name != "remove" {
		s.front = append(s.front, text)
	} else {
		s.back = append(s.back, "keeper: "+text)
	}
	s.mu.Unlock()
	if held {
		<-gate
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.fails(text)
	}
	return err
}

// fails says whether an operation is to fail, under the lock.
func (s *story) fails(text string) error {
	for _, f := range s.failing {
		if f.times == 0 || !strings.HasPrefix(text, f.prefix) {
			continue
		}
		if s.gate != nil && strings.HasPrefix(text, s.holding) {
			return nil // decided when it is let go
		}
		f.times--
		return errInjected
	}
	return nil
}

// failure makes operations fail that begin in a certain way, so many times.
type failure struct {
	prefix string
	times  int64 // negative: always
}

var errInjected = errors.New("injected")

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front = append(s.front, fmt.Sprintf(format, args...))
}

func (s *story) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// command runs the lines of one block.
func (s *story) command(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "do" {
		return s.one(d)
	}
	var out strings.Builder
	for _, line := range strings.Split(d.Input, "\n") {
		cmd, args, err := datadriven.ParseLine(line)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		out.WriteString(s.one(&datadriven.TestData{Pos: d.Pos, Cmd: cmd, CmdArgs: args}))
	}
	return out.String()
}

// one runs one command, until nothing moves any more.
func (s *story) one(d *datadriven.TestData) string {
	s.do(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(append(s.front, s.back...), "\n")
	s.front, s.back = nil, nil
	if out == "" {
		return "ok\n"
	}
	return out + "\n"
}

func (s *story) do(d *datadriven.TestData) {
	arg := func(key string, def int64) int64 {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) == 1 {
				n, err := strconv.ParseInt(a.Vals[0], 10, 64)
				if err != nil {
					s.t.Fatalf("%s: %v", d.Pos, err)
				}
				return n
			}
		}
		return def
	}
	var words []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
		}
	}
	switch d.Cmd {
	case "open":
		s.open(d, arg)
	case "close":
		s.report("closed", s.l.Close())
		s.l = nil
	case "trace":
		s.silent = words[0] == "off"
	case "kill", "powercut":
		s.endProcess(d.Cmd, arg("seed", 0))
	case "fail":
		s.failing = append(s.failing, &failure{strings.Join(words, " "), arg("times", -1)})
	case "heal":
		s.failing = nil
	case "hold":
		s.holding, s.gate = strings.Join(words, " "), make(chan struct{})
	case "release":
		s.letGo()
	case "limit":
		s.fs.SetLimit(arg("bytes", 0))
	case "corrupt":
		s.report("corrupted", s.fs.Corrupt(s.file(words[0]), int(arg("at", 0))))
	case "advance":
		dur, err := time.ParseDuration(words[0])
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(dur)
	case "files":
		s.files()
	case "seal":
		s.report("sealed", s.l.enqueue(pending{seal: true}))
	default:
		s.partitionCommand(d, arg, words)
	}
}

func (s *story) report(what string, err error) {
	if err != nil {
		s.say("%v", err)
		return
	}
	s.say("%s", what)
}

func (s *story) open(d *datadriven.TestData, arg func(string, int64) int64) {
	s.cfg.SegmentBytes = arg("segment", 0)
	s.cfg.HotBytes = arg("hot", 0)
	s.cfg.UnsettledMax = arg("unsettled", 0)
	s.cfg.Ballast = arg("ballast", -1)
	s.cfg.Spares = int(arg("spares", -1))
	s.cfg.Ahead = arg("ahead", -1)
	s.cfg.CleanerKeys = int(arg("keys", 0))
	s.cfg.Flush = Flush(arg("flush", 0))
	l, err := Open(s.cfg)
	if err != nil {
		s.say("%v", err)
		return
	}
	s.l = l
	for _, id := range l.Partitions() {
		p := l.Partition(id)
		s.say("%s has %d to %d", nameOf(id), p.Start(), p.HighWatermark())
	}
}

func (s *story) endProcess(how string, seed int64) {
	s.fs.Kill()
	s.letGo()
	if s.l != nil {
		s.l.Close() // ends its goroutines; it cannot reach the disk any more
	}
	if how == "powercut" {
		var rng *rand.Rand
		if seed > 0 {
			rng = rand.New(rand.NewPCG(uint64(seed), 0))
		}
		s.fs.PowerCut(rng)
	}
	s.fs.Start()
	s.l = nil
	s.mu.Lock()
	s.front, s.back = nil, nil
	s.mu.Unlock()
}

// file finds the one file whose path contains a word.
func (s *story) file(word string) string {
	var found []string
	for path := range s.fs.Files() {
		if strings.Contains(path, word) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return word
	}
	return found[len(found)-1]
}

func (s *story) files() {
	files := s.fs.Files()
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		rel, _ := filepath.Rel("data", path)
		s.say("%s %d", strings.ReplaceAll(rel, "000000000000000000000000000000", ".."), files[path])
	}
}

// idOf makes an ID of a letter: a is partition 0 of topic 1.
func idOf(name string) ID { return ID{topicID(name[0] - 'a' + 1), 0} }

func nameOf(id ID) string { return string('a' + id.Topic[15] - 1) }

func (s *story) partitionCommand(d *datadriven.TestData, arg func(string, int64) int64, words []string) {
	if len(words) == 0 {
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
	if s.l == nil {
		s.say("the log is not open")
		return
	}
	id := idOf(words[0])
	p := s.l.Partition(id)
	if p == nil && d.Cmd != "create" {
		s.say("no partition %s", words[0])
		return
	}
	switch d.Cmd {
	case "create":
		settings := settingsFrom(DefaultSettings(), arg)
		var ids []ID
		for _, w := range words {
			ids = append(ids, idOf(w))
		}
		_, err := s.l.CreateAll(ids, settings)
		s.report("created "+strings.Join(words, " "), err)
	case "configure":
		p.Configure(settingsFrom(p.Settings(), arg))
	case "remove":
		s.report("removed "+words[0], s.l.Remove(id))
	case "append":
		s.append(p, words[0], words[1:], arg)
	case "delete-records":
		low, err := p.DeleteRecords(arg("before", -1))
		s.say("low %d", low)
		if err != nil {
			s.say("%v", err)
		}
	case "wait":
		from := arg("from", 0)
		p.Wait(from, func() { s.say("woken: %s at %d", words[0], from) })
	case "read":
		s.read(p, arg)
	case "producers":
		for _, st := range p.Producers() {
			s.say("%+v", st)
		}
	case "epoch":
		epoch, end := p.EpochEnd(int32(arg("of", 0)))
		s.say("epoch %d ends at %d", epoch, end)
	case "time":
		offset, ts, epoch, ok, err := p.OffsetForTime(arg("ms", 0))
		s.say("offset %d timestamp %d epoch %d found %v error %v", offset, ts, epoch, ok, err)
	case "max-timestamp":
		offset, ts, ok, err := p.MaxTimestamp()
		s.say("offset %d timestamp %d found %v error %v", offset, ts, ok, err)
	default:
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
}

func settingsFrom(st Settings, arg func(string, int64) int64) Settings {
	st.SegmentBytes = arg("segment.bytes", st.SegmentBytes)
	st.SegmentMs = arg("segment.ms", st.SegmentMs)
	st.RetentionMs = arg("retention.ms", st.RetentionMs)
	st.RetentionBytes = arg("retention.bytes", st.RetentionBytes)
	st.DeleteRetentionMs = arg("delete.retention.ms", st.DeleteRetentionMs)
	st.MinCompactionLagMs = arg("min.compaction.lag.ms", st.MinCompactionLagMs)
	st.MaxCompactionLagMs = arg("max.compaction.lag.ms", st.MaxCompactionLagMs)
	if arg("compact", 0) == 1 {
		st.Compact, st.Delete = true, false
	}
	return st
}

// append sends one batch. A word is a value, or key=value... written k:v; k: is
// a tombstone.
func (s *story) append(p *Partition, name string, words []string, arg func(string, int64) int64) {
	ts := arg("ts", time.Now().UnixMilli())
	var records []wire.Record
	for _, w := range words {
		r := wire.Record{Timestamp: ts, Value: []byte(w)}
		if key, value, ok := strings.Cut(w, ":"); ok {
			r.Key, r.Value = []byte(key), []byte(value)
			if value == "" {
				r.Value = nil
			}
		}
		records = append(records, r)
	}
	if size := arg("size", 0); size > 0 {
		records = append(records, wire.Record{Timestamp: ts, Value: make([]byte, size)})
	}
	o := wire.BatchOptions{}
	if pid := arg("pid", -1); pid >= 0 {
		o = wire.BatchOptions{Idempotent: true, ProducerID: pid, ProducerEpoch: int16(arg("epoch", 0)), BaseSequence: int32(arg("seq", 0))}
	}
	batches := wire.AppendBatch(nil, o, records...)
	if arg("split", 0) == 1 { // a batch for each record
		batches = nil
		for _, r := range records {
			batches = wire.AppendBatch(batches, o, r)
		}
	}
	a := Append{Batches: batches, LeaderEpoch: int32(arg("leader", 0)), LogAppendTime: arg("append-time", 0) == 1}
	p.Append(a, func(r Result) {
		switch {
		case r.Err != nil:
			s.say("ack %s: %v", name, r.Err)
		case r.Duplicate:
			s.say("ack %s %d-%d duplicate", name, r.Base, r.Last)
		case r.LogAppendTime >= 0:
			s.say("ack %s %d-%d at %d", name, r.Base, r.Last, r.LogAppendTime)
		default:
			s.say("ack %s %d-%d", name, r.Base, r.Last)
		}
	})
}

// read shows batches, and where they came from.
func (s *story) read(p *Partition, arg func(string, int64) int64) {
	before := s.l.Stats()
	from := arg("from", p.Start())
	batches, err := p.Read(from, int(arg("max", 1<<20)), true)
	if err != nil {
		s.say("%v", err)
		return
	}
	after := s.l.Stats()
	place := "nowhere"
	switch {
	case after.SegmentReads > before.SegmentReads:
		place = "segment"
	case after.JournalReads > before.JournalReads:
		place = "journal"
	case after.HotReads > before.HotReads:
		place = "memory"
	}
	var texts []string
	for _, b := range batches {
		err := wire.EachBatch(b, func(h wire.Header, batch []byte) error {
			var records []string
			err := wire.EachRecord(batch, func(r wire.Record) error {
				text := fmt.Sprintf("%d", r.Offset)
				switch {
				case r.Key != nil && r.Value == nil:
					text += fmt.Sprintf(" %s:(tombstone)", r.Key)
				case r.Key != nil:
					text += fmt.Sprintf(" %s:%s", r.Key, r.Value)
				case len(r.Value) < 20:
					text += fmt.Sprintf(" %s", r.Value)
				}
				records = append(records, text)
				return nil
			})
			texts = append(texts, "["+strings.Join(records, ", ")+"]")
			return err
		})
		if err != nil {
			s.say("%v", err)
		}
	}
	s.say("from %s: %s", place, strings.Join(texts, " "))
}
