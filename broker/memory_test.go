package broker

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Claims wait in their order; one goes on although nothing is left; who gives
// up leaves no trace.
func TestMemoryClaims(t *testing.T) {
	m := &memory{limit: 100, overdraft: true}
	never := make(chan struct{})
	a := m.acquire(60, never)
	over := m.acquire(60, never) // the one
	if over == nil || !over.lone || m.inUse() != 120 {
		t.Fatalf("%+v with %d in use", over, m.inUse())
	}
	got := make(chan *claim)
	go func() { got <- m.acquire(50, never) }()
	waitFor(t, "the third to wait", func() bool { return m.queueing() == 1 })
	quit := make(chan struct{})
	gone := make(chan *claim)
	go func() { gone <- m.acquire(1, quit) }()
	waitFor(t, "the fourth to wait", func() bool { return m.queueing() == 2 })
	close(quit)
	if c := <-gone; c != nil {
		t.Errorf("got %+v after giving up", c)
	}
	m.release(over)
	third := <-got
	if !third.lone || m.inUse() != 110 {
		t.Errorf("third %+v with %d in use", third, m.inUse())
	}
	for range 2 {
		m.release(a)
		m.release(third)
		m.release(nil)
	}
	if m.inUse() != 0 || m.lone || m.queueing() != 0 {
		t.Errorf("in the end %d in use, lone %v", m.inUse(), m.lone)
	}
	m.overdraft = false
	alone := m.acquire(300, never)
	go func() { got <- m.acquire(1, never) }()
	waitFor(t, "one to wait until nobody holds anything", func() bool { return m.queueing() == 1 })
	m.release(alone)
	m.release(<-got)
	if n := m.take(130); n != 100 || !m.full() || m.take(1) != 0 {
		t.Errorf("took %d", n)
	}
	m.add(-100)
	m.limit = 400 << 10
	if n := m.take(300 << 10); n != 100<<10 {
		t.Errorf("took %d, more than a quarter", n)
	}
}

func (m *memory) queueing() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Frames of which only a part arrives hold a bound part of the memory, whatever
// their sizes claim, and others are served meanwhile. When their clients go, so
// does what they held.
func TestHalfFrames(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Properties["queued.max.request.bytes"] = fmt.Sprint(4 << 20) })
	var liars []net.Conn
	for range 50 {
		nc := dialClient(t, b).nc
		liars = append(liars, nc)
		frame := make([]byte, 100<<10)
		binary.BigEndian.PutUint32(frame, 90<<20) // Produce, version 0
		if _, err := nc.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	for range 3 {
		if resp := do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(string(make([]byte, 8<<10)))), 9); resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Error(errorName(resp.Topics[0].Partitions[0].ErrorCode))
		}
	}
	if n := b.frames.inUse(); n > 6<<20 {
		t.Errorf("%d bytes are held for frames", n)
	}
	for _, nc := range liars {
		nc.Close() //nolint:errcheck // that is the test
	}
	waitFor(t, "the memory to come back", func() bool { return b.frames.inUse() == 0 })
	big := do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(string(make([]byte, 900<<10)))), 9)
	if code := big.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("a large batch afterwards: %s", errorName(code))
	}
	waitFor(t, "what the batch took to come back", func() bool { return b.frames.inUse() == 0 && b.replies.inUse() == 0 })
}

// Everything that answers took is given back, also by those who hang up with a
// request that is parked or an answer that is on its way.
func TestRepliesAreRepaid(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(string(make([]byte, 500<<10)))), 9)
	for i := range 20 {
		d := dialClient(t, b)
		wait, offset := time.Duration(0), int64(0)
		if i%2 == 0 {
			wait, offset = time.Minute, 1
		}
		req := fetchRequest("t", 0, offset, wait)
		req.SetVersion(12)
		d.send(req)
		d.nc.Close() //nolint:errcheck // that is the test
	}
	waitFor(t, "the memory to come back", func() bool {
		return b.replies.inUse() == 0 && b.frames.inUse() == 0 && b.Stats().Connections == 1
	})
}
