package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupAPIs lists the APIs of the group coordinator.
func groupAPIs() []api {
	return []api{
		{8, (*Broker).handleOffsetCommit},
		{9, (*Broker).handleOffsetFetch},
		{11, (*Broker).handleJoinGroup},
		{12, (*Broker).handleHeartbeat},
		{13, (*Broker).handleLeaveGroup},
		{14, (*Broker).handleSyncGroup},
		{15, (*Broker).handleDescribeGroups},
		{16, (*Broker).handleListGroups},
		{42, (*Broker).handleDeleteGroups},
		{47, (*Broker).handleOffsetDelete},
		{68, (*Broker).handleConsumerGroupHeartbeat},
		{69, (*Broker).handleConsumerGroupDescribe},
		{88, (*Broker).handleStreamsGroupHeartbeat},
		{89, (*Broker).handleStreamsGroupDescribe},
	}
}

// maxGroups is how many groups one request may name. Each is a part of its own,
// and a coordinator that works through them keeps the members of its other
// groups waiting.
const maxGroups = 20_000

// groupsNamed counts the groups of a request that may name several.
func groupsNamed(req kmsg.Request) int {
	switch req := req.(type) {
	case *kmsg.OffsetFetchRequest:
		return len(req.Groups)
	case *kmsg.DescribeGroupsRequest:
		return len(req.Groups)
	case *kmsg.DeleteGroupsRequest:
		return len(req.Groups)
	case *kmsg.ConsumerGroupDescribeRequest:
		return len(req.Groups)
	case *kmsg.StreamsGroupDescribeRequest:
		return len(req.Groups)
	}
	return 0
}

// gather waits for the answers to the parts of a request that names several
// groups, and calls done after the last.
type gather struct {
	left atomic.Int32
	done func()
}

func newGather(parts int, done func()) *gather {
	g := &gather{done: done}
	g.left.Store(int32(parts))
	if parts == 0 {
		done()
	}
	return g
}

func (g *gather) arrived() {
	if g.left.Add(-1) == 0 {
		g.done()
	}
}

// groupAuthorized are the operations that anybody may do on a group as long as
// there are no ACLs: read, delete, describe, describe and alter its configs.
const groupAuthorized = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// askOne serves an API whose requests name one group.
func (b *Broker) askOne(rq *request, groupID string, req kmsg.Request) {
	b.groups.ask(rq, groupID, req, rq.reply)
}
