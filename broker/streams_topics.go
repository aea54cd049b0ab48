package broker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/group"
)

// statusMissingInternal is MISSING_INTERNAL_TOPICS of StreamsGroupHeartbeat.
const statusMissingInternal = 3

// topicTroubleKept is how long it is told why an internal topic could not be
// made: longer than a member needs to come again.
const topicTroubleKept = time.Minute

// topicTroubles are the internal topics of streams groups that could not be
// made, and those that are being made now.
type topicTroubles struct {
	mu     sync.Mutex
	making map[string]bool
	failed map[string]topicTrouble
}

type topicTrouble struct {
	group, text string
	at          time.Time
}

// makeInternalTopics makes what a streams group wants, once at a time. It is
// called by a shard and does not wait: members learn at a later heartbeat what
// became of it.
func (c *coordinator) makeInternalTopics(topics []group.InternalTopic) {
	tr := &c.streams
	var wanted []*newTopic
	groups := map[string]string{} // by topic
	tr.mu.Lock()
	for _, t := range topics {
		if tr.making[t.Name] {
			continue
		}
		if tr.making == nil {
			tr.making, tr.failed = map[string]bool{}, map[string]topicTrouble{}
		}
		tr.making[t.Name] = true
		groups[t.Name] = t.Group
		wanted = append(wanted, c.b.wantTopic(internalTopicRequest(t)))
	}
	tr.mu.Unlock()
	if len(wanted) == 0 {
		return
	}
	boundPartitions(wanted)
	go c.b.meta.do(func() {
		c.b.meta.createTopics(wanted)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for name, f := range tr.failed {
			if time.Since(f.at) > topicTroubleKept {
				delete(tr.failed, name)
			}
		}
		for _, w := range wanted {
			delete(tr.making, w.name)
			delete(tr.failed, w.name)
			if w.failed != nil && w.failed.code != kerr.TopicAlreadyExists.Code {
				tr.failed[w.name] = topicTrouble{groups[w.name], w.failed.text, time.Now()}
				c.b.log.Warn("a streams group's internal topic cannot be made", "topic", w.name, "cause", w.failed.text)
			}
		}
	})
}

func internalTopicRequest(t group.InternalTopic) kmsg.CreateTopicsRequestTopic {
	rq := kmsg.NewCreateTopicsRequestTopic()
	rq.Topic, rq.NumPartitions, rq.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
	for key, value := range t.Configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		rq.Configs = append(rq.Configs, c)
	}
	return rq
}

// noteMissingTopics tells a member of a group why its internal topics are still
// missing.
func (c *coordinator) noteMissingTopics(groupID string, resp *kmsg.StreamsGroupHeartbeatResponse) {
	for i := range resp.Status {
		st := &resp.Status[i]
		if st.StatusCode != statusMissingInternal {
			continue
		}
		if text := c.streams.why(groupID); text != "" {
			st.StatusDetail += "; Creation failed: " + text + "."
		}
	}
}

// why says what has gone wrong with topics of a group, "" when nothing has.
func (tr *topicTroubles) why(groupID string) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var parts []string
	for name, f := range tr.failed {
		if f.group == groupID && time.Since(f.at) <= topicTroubleKept {
			parts = append(parts, name+" ("+f.text+")")
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
