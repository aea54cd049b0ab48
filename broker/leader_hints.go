package broker

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Answers that refuse a request because another broker leads the partition, or has
// done so since, say which one does and where it listens (KIP-951), so that the
// client need not ask for metadata first: Produce from v10 on when the broker does
// not lead, Fetch from v16 on also when the client's leader epoch is old, as in
// KafkaApis.scala of Kafka 4.2.
const (
	hintedProduce = 10
	hintedFetch   = 16
)

// hint names the leader of a partition that was asked for in the wrong place.
func (b *Broker) hint(resp *kmsg.ProduceResponse, r *kmsg.ProduceResponseTopicPartition, at *partition) {
	r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch = at.leader, at.epoch
	n := b.node(at.leader)
	if n == nil || slices.ContainsFunc(resp.Brokers, func(e kmsg.ProduceResponseBroker) bool { return e.NodeID == n.id }) {
		return
	}
	e := kmsg.NewProduceResponseBroker()
	e.NodeID, e.Host, e.Port, e.Rack = n.id, n.host, n.port, b.rack()
	resp.Brokers = append(resp.Brokers, e)
}

// misled says that a fetch went to a broker that does not lead the partition, or not
// since the epoch that the client knows.
func (r *fetched) misled(version int16) bool {
	return version >= hintedFetch && r.at != nil && (r.code == kerr.NotLeaderForPartition.Code || r.code == kerr.FencedLeaderEpoch.Code)
}

// endpoints lists the leaders that an answer names.
func (f *fetch) endpoints(got []fetched) []*node {
	var nodes []*node
	for i := range got {
		if !got[i].misled(f.rq.version) {
			continue
		}
		if n := f.b.node(got[i].at.leader); n != nil && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// tag writes one tagged field.
func (e *fetchEncoder) tag(number uint64, body []byte) {
	e.buf = binary.AppendUvarint(e.buf, number)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(body)))
	e.buf = append(e.buf, body...)
}

// leaderBody is the body of a partition's CurrentLeader.
func leaderBody(at *partition) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(at.leader))
	return append(binary.BigEndian.AppendUint32(body, uint32(at.epoch)), 0)
}

// endpointsBody is the body of NodeEndpoints.
func endpointsBody(nodes []*node, rack *string) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))+1), s...) }
	body := binary.AppendUvarint(nil, uint64(len(nodes))+1)
	for _, n := range nodes {
		body = binary.BigEndian.AppendUint32(body, uint32(n.id))
		body = binary.BigEndian.AppendUint32(text(body, n.host), uint32(n.port))
		if rack == nil {
			body = append(body, 0)
		} else {
			body = text(body, *rack)
		}
		body = append(body, 0)
	}
	return body
}
