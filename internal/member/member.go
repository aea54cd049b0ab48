package member

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config is everything a member needs to know.
type Config struct {
	// Bootstrap lists brokers as host:port (bootstrap.servers).
	Bootstrap []string
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, host string) (net.Conn, error)
	// Group is group.id.
	Group string
	// ClientID is client.id.
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
	// in the subscription; nil means none.
	UserData func() []byte
	// Logger gets a line for each change of state; nil means none.
	Logger *slog.Logger
	// KgoOpts are further options of the transport (TLS, SASL).
	KgoOpts []kgo.Opt
}

// Errors of Commit.
var (
	// ErrFenced says that the lease under which the records were read is gone:
	// another member may own the partitions. The work must not be committed.
	ErrFenced = errors.New("lease is gone: the partitions may have another owner")
	// ErrRebalancing says that the group was between two generations for as
	// long as the caller was willing to wait. The lease may still be held; try
	// again.
	ErrRebalancing = errors.New("group is rebalancing")
)

// Member is the running shell around a Core.
type Member struct{}

// Start checks the configuration, connects and joins. The first Assigned
// event says that the join is done. Cancelling ctx stops the member without
// leaving the group, as a crash would; Close leaves.
func Start(ctx context.Context, cfg Config) (*Member, error) {
	return nil, errors.New("start member: not running")
}

// Events delivers what happens to the lease, in order. The channel is closed
// after Close or a Fatal event. The member never waits for its reader.
func (m *Member) Events() <-chan Event { return nil }

// Commit commits offsets (the next offset to read) under the current
// generation. It is allowed whenever the lease is held, also during a
// rebalance. Between a join and its sync the coordinator refuses commits: then
// Commit waits, until ctx ends (ErrRebalancing). ErrFenced: the lease is gone.
func (m *Member) Commit(ctx context.Context, offsets map[TopicPartition]Offset) error {
	return ErrFenced
}

// Committed reads the committed offsets of partitions, waiting for pending
// transactions (RequireStable). Partitions without a commit are absent.
func (m *Member) Committed(ctx context.Context, parts []TopicPartition) (map[TopicPartition]Offset, error) {
	return nil, ErrFenced
}

// Begin starts the poll clock of one piece of work. The context is cancelled
// with a *PollClockError as its cause when the work is older than
// max.poll.interval.ms.
func (m *Member) Begin(w Work) (context.Context, Ticket) { return context.Background(), Ticket{} }

// End says that a piece of work is finished. Ending twice does nothing.
func (m *Member) End(t Ticket) {}

// Poll is one poll of the classic Java consumer (InPoll mode only): it resets
// the poll clock, sends a join when one is due and applies answers, waiting
// for them until ctx ends.
func (m *Member) Poll(ctx context.Context) {}

// Clocks reads both clocks.
func (m *Member) Clocks() Clocks { return Clocks{} }

// Rejoin asks for a rebalance, with a KIP-800 reason.
func (m *Member) Rejoin(reason string) {}

// Close ends the member. A dynamic member leaves the group with the reason
// (KIP-800); a static one stays silent, so that its restart within the
// session timeout moves nothing. Revocation is not waited for: drain first.
func (m *Member) Close(ctx context.Context, reason string) error { return nil }
