package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerBeat joins a group by the consumer protocol, or beats, and returns
// how soon to come again.
func (c *client) consumerBeat(groupID, memberID string, epoch int32) time.Duration {
	c.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = groupID, memberID, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 1000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](c, req, 1)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("heartbeat: %s", errorName(resp.ErrorCode))
	}
	return time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
}

// Members of all groups count, in whatever partition of __consumer_offsets
// those live; what is set holds, whoever is there.
func TestIntervalsOfAllGroups(t *testing.T) {
	for _, test := range []struct {
		set  string
		last time.Duration // what the last of 950 hears at least
	}{
		{"", 501 * time.Millisecond},
		{"6000", 6 * time.Second},
	} {
		t.Run("interval="+test.set, func(t *testing.T) {
			b := startBroker(t, func(c *Config) {
				if test.set != "" {
					c.Properties["group.consumer.heartbeat.interval.ms"] = test.set
				}
			})
			c := dialClient(t, b)
			c.awaitCoordinator()
			for i := range 950 { // each the only one of its group
				c.consumerBeat(fmt.Sprintf("g%d", i), "m", 0)
			}
			waitFor(t, fmt.Sprintf("an interval of %s", test.last), func() bool {
				return c.consumerBeat("g0", "m", 1) >= test.last
			})
		})
	}
}
