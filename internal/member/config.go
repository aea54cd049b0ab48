package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Config is everything a member needs to know.
type Config struct {
	// Bootstrap lists brokers as host:port (bootstrap.servers).
	Bootstrap []string
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, host string) (net.Conn, error)
	// Group is group.id.
	Group string
	// ClientID is client.id; empty means "rondo".
	ClientID string
	// InstanceID is group.instance.id; empty means a dynamic member.
	InstanceID string
	// Rack is client.rack.
	Rack string
	// Topics is the subscription.
	Topics []string
	// SessionTimeout is session.timeout.ms; zero means 45 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is heartbeat.interval.ms; zero means 3 s.
	HeartbeatInterval time.Duration
	// MaxPollInterval is max.poll.interval.ms, the limit of the poll clock and
	// the rebalance timeout that the coordinator is told; zero means 5 min.
	MaxPollInterval time.Duration
	// MetadataMaxAge is metadata.max.age.ms: how often the leader looks
	// whether the partition counts of the group's topics changed; zero means
	// 5 min.
	MetadataMaxAge time.Duration
	// Eager revokes everything before each join (the eager rebalance
	// protocol), instead of only what moves.
	Eager bool
	// InPoll makes the member behave as the classic Java consumer does:
	// everything but heartbeats happens inside Poll.
	InPoll bool
	// Assignor computes assignments when this member is the leader; nil means
	// Sticky.
	Assignor Assignor
	// UserData is asked before each join for bytes that travel to the leader
	// in the subscription; nil means none. It must not block.
	UserData func() []byte
	// Farewell is called when the poll clock has fired for work, before the
	// lease is given up: the last moment at which what is finished can be
	// committed. It has a goroutine of its own; the lease goes when it returns
	// or when its context ends, FarewellLimit later. nil means that nothing is
	// waited for. InPoll members never call it: Kafka Streams has no such
	// moment.
	Farewell func(ctx context.Context, w Work)
	// Logger gets a line for each change of the lease; nil means none.
	Logger *slog.Logger
	// KgoOpts are further options of the transport (TLS, SASL).
	KgoOpts []kgo.Opt
}

func (cfg *Config) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.SessionTimeout, 45*time.Second)
	def(&cfg.HeartbeatInterval, 3*time.Second)
	def(&cfg.MaxPollInterval, 5*time.Minute)
	def(&cfg.MetadataMaxAge, 5*time.Minute)
	if cfg.ClientID == "" {
		cfg.ClientID = "rondo"
	}
	if cfg.Assignor == nil {
		cfg.Assignor = Sticky{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
}

func (cfg *Config) check() error {
	switch {
	case len(cfg.Bootstrap) == 0:
		return errors.New("bootstrap.servers is empty: give at least one host:port")
	case cfg.Group == "":
		return errors.New("group.id is empty: a member needs a group")
	case len(cfg.Topics) == 0:
		return errors.New("no topics: a member needs a subscription")
	case cfg.HeartbeatInterval <= 0 || cfg.HeartbeatInterval >= cfg.SessionTimeout:
		return fmt.Errorf("heartbeat.interval.ms %s must be less than session.timeout.ms %s, a third of it at most", cfg.HeartbeatInterval, cfg.SessionTimeout)
	case cfg.MaxPollInterval <= 0:
		return fmt.Errorf("max.poll.interval.ms %s must be positive", cfg.MaxPollInterval)
	case cfg.MetadataMaxAge <= 0:
		return fmt.Errorf("metadata.max.age.ms %s must be positive", cfg.MetadataMaxAge)
	}
	return nil
}

func (cfg *Config) core() CoreConfig {
	return CoreConfig{
		Group: cfg.Group, ClientID: cfg.ClientID, InstanceID: cfg.InstanceID, Rack: cfg.Rack,
		Topics: cfg.Topics, Session: cfg.SessionTimeout, Heartbeat: cfg.HeartbeatInterval,
		MaxPoll: cfg.MaxPollInterval, MetadataMaxAge: cfg.MetadataMaxAge,
		Eager: cfg.Eager, InPoll: cfg.InPoll, Assignor: cfg.Assignor,
	}
}

// FarewellLimit is how long an eviction waits for Config.Farewell: a second,
// and at most a tenth of the poll clock. The group waits as long for the
// partitions.
func (m *Member) FarewellLimit() time.Duration { return min(time.Second, m.cfg.MaxPollInterval/10) }

// Keys of two requests that are kept at versions which name topics.
const (
	keyOffsetCommit = 8
	keyOffsetFetch  = 9
)

// newClient makes the transport of one member: group requests only, no retries
// of its own, since the core decides what to do about every answer.
func (cfg *Config) newClient() (*kgo.Client, error) {
	// From version 10 on offsets are committed by topic id (KIP-1319 and
	// KIP-848's follow-ups), which a raw request would have to look up.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(keyOffsetCommit, 9)
	versions.SetMaxKeyVersion(keyOffsetFetch, 9)
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Bootstrap...),
		kgo.ClientID(cfg.ClientID),
		kgo.MaxVersions(versions),
		kgo.RequestRetries(0),
		// A request that hangs is given up while there is time for more
		// heartbeats within the session.
		kgo.RequestTimeoutOverhead(min(max(cfg.SessionTimeout/4, time.Second), 10*time.Second)),
		kgo.DisableClientMetrics(),
	}
	if cfg.Dial != nil {
		opts = append(opts, kgo.Dialer(cfg.Dial))
	}
	return kgo.NewClient(append(opts, cfg.KgoOpts...)...)
}
