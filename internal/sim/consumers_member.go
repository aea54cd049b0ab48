package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	coordinator "github.com/rondo-streams/rondo/internal/group"
)

// How often a consumer commits, and how long it waits before it asks again:
// retry.backoff.ms.
const (
	commitEvery  = 500 * time.Millisecond
	retryBackoff = 100 * time.Millisecond
)

// consumer is one member. Its polls never wait, so its group work goes on at
// once, as that of a healthy Java consumer does.
type consumer struct {
	w     *stage
	idx   int
	set   Consumer
	alive bool
	life  int // answers to an earlier one are void
	home  int // where it believes the coordinator to be

	id         string
	generation int32 // or epoch; below 1: none
	joining    bool
	owned      []int
	positions  map[int]int
	committing bool

	seen     [2]int // partitions, as its metadata has them
	placed   [2]int // as they were when it made the assignment, as the leader
	leads    bool
	changing bool // KIP-848: what it owns has changed since it said so
	beats    int  // the running series of heartbeats
}

func (c *consumer) start() {
	c.alive, c.home = true, c.w.home
	c.generation, c.positions = -1, map[int]int{}
	c.refresh(c.life)
	c.w.after(commitEvery, func() { c.commitLoop(c.life) })
	if c.set.Kill > 0 {
		c.w.at(c.set.Kill, c.die)
	}
	if c.set.Close > 0 {
		c.w.at(c.set.Close, c.close)
	}
	if c.set.Protocol == NextGen {
		c.id = fmt.Sprintf("%016x", c.w.rng.Uint64())
		c.generation = 0
		c.nextBeat()
		return
	}
	c.join("")
}

// die ends the process without a word.
func (c *consumer) die() {
	c.read()
	c.alive = false
	c.life++
	c.own(nil)
}

// close gives everything up, commits, and leaves unless it is static.
func (c *consumer) close() {
	if !c.alive {
		return
	}
	c.commit()
	c.taken(&c.w.out.Revoked, len(c.owned))
	leaves := c.set.Instance == "" || c.set.Leaves
	switch {
	case c.set.Protocol == NextGen && c.generation > 0:
		epoch := int32(-1)
		if !leaves {
			epoch = -2
		}
		rq := c.beatRequest()
		rq.MemberEpoch = epoch
		c.send(rq, func(kmsg.Response) {})
	case c.set.Protocol != NextGen && leaves && c.id != "":
		rq := kmsg.NewPtrLeaveGroupRequest()
		rq.Version, rq.Group = 5, "g"
		rq.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance(), Reason: kmsg.StringPtr("the consumer is being closed")}}
		c.send(rq, func(kmsg.Response) {})
	}
	c.die()
}

// fatal ends a member that cannot go on.
func (c *consumer) fatal() {
	c.w.out.Fatal = append(c.w.out.Fatal, Moment{c.w.now, c.idx})
	c.die()
}

func (c *consumer) instance() *string {
	if c.set.Instance == "" {
		return nil
	}
	return &c.set.Instance
}

// send sends a request. An answer that says where the coordinator is not, or
// that it is loading, is asked for again.
func (c *consumer) send(rq kmsg.Request, then func(kmsg.Response)) {
	life := c.life
	half := c.w.s.RoundTrip / 2
	c.w.after(half, func() {
		if c.home != c.w.home { // NOT_COORDINATOR, then FindCoordinator
			c.w.after(half+c.w.s.RoundTrip, func() {
				c.home = c.w.home
				if c.life == life && c.alive {
					c.send(rq, then)
				}
			})
			return
		}
		c.w.token++
		c.w.asked[c.w.token] = func(resp kmsg.Response) {
			if c.life != life || !c.alive {
				return
			}
			switch errorOf(resp) {
			case kerr.NotCoordinator.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code:
				c.w.after(retryBackoff, func() {
					if c.life == life && c.alive {
						c.home = c.w.home
						c.send(rq, then)
					}
				})
				return
			}
			then(resp)
		}
		c.w.carry(c.w.shard.Step(c.w.time(), coordinator.Request{Token: c.w.token, ClientID: fmt.Sprintf("m%d", c.idx), Host: "/127.0.0.1", Req: rq}))
	})
}

