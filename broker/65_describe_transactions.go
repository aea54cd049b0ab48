package broker

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionStates are the states that a filter may name (TransactionState.scala).
func transactionStates() []string {
	return []string{
		"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
	}
}

// handleListTransactions answers that there are none: no transactional id is
// ever given out (handleInitProducerID).
func (b *Broker) handleListTransactions(rq *request) {
	msg := rq.msg.(*kmsg.ListTransactionsRequest)
	resp := kmsg.NewPtrListTransactionsResponse()
	if p := msg.TransactionalIDPattern; rq.version >= 2 && p != nil {
		if _, err := regexp.Compile(*p); err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			rq.reply(resp)
			return
		}
	}
	for _, s := range msg.StateFilters {
		if !slices.Contains(transactionStates(), s) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	rq.reply(resp)
}

// handleDescribeTransactions finds none of the ids.
func (b *Broker) handleDescribeTransactions(rq *request) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range rq.msg.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
		s := kmsg.NewDescribeTransactionsResponseTransactionState()
		s.TransactionalID, s.ErrorCode = id, kerr.TransactionalIDNotFound.Code
		if id == "" {
			s.ErrorCode = kerr.InvalidRequest.Code
		}
		resp.TransactionStates = append(resp.TransactionStates, s)
	}
	rq.reply(resp)
}
