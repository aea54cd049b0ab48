package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka refuses rules about ACLs as SECURITY_DISABLED when it has no
// authorizer, in slightly different words for reading and for writing.
const (
	noAuthorizerHere = "No Authorizer is configured on the broker"
	noAuthorizer     = "No Authorizer is configured."
)

// knownACL tells whether all four enumerations of a rule are known. A request
// in which one is not cannot even be read by Kafka, which hangs up.
func knownACL(resource kmsg.ACLResourceType, pattern kmsg.ACLResourcePatternType, operation kmsg.ACLOperation, permission kmsg.ACLPermissionType) bool {
	return resource >= 1 && resource <= 7 && pattern >= 1 && pattern <= 4 &&
		operation >= 1 && operation <= 15 && permission >= 1 && permission <= 3
}

// handleDescribeACLs says that there is no authorizer.
func (b *Broker) handleDescribeACLs(rq *request) {
	msg := rq.msg.(*kmsg.DescribeACLsRequest)
	if !knownACL(msg.ResourceType, msg.ResourcePatternType, msg.Operation, msg.PermissionType) {
		rq.drop()
		return
	}
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerHere)
	rq.reply(resp)
}

// handleCreateACLs says so of each rule.
func (b *Broker) handleCreateACLs(rq *request) {
	resp := kmsg.NewPtrCreateACLsResponse()
	for _, c := range rq.msg.(*kmsg.CreateACLsRequest).Creations {
		if !knownACL(c.ResourceType, c.ResourcePatternType, c.Operation, c.PermissionType) {
			rq.drop()
			return
		}
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	rq.reply(resp)
}

// handleDeleteACLs says so of each filter.
func (b *Broker) handleDeleteACLs(rq *request) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for _, f := range rq.msg.(*kmsg.DeleteACLsRequest).Filters {
		if !knownACL(f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType) {
			rq.drop()
			return
		}
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	rq.reply(resp)
}