// errorOf is the error code of an answer.
func errorOf(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return r.ErrorCode
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				return p.ErrorCode
			}
		}
	}
	return 0
}

// refresh is the client's metadata, every metadata.max.age.ms.
func (c *consumer) refresh(life int) {
	if !c.alive || c.life != life {
		return
	}
	c.seen = c.w.count
	if c.leads && c.seen != c.placed && !c.joining {
		c.rejoin("cached metadata has changed")
	}
	c.w.after(c.w.s.MetadataAge, func() { c.refresh(life) })
}

// own takes the partitions that the member has from now on.
func (c *consumer) own(parts []int) {
	if slices.Equal(c.owned, parts) {
		return
	}
	for _, p := range minus(parts, c.owned) {
		c.positions[p] = c.w.parts[p].committed
	}
	c.owned = slices.Clone(parts)
	slices.Sort(c.owned)
	c.w.out.Assigned = append(c.w.out.Assigned, Assignment{Moment{c.w.now, c.idx}, slices.Clone(c.owned)})
}

// revoke gives partitions back in an orderly way: their offsets are committed
// before.
func (c *consumer) revoke(gone []int) {
	if len(gone) == 0 {
		return
	}
	c.commit()
	c.taken(&c.w.out.Revoked, len(gone))
	c.own(minus(c.owned, gone))
}

func (c *consumer) taken(list *[]Taken, n int) {
	if n > 0 {
		*list = append(*list, Taken{Moment{c.w.now, c.idx}, n})
	}
}

// lose forgets the membership.
func (c *consumer) lose() {
	c.read()
	c.taken(&c.w.out.Lost, len(c.owned))
	c.own(nil)
	c.generation, c.leads, c.joining = -1, false, false
	c.beats++
}

// read reads what has come since it was asked last. A consumer that polls all
// the time needs no event for it: what it has read matters when it commits, and
// when it loses what it has.
func (c *consumer) read() {
	for _, n := range c.owned {
		p := &c.w.parts[n]
		for end := p.endAt(c.w.now); c.positions[n] < end; c.positions[n]++ {
			p.began(c.positions[n])
			p.done[c.positions[n]]++
			c.w.out.Consumed++
		}
	}
}

func (c *consumer) commitLoop(life int) {
	if !c.alive || c.life != life {
		return
	}
	c.commit()
	c.w.after(commitEvery, func() { c.commitLoop(life) })
}

// commit is commitSync for what was read and not committed.
func (c *consumer) commit() {
	c.read()
	var fresh []int
	for _, n := range c.owned {
		if c.positions[n] > c.w.parts[n].committed {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 || c.committing || c.generation < 1 || c.w.s.NoCommits {
		return
	}
	if c.joining && c.set.Protocol == Cooperative { // the client refuses by itself
		c.w.out.Refused = append(c.w.out.Refused, Moment{c.w.now, c.idx})
		return
	}
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation, rq.MemberID, rq.InstanceID = 9, "g", c.generation, c.id, c.instance()
	to := map[int]int{}
	c.w.byTopic(fresh, func(topic int, list []int32) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topicNames()[topic]
		for _, p := range list {
			n := c.w.number(t.Topic, p)
			to[n] = c.positions[n]
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset = p, int64(to[n])
			t.Partitions = append(t.Partitions, part)
		}
		rq.Topics = append(rq.Topics, t)
	})
	c.committing = true
	life := c.life
	c.send(rq, func(resp kmsg.Response) {
		if c.life == life {
			c.committing = false
		}
		at := Moment{c.w.now, c.idx}
		if errorOf(resp) != 0 {
			c.w.out.Refused = append(c.w.out.Refused, at)
			return
		}
		c.w.out.Commits = append(c.w.out.Commits, at)
		for n, offset := range to {
			c.w.parts[n].committed = max(c.w.parts[n].committed, offset)
		}
	})
}
