package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pidBlock is how many producer ids are reserved at a time, as in Kafka. What
// is left of a block at a restart is never given out.
const pidBlock = 1000

// producerIDs gives out producer ids from a block that is reserved durably.
type producerIDs struct {
	mu        sync.Mutex
	next, end int64
}

// take returns the next id of the block, if there is one.
func (p *producerIDs) take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// handleInitProducerID gives a producer its id. A transactional id is refused:
// transactions are not served yet.
func (b *Broker) handleInitProducerID(rq *request) {
	msg := rq.msg.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if e := b.checkInitProducer(rq, msg); e != nil {
		resp.ErrorCode = e.Code
		rq.reply(resp)
		return
	}
	if id, ok := b.pids.take(); ok {
		resp.ProducerID, resp.ProducerEpoch = id, 0
		rq.reply(resp)
		return
	}
	b.meta.do(func() {
		id, err := b.meta.reservePID()
		if err != nil {
			b.log.Error("reserve producer ids", "cause", err)
			resp.ErrorCode = errorCode(err)
		} else {
			resp.ProducerID, resp.ProducerEpoch = id, 0
		}
		rq.reply(resp)
	})
}

func (b *Broker) checkInitProducer(rq *request, msg *kmsg.InitProducerIDRequest) *kerr.Error {
	if rq.version >= 3 && (msg.ProducerID < 0) != (msg.ProducerEpoch < 0) {
		return kerr.InvalidRequest
	}
	if msg.TransactionalID == nil {
		return nil
	}
	switch timeout := int64(msg.TransactionTimeoutMillis); {
	case *msg.TransactionalID == "":
		return kerr.InvalidRequest
	case timeout <= 0 || timeout > b.settings.int("transaction.max.timeout.ms"):
		return kerr.InvalidTransactionTimeout
	}
	b.log.Warn("a producer asked for transactions, which are not served yet", "transactional_id", *msg.TransactionalID, "client_id", rq.clientID, "hint", "unset transactional.id; processing.guarantee=at_least_once")
	return kerr.TransactionalIDAuthorizationFailed
}

// reservePID takes an id, after reserving another block when it must. It runs
// on the metadata goroutine.
func (m *metadata) reservePID() (int64, error) {
	if id, ok := m.b.pids.take(); ok {
		return id, nil
	}
	c := m.edit()
	start := c.nextPID
	c.nextPID += pidBlock
	if err := m.write(metadataRecord(keyPIDs, pidRecord{Next: c.nextPID})); err != nil {
		return 0, err
	}
	m.publish(c)
	m.b.pids.mu.Lock()
	m.b.pids.next, m.b.pids.end = start+1, c.nextPID
	m.b.pids.mu.Unlock()
	return start, nil
}
