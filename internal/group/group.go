package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// group is one entry of the table.
type group struct {
	id      string
	offsets offsets
	members membership
}

// commitCheck is what a commit says about its sender.
type commitCheck struct {
	member     string
	instance   *string
	generation int32 // or member epoch
	txn        bool
	version    int16
}

// membership is what differs between the kinds of groups. The shard asks it
// about the group's offsets and when it lists, deletes or loads groups; the
// APIs of one protocol go to the concrete kind (joinGroup and its like).
type membership interface {
	kind() string         // GroupType: "classic"
	state() string        // GroupState, in Kafka's words
	protocolName() string // ProtocolType: "consumer", "connect", ... or ""
	empty() bool          // no members

	// checkCommit says whether the sender may commit offsets; a commit that is
	// accepted may restart its session.
	checkCommit(c commitCheck) int16
	// subscription lists the topics that members read, sorted; nil when the
	// coordinator cannot know.
	subscription() []string
	// offsetsInUse forbids deleting offsets at all.
	offsetsInUse() bool
	// expiry says from when on the group's offsets age: false means that none
	// may expire now; base 0 means from each offset's own commit.
	expiry() (baseMs int64, ok bool)
	// tombstones of everything that the membership has written.
	tombstones() []Record

	// checkFetch says whether a member may fetch offsets (v9 of OffsetFetch).
	checkFetch(member *string, epoch int32) int16

	describe(version int16) kmsg.DescribeGroupsResponseGroup
	loaded()
	// unload answers every parked request with code and stops all alarms.
	unload(code int16)
}

// sorted lists the groups by id, where an order must not depend on a map's.
func (s *Shard) sorted() []*group {
	all := make([]*group, 0, len(s.groups))
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		all = append(all, s.groups[id])
	}
	return all
}

// make puts a new, empty classic group into the table: the form in which every
// group begins.
func (s *Shard) make(id string) *group {
	g := &group{id: id}
	g.members = newClassic(s, g)
	s.groups[id] = g
	return g
}

// remove takes a group out of the table.
func (s *Shard) remove(g *group) {
	if s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
}

// readable is the group as readers see it: one that is being deleted stays
// visible until its tombstones are durable.
func (s *Shard) readable(id string) *group {
	if g := s.leaving[id]; g != nil {
		return g
	}
	return s.groups[id]
}

func (s *Shard) describeGroups(rq Request, req *kmsg.DescribeGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, id := range req.Groups {
		if g := s.readable(id); g != nil {
			resp.Groups = append(resp.Groups, g.members.describe(req.Version))
			continue
		}
		// Below v6 an absent group is Dead without an error (KIP-1043).
		d := kmsg.NewDescribeGroupsResponseGroup()
		d.Group, d.State = id, "Dead"
		if req.Version >= 6 {
			d.ErrorCode = kerr.GroupIDNotFound.Code
			d.ErrorMessage = kmsg.StringPtr("Group " + id + " not found.")
		}
		resp.Groups = append(resp.Groups, d)
	}
	s.reply(rq.Token, resp)
}

func (s *Shard) listGroups(rq Request, req *kmsg.ListGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	wanted := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
	}
	for _, g := range s.sorted() {
		if !wanted(req.StatesFilter, g.members.state()) || !wanted(req.TypesFilter, g.members.kind()) {
			continue
		}
		row := kmsg.NewListGroupsResponseGroup()
		row.Group = g.id
		row.ProtocolType = g.members.protocolName()
		row.GroupState = g.members.state()
		row.GroupType = g.members.kind()
		resp.Groups = append(resp.Groups, row)
	}
	s.reply(rq.Token, resp)
}

func (s *Shard) deleteGroups(rq Request, req *kmsg.DeleteGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	later := false
	for _, id := range req.Groups {
		row := kmsg.NewDeleteGroupsResponseGroup()
		row.Group = id
		g := s.groups[id]
		switch {
		case g == nil:
			row.ErrorCode = kerr.GroupIDNotFound.Code
		case !g.members.empty():
			row.ErrorCode = kerr.NonEmptyGroup.Code
		default:
			later = true
			s.delete(g)
		}
		resp.Groups = append(resp.Groups, row)
	}
	if !later {
		s.reply(rq.Token, resp)
		return
	}
	s.log(func(code int16) {
		for i := range resp.Groups {
			if code != 0 && resp.Groups[i].ErrorCode == 0 {
				resp.Groups[i].ErrorCode = appendError(code)
			}
		}
		s.reply(rq.Token, resp)
	})
}

// delete removes an empty group with all its offsets, the pending ones of open
// transactions too: a marker that comes later finds nothing.
func (s *Shard) delete(g *group) {
	s.remove(g)
	s.leaving[g.id] = g
	records := g.offsets.tombstones(g.id)
	records = append(records, g.members.tombstones()...)
	s.log(func(code int16) {
		delete(s.leaving, g.id)
		if code != 0 {
			s.groups[g.id] = g
			return
		}
		s.forgetPending(g)
	}, records...)
}
