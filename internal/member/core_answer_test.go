package member

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// desk is a core whose coordinator is the test: every request lies on it until
// the test answers.
type desk struct {
	t      *testing.T
	core   *Core
	now    time.Time
	sent   []Send
	events []Event
}

func newDesk(t *testing.T, change func(*CoreConfig)) *desk {
	cfg := CoreConfig{
		Group: "g", Topics: []string{"in"}, Session: 45 * time.Second, Heartbeat: 3 * time.Second,
		MaxPoll: 5 * time.Minute, MetadataMaxAge: 5 * time.Minute, Assignor: Sticky{},
	}
	if change != nil {
		change(&cfg)
	}
	d := &desk{t: t, core: NewCore(cfg, rand.New(rand.NewPCG(1, 1))), now: time.Unix(1000, 0)}
	d.step(Started{})
	return d
}

func (d *desk) step(in In) {
	out := d.core.Step(d.now, in)
	for _, seq := range out.Cancels {
		for i, s := range d.sent {
			if s.Seq == seq {
				d.sent = append(d.sent[:i], d.sent[i+1:]...)
				break
			}
		}
	}
	d.sent = append(d.sent, out.Sends...)
	d.events = append(d.events, out.Events...)
}

// pass lets the time pass, tick by tick.
func (d *desk) pass(t time.Duration) {
	end := d.now.Add(t)
	for range 1000 {
		next, ok := d.core.Next()
		if !ok || next.After(end) {
			d.now = end
			return
		}
		if next.After(d.now) {
			d.now = next
		}
		d.step(Tick{})
	}
	d.t.Fatal("the core asks for a tick again and again: time does not pass")
}

// take removes the oldest request of type R from the desk.
func take[R kmsg.Request](d *desk) (R, uint64) {
	d.t.Helper()
	for i, s := range d.sent {
		if r, ok := s.Req.(R); ok {
			d.sent = append(d.sent[:i], d.sent[i+1:]...)
			return r, s.Seq
		}
	}
	var none R
	d.t.Fatalf("no %T on the desk: %v", none, d.sent)
	return none, 0
}

func (d *desk) answer(seq uint64, resp kmsg.Response) { d.step(Replied{Seq: seq, Resp: resp}) }

func (d *desk) answerJoin(code int16) *kmsg.JoinGroupRequest {
	d.t.Helper()
	req, seq := take[*kmsg.JoinGroupRequest](d)
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.LeaderID, resp.Generation = code, req.MemberID, "other", -1
	switch {
	case code == 0:
		resp.Generation = 7
		if resp.MemberID == "" {
			resp.MemberID = "me"
		}
	case code == kerr.MemberIDRequired.Code:
		resp.MemberID = "me"
	}
	d.answer(seq, resp)
	return req
}

func (d *desk) answerSync(code int16, parts ...TopicPartition) {
	d.t.Helper()
	_, seq := take[*kmsg.SyncGroupRequest](d)
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = code
	resp.MemberAssignment = assignment(Placement{Partitions: parts})
	d.answer(seq, resp)
}

func (d *desk) answerBeat(code int16) {
	d.t.Helper()
	_, seq := take[*kmsg.HeartbeatRequest](d)
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = code
	d.answer(seq, resp)
}

// stable brings the member to Stable in generation 7 with one partition.
func (d *desk) stable() *desk {
	d.answerJoin(kerr.MemberIDRequired.Code)
	d.answerJoin(0)
	d.answerSync(0, TopicPartition{"in", 0})
	if d.core.State() != Stable {
		d.t.Fatalf("state %s", d.core.State())
	}
	d.events = nil
	return d
}

// after is what an answer must lead to.
type after struct {
	err   *kerr.Error
	state State  // at once
	id    string // member id kept
	lost  bool
	fatal bool
	retry bool // the same request again after a back-off
}

func (d *desk) check(t *testing.T, want after) {
	t.Helper()
	if s := d.core.State(); s != want.state {
		t.Errorf("%s: state %s, want %s", want.err.Message, s, want.state)
	}
	if !want.fatal && d.core.memberID != want.id {
		t.Errorf("%s: member id %q, want %q", want.err.Message, d.core.memberID, want.id)
	}
	var lost, fatal bool
	for _, e := range d.events {
		switch e := e.(type) {
		case Lost:
			lost = true
		case Fatal:
			fatal = true
			if !errors.Is(e.Err, want.err) {
				t.Errorf("%s: fatal error %v does not carry it", want.err.Message, e.Err)
			}
		}
	}
	if lost != want.lost || fatal != want.fatal {
		t.Errorf("%s: lost %v fatal %v, want %v %v", want.err.Message, lost, fatal, want.lost, want.fatal)
	}
}

