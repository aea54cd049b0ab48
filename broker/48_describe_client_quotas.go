package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How a component of a filter matches (ClientQuotaFilterComponent.java).
const (
	matchExact     = 0
	matchDefault   = 1
	matchSpecified = 2
)

// handleDescribeClientQuotas answers that there are none, or what is wrong with
// the filter.
func (b *Broker) handleDescribeClientQuotas(rq *request) {
	msg := rq.msg.(*kmsg.DescribeClientQuotasRequest)
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	resp.ErrorMessage, resp.Entries = kmsg.StringPtr(""), []kmsg.DescribeClientQuotasResponseEntry{}
	if f := checkQuotaFilter(msg.Components); f != nil {
		resp.ErrorCode, resp.ErrorMessage, resp.Entries = f.code, &f.text, nil
	}
	rq.reply(resp)
}

// checkQuotaFilter is in the order of ClientQuotasImage.describe.
func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) *failure {
	seen := map[string]bool{}
	for _, c := range components {
		switch {
		case c.EntityType == "":
			return fail(kerr.InvalidRequest, "Invalid empty entity type.")
		case seen[c.EntityType]:
			return fail(kerr.InvalidRequest, "Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case c.EntityType != "user" && c.EntityType != "client-id" && c.EntityType != "ip":
			return fail(kerr.UnsupportedVersion, "Unsupported entity type %s", c.EntityType)
		}
		seen[c.EntityType] = true
		switch {
		case c.MatchType == matchExact && c.Match == nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case c.MatchType == matchDefault && c.Match != nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case c.MatchType == matchSpecified && c.Match != nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		case c.MatchType < matchExact || c.MatchType > matchSpecified:
			return fail(kerr.InvalidRequest, "Unknown match type %d", int8(c.MatchType))
		}
	}
	if seen["ip"] && len(seen) > 1 {
		return fail(kerr.InvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}
