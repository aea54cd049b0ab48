package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxBrokers bounds Config.Brokers: each is a listener, and clients connect to
// each of them.
const maxBrokers = 100

// node is one broker id with its port. All nodes of a process have the same
// store and the same configuration; what differs is which partitions and which
// groups they lead.
type node struct {
	id       int32
	host     string // advertised
	port     int32
	listener net.Listener
}

// makeNodes gives out ids, from Config.NodeID on.
func (b *Broker) makeNodes() error {
	n := max(b.config.Brokers, 1)
	if n > maxBrokers {
		return fmt.Errorf("start broker: %d brokers in one process: at most %d (Config.Brokers, --brokers)", n, maxBrokers)
	}
	for i := range int32(n) {
		b.nodes = append(b.nodes, &node{id: b.config.NodeID + i})
	}
	return nil
}

// nodeIDs lists the ids of the brokers, ascending.
func (b *Broker) nodeIDs() []int32 {
	ids := make([]int32, len(b.nodes))
	for i, n := range b.nodes {
		ids[i] = n.id
	}
	return ids
}

// node returns a broker by id, nil when there is none.
func (b *Broker) node(id int32) *node {
	i := slices.IndexFunc(b.nodes, func(n *node) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return b.nodes[i]
}

// isNodeName tells whether a config resource names a broker of this process.
func (b *Broker) isNodeName(name string) bool {
	id, err := strconv.ParseInt(name, 10, 32)
	return err == nil && b.node(int32(id)) != nil && strconv.FormatInt(id, 10) == name
}

// listen opens the listeners. The ports of several brokers follow each other,
// unless the system chooses them.
func (b *Broker) listen() error {
	for i, n := range b.nodes {
		addr, err := nextPort(b.config.Listen, i)
		if err != nil {
			return fmt.Errorf("start broker: listen address %q: %w", b.config.Listen, err)
		}
		if n.listener, err = b.config.ListenFunc("tcp", addr); err != nil {
			return fmt.Errorf("start broker: listen: %w (Config.Listen, --listen)", err)
		}
		if err := b.advertise(n, i); err != nil {
			return err
		}
	}
	return nil
}

// unlisten closes the listeners that are open.
func (b *Broker) unlisten() error {
	var err error
	for _, n := range b.nodes {
		if n.listener != nil {
			err = errors.Join(err, n.listener.Close())
		}
	}
	return err
}

// nextPort adds i to the port of an address, unless the port is 0.
func nextPort(addr string, i int) (string, error) {
	if i == 0 {
		return addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return addr, nil
	}
	if n += uint64(i); n > 65535 {
		return "", fmt.Errorf("port %d of broker number %d: too large", n, i+1)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// advertise settles what clients are told to connect to.
func (b *Broker) advertise(node *node, i int) error {
	addr, err := nextPort(b.config.Advertise, i)
	if b.config.Advertise == "" {
		addr, err = node.listener.Addr().String(), nil
	}
	if err != nil {
		return fmt.Errorf("start broker: advertised address %q: %w", b.config.Advertise, err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("start broker: advertised address %q: %w: want host:port", addr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		// Nobody can connect to "every address": like Kafka, name the machine.
		if host, err = os.Hostname(); err != nil {
			return fmt.Errorf("start broker: advertised address %q: %w: set Config.Advertise (--advertise)", addr, err)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("start broker: advertised address %q: port: %w", addr, err)
	}
	node.host, node.port = host, int32(n)
	return nil
}

// leads tells whether the client asks the leader of the partition.
func (rq *request) leads(p *partition) bool { return p.leader == rq.conn.node.id }

// checkLeader says why a partition cannot be asked here: it is not there, the
// client believes in another leader epoch, or another broker leads it.
func (rq *request) checkLeader(p *partition, believed int32) int16 {
	switch {
	case p == nil:
		return kerr.UnknownTopicOrPartition.Code
	case believed > p.epoch:
		return kerr.UnknownLeaderEpoch.Code
	case believed >= 0 && believed < p.epoch:
		return kerr.FencedLeaderEpoch.Code
	case !rq.leads(p):
		return kerr.NotLeaderForPartition.Code
	}
	return 0
}

// epochEnd is where a leader epoch ends. The present one may have no record
// yet, of which alone the log knows.
func (p *partition) epochEnd(epoch int32) (int32, int64) {
	end := p.log.HighWatermark()
	if epoch == p.epoch {
		return epoch, end
	}
	if epoch < 0 || epoch > p.epoch {
		return -1, -1
	}
	at, ended := p.log.EpochEnd(epoch)
	if at >= 0 {
		return at, ended
	}
	// Newer than every record: it ended where the last epoch with records did.
	return p.epochAt(end), end
}

// epochAt is the leader epoch of the record at an offset, or of the last one
// before it; that of the present leader when there is none.
func (p *partition) epochAt(offset int64) int32 {
	if epoch, ok := p.log.EpochAt(offset); ok {
		return epoch
	}
	return p.epoch
}
