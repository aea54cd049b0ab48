package broker

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is one request on its way through the broker.
type request struct {
	conn           *conn
	key            int16
	version        int16
	correlationID  int32
	clientID       string
	host           string       // of the client, as Kafka shows it: "/127.0.0.1"
	at             time.Time    // when its frame was complete
	size           int          // of its frame, bytes
	msg            kmsg.Request // decoded; its byte slices point into the frame
	flexible       bool         // the response header has tags
	unknownVersion bool         // an ApiVersions request in a version that nobody knows

	replied atomic.Bool // by reply, drop or silence: exactly once

	paid []*claim     // of a Produce request, for its frame; given back by release
	owed atomic.Int64 // bytes of the answer, in Broker.replies

	loans []*loan // what the answer stands in; given back when it is written

	decoded *claim // what it takes in parts until it is answered; given back by finish

	// Under conn.mu.
	answer answer
	done   bool
	cancel func() // lets go of what is parked when the client hangs up
}

// answer is what leaves for a request.
type answer struct {
	frame  []byte      // the response with its size in front; nil: say nothing,
	frames net.Buffers // or the response in pieces
	close  bool        // hang up instead
}

// reply answers the request. It may be called from any goroutine, at once or
// later, exactly once; it never blocks. The response must not be changed
// afterwards.
func (rq *request) reply(resp kmsg.Response) {
	resp.SetVersion(rq.version)
	rq.finish(answer{frame: rq.encode(resp)})
}

// replyVersion is reply in another version than the one that was asked in.
func (rq *request) replyVersion(resp kmsg.Response, version int16) {
	resp.SetVersion(version)
	rq.finish(answer{frame: rq.encode(resp)})
}

// replyFrames answers with a response that the handler has encoded itself, size
// and header included.
func (rq *request) replyFrames(frames net.Buffers) { rq.finish(answer{frames: frames}) }

// drop closes the connection: the protocol has no answer.
func (rq *request) drop() { rq.finish(answer{close: true}) }

// silence ends the request without an answer (acks=0).
func (rq *request) silence() { rq.finish(answer{}) }

// onHangUp names what to do when the client hangs up before it was answered.
func (rq *request) onHangUp(cancel func()) {
	rq.conn.mu.Lock()
	gone := rq.conn.gone
	rq.cancel = cancel
	rq.conn.mu.Unlock()
	if gone {
		cancel()
	}
}

func (rq *request) finish(a answer) {
	if rq.replied.Swap(true) {
		rq.conn.b.log.Error("a request was answered twice, the first answer stands", "api", rq.key, "version", rq.version)
		return
	}
	rq.conn.b.decoding.release(rq.decoded)
	n := int64(len(a.frame))
	for _, f := range a.frames {
		n += int64(len(f))
	}
	rq.owed.Store(n)
	rq.conn.b.replies.add(n)
	rq.conn.answered(rq, a)
}

// unpay gives back what was paid for a request that gets no answer.
func (rq *request) unpay() {
	rq.conn.b.decoding.release(rq.decoded)
	rq.conn.mu.Lock()
	defer rq.conn.mu.Unlock()
	rq.release()
}

// release gives back the memory that the request has held. It is called once
// or more after the answer, with conn.mu held.
func (rq *request) release() {
	rq.conn.b.replies.add(-rq.owed.Swap(0))
	rq.conn.b.repay(rq.paid)
	rq.paid = nil
}

func (rq *request) encode(resp kmsg.Response) []byte {
	frame := make([]byte, wire.SizeBytes, 256)
	frame = wire.AppendResponseHeader(frame, rq.key, rq.correlationID, rq.flexible)
	frame = resp.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-wire.SizeBytes))
	return frame
}
