package broker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// readBuffer is what an idle connection holds; larger frames are read
	// straight into memory of their own.
	readBuffer = 4 << 10
	// frameStep is how much of a frame is believed before it has arrived: a
	// size is only a claim.
	frameStep = 1 << 20
	// coldFrame is the largest frame of every API but Produce: the decoded form
	// of a request takes up to a hundred times its bytes, and no honest one
	// comes near. What a group may store is bounded by message.max.bytes.
	coldFrame = 4 << 20
	// pipelined is how many Produce requests of one connection may wait for
	// the journal together, pipelinedBytes how large they may be together.
	pipelined      = 16
	pipelinedBytes = 8 << 20
)

// conn is one connection. Its goroutine reads and serves; whoever answers a
// parked request starts a short-lived writer.
type conn struct {
	b      *Broker
	node   *node // whom the client has connected to
	nc     net.Conn
	br     *bufio.Reader
	host   string
	idle   time.Duration // connections.max.idle.ms
	seen   time.Time     // when the read deadline was last moved
	sent   time.Time     // when the write deadline was; belongs to who writes
	out    net.Buffers   // reused by who writes
	client string        // the last client id
	head   [wire.SizeBytes]byte
	paid   []*claim      // for the frame that is being read or served
	hungUp chan struct{} // closed by hangUp
	served chan struct{} // one token: the queue has got shorter

	sending atomic.Int64 // since when an answer is being written, ns; 0: none is

	mu       sync.Mutex
	queue    []*request // unanswered, oldest first
	queued   int        // bytes of their frames
	writing  bool       // somebody is writing answers
	handling bool       // the reader is in a handler and will write what it answers
	gone     bool
}

func newConn(b *Broker, n *node, nc net.Conn) *conn {
	host := nc.RemoteAddr().String()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return &conn{
		b: b, node: n, nc: nc, br: bufio.NewReaderSize(nc, readBuffer), host: "/" + host,
		idle: b.settings.duration("connections.max.idle.ms"), served: make(chan struct{}, 1), hungUp: make(chan struct{}),
	}
}

// serve reads requests until the client or the broker hangs up.
func (c *conn) serve() {
	err := c.loop()
	c.hangUp()
	c.b.repay(c.paid)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), isReset(err):
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.b.log.Debug("connection closed", "remote", c.nc.RemoteAddr().String(), "cause", "connections.max.idle.ms without a request")
	default:
		c.b.stats.connectionsBroken.Add(1)
		c.b.log.Debug("connection closed", "remote", c.nc.RemoteAddr().String(), "cause", err)
	}
}

// loop never ends without an error.
func (c *conn) loop() error {
	for {
		frame, err := c.readFrame()
		if err != nil {
			return err
		}
		if err := c.next(frame); err != nil {
			return err
		}
		c.b.repay(c.paid)
		c.paid = c.paid[:0]
	}
}

// next decodes a frame and serves the request, as soon as it is its turn.
func (c *conn) next(frame []byte) error {
	claim, err := c.payDecoding(frame)
	if err != nil {
		return err
	}
	rq, err := c.decode(frame)
	if err == nil && groupsNamed(rq.msg) > maxGroups {
		err = fmt.Errorf("read request: API key %d names %d groups, more than %d: %w", rq.key, groupsNamed(rq.msg), maxGroups, wire.ErrFrame)
	}
	if err != nil {
		c.b.decoding.release(claim)
		return err
	}
	if groupsNamed(rq.msg) > 1 { // in parts with the coordinators until it is answered
		rq.decoded = claim
	} else {
		defer c.b.decoding.release(claim)
	}
	if rq.key == wire.Produce { // held until it is answered
		rq.paid, c.paid = c.paid, nil
	}
	if !c.enqueue(rq) {
		c.b.decoding.release(rq.decoded)
		c.b.repay(rq.paid)
		return net.ErrClosed
	}
	return c.handle(rq)
}

// readFrame reads one frame. Memory grows with what arrives, not with what the
// size claims.
func (c *conn) readFrame() ([]byte, error) {
	if err := c.readIdle(c.head[:]); err != nil {
		return nil, err
	}
	size, err := wire.FrameSize(c.head, c.b.maxFrame)
	if err != nil {
		return nil, err
	}
	key, err := c.br.Peek(min(2, size))
	if err != nil {
		return nil, err
	}
	if size > coldFrame && (len(key) < 2 || key[0] != 0 || key[1] != byte(wire.Produce)) {
		return nil, fmt.Errorf("read frame: %d bytes, more than the %d that only Produce may have: %w", size, coldFrame, wire.ErrFrame)
	}
	return c.readBody(size)
}

