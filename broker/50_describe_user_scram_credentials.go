package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDescribeUserSCRAMCredentials answers that nobody has any.
func (b *Broker) handleDescribeUserSCRAMCredentials(rq *request) {
	msg := rq.msg.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorMessage = kmsg.StringPtr("")
	names := map[string]int{}
	for _, u := range msg.Users {
		names[u.Name]++
	}
	for _, u := range msg.Users {
		n := names[u.Name]
		if n == 0 {
			continue // a user named twice is answered once
		}
		names[u.Name] = 0
		f := fail(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", u.Name)
		if n > 1 {
			f = fail(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", u.Name)
		}
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User, r.ErrorCode, r.ErrorMessage = u.Name, f.code, &f.text
		resp.Results = append(resp.Results, r)
	}
	rq.reply(resp)
}
