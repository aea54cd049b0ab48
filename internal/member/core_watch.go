package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The leader's side: it places partitions, and it watches how many there are.
// In a classic group nobody else would notice new partitions.

func (c *Core) sendMetadata(now time.Time) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{} // null would mean all topics
	for _, name := range c.watched {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	c.metaDue = time.Time{}
	c.meta = c.send(now, req, nil)
}

func (c *Core) metaReplied(now time.Time, in Replied) {
	c.meta = flight{}
	resp, ok := in.Resp.(*kmsg.MetadataResponse)
	var counts map[string]int32
	if ok {
		if hidden := c.unauthorized(resp); hidden != "" {
			c.fatal(&AnswerError{Op: "read partitions of " + hidden + " for", Group: c.cfg.Group, Err: kerr.TopicAuthorizationFailed,
				Hint: "this principal needs DESCRIBE and READ on the topic"})
			return
		}
		counts, ok = partitionCounts(resp)
	}
	if !ok {
		c.metaFails++
		c.metaDue = now.Add(c.backoff(c.metaFails))
		return
	}
	if absent := func(t string) bool { return counts[t] == 0 }; slices.ContainsFunc(c.watched, absent) {
		// A topic that was made just now may not be known to this broker yet.
		// Java's Metadata asks again soon for a topic that is unknown, too.
		c.metaFails++
		c.metaDue = now.Add(c.backoff(c.metaFails))
	} else {
		c.metaFails = 0
		c.metaDue = now.Add(c.cfg.MetadataMaxAge)
	}
	before := c.counts
	c.counts = counts
	switch {
	case c.phase == Syncing && c.candidates != nil:
		c.sync = c.send(now, c.syncRequest(c.place()), nil)
	case before != nil && !maps.Equal(before, counts):
		c.want(now, reasonMetadata+": "+difference(before, counts))
	}
}

// unauthorized is a topic of our own subscription that we may not see.
func (c *Core) unauthorized(resp *kmsg.MetadataResponse) string {
	for _, t := range resp.Topics {
		if t.ErrorCode == kerr.TopicAuthorizationFailed.Code && t.Topic != nil && slices.Contains(c.cfg.Topics, *t.Topic) {
			return *t.Topic
		}
	}
	return ""
}

// partitionCounts reads a metadata answer. A topic that does not exist counts
// nothing; one that the broker cannot tell about now makes the answer useless,
// since taking it for deleted would take its partitions from their owners.
func partitionCounts(resp *kmsg.MetadataResponse) (map[string]int32, bool) {
	counts := map[string]int32{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case len(t.Partitions) > 0 && (err == nil || kerr.IsRetriable(err)):
			counts[*t.Topic] = int32(len(t.Partitions))
		case err == nil, errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.InvalidTopicException),
			errors.Is(err, kerr.TopicAuthorizationFailed):
		default:
			return nil, false
		}
	}
	return counts, true
}

func difference(before, after map[string]int32) string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var b strings.Builder
	for _, t := range sortedKeys(all) {
		if before[t] != after[t] {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s %d to %d partitions", t, before[t], after[t])
		}
	}
	return b.String()
}

// place computes the assignment of a new generation. Under the cooperative
// protocol what another member still owns is withheld: that member sees that it
// must give it back, and joins again when it has (KIP-429).
func (c *Core) place() map[string]Placement {
	members := fence(c.candidates)
	placed := c.cfg.Assignor.Assign(members, c.counts)
	if c.cfg.Eager {
		return placed
	}
	owner := map[TopicPartition][]string{}
	for _, m := range members {
		for _, p := range m.Owned {
			owner[p] = append(owner[p], m.ID)
		}
	}
	for id, pl := range placed {
		now := slices.DeleteFunc(slices.Clone(pl.Partitions), func(p TopicPartition) bool {
			return slices.ContainsFunc(owner[p], func(o string) bool { return o != id })
		})
		if c.cfg.InPoll && len(now) < len(pl.Partitions) && pl.UserData == nil {
			pl.UserData = []byte(followUp)
		}
		pl.Partitions = now
		placed[id] = pl
	}
	return placed
}

// followUp is what an InPoll leader tells a member whose share was partly
// withheld: join again at once. Kafka Streams does so (its assignor schedules
// "followup rebalances"); members whose revocations take time do better to wait
// for the one who revokes.
const followUp = "rondo: follow-up"

// fence drops claims on partitions that another member claims from a later
// generation: their owner missed a rebalance and does not know it (KIP-792).
func fence(members []Candidate) []Candidate {
	latest := map[TopicPartition]int32{}
	for _, m := range members {
		for _, p := range m.Owned {
			if g, ok := latest[p]; !ok || m.Generation > g {
				latest[p] = m.Generation
			}
		}
	}
	out := slices.Clone(members)
	for i, m := range out {
		out[i].Owned = slices.DeleteFunc(slices.Clone(m.Owned), func(p TopicPartition) bool { return m.Generation < latest[p] })
	}
	return out
}

func candidate(m kmsg.JoinGroupResponseMember) (Candidate, error) {
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(m.ProtocolMetadata); err != nil {
		return Candidate{}, fmt.Errorf("subscription of member %s: %w", m.MemberID, err)
	}
	cand := Candidate{ID: m.MemberID, Topics: meta.Topics, UserData: meta.UserData, Generation: meta.Generation}
	if m.InstanceID != nil {
		cand.InstanceID = *m.InstanceID
	}
	if meta.Rack != nil {
		cand.Rack = *meta.Rack
	}
	for _, o := range meta.OwnedPartitions {
		for _, p := range o.Partitions {
			cand.Owned = append(cand.Owned, TopicPartition{o.Topic, p})
		}
	}
	return cand, nil
}

// assignment encodes what one member is given, as every consumer spells it.
func assignment(p Placement) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = 3
	a.UserData = p.UserData
	for _, tp := range sorted(p.Partitions) {
		if n := len(a.Topics); n == 0 || a.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic = tp.Topic
			a.Topics = append(a.Topics, t)
		}
		t := &a.Topics[len(a.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	return a.AppendTo(nil)
}

// parseAssignment reads an assignment; no bytes at all mean that the leader did
// not know us, and so nothing.
func parseAssignment(b []byte) (Placement, error) {
	var p Placement
	if len(b) == 0 {
		return p, nil
	}
	a := kmsg.NewConsumerMemberAssignment()
	if err := a.ReadFrom(b); err != nil {
		return p, err
	}
	for _, t := range a.Topics {
		for _, n := range t.Partitions {
			p.Partitions = append(p.Partitions, TopicPartition{t.Topic, n})
		}
	}
	p.Partitions, p.UserData = sorted(p.Partitions), a.UserData
	return p, nil
}

// sorted is the partitions in order, once each.
func sorted(parts []TopicPartition) []TopicPartition {
	out := slices.Clone(parts)
	slices.SortFunc(out, comparePartitions)
	return slices.Compact(out)
}

func comparePartitions(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// without is a minus b; a keeps its order.
func without(a, b []TopicPartition) []TopicPartition {
	if len(a) == 0 {
		return nil
	}
	not := make(map[TopicPartition]bool, len(b))
	for _, p := range b {
		not[p] = true
	}
	var out []TopicPartition
	for _, p := range a {
		if !not[p] {
			out = append(out, p)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
