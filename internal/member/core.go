package member

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The life of a member. Heartbeats go on in every state that has a generation
// (InPoll: not in Joining), and so does the work of partitions that stay.
//
//	            +---------- reset: evicted, expired, fenced -----------+
//	            v                                                      |
//	        Unjoined --join--> Joining --answer--> Syncing --answer--> Stable
//	            ^                 ^                   |                 |  |
//	            |                 +---- rebalance ----+                 |  |
//	            |                 +---- rebalance, drained, asked ------+  |
//	            +------------------- leave, fatal -> Stopped --------------+
//
// Stable is shown as Revoking while a revocation drains, and as Preparing
// while a join is due but must wait (eager: for the drain; InPoll: for Poll).

// CoreConfig is the part of Config that the rules need. All fields are set.
type CoreConfig struct {
	Group, ClientID, InstanceID, Rack string

	Topics         []string
	Session        time.Duration // session.timeout.ms
	Heartbeat      time.Duration // heartbeat.interval.ms
	MaxPoll        time.Duration // max.poll.interval.ms = rebalance timeout
	MetadataMaxAge time.Duration // metadata.max.age.ms
	Eager, InPoll  bool
	Assignor       Assignor
}

// In is what happened: one of the input types below.
type In interface{ input() }

// Inputs of a Core.
type (
	// Started is the first input: join.
	Started struct{}
	// Replied is the answer to Send Seq, or the error that took its place.
	Replied struct {
		Seq  uint64
		Resp kmsg.Response
		Err  error
	}
	// Drained says that the application is done with revocation ID.
	Drained struct{ ID uint64 }
	// Expired says that work is older than max.poll.interval.ms.
	Expired struct {
		Work Work
		Age  time.Duration
	}
	// Asked asks for a rebalance (Member.Rejoin).
	Asked struct{ Reason string }
	// Refused reports a commit that the coordinator refused, and under which
	// membership it was sent.
	Refused struct {
		Code       int16
		MemberID   string
		Generation int32
	}
	// PollBegan and PollEnded are the window of Member.Poll (InPoll only).
	PollBegan struct{ Oldest Work }
	PollEnded struct{}
	// Closing leaves the group for good.
	Closing struct{ Reason string }
	// Tick says that Next has come.
	Tick struct{ Oldest Work }
)

func (Started) input()   {}
func (Replied) input()   {}
func (Drained) input()   {}
func (Expired) input()   {}
func (Asked) input()     {}
func (Refused) input()   {}
func (PollBegan) input() {}
func (PollEnded) input() {}
func (Closing) input()   {}
func (Tick) input()      {}

// Send is a request to send; its answer comes back as Replied{Seq}.
type Send struct {
	Seq uint64
	Req kmsg.Request
	// Subscription is set for a join: the metadata inside Req, to be encoded
	// anew when the shell adds user data.
	Subscription *kmsg.ConsumerMemberMetadata
}

// Out is what to do, in this order: Cancels, Sends, Events.
type Out struct {
	Cancels []uint64 // requests whose answers nobody waits for any more
	Sends   []Send
	Events  []Event
}

// flight is a request that has not been answered.
type flight struct {
	seq        uint64 // 0 means none
	sent       time.Time
	generation int32
}

// drain is a revocation that the application works on.
type drain struct {
	id       uint64
	parts    []TopicPartition
	deadline time.Time
}

// Core is one member's side of a classic group, as a value. It is driven by
// one goroutine.
type Core struct {
	cfg CoreConfig
	rng *rand.Rand
	seq uint64
	out Out

	phase      State // Unjoined, Joining, Syncing, Stable or Stopped
	memberID   string
	generation int32
	lastAck    time.Time // when the last acknowledged beat was sent

	owned    []TopicPartition             // includes what drains; sorted
	since    map[TopicPartition]time.Time // when each was taken
	assigned []TopicPartition             // the assignment of this generation
	claimed  []TopicPartition             // what the last join said we own
	drains   []drain
	lapsed   bool // the session clock passed and the coordinator was not heard since

	why     string    // why the next join is due; empty: none is
	joinDue time.Time // not before this
	fails   int       // consecutive failures of join or sync, for back-off
	again   string    // a join to send after the running one

	join, sync, beat, leave, meta flight
	syncDue, beatDue, metaDue     time.Time
	beatFails, metaFails          int
	overtakenAt                   time.Time // first beat that knew a later generation than the join under way
	quick                         int       // quick beats left

	farewell   *kmsg.LeaveGroupRequest // the leave under way, to repeat it
	leaveDue   time.Time
	leaveFails int

	leader     bool
	candidates []Candidate      // to place, while the partition counts are fetched
	watched    []string         // topics of the whole group
	counts     map[string]int32 // of watched, at the last assignment

	strikes map[strike]int
	struck  []strike // in order, to bound strikes

	poll pollWindow
}