// readBody reads the rest of a frame. While there is plenty of memory a size is
// believed up to a point; otherwise a client gets four times what it has sent.
func (c *conn) readBody(size int) ([]byte, error) {
	first := min(size, smallFrame)
	if size > smallFrame && c.b.frames.plenty() {
		first = min(size, frameStep)
		if err := c.pay(first); err != nil {
			return nil, err
		}
	}
	frame := make([]byte, first)
	for n := 0; ; {
		if err := c.hurry(size, len(frame)-n); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c.br, frame[n:]); err != nil {
			return nil, err
		}
		if n = len(frame); n == size {
			return frame, c.calm(size)
		}
		if err := c.pay(min(size, 4*n) - n); err != nil {
			return nil, err
		}
		grown := make([]byte, min(size, 4*n))
		copy(grown, frame)
		frame = grown
	}
}

// hurry bounds the time that the next n bytes of a large frame may take.
func (c *conn) hurry(size, n int) error {
	if size <= smallFrame || n <= c.br.Buffered() {
		return nil
	}
	c.seen = time.Time{} // readIdle sets its own again
	return c.nc.SetReadDeadline(time.Now().Add(frameTime + time.Duration(n/frameRate)*time.Second))
}

// calm takes the bound off again where readIdle does not set one.
func (c *conn) calm(size int) error {
	if size <= smallFrame || c.idle > 0 {
		return nil
	}
	return c.nc.SetReadDeadline(time.Time{})
}

// pay waits for memory for more of the frame that is being read.
func (c *conn) pay(n int) error {
	claim := c.b.frames.acquire(int64(n), c.hungUp)
	if claim == nil {
		return net.ErrClosed
	}
	c.paid = append(c.paid, claim)
	return nil
}

// repay gives back what was paid for frames.
func (b *Broker) repay(paid []*claim) {
	for _, claim := range paid {
		b.frames.release(claim)
	}
}

// readIdle reads the size of the next frame, for as long as connections may be
// idle, or longer while a request is unanswered.
func (c *conn) readIdle(b []byte) error {
	for n := 0; n < len(b); {
		if now := time.Now(); c.idle > 0 && now.Sub(c.seen) > c.idle/8 {
			c.seen = now
			if err := c.nc.SetReadDeadline(now.Add(c.idle)); err != nil {
				return err
			}
		}
		m, err := c.br.Read(b[n:])
		n += m
		if errors.Is(err, os.ErrDeadlineExceeded) && c.busy() {
			c.seen = time.Time{}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}

// payDecoding waits until a request can be decoded and served at once: for the
// requests before it, for room for its answer, and for the memory that decoding
// may take. Who has that memory waits for nothing more. Produce is looked at
// before it is decoded, and points into its frame: it costs nothing here.
func (c *conn) payDecoding(frame []byte) (*claim, error) {
	if len(frame) < 2 {
		return nil, fmt.Errorf("read request: a frame of %d bytes: %w", len(frame), wire.ErrFrame)
	}
	key := int16(frame[0])<<8 | int16(frame[1])
	if key == wire.Produce {
		return nil, nil
	}
	for c.busy() {
		select {
		case <-c.served:
		case <-c.hungUp:
			return nil, net.ErrClosed
		}
	}
	if heavy(key) && !c.awaitReplies() {
		return nil, net.ErrClosed
	}
	if len(frame) <= decodeFree {
		return nil, nil
	}
	factor := decodeFactor
	if inParts(key) {
		factor = partsFactor
	}
	claim := c.b.decoding.acquire(int64(factor*len(frame)), c.hungUp)
	if claim == nil {
		return nil, net.ErrClosed
	}
	return claim, nil
}

// awaitReplies waits until there is memory for answers.
func (c *conn) awaitReplies() bool {
	for c.b.replies.full() {
		c.b.shed()
		select {
		case <-c.hungUp:
			return false
		case <-time.After(memoryRetry):
		}
	}
	return true
}

// name is the client id of the request that is oldest, for logs.
func (c *conn) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return ""
	}
	return c.queue[0].clientID
}

// decode makes a request of a frame. An error closes the connection.
func (c *conn) decode(frame []byte) (*request, error) {
	h, body, err := wire.PeekHeader(frame, c.client)
	if err != nil {
		return nil, err
	}
	c.client = h.ClientID
	row, ok := c.b.table[h.Key]
	if !ok {
		return nil, fmt.Errorf("read request: API key %d version %d is not served: %w", h.Key, h.Version, wire.ErrFrame)
	}
	rq := &request{
		conn: c, key: h.Key, version: h.Version, correlationID: h.CorrelationID,
		clientID: h.ClientID, host: c.host, at: time.Now(), size: len(frame),
	}
	c.b.stats.requests.Add(1)
	if h.Version < row.Min || h.Version > row.Max {
		if h.Key != wire.APIVersions {
			return nil, fmt.Errorf("read request: %s version %d is not served: %w", row.Name, h.Version, wire.ErrFrame)
		}
		rq.unknownVersion = true
		return rq, nil
	}
	if h.Version >= row.Flexible {
		if body, err = wire.SkipTags(body); err != nil {
			return nil, err
		}
		rq.flexible = true
	}
	if h.Key == wire.Produce && h.Version < firstProduce {
		return nil, fmt.Errorf("read request: Produce version %d is listed for old clients but not served: %w", h.Version, wire.ErrFrame)
	}
	if len(body) > coldFrame {
		if err := wire.WalkProduce(body, h.Version, rq.flexible); err != nil {
			return nil, err
		}
	}
	rq.msg = kmsg.RequestForKey(h.Key)
	rq.msg.SetVersion(h.Version)
	if err := rq.msg.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("read request: %s version %d: %w: %w", row.Name, h.Version, err, wire.ErrFrame)
	}
	return rq, nil
}

