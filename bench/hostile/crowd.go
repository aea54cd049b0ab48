package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// crowd is a number of clients that do the same.
type crowd struct {
	name  string
	n     int
	stays bool // until the end
	act   func(c net.Conn, i int)
}

func crowds(idle, n int) []crowd {
	return []crowd{
		{name: "nobody"},
		{name: "idle", n: idle, stays: true, act: func(net.Conn, int) {}},
		{name: "half a size", n: n, act: func(c net.Conn, _ int) { send(c, []byte{0, 0}) }},
		{name: "half a frame", n: n, act: func(c net.Conn, i int) { send(c, claim(90<<20, 60<<10<<(i%3*2))) }},
		{name: "bombs", n: n, act: func(c net.Conn, _ int) { send(c, bomb(3_900_000)) }},
		{name: "slow readers", n: n, act: func(c net.Conn, _ int) { send(c, fetchAll()) }},
		{name: "slow reconnectors", n: n, act: reconnect},
		{name: "noise", n: n, act: func(c net.Conn, i int) { send(c, noise(i)) }},
	}
}

// send writes as much as the other side takes within some seconds.
func send(c net.Conn, b []byte) {
	c.SetWriteDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // a client that cannot write is no harm
	c.Write(b)                                          //nolint:errcheck // the broker may hang up
}

// claim is the beginning of a Produce frame that says it is longer.
func claim(size uint32, sent int) []byte {
	b := make([]byte, sent)
	binary.BigEndian.PutUint32(b, size)
	return b
}

// bomb is a Metadata request for very many topics without names: each is three
// bytes of the frame and a struct of the decoded request.
func bomb(size int) []byte {
	b := []byte{0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 1, 'b'}
	n := (size - 32) / 2
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, bytes.Repeat([]byte{0, 0}, n)...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// fetchAll asks for 64 MiB twice.
func fetchAll() []byte {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(11)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 500, 1, 1<<30, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "much"
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<30, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("slow"))
	return f.AppendRequest(f.AppendRequest(nil, req, 1), req, 2)
}

// reconnect asks for everything, hangs up, and comes again.
func reconnect(c net.Conn, _ int) {
	for range 4 {
		send(c, fetchAll())
		time.Sleep(500 * time.Millisecond)
		again, err := net.Dial("tcp", c.RemoteAddr().String())
		if err != nil {
			return
		}
		c.Close() //nolint:errcheck // it is being replaced
		c = again
	}
	c.Close() //nolint:errcheck // done
}

// noise is a frame of any API and version with nonsense in it.
func noise(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	b := make([]byte, 4+8+r.IntN(64<<10))
	for j := range b {
		b[j] = byte(r.Uint32())
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	binary.BigEndian.PutUint16(b[4:], uint16(r.IntN(93)))
	binary.BigEndian.PutUint16(b[6:], uint16(r.IntN(14)))
	return b
}

// conns are the connections of a crowd.
type conns struct {
	all []net.Conn
	act sync.WaitGroup
}

// come connects everybody and lets them act.
func (c crowd) come(addr string) (*conns, error) {
	here := &conns{}
	for i := range c.n {
		nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			here.close()
			return nil, err
		}
		here.all = append(here.all, nc)
		here.act.Go(func() { c.act(nc, i) })
	}
	return here, nil
}

// left counts those that the broker has not hung up on. Nobody is told anything
// by it: what can be read without waiting is what is left of an answer.
func (c *conns) left() int {
	n := 0
	for _, nc := range c.all {
		nc.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // a failed read counts as gone
		_, err := nc.Read(make([]byte, 1))
		if e, ok := err.(net.Error); err == nil || ok && e.Timeout() {
			n++
		}
	}
	return n
}

func (c *conns) close() {
	for _, nc := range c.all {
		nc.Close() //nolint:errcheck // done with it
	}
	c.act.Wait()
}