// strike names a record that held the poll clock until it fired.
type strike struct {
	part   TopicPartition
	offset int64
}

// NewCore makes a member that has not joined. Randomness is for the jitter of
// back-offs alone.
func NewCore(cfg CoreConfig, rng *rand.Rand) *Core {
	return &Core{cfg: cfg, rng: rng, generation: -1, since: map[TopicPartition]time.Time{}, strikes: map[strike]int{}}
}

// Step takes what happened and says what to do.
func (c *Core) Step(now time.Time, in In) Out {
	c.out = Out{}
	if c.phase == Stopped {
		c.stepStopped(now, in)
		return c.out
	}
	switch in := in.(type) {
	case Started:
		c.poll.last = now
		c.want(now, "member starts")
	case Replied:
		c.replied(now, in)
	case Drained:
		c.drained(now, in.ID)
	case Expired:
		c.expired(now, in)
	case Asked:
		c.want(now, in.Reason)
	case Refused:
		c.refused(now, in)
	case PollBegan:
		c.pollBegan(now)
	case PollEnded:
		c.poll.open = false
	case Closing:
		c.closing(now, in.Reason)
		return c.out
	case Tick:
		c.poll.oldest = in.Oldest
	}
	c.advance(now)
	return c.out
}

// advance does what is due.
func (c *Core) advance(now time.Time) {
	if c.phase == Stopped {
		return
	}
	c.checkSession(now)
	c.checkPoll(now)
	c.checkDrains(now)
	c.checkTimeouts(now)
	c.checkLeave(now)
	switch c.phase {
	case Unjoined, Stable:
		if c.joinAllowed(now) {
			c.sendJoin(now)
		}
	case Joining:
		if c.join.seq == 0 && c.poll.join == nil && !now.Before(c.joinDue) && c.windowOpen() {
			c.sendJoin(now)
		}
	case Syncing:
		if c.sync.seq == 0 && !c.syncDue.IsZero() && !now.Before(c.syncDue) {
			c.sendSync(now)
		}
	}
	if !c.metaDue.IsZero() && c.meta.seq == 0 && !now.Before(c.metaDue) {
		c.sendMetadata(now)
	}
	if c.beating() && c.beat.seq == 0 && !now.Before(c.beatDue) {
		c.sendBeat(now)
	}
}

// Next is when the core wants a Tick.
func (c *Core) Next() (time.Time, bool) {
	if c.phase == Stopped {
		return c.leaveDue, !c.leaveDue.IsZero()
	}
	var next time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if c.generation >= 0 && !c.lapsed && !c.cfg.InPoll {
		at(c.lastAck.Add(c.cfg.Session))
	}
	if c.cfg.InPoll && c.beating() {
		at(c.poll.last.Add(c.cfg.MaxPoll))
	}
	at(c.leaveDue)
	for _, d := range c.drains {
		at(d.deadline)
	}
	waiting := (c.phase == Unjoined || c.phase == Stable) && c.why != "" && c.drainedForJoin() ||
		c.phase == Joining && c.join.seq == 0 && c.poll.join == nil
	if waiting && c.windowOpen() {
		at(c.joinDue)
	}
	if c.phase == Syncing && c.sync.seq == 0 {
		at(c.syncDue)
	}
	if c.cfg.InPoll && c.sync.seq != 0 {
		at(c.sync.sent.Add(javaRequestTimeout))
	}
	if c.meta.seq == 0 {
		at(c.metaDue)
	}
	if c.beating() && c.beat.seq == 0 {
		at(c.beatDue)
	}
	return next, !next.IsZero()
}