// enqueue waits for the requests before this one, unless all of them and this
// one are Produce requests, which the journal may take together. It reports
// false when the connection is gone.
func (c *conn) enqueue(rq *request) bool {
	for {
		c.mu.Lock()
		n := len(c.queue)
		if c.gone {
			c.mu.Unlock()
			return false
		}
		together := n < pipelined && c.queued+rq.size <= pipelinedBytes && rq.key == wire.Produce
		if n == 0 || together && c.queue[n-1].key == wire.Produce {
			c.queue = append(c.queue, rq)
			c.queued += rq.size
			c.handling = true
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		<-c.served
	}
}

// handle calls the handler and writes what it answered on the spot.
func (c *conn) handle(rq *request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.b.stats.panics.Add(1)
			c.b.log.Error("handler panicked, closing the connection", "api", rq.key, "version", rq.version, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("serve API %d version %d: panic: %v", rq.key, rq.version, p)
			rq.unpay()
		}
	}()
	c.b.table[rq.key].handle(c.b, rq)
	c.mu.Lock()
	c.handling = false
	mine := !c.writing && len(c.queue) > 0 && c.queue[0].done
	c.writing = c.writing || mine
	c.mu.Unlock()
	if mine {
		c.write()
	}
	return nil
}

// answered is called by a request that has got its answer.
func (c *conn) answered(rq *request, a answer) {
	c.mu.Lock()
	rq.answer, rq.done = a, true
	if c.gone {
		rq.release()
	}
	start := !c.writing && !c.handling && !c.gone && c.queue[0].done
	c.writing = c.writing || start
	c.mu.Unlock()
	if start {
		go c.write()
	}
}

// write writes the answers that are due, in the order of their requests, and
// returns when the oldest request has none yet.
func (c *conn) write() {
	for {
		c.mu.Lock()
		out := c.out[:0]
		closing, n := false, 0
		for ; n < len(c.queue) && c.queue[n].done && !closing; n++ {
			a := &c.queue[n].answer
			if a.frame != nil {
				out = append(out, a.frame)
			}
			out = append(out, a.frames...)
			closing = a.close
		}
		if n == 0 || c.gone {
			c.writing = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		err := c.send(out)
		c.mu.Lock()
		for _, rq := range c.queue[:n] {
			c.queued -= rq.size
			rq.release()
			c.b.lender.takeBack(rq.loans) // here and not in release: this one alone knows that they are written
		}
		clear(c.queue[:n])
		c.queue = append(c.queue[:0], c.queue[n:]...)
		c.mu.Unlock()
		if err != nil || closing {
			c.hangUp()
		}
		select {
		case c.served <- struct{}{}:
		default:
		}
	}
}

// send writes with one system call what is in out, and keeps its array.
func (c *conn) send(out net.Buffers) (err error) {
	c.out = out
	if len(out) == 0 {
		return nil
	}
	now := time.Now()
	if c.idle > 0 && now.Sub(c.sent) > c.idle/8 {
		c.sent = now
		if err := c.nc.SetWriteDeadline(now.Add(c.idle)); err != nil {
			return err
		}
	}
	c.sending.Store(now.UnixNano())
	defer c.sending.Store(0)
	var n int64
	if len(out) == 1 {
		var m int
		m, err = c.nc.Write(out[0])
		n = int64(m)
	} else {
		n, err = c.out.WriteTo(c.nc)
	}
	clear(out)
	c.out = out[:0]
	c.b.stats.bytesOut.Add(n)
	return err
}

// hangUp closes the connection and lets go of everything that waits for it.
func (c *conn) hangUp() {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	c.gone = true
	close(c.hungUp)
	var cancels []func()
	for _, rq := range c.queue {
		if rq.cancel != nil {
			cancels = append(cancels, rq.cancel)
		}
		if rq.done {
			rq.release()
		}
	}
	c.mu.Unlock()
	c.nc.Close() //nolint:errcheck // nobody is left to tell
	for _, cancel := range cancels {
		cancel()
	}
	select {
	case c.served <- struct{}{}:
	default:
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}
