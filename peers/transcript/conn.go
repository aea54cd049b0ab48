package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

type conn struct {
	name    string
	nc      net.Conn
	mu      sync.Mutex
	next    int32
	pending map[int32]*call
	extra   []byte // frames that answer no request
	closed  chan struct{}
}

type call struct {
	api            string
	ver            int
	resp           *schema
	noReply        bool
	sentAt, recvAt time.Time
	body           []byte
	err            error
	done           chan struct{}
	captures       []nodeField
	only           string
}

func (c *conn) unasked() []byte { c.mu.Lock(); defer c.mu.Unlock(); return c.extra }

func (c *conn) read() {
	defer close(c.closed)
	for {
		frame, err := readFrame(c.nc)
		c.mu.Lock()
		if err != nil {
			for _, k := range c.pending {
				k.err, k.recvAt = errors.New("connection closed"), time.Now()
				close(k.done)
			}
			c.pending = nil
			c.mu.Unlock()
			return
		}
		var k *call
		if len(frame) >= 4 {
			id := int32((&reader{b: frame}).int(4))
			k = c.pending[id]
			delete(c.pending, id)
		}
		if k == nil {
			c.extra = append(c.extra, frame...)
		} else {
			k.body, k.recvAt = frame[4:], time.Now()
			close(k.done)
		}
		c.mu.Unlock()
	}
}

func readFrame(nc net.Conn) ([]byte, error) {
	read := func(n int) ([]byte, error) {
		b := make([]byte, n)
		for i := 0; i < n; {
			k, err := nc.Read(b[i:])
			if err != nil {
				return nil, err
			}
			i += k
		}
		return b, nil
	}
	h, err := read(4)
	if err != nil {
		return nil, err
	}
	n := (&reader{b: h}).int(4)
	if n < 0 || n > 256<<20 {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	return read(int(n))
}

func (c *conn) send(req *schema, api string, v int, fields *node) (*call, error) {
	k := &call{api: api, ver: v, resp: schemas[api+"Response"], done: make(chan struct{})}
	c.mu.Lock()
	c.next++
	id := c.next
	closed := c.pending == nil
	if !closed {
		c.pending[id] = k
	}
	c.mu.Unlock()
	if closed {
		k.err = errors.New("connection closed")
		close(k.done)
		return k, nil
	}
	var b []byte
	b = appendInt(b, 2, int64(req.ApiKey))
	b = appendInt(b, 2, int64(v))
	b = appendInt(b, 4, int64(id))
	b = append(appendInt(b, 2, int64(len(c.name))), c.name...)
	if req.flexible(v) {
		b = append(b, 0)
	}
	b, err := req.encode(b, fields, v)
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", api, v, err)
	}
	if a := fields.field("Acks"); api == "Produce" && a != nil && a.text == "0" {
		k.noReply = true
	}
	k.sentAt = time.Now()
	_, err = c.nc.Write(append(appendInt(nil, 4, int64(len(b))), b...))
	return k, err
}

func (k *call) wait(d time.Duration) {
	select {
	case <-k.done:
	case <-time.After(d):
	}
}

func (k *call) arrived() bool {
	select {
	case <-k.done:
		return k.err == nil
	default:
		return false
	}
}

func (k *call) decode() (record, []byte, error) {
	b, v := k.body, k.ver
	if k.api == "ApiVersions" {
		if len(b) >= 2 && (&reader{b: b}).int(2) == 35 {
			v = 0
		}
	} else if schemas[k.api+"Request"].flexible(v) {
		r := &reader{b: b}
		for n := r.uvarint(); n > 0 && r.err == nil; n-- {
			r.uvarint()
			r.take(int(r.uvarint()))
		}
		b = r.b
	}
	return k.resp.decode(b, v)
}
