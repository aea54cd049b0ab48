package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how much one direction of a connection holds, as a socket's
// buffers do.
const pipeBuffer = 256 << 10

// conn is one end of a connection.
type conn struct {
	link          *link
	in, out       *pipe
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: the peer reads what is under way and then EOF.
func (c *conn) Close() error {
	c.out.finish()
	c.in.fail(net.ErrClosed)
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, t)
	c.out.deadline(&c.out.writeBy, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.writeBy, t)
	return nil
}

// pipe is one direction.
type pipe struct {
	link *link

	mu              sync.Mutex // nobody waits while holding it
	queue           []chunk
	size            int
	eof             bool  // the writer has closed
	err             error // the pipe is broken for both sides
	readBy, writeBy time.Time
	changed         chan struct{} // closed and replaced when any of this changes
}

// chunk is what one write left, and when it arrives.
type chunk struct {
	at   time.Time
	data []byte
}

func newPipe(l *link) *pipe { return &pipe{link: l, changed: make(chan struct{})} }

// wake tells everybody who waits on the pipe; the caller holds mu.
func (p *pipe) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	p.wake()
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.wake()
}

func (p *pipe) deadline(which *time.Time, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*which = t
	p.wake()
}

// wait is what a blocked read or write waits for.
type wait struct {
	changed <-chan struct{} // the pipe
	link    <-chan struct{}
	until   time.Time // zero: for ever
}

func (w wait) do() {
	var timer <-chan time.Time
	if !w.until.IsZero() {
		t := time.NewTimer(time.Until(w.until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-w.changed:
	case <-w.link:
	case <-timer:
	}
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		n, err, w := p.tryRead(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		w.do()
	}
}

func (p *pipe) tryRead(b []byte) (int, error, wait) {
	cut, _, linkChanged := p.link.state()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := wait{changed: p.changed, link: linkChanged, until: p.readBy}
	switch {
	case p.err != nil:
		return 0, p.err, w
	case !p.readBy.IsZero() && !now.Before(p.readBy):
		return 0, os.ErrDeadlineExceeded, w
	case cut:
		return 0, nil, w
	case len(p.queue) == 0 && p.eof:
		return 0, io.EOF, w
	case len(p.queue) == 0:
		return 0, nil, w
	case now.Before(p.queue[0].at):
		if w.until.IsZero() || p.queue[0].at.Before(w.until) {
			w.until = p.queue[0].at
		}
		return 0, nil, w
	}
	head := &p.queue[0]
	n := copy(b, head.data)
	if head.data = head.data[n:]; len(head.data) == 0 {
		p.queue = p.queue[1:]
	}
	p.size -= n
	p.wake()
	return n, nil, w
}

func (p *pipe) write(b []byte) (int, error) {
	var written int
	for {
		n, err, w := p.tryWrite(b[written:])
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
		if n == 0 {
			w.do()
		}
	}
}

func (p *pipe) tryWrite(b []byte) (int, error, wait) {
	_, latency, linkChanged := p.link.state()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := wait{changed: p.changed, link: linkChanged, until: p.writeBy}
	switch {
	case p.err != nil:
		return 0, p.err, w
	case p.eof:
		return 0, net.ErrClosed, w
	case !p.writeBy.IsZero() && !now.Before(p.writeBy):
		return 0, os.ErrDeadlineExceeded, w
	}
	n := min(len(b), pipeBuffer-p.size)
	if n == 0 {
		return 0, nil, w
	}
	at := now.Add(latency)
	if k := len(p.queue); k > 0 && p.queue[k-1].at.After(at) {
		at = p.queue[k-1].at // bytes do not overtake each other
	}
	p.queue = append(p.queue, chunk{at: at, data: append([]byte(nil), b[:n]...)})
	p.size += n
	p.wake()
	return n, nil, w
}
