package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/internal/journal"
)

// serveCmd runs the broker.
type serveCmd struct {
	Data          string        `required:"" env:"RONDO_DATA" placeholder:"DIR" help:"Directory of the log; made when it is not there."`
	Listen        string        `default:"127.0.0.1:9092" env:"RONDO_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one, the address is printed."`
	Advertise     string        `env:"RONDO_ADVERTISE" placeholder:"HOST:PORT" help:"Address that clients are told, default the one listened on."`
	AllowRemote   bool          `env:"RONDO_ALLOW_REMOTE" help:"Listen on an address that other machines reach. There is no authentication: whoever reaches the port may do anything."`
	NodeID        int32         `default:"1" env:"RONDO_NODE_ID" help:"The broker's id."`
	Brokers       int           `default:"1" env:"RONDO_BROKERS" help:"Broker ids in this one process, --node-id and those that follow, each with its own port, counted up from that of --listen. One store: no more durable than one broker."`
	ClusterID     string        `env:"RONDO_CLUSTER_ID" help:"The cluster's id, default one made at the first start."`
	Flush         string        `default:"always" enum:"always,interval,never" env:"RONDO_FLUSH" help:"When an append is acknowledged: after its fsync (always), or before one (interval, never)."`
	FlushInterval time.Duration `default:"1s" env:"RONDO_FLUSH_INTERVAL" help:"Longest time without an fsync under --flush interval."`
	X             []string      `name:"property" short:"X" sep:"none" placeholder:"NAME=VALUE" help:"Broker setting under Kafka's name; may be repeated."`
	Properties    string        `env:"RONDO_BROKER_PROPERTIES" placeholder:"FILE" help:"Properties file with broker settings, as Kafka's server.properties."`
	MetricsListen string        `env:"RONDO_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Serve /metrics, /livez and /readyz here."`
}

// collectAt is how much memory the process takes before garbage is collected
// more eagerly than usual. What clients can make the broker hold is less
// (broker/memory.go); without this, what they held before would count double.
const collectAt = 768 << 20

// heapFloor is memory that is allocated and never touched, so it takes none; but
// it counts when the next collection is timed. Without it a broker with little
// in memory collects every four megabytes, which is every four fetches.
const heapFloor = 32 << 20

// Run serves until SIGINT or SIGTERM, then stops without losing what it
// acknowledged.
func (c *serveCmd) Run(ctx context.Context, t *terminal) (err error) {
	config, err := c.config(t)
	if err != nil {
		return err
	}
	m := newMetrics()
	config.OnEvent = m.rebalanced
	if c.MetricsListen != "" {
		stop, err := m.serve(t, c.MetricsListen)
		if err != nil {
			return err
		}
		defer func() {
			if stopErr := stop(); err == nil {
				err = stopErr
			}
		}()
	}
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT says nothing
		debug.SetMemoryLimit(collectAt)
	}
	// The broker gets a context of its own: a signal must stop it through
	// Close, which says whether the last acknowledged bytes are on disk.
	b, err := broker.Start(context.WithoutCancel(ctx), config)
	if err != nil {
		return explainStart(c, err)
	}
	m.started(b)
	fmt.Fprintf(t.out, "listening on %s\n", strings.Join(b.Addrs(), ","))
	<-ctx.Done()
	m.stopping()
	if err := b.Close(); err != nil {
		return fmt.Errorf("stop broker: %w", err)
	}
	return nil
}

func (c *serveCmd) config(t *terminal) (broker.Config, error) {
	file, err := readProperties(c.Properties)
	if err != nil {
		return broker.Config{}, err
	}
	flags, err := parsePairs(c.X)
	if err != nil {
		return broker.Config{}, err
	}
	flush := map[string]journal.Flush{"always": journal.FlushAlways, "interval": journal.FlushInterval, "never": journal.FlushNever}
	return broker.Config{
		Dir: c.Data, Listen: c.Listen, Advertise: c.Advertise, NodeID: c.NodeID, Brokers: c.Brokers, ClusterID: c.ClusterID,
		Flush: flush[c.Flush], FlushInterval: c.FlushInterval,
		Properties: layer(file, environProperties(t.environ, broker.PropertyNames()), flags),
		Logger:     t.log, AllowRemote: c.AllowRemote,
	}, nil
}

// explainStart adds a hint to what commonly keeps a broker from starting.
func explainStart(c *serveCmd, err error) error {
	if _, ok := errors.AsType[*broker.ConfigError](err); ok {
		return fail(exitUsage, err, "rondo serve --help; the names of settings are those of Kafka's server.properties")
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fail(exitFailed, err, "another process listens on %s: stop it, or choose --listen 127.0.0.1:0", c.Listen)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(exitUsage, err, "--listen wants an address of this machine, HOST:PORT")
	case errors.Is(err, journal.ErrLocked):
		return fail(exitFailed, err, "another broker has %s open: stop it, or choose another --data", c.Data)
	case errors.Is(err, fs.ErrPermission):
		return fail(exitFailed, err, "this user must be able to write %s", c.Data)
	}
	return err
}
