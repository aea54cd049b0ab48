package broker

import (
	"log/slog"
	"net"
	"time"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
)

// Config says where a broker keeps its data, where it listens, and how it
// behaves. The zero value of everything but Dir is a good default.
type Config struct {
	// Dir is the directory that holds the log. It is made when it is not
	// there; a second broker on the same directory is refused.
	Dir string
	// Listen is the address to listen on, default 127.0.0.1:9092. Port 0 takes
	// a free one: ask Addr.
	Listen string
	// Advertise is the host:port that clients are told to connect to, default
	// the address that Listen resolved to.
	Advertise string
	// NodeID is the broker's id, default 1.
	NodeID int32
	// Brokers is how many broker ids the process has, default 1, at most 100:
	// NodeID and those that follow it, each with a port of its own, from the one
	// of Listen on (all of them free ones with port 0). They share one store, so
	// this is no more durable than one broker; it gives clients several leaders
	// and coordinators, which ElectLeaders and AlterPartitionReassignments move.
	Brokers int
	// ClusterID names the cluster, default an id made at the first start and
	// kept with the data.
	ClusterID string
	// Rack is broker.rack, default none.
	Rack string
	// Flush is when an append counts as durable: always (the default) after
	// an fsync, interval or never before one.
	Flush journal.Flush
	// FlushInterval is the longest time without an fsync under
	// journal.FlushInterval, default the journal's.
	FlushInterval time.Duration
	// Properties are settings under Kafka's broker property names, for example
	// "group.initial.rebalance.delay.ms". A name that Kafka does not have is an
	// error that tells the nearest one. Those that have no effect here, since
	// they matter to a cluster only or to Kafka's Java code, are accepted and
	// logged with the reason.
	Properties map[string]string
	// ListenFunc replaces net.Listen, for networks in memory.
	ListenFunc func(network, addr string) (net.Listener, error)
	// FS replaces the file system of the operating system under the log.
	FS journal.FS
	// Logger takes what the broker has to say, default slog.Default().
	Logger *slog.Logger
	// OnEvent is called for every rebalance, from the goroutine of the group's
	// coordinator: it must not block.
	OnEvent func(cause.Event)
	// AllowRemote lets Listen be an address that other machines can reach.
	// There is no authentication yet: whoever reaches the port may do anything.
	AllowRemote bool
}
