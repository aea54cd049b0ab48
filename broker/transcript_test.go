package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTranscripts plays the files under testdata/transcripts against a broker each. The
// commands:
//
//	send API v=N [as=NAME]  the request as JSON of its fields -> the answer's fields
//	topic NAME [partitions=N] [key=value ...]
//	produce TOPIC/N [v=9] [acks=-1] [pid= epoch= seq=] [codec=N] [broken=WHAT]  one record a line, k=v or v
//	fetch TOPIC/N offset=N [v=12] [wait=MS] [max=BYTES]
//	restart, power-cut
//
// Each connection name (as=) is a connection of its own. "$t" in JSON is the
// id of topic t. Fields that are zero, and tagged structs, are not shown.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &script{t: t, fs: &journal.MemFS{}, ids: map[string]topicID{}}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	t       *testing.T
	fs      *journal.MemFS
	b       *Broker
	clients map[string]*client
	ids     map[string]topicID
}

func (s *script) start() {
	s.b = startBroker(s.t, func(c *Config) { c.Dir, c.FS = "data", s.fs })
	s.clients = map[string]*client{}
}

func (s *script) client(name string) *client {
	if s.b == nil {
		s.start()
	}
	if s.clients[name] == nil {
		s.clients[name] = dialClient(s.t, s.b)
	}
	return s.clients[name]
}

