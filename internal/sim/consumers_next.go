package sim

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	coordinator "github.com/rondo-streams/rondo/internal/group"
)

// This file is a consumer of the protocol of KIP-848 (ConsumerMembershipManager
// and ConsumerHeartbeatRequestManager of Kafka 4.2.0): everything goes by
// heartbeats, and the broker says how often.

func (c *consumer) beatRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	rq := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	rq.Version, rq.Group, rq.MemberID, rq.MemberEpoch, rq.InstanceID = 1, "g", c.id, c.generation, c.instance()
	return rq
}

// nextBeat sends a heartbeat; the one after it follows when the broker has
// said, or at once when it brought something to do.
func (c *consumer) nextBeat() {
	c.beats++
	series := c.beats
	rq := c.beatRequest()
	if c.generation == 0 {
		rq.RebalanceTimeoutMillis = int32(c.w.s.MaxPoll.Milliseconds())
		rq.SubscribedTopicNames = []string{topicNames()[0]}
		if c.w.s.Assignor != "" {
			rq.ServerAssignor = &c.w.s.Assignor
		}
	}
	if c.generation == 0 || c.changing {
		rq.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		c.w.byTopic(c.owned, func(topic int, list []int32) {
			rq.Topics = append(rq.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: coordinator.TopicID{byte(topic + 1)}, Partitions: list})
		})
	}
	c.changing = false
	c.send(rq, func(resp kmsg.Response) {
		if c.beats == series {
			c.heard(resp.(*kmsg.ConsumerGroupHeartbeatResponse))
		}
	})
}

func (c *consumer) heard(r *kmsg.ConsumerGroupHeartbeatResponse) {
	switch r.ErrorCode {
	case 0:
	case kerr.UnreleasedInstanceID.Code:
		c.fatal() // in the Java consumer
		return
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code:
		c.lose()
		c.generation = 0
		c.nextBeat()
		return
	default:
		c.beatIn(retryBackoff)
		return
	}
	c.generation = r.MemberEpoch
	if r.Assignment != nil {
		c.reconcile(r.Assignment)
	}
	if c.changing {
		c.nextBeat()
		return
	}
	c.beatIn(time.Duration(r.HeartbeatIntervalMillis) * time.Millisecond)
}

// reconcile gives up what is not given any more, or takes what is new.
func (c *consumer) reconcile(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) {
	var given []int
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			given = append(given, c.w.number(topicNames()[t.TopicID[0]-1], p))
		}
	}
	slices.Sort(given)
	c.revoke(minus(c.owned, given))
	c.own(given)
	c.changing = true // acknowledged with the next heartbeat, which goes at once
}

func (c *consumer) beatIn(d time.Duration) {
	life, series := c.life, c.beats
	c.w.after(d, func() {
		if c.alive && c.life == life && c.beats == series {
			c.nextBeat()
		}
	})
}