// State is where the member stands.
func (c *Core) State() State {
	if c.phase == Stable {
		switch {
		case c.why != "":
			return Preparing
		case len(c.drains) > 0:
			return Revoking
		}
	}
	return c.phase
}

// Membership is what a commit must carry, and whether it may be sent.
type Membership struct {
	MemberID   string
	InstanceID string
	Generation int32
	State      State
	Since      time.Time // last acknowledged beat
	Held       bool      // a lease is held: commits may be sent
	Unsettled  bool      // InPoll: joined or assigned, and not yet applied by Poll
	Owned      []TopicPartition
	Polled     time.Time // InPoll: when the last poll began
}

// Membership reads the current membership.
func (c *Core) Membership() Membership {
	return Membership{
		MemberID: c.memberID, InstanceID: c.cfg.InstanceID, Generation: c.generation,
		State: c.State(), Since: c.lastAck,
		Held:      c.generation >= 0 && !c.lapsed && c.poll.lost == nil,
		Unsettled: c.cfg.InPoll && (c.phase == Joining || c.phase == Syncing || c.poll.assigned != nil),
		Owned:     slices.Clone(c.owned),
		Polled:    c.poll.last,
	}
}

func (c *Core) nextSeq() uint64 { c.seq++; return c.seq }

func (c *Core) tell(e Event) { c.out.Events = append(c.out.Events, e) }

func (c *Core) send(now time.Time, req kmsg.Request, sub *kmsg.ConsumerMemberMetadata) flight {
	f := flight{seq: c.nextSeq(), sent: now, generation: c.generation}
	c.out.Sends = append(c.out.Sends, Send{Seq: f.seq, Req: req, Subscription: sub})
	return f
}

// drop forgets a request in flight.
func (c *Core) drop(f *flight) {
	if f.seq != 0 {
		c.out.Cancels = append(c.out.Cancels, f.seq)
		*f = flight{}
	}
}

// want asks for a join; the first reason wins, since it is the cause and what
// comes later is an echo.
func (c *Core) want(now time.Time, reason string) {
	switch c.phase {
	case Joining, Syncing:
		if c.again == "" {
			c.again = reason
		}
	default:
		if c.why == "" {
			c.why, c.joinDue = reason, now
			if c.cfg.Eager {
				c.prepareEager(now)
			}
		}
	}
}

// backoff is retry.backoff.ms (100 ms) doubled to retry.backoff.max.ms (1 s),
// with a jitter of 20 percent, as the Java client has it (KIP-580).
func (c *Core) backoff(fails int) time.Duration {
	d := 100 * time.Millisecond << min(fails-1, 4)
	d = min(d, time.Second)
	return time.Duration(float64(d) * (0.8 + 0.4*c.rng.Float64()))
}

func (c *Core) replied(now time.Time, in Replied) {
	switch in.Seq {
	case 0:
	case c.join.seq:
		c.joinReplied(now, in)
	case c.sync.seq:
		c.syncReplied(now, in)
	case c.beat.seq:
		c.beatReplied(now, in)
	case c.meta.seq:
		c.metaReplied(now, in)
	case c.leave.seq:
		if c.leaveReplied(now, in) {
			c.joinDue = now
		}
	}
}

// stepStopped only lets the farewell finish.
func (c *Core) stepStopped(now time.Time, in In) {
	switch in := in.(type) {
	case Replied:
		switch in.Seq {
		case 0:
		case c.leave.seq:
			c.leaveReplied(now, in)
		case c.join.seq:
			// The first join was in flight when we closed: the id that the
			// coordinator has just made would block the group's next join phase
			// until its session runs out (KIP-394), so give it back.
			c.join = flight{}
			if resp, ok := in.Resp.(*kmsg.JoinGroupResponse); ok && resp.MemberID != "" {
				c.memberID = resp.MemberID
				c.sendLeave(now, c.leaveRequest(reasonClose))
			}
		}
	case Tick:
		c.checkLeave(now)
	}
}

// Leaving says whether the core still waits for the end of its farewell.
func (c *Core) Leaving() bool {
	return c.leave.seq != 0 || c.join.seq != 0 || !c.leaveDue.IsZero()
}
