package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleSASLHandshake answers as Kafka does on a listener without SASL: the
// client is where it wanted to get to already.
func (b *Broker) handleSASLHandshake(rq *request) {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	rq.reply(resp)
}

// handleSASLAuthenticate is the same for the step that follows.
func (b *Broker) handleSASLAuthenticate(rq *request) {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	resp.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
	resp.SASLAuthBytes = []byte{}
	rq.reply(resp)
}
