package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
)

// acceptBackoff is how long accepting rests after an error.
const acceptBackoff = 50 * time.Millisecond

// Broker is a running broker.
type Broker struct {
	config   Config
	settings *settings
	log      *slog.Logger
	journal  *journal.Log
	meta     *metadata
	groups   *coordinator
	table    map[int16]served
	stats    counters
	pids     producerIDs
	sessions *fetchSessions
	maxFrame int32 // socket.request.max.bytes
	fetchMax int   // fetch.max.bytes
	maxConns int   // max.connections
	frames   memory
	decoding memory
	replies  memory
	lender   lender
	shedAt   atomic.Int64 // when shed looked last

	nodes []*node

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing bool
	running sync.WaitGroup
	detach  func() bool // from the context of Start
	closed  sync.Once
	err     error // of Close
}

// Start opens the log in c.Dir, recovers what is there, and listens. The
// broker runs until Close, or until ctx is done. Errors name the setting or
// the file that is at fault.
func Start(ctx context.Context, c Config) (*Broker, error) {
	began := time.Now()
	b := &Broker{config: c, conns: map[*conn]struct{}{}}
	if err := b.configure(); err != nil {
		return nil, &ConfigError{err}
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	for _, n := range b.nodes {
		b.running.Go(func() { b.accept(n) })
	}
	now := b.catalog()
	b.log.Info("broker started", "listen", b.nodes[0].listener.Addr().String(), "advertised", b.Addr(), "node_id", b.config.NodeID, "brokers", len(b.nodes), "cluster_id", now.clusterID,
		"dir", b.config.Dir, "topics", len(now.byName), "took", time.Since(began).Round(time.Millisecond))
	detach := context.AfterFunc(ctx, func() { b.Close() }) //nolint:errcheck // Close keeps its error for the caller of Close
	b.mu.Lock()
	b.detach = detach
	b.mu.Unlock()
	return b, nil
}

func (b *Broker) configure() error {
	c := &b.config
	if c.Dir == "" && c.FS == nil {
		return errors.New("start broker: no directory for the log: set Config.Dir")
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:9092"
	}
	if c.NodeID == 0 {
		c.NodeID = 1
	}
	if c.ListenFunc == nil {
		if err := checkLoopback(c.Listen, c.AllowRemote); err != nil {
			return err
		}
		c.ListenFunc = net.Listen
	}
	if err := b.makeNodes(); err != nil {
		return err
	}
	b.log = c.Logger
	if b.log == nil {
		b.log = slog.Default()
	}
	s, err := parseSettings(c.Properties)
	if err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	b.settings = s
	b.maxFrame = int32(s.int("socket.request.max.bytes"))
	b.fetchMax, b.maxConns = int(s.int("fetch.max.bytes")), int(s.int("max.connections"))
	b.sessions = newFetchSessions(s.int("max.incremental.fetch.session.cache.slots"))
	b.frames.limit, b.replies.limit = s.int("queued.max.request.bytes"), replyMemory
	if b.frames.limit <= 0 {
		b.frames.limit = frameMemory
	}
	b.frames.overdraft, b.decoding.limit = true, decodeMemory
	b.table = dispatch()
	for name, why := range s.ignored() {
		b.log.Info("setting without effect", "name", name, "cause", why)
	}
	return nil
}

// open brings up everything from the log to the listener, and takes it down
// again when a part of it fails.
func (b *Broker) open() (err error) {
	c := b.config
	b.journal, err = journal.Open(journal.Config{
		Dir: c.Dir, FS: c.FS, Flush: c.Flush, FlushInterval: c.FlushInterval, Logger: b.log,
		CheckInterval:      b.settings.duration("log.retention.check.interval.ms"),
		CleanerBackoff:     b.settings.duration("log.cleaner.backoff.ms"),
		ProducerExpiration: b.settings.duration("producer.id.expiration.ms"),
	})
	if err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.journal.Close())
		}
	}()
	if b.meta, err = openMetadata(b); err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	if err = b.listen(); err != nil {
		b.meta.close()
		return errors.Join(err, b.unlisten())
	}
	b.groups = newCoordinator(b)
	return nil
}

func checkLoopback(addr string, allowed bool) error {
	if allowed {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("start broker: listen address %q: %w: want host:port", addr, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("start broker: %q can be reached from other machines, and there is no authentication: listen on 127.0.0.1, or allow it with Config.AllowRemote (--allow-remote)", addr)
}

// accept takes connections until the listener is closed. What goes wrong
// meanwhile, such as a lack of file descriptors, passes: it goes on.
func (b *Broker) accept(n *node) {
	for {
		nc, err := n.listener.Accept()
		if err != nil {
			if b.isClosing() || errors.Is(err, net.ErrClosed) {
				return
			}
			b.log.Error("accept a connection, trying again", "cause", err)
			time.Sleep(acceptBackoff)
			continue
		}
		if !b.admit(newConn(b, n, nc)) {
			nc.Close() //nolint:errcheck // it was never served
		}
	}
}

// admit serves a connection, unless the broker is closing or has as many as
// max.connections allows.
func (b *Broker) admit(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return false
	}
	if len(b.conns) >= b.maxConns {
		b.log.Warn("connection refused", "remote", c.nc.RemoteAddr().String(), "cause", "max.connections="+strconv.Itoa(b.maxConns))
		return false
	}
	b.conns[c] = struct{}{}
	b.stats.connectionsAccepted.Add(1)
	b.running.Go(func() {
		c.serve()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	})
	return true
}

func (b *Broker) isClosing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing
}

func (b *Broker) nodeName() string { return strconv.Itoa(int(b.config.NodeID)) }

// Addr is the host:port that clients are told to connect to; with several
// brokers that of the first.
func (b *Broker) Addr() string { return b.Addrs()[0] }

// Addrs lists the host:port of every broker, in order of their ids.
func (b *Broker) Addrs() []string {
	addrs := make([]string, len(b.nodes))
	for i, n := range b.nodes {
		addrs[i] = net.JoinHostPort(n.host, strconv.Itoa(int(n.port)))
	}
	return addrs
}

// Events returns the last rebalances, oldest first.
func (b *Broker) Events() []cause.Event { return b.groups.events() }

// Close stops listening, hangs up on every client, ends the coordinator and
// closes the log. Everything that was acknowledged is on disk. Further calls
// wait for the first and return its error.
func (b *Broker) Close() error {
	b.closed.Do(func() {
		b.mu.Lock()
		b.closing = true
		if b.detach != nil {
			b.detach()
		}
		conns := make([]*conn, 0, len(b.conns))
		for c := range b.conns {
			conns = append(conns, c)
		}
		b.mu.Unlock()
		err := b.unlisten()
		for _, c := range conns {
			c.hangUp()
		}
		b.running.Wait()
		b.groups.close()
		b.meta.close()
		b.err = errors.Join(err, b.journal.Close())
	})
	return b.err
}
