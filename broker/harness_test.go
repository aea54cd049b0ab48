package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience bounds every wait of a test; a healthy run never comes near it.
const patience = 30 * time.Second

// settingsForTests has no delays.
func settingsForTests() map[string]string {
	return map[string]string{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "10"}
}

// startBroker starts a broker that the test closes. Without a directory its
// log is in memory.
func startBroker(t testing.TB, change ...func(*Config)) *Broker {
	t.Helper()
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	c := Config{
		Listen: "127.0.0.1:0", Properties: settingsForTests(),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	for _, f := range change {
		f(&c)
	}
	if c.Dir == "" && c.FS == nil {
		c.Dir, c.FS = "data", &journal.MemFS{}
	}
	b, err := Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.isClosing() {
			return // by the test itself
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if n := b.Stats().Panics; n > 0 {
			t.Errorf("%d handlers panicked", n)
		}
	})
	return b
}

// client is a connection that speaks the protocol frame by frame.
type client struct {
	t    testing.TB
	nc   net.Conn
	next int32
}

func dialClient(t testing.TB, b *Broker) *client {
	t.Helper()
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() }) //nolint:errcheck // the test is over
	return &client{t: t, nc: nc}
}

// send sends a request without waiting for its answer.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.next)
	if _, err := c.nc.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	return c.next
}

// receive reads the answer to a request that was sent as number id.
func (c *client) receive(req kmsg.Request, id int32) (kmsg.Response, error) {
	c.nc.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // a read that never ends fails the test by its own
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != id {
		return nil, fmt.Errorf("the answer is to request %d, want %d", got, id)
	}
	body := frame[4:]
	if req.IsFlexible() && req.Key() != wire.APIVersions {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// do sends a request and waits for its answer.
func do[T kmsg.Response](c *client, req kmsg.Request, version int16) T {
	c.t.Helper()
	req.SetVersion(version)
	resp, err := c.receive(req, c.send(req))
	if err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(T)
}

// closed reports whether the broker hangs up without another word.
func (c *client) closed() error {
	c.nc.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // as above
	n, err := c.nc.Read(make([]byte, 1))
	if n > 0 {
		return errors.New("the broker answered")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the broker neither answered nor hung up")
	}
	return nil
}

// makeTopic makes a topic and returns its id.
func (c *client) makeTopic(name string, partitions int32, configs map[string]string) topicID {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
	}
	req.Topics = append(req.Topics, topic)
	resp := do[*kmsg.CreateTopicsResponse](c, req, 7)
	if r := resp.Topics[0]; r.ErrorCode != 0 {
		c.t.Fatalf("create topic %s: %s", name, *r.ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

// produceRequest carries one batch to one partition.
func produceRequest(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// batchWith makes a batch of records without keys.
func batchWith(values ...string) []byte {
	var records []wire.Record
	for _, v := range values {
		records = append(records, wire.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(v)})
	}
	return wire.AppendBatch(nil, wire.BatchOptions{}, records...)
}

// fetchRequest asks for one partition, without a session.
func fetchRequest(topic string, partition int32, offset int64, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = partition, offset, 10<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// values reads what a fetch response carries for its first partition.
func values(t testing.TB, resp *kmsg.FetchResponse) []string {
	t.Helper()
	var out []string
	err := wire.EachBatch(resp.Topics[0].Partitions[0].RecordBatches, func(_ wire.Header, batch []byte) error {
		return wire.EachRecord(batch, func(r wire.Record) error {
			out = append(out, string(r.Value))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
