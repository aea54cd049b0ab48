package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// In a crowd the leader's assignment waits until all have asked for what they
// get, so that the first who joins again does not send others back; but not for
// long, and in a small group not at all.
func TestLeaderWaits(t *testing.T) {
	for _, test := range []struct {
		members, silent int
		waits           time.Duration
	}{
		{members: 99, silent: 50, waits: 0},
		{members: 120, silent: 0, waits: 0},
		{members: 120, silent: 50, waits: 24 * time.Millisecond},
		{members: 4000, silent: 1, waits: 500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d of %d silent", test.silent, test.members), func(t *testing.T) {
			s, ids := crowd(t, test.members)
			leader := slices.Index(ids, s.groups["g"].members.(*classic).leader)
			ids[0], ids[leader] = ids[leader], ids[0]
			sync := func(id string, leads bool) []Reply {
				req := kmsg.NewPtrSyncGroupRequest()
				req.Version, req.Group, req.MemberID, req.Generation = 3, "g", id, 1
				if leads {
					for _, id := range ids {
						req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(id)})
					}
				}
				out := s.Step(s.now, Request{Token: 1, Req: req})
				replies := out.Replies
				if out.Seq != 0 {
					replies = append(replies, s.Step(s.now, Appended{Seq: out.Seq}).Replies...)
				}
				return replies
			}
			answered := len(sync(ids[0], true))
			for _, id := range ids[1 : len(ids)-test.silent] {
				answered += len(sync(id, false))
			}
			if now := answered > 0; now != (test.waits == 0) {
				t.Fatalf("%d have an answer while %d are silent", answered, test.silent)
			}
			if test.waits > 0 {
				s.Step(s.now.Add(test.waits-time.Microsecond), Tick{})
				if got := s.groups["g"].members.state(); got != "CompletingRebalance" {
					t.Fatalf("the group is %s before the leader has waited for %s", got, test.waits)
				}
				out := s.Step(s.now.Add(time.Microsecond), Tick{})
				answered += len(s.Step(s.now, Appended{Seq: out.Seq}).Replies)
			}
			if want := test.members - test.silent; answered != want {
				t.Fatalf("%d have an answer, want %d", answered, want)
			}
			if got := sync(ids[len(ids)-1], false); len(got) != 1 || string(got[0].Resp.(*kmsg.SyncGroupResponse).MemberAssignment) != ids[len(ids)-1] {
				t.Fatalf("who comes late got %v", got)
			}
		})
	}
}
