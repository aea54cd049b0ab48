package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who is not authenticated gets no delegation token, and may not see or change
// any (KIP-48): every client of a plaintext listener is User:ANONYMOUS.
const (
	principalUser      = "User"
	principalAnonymous = "ANONYMOUS"
)

func (b *Broker) handleCreateDelegationToken(rq *request) {
	msg := rq.msg.(*kmsg.CreateDelegationTokenRequest)
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	resp.PrincipalType, resp.PrincipalName = principalUser, principalAnonymous
	if msg.OwnerPrincipalName != nil && *msg.OwnerPrincipalName != "" {
		resp.PrincipalName = *msg.OwnerPrincipalName
		if msg.OwnerPrincipalType != nil {
			resp.PrincipalType = *msg.OwnerPrincipalType
		}
	}
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = principalUser, principalAnonymous
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = -1, -1, -1
	resp.HMAC = []byte{}
	rq.reply(resp)
}

func (b *Broker) handleRenewDelegationToken(rq *request) {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	rq.reply(resp)
}

func (b *Broker) handleExpireDelegationToken(rq *request) {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	rq.reply(resp)
}

func (b *Broker) handleDescribeDelegationToken(rq *request) {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	rq.reply(resp)
}
