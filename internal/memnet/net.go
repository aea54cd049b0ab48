package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Net is a network of one host in memory: addresses differ by their port. The
// zero value is not usable: call New.
type Net struct {
	latency time.Duration

	mu        sync.Mutex // nobody waits while holding it
	listeners map[int]*listener
	links     map[string]*link
	port      int // last one given out
}

// New makes a network whose links all have the given one-way latency.
func New(latency time.Duration) *Net {
	return &Net{latency: latency, listeners: map[int]*listener{}, links: map[string]*link{}, port: 20000}
}

// link is what lies between one client and all listeners.
type link struct {
	mu      sync.Mutex // nobody waits while holding it
	latency time.Duration
	cut     bool
	changed chan struct{} // closed and replaced when the link changes
	conns   map[*conn]bool
}

func (n *Net) link(from string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[from]
	if l == nil {
		l = &link{latency: n.latency, changed: make(chan struct{}), conns: map[*conn]bool{}}
		n.links[from] = l
	}
	return l
}

func (l *link) set(f func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) state() (cut bool, latency time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.latency, l.changed
}

// Cut holds back everything between the client from and all listeners, in
// both directions, until Heal, as a network does that lost a route: neither
// side is told. New connections hang.
func (n *Net) Cut(from string) { n.link(from).set(func(l *link) { l.cut = true }) }

// Heal ends a cut; what was held back is delivered.
func (n *Net) Heal(from string) { n.link(from).set(func(l *link) { l.cut = false }) }

// SetLatency changes the one-way latency of the client's links, for what is
// written from now on.
func (n *Net) SetLatency(from string, d time.Duration) {
	n.link(from).set(func(l *link) { l.latency = d })
}

// Reset breaks every connection of the client from: both sides get an error.
func (n *Net) Reset(from string) {
	l := n.link(from)
	l.mu.Lock()
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.in.fail(syscall.ECONNRESET)
		c.out.fail(syscall.ECONNRESET)
	}
}

// listener accepts connections on one port.
type listener struct {
	n      *Net
	port   int
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func addr(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

func split(address string) (int, error) {
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("memnet: address %q: %w", address, err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return 0, fmt.Errorf("memnet: address %q: port: %w", address, err)
	}
	return port, nil
}

// Listen opens a listener on address ("host:port"; port 0 picks a free one). It
// has the shape of net.Listen, so that a server takes it as its ListenFunc.
func (n *Net) Listen(_, address string) (net.Listener, error) {
	port, err := split(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		n.port++
		port = n.port
	}
	if n.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memnet", Addr: addr(port), Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, port: port, queue: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[port] = l
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "memnet", Addr: addr(l.port), Err: net.ErrClosed}
	}
}

func (l *listener) Addr() net.Addr { return addr(l.port) }

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.port)
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// Dialer is a dial function for the client called from. Every client has a
// link of its own to every address, so that one of them can be cut.
func (n *Net) Dialer(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := n.dial(ctx, n.link(from), address)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "memnet", Err: err}
		}
		return c, nil
	}
}

func (n *Net) dial(ctx context.Context, l *link, address string) (net.Conn, error) {
	port, err := split(address)
	if err != nil {
		return nil, err
	}
	if err := l.cross(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	to := n.listeners[port]
	n.port++
	local := n.port
	n.mu.Unlock()
	if to == nil {
		return nil, syscall.ECONNREFUSED
	}
	there, back := newPipe(l), newPipe(l)
	client := &conn{link: l, in: back, out: there, local: addr(local), remote: addr(port)}
	server := &conn{link: l, in: there, out: back, local: addr(port), remote: addr(local)}
	select {
	case to.queue <- server:
	case <-to.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	l.conns[client] = true
	l.mu.Unlock()
	return client, nil
}

// cross waits for as long as a packet needs over the link.
func (l *link) cross(ctx context.Context) error {
	for {
		cut, latency, changed := l.state()
		if !cut {
			if latency == 0 {
				return nil
			}
			t := time.NewTimer(latency)
			defer t.Stop()
			select {
			case <-t.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(syscall.ETIMEDOUT, context.Cause(ctx))
		}
	}
}
