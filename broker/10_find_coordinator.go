package broker

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/rondo-streams/rondo/internal/group"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

// malformedText is the text of INVALID_REQUEST where Kafka gives no other.
const malformedText = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// handleFindCoordinator answers which node is it, as soon as the topic in
// which the coordinator keeps its state is there.
func (b *Broker) handleFindCoordinator(rq *request) {
	msg := rq.msg.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if rq.version < 4 {
		c := b.findCoordinator(rq.version, msg.CoordinatorType, msg.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		if c.ErrorCode == 0 {
			resp.ErrorMessage = kmsg.StringPtr("NONE") // as Kafka spells success here
		}
		rq.reply(resp)
		return
	}
	for _, key := range msg.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.findCoordinator(rq.version, msg.CoordinatorType, key))
	}
	rq.reply(resp)
}

func (b *Broker) findCoordinator(version int16, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port, c.ErrorMessage = key, -1, -1, kmsg.StringPtr("")
	at := b.nodes[0]
	switch kind {
	case coordinatorGroup:
		t := b.offsetsTopic()
		if t == nil {
			c.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return c
		}
		at = b.node(t.partition(group.PartitionFor(key, int32(len(t.partitions)))).leader)
	case coordinatorTransaction:
		// Named although there are no transactions yet: InitProducerId is
		// where a client learns that, in a way that it reports.
	case coordinatorShare:
		c.ErrorCode = kerr.InvalidRequest.Code
		if version >= 6 && shareKey(key) {
			c.ErrorCode = kerr.CoordinatorNotAvailable.Code
		}
		return c
	default:
		c.ErrorCode, c.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr(malformedText)
		return c
	}
	c.NodeID, c.Host, c.Port = at.id, at.host, at.port
	return c
}

// shareKey tells whether a key is group:topicId:partition (KIP-932).
func shareKey(key string) bool {
	parts := strings.Split(key, ":")
	if len(parts) != 3 || parts[0] == "" {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(parts[1])
	_, number := strconv.ParseUint(parts[2], 10, 31)
	return err == nil && len(id) == 16 && number == nil
}