// Every answer to a JoinGroup of a member that holds a lease.
func TestJoinAnswers(t *testing.T) {
	for _, want := range []after{
		{err: kerr.CoordinatorLoadInProgress, state: Joining, id: "me", retry: true},
		{err: kerr.CoordinatorNotAvailable, state: Joining, id: "me", retry: true},
		{err: kerr.NotCoordinator, state: Joining, id: "me", retry: true},
		{err: kerr.RebalanceInProgress, state: Joining, id: "me", retry: true},
		{err: kerr.UnknownServerError, state: Joining, id: "me", retry: true},
		{err: kerr.UnknownMemberID, state: Joining, id: "", lost: true},
		{err: kerr.FencedInstanceID, state: Stopped, lost: true, fatal: true},
		{err: kerr.GroupMaxSizeReached, state: Stopped, lost: true, fatal: true},
		{err: kerr.InconsistentGroupProtocol, state: Stopped, lost: true, fatal: true},
		{err: kerr.InvalidSessionTimeout, state: Stopped, lost: true, fatal: true},
		{err: kerr.InvalidGroupID, state: Stopped, lost: true, fatal: true},
		{err: kerr.GroupAuthorizationFailed, state: Stopped, lost: true, fatal: true},
		{err: kerr.UnsupportedVersion, state: Stopped, lost: true, fatal: true},
	} {
		d := newDesk(t, nil).stable()
		d.step(Asked{Reason: "test"})
		d.answerJoin(want.err.Code)
		d.check(t, want)
		if want.retry {
			d.pass(time.Second)
			if req, _ := take[*kmsg.JoinGroupRequest](d); req.MemberID != "me" {
				t.Errorf("%s: retried as %q", want.err.Message, req.MemberID)
			}
		}
	}
}

// Every answer to a SyncGroup of a member that holds a lease.
func TestSyncAnswers(t *testing.T) {
	for _, want := range []after{
		{err: kerr.CoordinatorLoadInProgress, state: Syncing, id: "me", retry: true},
		{err: kerr.CoordinatorNotAvailable, state: Syncing, id: "me", retry: true},
		{err: kerr.NotCoordinator, state: Syncing, id: "me", retry: true},
		{err: kerr.RebalanceInProgress, state: Joining, id: "me"},
		{err: kerr.UnknownMemberID, state: Joining, id: "", lost: true},
		{err: kerr.IllegalGeneration, state: Joining, id: "me", lost: true},
		{err: kerr.FencedInstanceID, state: Stopped, lost: true, fatal: true},
		{err: kerr.InconsistentGroupProtocol, state: Stopped, lost: true, fatal: true},
		{err: kerr.GroupAuthorizationFailed, state: Stopped, lost: true, fatal: true},
	} {
		d := newDesk(t, nil).stable()
		d.step(Asked{Reason: "test"})
		d.answerJoin(0)
		d.answerSync(want.err.Code)
		d.check(t, want)
		if want.retry {
			d.pass(time.Second)
			take[*kmsg.SyncGroupRequest](d)
		}
	}
}

// Every answer to a Heartbeat in Stable.
func TestBeatAnswers(t *testing.T) {
	for _, want := range []after{
		{err: kerr.CoordinatorLoadInProgress, state: Stable, id: "me", retry: true},
		{err: kerr.CoordinatorNotAvailable, state: Stable, id: "me", retry: true},
		{err: kerr.NotCoordinator, state: Stable, id: "me", retry: true},
		{err: kerr.RebalanceInProgress, state: Joining, id: "me"},
		{err: kerr.UnknownMemberID, state: Joining, id: "", lost: true},
		{err: kerr.IllegalGeneration, state: Joining, id: "me", lost: true},
		{err: kerr.FencedInstanceID, state: Stopped, lost: true, fatal: true},
		{err: kerr.GroupAuthorizationFailed, state: Stopped, lost: true, fatal: true},
	} {
		d := newDesk(t, nil).stable()
		d.pass(3 * time.Second)
		d.answerBeat(want.err.Code)
		d.check(t, want)
		if want.retry {
			d.pass(time.Second)
			take[*kmsg.HeartbeatRequest](d)
		}
	}
}

