package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// wire is the connections of a member. They can be cut, and can lose
// heartbeats.
type wire struct {
	lossFrom time.Time
	loss     float64 // the part of classic heartbeats that are answered here and go no further

	mu    sync.Mutex
	off   bool
	conns map[net.Conn]bool
}

func newWire() *wire { return &wire{conns: map[net.Conn]bool{}} }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	off := w.off
	w.mu.Unlock()
	if off {
		return nil, errors.New("the process is dead")
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.conns[conn] = true
	w.mu.Unlock()
	if w.loss > 0 {
		return &lossy{Conn: conn, w: w}, nil
	}
	return conn, nil
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = true
	for c := range w.conns {
		c.Close()
	}
}

// lossy is a connection on which some heartbeats never arrive: the member gets
// an answer without an error, as from a broker that has heard it. TCP loses
// nothing, so this is how the recordings did it too.
type lossy struct {
	net.Conn
	w *wire

	mu      sync.Mutex
	answers []byte // that nobody sent
}

// heartbeatKey is Heartbeat's.
const heartbeatKey = 12

// Write sends a request, or answers it. A client writes one request at a time,
// and reads when it has written.
func (l *lossy) Write(b []byte) (int, error) {
	if len(b) < 12 || binary.BigEndian.Uint16(b[4:]) != heartbeatKey || time.Now().Before(l.w.lossFrom) || rand.Float64() >= l.w.loss {
		return l.Conn.Write(b)
	}
	body := []byte(nil)
	body = append(body, b[8:12]...) // its correlation id
	version := binary.BigEndian.Uint16(b[6:])
	if version >= 4 {
		body = append(body, 0) // no tags in the header
	}
	if version >= 1 {
		body = append(body, 0, 0, 0, 0) // not throttled
	}
	body = append(body, 0, 0) // no error
	if version >= 4 {
		body = append(body, 0)
	}
	l.mu.Lock()
	l.answers = binary.BigEndian.AppendUint32(l.answers, uint32(len(body)))
	l.answers = append(l.answers, body...)
	l.mu.Unlock()
	return len(b), nil
}

// Read gives such an answer, or what the broker sent.
func (l *lossy) Read(b []byte) (int, error) {
	l.mu.Lock()
	n := copy(b, l.answers)
	l.answers = l.answers[n:]
	l.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	return l.Conn.Read(b)
}
