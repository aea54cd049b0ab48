package call

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// lines is an HTTP/1.1 transport for calls in plain text. net/http's own keeps
// two goroutines and two buffers for every connection, which is most of the
// memory of a call that waits for a slow service. Here the caller writes the
// request and reads the answer itself, and a waiting connection holds no
// buffer. Requests over TLS and through a proxy go to net/http.
type lines struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	secure *http.Transport // for everything but plain HTTP without a proxy
	keep   int             // idle lines of one host
	expire time.Duration   // of an idle line

	readers, writers sync.Pool

	mu   sync.Mutex
	idle map[string][]*line // by host:port; the youngest is last
}

// line is one connection.
type line struct {
	conn net.Conn
	host string
	used bool // for an earlier request
	free time.Time
}

func newLines(o HTTPOptions, secure *http.Transport) *lines {
	return &lines{
		dial: secure.DialContext, secure: secure, keep: o.IdleConnections, expire: 90 * time.Second, idle: map[string][]*line{},
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }},
		writers: sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }},
	}
}

// RoundTrip sends one request and answers when the header of the answer is
// there.
func (t *lines) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" || t.proxied(req) {
		return t.secure.RoundTrip(req)
	}
	for {
		l, err := t.take(req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, early, err := t.exchange(l, req)
		if err == nil {
			return resp, nil
		}
		// A line that was idle may have been closed by the service just now.
		// Only a request that may safely arrive twice is sent again.
		if !l.used || !early || !replayable(req) || req.Context().Err() != nil {
			return nil, err
		}
		if req, err = again(req); err != nil {
			return nil, err
		}
	}
}

func (t *lines) proxied(req *http.Request) bool {
	if t.secure.Proxy == nil {
		return false
	}
	proxy, err := t.secure.Proxy(req)
	return proxy != nil || err != nil // net/http reports the error
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	}
	return false
}

func again(req *http.Request) (*http.Request, error) {
	if req.GetBody == nil {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeat request: %w", err)
	}
	next := *req
	next.Body = body
	return &next, nil
}

// take answers an idle line that is still open, or makes one.
func (t *lines) take(req *http.Request) (*line, error) {
	host := req.URL.Host
	if req.URL.Port() == "" {
		host = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	for {
		l := t.pop(host)
		if l == nil {
			break
		}
		if time.Since(l.free) < t.expire && open(l.conn) {
			l.used = true
			return l, nil
		}
		l.conn.Close()
	}
	conn, err := t.dial(req.Context(), "tcp", host)
	if err != nil {
		return nil, err
	}
	return &line{conn: conn, host: host}, nil
}

func (t *lines) pop(host string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := t.idle[host]
	if len(free) == 0 {
		return nil
	}
	l := free[len(free)-1]
	free[len(free)-1] = nil
	t.idle[host] = free[:len(free)-1]
	return l
}

// put keeps a line for the next request. The oldest idle ones are closed when
// they have expired, or when there are too many.
func (t *lines) put(l *line) {
	l.free = time.Now()
	t.mu.Lock()
	free := append(t.idle[l.host], l)
	n := 0
	for n < len(free) && (len(free)-n > t.keep || l.free.Sub(free[n].free) > t.expire) {
		n++
	}
	old := append([]*line(nil), free[:n]...)
	t.idle[l.host] = append(free[:0], free[n:]...)
	t.mu.Unlock()
	for _, l := range old {
		l.conn.Close()
	}
}

// CloseIdleConnections closes all lines that no request uses.
func (t *lines) CloseIdleConnections() {
	t.mu.Lock()
	idle := t.idle
	t.idle = map[string][]*line{}
	t.mu.Unlock()
	for _, free := range idle {
		for _, l := range free {
			l.conn.Close()
		}
	}
	t.secure.CloseIdleConnections()
}

// exchange writes the request and waits for the answer. early says that not
// one byte of an answer came.
func (t *lines) exchange(l *line, req *http.Request) (resp *http.Response, early bool, err error) {
	ctx := req.Context()
	// The end of the context ends whatever the connection is doing.
	stop := context.AfterFunc(ctx, func() { l.conn.SetDeadline(time.Unix(1, 0)) })
	fail := func(what string, err error) error {
		stop()
		l.conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s %s: %w", what, bareURL(req), err)
	}
	if err := t.write(l, req); err != nil {
		return nil, true, fail("send request to", err)
	}
	var first [1]byte
	if _, err := io.ReadFull(l.conn, first[:]); err != nil {
		return nil, true, fail("wait for answer of", err)
	}
	r := t.readers.Get().(*bufio.Reader)
	r.Reset(&begun{first: first[0], conn: l.conn})
	resp, err = http.ReadResponse(r, req)
	for err == nil && resp.StatusCode >= 100 && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(r, req) // an interim answer
	}
	if err != nil {
		return nil, false, fail("read answer of", err)
	}
	resp.Body = &answer{ReadCloser: resp.Body, lines: t, line: l, reader: r, stop: stop, ctx: ctx, keep: !resp.Close && !req.Close}
	return resp, false, nil
}

func (t *lines) write(l *line, req *http.Request) error {
	w := t.writers.Get().(*bufio.Writer)
	w.Reset(l.conn)
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	t.writers.Put(w)
	return err
}

// begun is a connection of which one byte was read already.
type begun struct {
	first byte
	taken bool
	conn  net.Conn
}

func (b *begun) Read(p []byte) (int, error) {
	if !b.taken && len(p) > 0 {
		b.taken = true
		p[0] = b.first
		return 1, nil
	}
	return b.conn.Read(p)
}

// answer is the body of an answer. Read to its end it gives the line back;
// closed before, it closes the line.
type answer struct {
	io.ReadCloser
	lines  *lines
	line   *line
	reader *bufio.Reader
	stop   func() bool
	ctx    context.Context
	keep   bool
	ended  bool
	over   bool
}

func (a *answer) Read(p []byte) (int, error) {
	if a.over {
		return 0, errors.New("read answer: closed")
	}
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		a.ended = true
	} else if err != nil && a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
	}
	return n, err
}

func (a *answer) Close() error {
	if a.over {
		return nil
	}
	a.over = true
	running := a.stop()
	if a.ended && a.keep && running && a.reader.Buffered() == 0 {
		a.reader.Reset(nil)
		a.lines.readers.Put(a.reader)
		a.lines.put(a.line)
		return nil
	}
	return a.line.conn.Close()
}