// A commit's refusal is a word about the membership, unless it is about an
// older one.
func TestCommitRefusals(t *testing.T) {
	for _, want := range []after{
		{err: kerr.RebalanceInProgress, state: Joining, id: "me"},
		{err: kerr.UnknownMemberID, state: Joining, id: "", lost: true},
		{err: kerr.IllegalGeneration, state: Joining, id: "me", lost: true},
		{err: kerr.FencedInstanceID, state: Stopped, lost: true, fatal: true},
	} {
		d := newDesk(t, nil).stable()
		d.step(Refused{Code: want.err.Code, MemberID: "me", Generation: 7})
		d.check(t, want)
		d = newDesk(t, nil).stable()
		d.step(Refused{Code: want.err.Code, MemberID: "me", Generation: 6})
		d.check(t, after{err: want.err, state: Stable, id: "me"})
	}
}

// While a join is outstanding heartbeats go on; an answer about the old
// generation is only a sign that the join's own answer is on its way. When it
// is heard for a whole interval, that answer was lost, and the member asks again.
func TestJoinAnswerLost(t *testing.T) {
	d := newDesk(t, nil).stable()
	d.step(Asked{Reason: "test"})
	first, lost := take[*kmsg.JoinGroupRequest](d)
	d.pass(500 * time.Millisecond)
	d.answerBeat(kerr.IllegalGeneration.Code)
	for range 5 {
		d.pass(500 * time.Millisecond)
		d.answerBeat(kerr.IllegalGeneration.Code)
		if len(d.sent) != 0 {
			t.Fatalf("asked again too soon: %v", d.sent)
		}
	}
	d.pass(3 * time.Second)
	d.answerBeat(kerr.IllegalGeneration.Code)
	again, _ := take[*kmsg.JoinGroupRequest](d)
	if again.MemberID != first.MemberID || string(again.Protocols[0].Metadata) != string(first.Protocols[0].Metadata) {
		t.Error("the second join differs from the first: the coordinator would start over")
	}
	d.step(Replied{Seq: lost, Err: errors.New("too late")})
	if len(d.events) != 0 || d.core.State() != Joining {
		t.Errorf("a late answer was heard: %v", d.events)
	}
}

// Closing while the very first join is in flight gives the member id back that
// it brings: nobody must wait for a member that will not come (KIP-394).
func TestCloseDuringFirstJoin(t *testing.T) {
	d := newDesk(t, nil)
	d.step(Closing{})
	if !d.core.Leaving() {
		t.Fatal("does not wait for the join")
	}
	d.answerJoin(kerr.MemberIDRequired.Code)
	req, seq := take[*kmsg.LeaveGroupRequest](d)
	if req.Members[0].MemberID != "me" {
		t.Errorf("leaves as %q", req.Members[0].MemberID)
	}
	d.answer(seq, kmsg.NewPtrLeaveGroupResponse())
	if d.core.Leaving() {
		t.Error("still leaving")
	}
}

// A leader that may not see a topic of its own says so and ends; one that the
// broker cannot describe right now is asked for again.
func TestLeaderMetadataAnswers(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition} {
		d := newDesk(t, nil)
		req, seq := take[*kmsg.JoinGroupRequest](d)
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.LeaderID, resp.Generation = "me", "me", 1
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.ProtocolMetadata = "me", req.Protocols[0].Metadata
		resp.Members = append(resp.Members, m)
		d.answer(seq, resp)
		_, seq = take[*kmsg.MetadataRequest](d)
		meta := kmsg.NewPtrMetadataResponse()
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = kmsg.StringPtr("in"), err.Code
		meta.Topics = append(meta.Topics, topic)
		d.answer(seq, meta)
		d.pass(time.Second)
		switch err {
		case kerr.TopicAuthorizationFailed:
			d.check(t, after{err: err, state: Stopped, fatal: true})
		case kerr.LeaderNotAvailable:
			take[*kmsg.MetadataRequest](d)
		default:
			take[*kmsg.SyncGroupRequest](d) // a topic that is not there yet has no partitions
		}
	}
}