// arg returns an argument of a command, or what stands for it.
func arg(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func number(d *datadriven.TestData, key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(arg(d, key, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		d.Fatalf(nil, "%s: %v", key, err)
	}
	return n
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	switch d.Cmd {
	case "topic":
		return s.topic(d)
	case "produce":
		return s.produce(d)
	case "fetch":
		return s.fetch(d)
	case "send":
		return s.send(d)
	case "restart":
		if err := s.b.Close(); err != nil {
			return err.Error()
		}
		s.start()
		return ""
	case "power-cut":
		s.fs.PowerCut(rand.New(rand.NewPCG(1, 1)))
		s.b.Close() //nolint:errcheck // its files are gone
		s.fs.Start()
		s.start()
		return ""
	}
	return "unknown command"
}

func (s *script) topic(d *datadriven.TestData) string {
	configs := map[string]string{}
	for _, a := range d.CmdArgs[1:] {
		if a.Key != "partitions" {
			configs[a.Key] = strings.Join(a.Vals, ",")
		}
	}
	name := d.CmdArgs[0].Key
	s.ids[name] = s.client("a").makeTopic(name, int32(number(d, "partitions", 1)), configs)
	return ""
}

// target reads TOPIC/N.
func (s *script) target(d *datadriven.TestData) (string, int32) {
	name, n, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	p, err := strconv.Atoi(n)
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return name, int32(p)
}

func (s *script) produce(d *datadriven.TestData) string {
	name, n := s.target(d)
	o := wire.BatchOptions{Idempotent: arg(d, "pid", "") != "", ProducerID: number(d, "pid", -1), ProducerEpoch: int16(number(d, "epoch", 0)), BaseSequence: int32(number(d, "seq", 0))}
	o.Transactional = arg(d, "broken", "") == "transactional"
	o.Control = arg(d, "broken", "") == "control"
	var records []wire.Record
	for line := range strings.Lines(d.Input) {
		r := wire.Record{Timestamp: number(d, "ts", time.Now().UnixMilli()), Value: []byte(strings.TrimSpace(line))}
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			r.Key, r.Value = []byte(k), []byte(v)
		}
		records = append(records, r)
	}
	batch := wire.AppendBatch(nil, o, records...)
	switch arg(d, "broken", "") {
	case "crc":
		batch[len(batch)-1] ^= 1
	case "magic":
		batch[16] = 1
	case "cut":
		batch = batch[:len(batch)-3]
	case "twice":
		batch = append(batch, batch...)
	case "empty":
		batch = []byte{}
	}
	req := produceRequest(name, n, batch)
	req.Acks = int16(number(d, "acks", -1))
	req.Topics[0].TopicID = s.ids[name]
	resp := do[*kmsg.ProduceResponse](s.client("a"), req, int16(number(d, "v", 9)))
	r := resp.Topics[0].Partitions[0]
	out := errorName(r.ErrorCode)
	if r.ErrorCode == 0 {
		out += fmt.Sprintf(" at %d", r.BaseOffset)
	}
	if now := time.Now().UnixMilli(); r.LogAppendTime > now-patience.Milliseconds() && r.LogAppendTime <= now {
		out += ", appended now"
	} else if r.LogAppendTime != -1 {
		out += fmt.Sprintf(", appended at %d", r.LogAppendTime)
	}
	if r.ErrorMessage != nil {
		out += ": " + *r.ErrorMessage
	}
	return out + "\n"
}

func (s *script) fetch(d *datadriven.TestData) string {
	name, n := s.target(d)
	req := fetchRequest(name, n, number(d, "offset", 0), time.Duration(number(d, "wait", 0))*time.Millisecond)
	req.Topics[0].TopicID = s.ids[name]
	req.Topics[0].Partitions[0].PartitionMaxBytes = int32(number(d, "max", 1<<20))
	resp := do[*kmsg.FetchResponse](s.client("a"), req, int16(number(d, "v", 12)))
	r := resp.Topics[0].Partitions[0]
	var out strings.Builder
	fmt.Fprintf(&out, "%s start=%d watermark=%d\n", errorName(r.ErrorCode), r.LogStartOffset, r.HighWatermark)
	err := wire.EachBatch(r.RecordBatches, func(h wire.Header, batch []byte) error {
		fmt.Fprintf(&out, "batch %d-%d\n", h.BaseOffset, h.LastOffset())
		return wire.EachRecord(batch, func(r wire.Record) error {
			text := string(r.Value)
			if r.Key != nil {
				text = string(r.Key) + "=" + text
			}
			if r.Timestamp < time.Now().Add(-patience).UnixMilli() {
				text += fmt.Sprintf(" of %d", r.Timestamp)
			}
			fmt.Fprintf(&out, "  %d %s\n", r.Offset, text)
			return nil
		})
	})
	if err != nil && !errors.Is(err, wire.ErrShort) {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

func (s *script) send(d *datadriven.TestData) string {
	var req kmsg.Request
	for _, a := range wire.Kafka42() {
		if a.Name == d.CmdArgs[0].Key {
			req = kmsg.RequestForKey(a.Key)
		}
	}
	if req == nil {
		d.Fatalf(s.t, "no API %s", d.CmdArgs[0].Key)
	}
	input := d.Input
	for name, id := range s.ids {
		raw, err := json.Marshal([16]byte(id))
		if err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		input = strings.ReplaceAll(input, `"$`+name+`"`, string(raw))
	}
	if input != "" {
		if err := json.Unmarshal([]byte(input), req); err != nil {
			d.Fatalf(s.t, "%v", err)
		}
	}
	req.SetVersion(int16(number(d, "v", 0)))
	c := s.client(arg(d, "as", "a"))
	resp, err := c.receive(req, c.send(req))
	if err != nil {
		delete(s.clients, arg(d, "as", "a"))
		return "connection closed\n"
	}
	var out strings.Builder
	s.show(&out, "", reflect.ValueOf(resp).Elem())
	return out.String()
}

func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	return kerr.TypedErrorForCode(code).Message
}

// show writes a struct: its plain fields on one line, then its lists, indented.
func (s *script) show(out *strings.Builder, indent string, v reflect.Value) {
	var line, lists []string
	deeper := indent + "  "
	if kind := v.Type().Name(); strings.HasSuffix(kind, "Response") && indent == "" {
		deeper = "" // most answers are nothing but a list
	}
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch name {
		case "Version", "ThrottleMillis", "UnknownTags":
			continue
		case "ErrorCode":
			line = append(line, errorName(int16(f.Int())))
			continue
		}
		if f.IsZero() || f.Kind() == reflect.Struct || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
			var all []string
			for j := range f.Len() {
				var item strings.Builder
				s.show(&item, deeper, f.Index(j))
				all = append(all, item.String())
			}
			sort.Strings(all)
			lists = append(lists, all...)
			continue
		}
		line = append(line, fmt.Sprintf("%s=%s", name, s.text(f)))
	}
	if len(line) > 0 {
		fmt.Fprintf(out, "%s%s\n", indent, strings.Join(line, " "))
	}
	out.WriteString(strings.Join(lists, ""))
}

// text writes a value; what differs from run to run becomes a name.
func (s *script) text(f reflect.Value) string {
	if id, ok := f.Interface().([16]byte); ok {
		for name, known := range s.ids {
			if known == id {
				return "$" + name
			}
		}
		return "<id>"
	}
	text := fmt.Sprint(f.Interface())
	if text == s.b.catalog().clusterID {
		return "<cluster>"
	}
	if text == strconv.Itoa(int(s.b.nodes[0].port)) {
		return "<port>"
	}
	if f.Kind() == reflect.String && (text == "" || strings.Contains(text, " ")) {
		return strconv.Quote(text)
	}
	return text
}
