package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A conn sends requests one at a time and reads the answers into one buffer.
type conn struct {
	net.Conn
	in []byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: make([]byte, 64<<10)}, nil
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("cost"))

// encode makes the frame of a request, to be sent as often as wanted.
func encode(req kmsg.Request) []byte { return formatter.AppendRequest(nil, req, 1) }

// roundTrip sends a frame and returns the answer without its length and
// correlation id. It is valid until the next call.
func (c *conn) roundTrip(frame []byte) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	return c.receive()
}

// receive reads the next answer, as roundTrip gives it.
func (c *conn) receive() ([]byte, error) {
	if _, err := io.ReadFull(c, c.in[:4]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(c.in))
	if size < 4 || size > 64<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	if size > len(c.in) {
		c.in = make([]byte, size)
	}
	if _, err := io.ReadFull(c, c.in[:size]); err != nil {
		return nil, err
	}
	return c.in[4:size], nil
}

// ask sends a request and decodes the answer.
func (c *conn) ask(req kmsg.Request) (kmsg.Response, error) { return c.decode(req, encode(req)) }

// decode sends the frame of a request and decodes the answer.
func (c *conn) decode(req kmsg.Request, frame []byte) (kmsg.Response, error) {
	b, err := c.roundTrip(frame)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() { // the tagged fields of the header
		r := kbin.Reader{Src: b}
		kmsg.SkipTags(&r)
		b = r.Src
	}
	return resp, resp.ReadFrom(b)
}

func (c *conn) metadata() (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(8)
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := c.ask(req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// createTopic creates a topic and waits until each of its partitions answers.
func (c *conn) createTopic(name string, partitions int32, configs map[string]*string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: v})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(4)
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	// To create thousands of partitions takes Kafka half a minute and more.
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err = c.ready(name, partitions); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (c *conn) ready(name string, partitions int32) error {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = name
	for n := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, -1
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(5)
	req.ReplicaID = -1
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	for _, p := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return fmt.Errorf("%s, partition %d: %w", name, p.Partition, err)
		}
	}
	return nil
}