// A leave that meets a coordinator which has moved is repeated; one that is
// answered, or refused for good, is not.
func TestLeaveIsRepeated(t *testing.T) {
	d := newDesk(t, nil).stable()
	d.step(Closing{Reason: "going"})
	for i, code := range []int16{kerr.NotCoordinator.Code, kerr.CoordinatorLoadInProgress.Code, kerr.UnknownMemberID.Code} {
		req, seq := take[*kmsg.LeaveGroupRequest](d)
		if *req.Members[0].Reason != "going" || !d.core.Leaving() {
			t.Errorf("leave %d: %q", i, *req.Members[0].Reason)
		}
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code
		d.answer(seq, resp)
		d.pass(time.Second)
	}
	if d.core.Leaving() || len(d.sent) != 0 {
		t.Errorf("still leaving: %v", d.sent)
	}
}

// A reason is cut where Kafka would cut it, and the eviction's begins with the
// prefix by which it is known.
func TestReasons(t *testing.T) {
	d := newDesk(t, nil).stable()
	long := make([]byte, 400)
	for i := range long {
		long[i] = 'x'
	}
	d.step(Expired{Work: Work{Topic: "in", Partition: 0, Offset: 9, Name: string(long)}, Age: 0})
	req, _ := take[*kmsg.LeaveGroupRequest](d)
	if reason := *req.Members[0].Reason; len(reason) != 255 || reason[:len(PollClockReason)] != PollClockReason {
		t.Errorf("reason %q", reason)
	}
}

// Bytes from another member that nobody can read do not stop the leader, and a
// leader's bytes that this member cannot read end it with an error.
func TestMalformedMetadata(t *testing.T) {
	d := newDesk(t, nil)
	_, seq := take[*kmsg.JoinGroupRequest](d)
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.LeaderID, resp.Generation = "me", "me", 1
	for _, id := range []string{"me", "weird"} {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID = id
		m.ProtocolMetadata = []byte{0, 9, 0xff, 0xff, 0xff}
		if id == "me" {
			m.ProtocolMetadata = d.core.subscription().AppendTo(nil)
		}
		resp.Members = append(resp.Members, m)
	}
	d.answer(seq, resp)
	_, seq = take[*kmsg.MetadataRequest](d)
	meta := kmsg.NewPtrMetadataResponse()
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = kmsg.StringPtr("in")
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, 2)
	meta.Topics = append(meta.Topics, topic)
	d.answer(seq, meta)
	sync, seq := take[*kmsg.SyncGroupRequest](d)
	for _, a := range sync.GroupAssignment {
		given, err := parseAssignment(a.MemberAssignment)
		if want := map[string]int{"me": 2, "weird": 0}[a.MemberID]; err != nil || len(given.Partitions) != want {
			t.Errorf("%s is given %v, %v", a.MemberID, given, err)
		}
	}
	bad := kmsg.NewPtrSyncGroupResponse()
	bad.MemberAssignment = []byte{0, 1, 0, 0, 0, 5, 1}
	d.answer(seq, bad)
	if len(d.events) != 1 || d.core.State() != Stopped {
		t.Errorf("after unreadable bytes: %s, %v", d.core.State(), d.events)
	}
}

// FuzzMetadata: whatever bytes another member sends, reading them neither
// crashes nor allocates out of proportion.
func FuzzMetadata(f *testing.F) {
	f.Add(NewCore(CoreConfig{Topics: []string{"in"}}, nil).subscription().AppendTo(nil))
	f.Add(assignment(Placement{Partitions: []TopicPartition{{"in", 3}, {"in", 4}}}))
	f.Add([]byte{0, 3, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := kmsg.NewJoinGroupResponseMember()
		m.ProtocolMetadata = b
		if c, err := candidate(m); err == nil && len(c.Owned) > len(b) {
			t.Errorf("%d bytes became %d partitions", len(b), len(c.Owned))
		}
		if given, err := parseAssignment(b); err == nil {
			back, err := parseAssignment(assignment(given))
			if err != nil || len(back.Partitions) != len(given.Partitions) {
				t.Errorf("%v came back as %v, %v", given, back, err)
			}
		}
	})
}
