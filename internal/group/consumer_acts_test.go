package group

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// playConsumer plays the acts of consumer groups, all of group g:
//
//	consumer topics t:4 u:2       these are the topics
//	consumer config NAME=VALUE    configs of the group
//	consumer join a topics=t+u regex=EXPR assignor=NAME instance=I rebalance=5m as=ID
//	consumer beat a owns=t:0,1;u:0 topics=.. epoch=N full=y
//	consumer leave a for=while    a static member may go for a while
//	consumer eager a, consumer coop a owns=..   a joins by the classic protocol
//	consumer sync a               and asks what it has
//	consumer describe
//	consumer restart              of the coordinator
//
// A member's id is its client's name.
func (w *world) playConsumer(a act) {
	switch verb := a.words[0]; verb {
	case "topics":
		w.streams.topics = nil
		for _, word := range a.words[1:] {
			name, n, _ := strings.Cut(word, ":")
			w.streams.topics = append(w.streams.topics, name, number(a.t, n))
		}
		w.tellStreams()
	case "config":
		w.streams.configs = a.set
		w.tellStreams()
	case "join", "beat", "leave":
		w.playConsumerBeat(a, verb, a.words[1])
	case "eager", "coop":
		w.playConsumerClassic(a, verb, a.words[1])
	case "sync":
		w.playConsumerSync(a.words[1])
	case "describe":
		w.describeConsumer()
	case "restart":
		w.draw("--", "the coordinator starts again and reads %d records", len(w.durable))
		w.flight, w.asked = nil, map[uint64]ask{}
		w.s = New(w.cfg, rand.New(rand.NewPCG(3, 4)))
		w.tellStreams()
		w.replay()
		w.step(Loaded{})
	default:
		a.t.Fatalf("unknown act of consumer groups: %q", verb)
	}
}

func (w *world) playConsumerBeat(a act, verb, name string) {
	c := w.client(name)
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, a.group(), name, int32(a.int("epoch", int(c.generation)))
	if v := a.optional("as"); v != nil {
		c.id = *v
	}
	if c.id != "" {
		req.MemberID = c.id
	}
	if v := a.optional("instance"); v != nil {
		c.instance = v
	}
	req.InstanceID, req.ServerAssignor, req.SubscribedTopicRegex = c.instance, a.optional("assignor"), a.optional("regex")
	if v, has := a.set["topics"]; has {
		req.SubscribedTopicNames = append([]string{}, strings.FieldsFunc(v, func(r rune) bool { return r == '+' })...)
	}
	if verb == "join" {
		req.MemberEpoch = int32(a.int("epoch", 0))
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil {
			req.SubscribedTopicNames = []string{"t"}
		}
	}
	if v, has := a.set["rebalance"]; has {
		c.rebalance = duration(a.t, v)
	}
	if verb == "join" || a.set["full"] == "y" {
		req.RebalanceTimeoutMillis = int32(c.rebalance.Milliseconds())
	}
	if owns, has := a.set["owns"]; has {
		req.Topics = ownedTopics(a.t, owns)
	}
	if verb == "leave" {
		if req.MemberEpoch = -1; a.set["for"] == "while" {
			req.MemberEpoch = -2
		}
	}
	w.request(name, verb, req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.ConsumerGroupHeartbeatResponse)
		if resp.ErrorCode != 0 {
			w.draw(name, "%s: %s %s", verb, errorName(resp.ErrorCode), text(resp.ErrorMessage))
			return
		}
		c.generation = resp.MemberEpoch
		if verb == "leave" {
			c.generation = 0
		}
		line := fmt.Sprintf("%s: epoch %d", verb, resp.MemberEpoch)
		if resp.Assignment != nil {
			set := partitionSet{}
			for _, t := range resp.Assignment.Topics {
				set[t.TopicID] = t.Partitions
			}
			line += ", has " + showSet(set)
		}
		if ms := resp.HeartbeatIntervalMillis; ms != 5000 && ms != 0 {
			line += fmt.Sprintf(", come again in %dms", ms)
		}
		w.draw(name, "%s", line)
	})
}

// ownedTopics reads "t:0,1;u:2".
func ownedTopics(t *testing.T, s string) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	list := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, part := range strings.Split(s, ";") {
		name, numbers, found := strings.Cut(part, ":")
		if !found {
			continue
		}
		owned := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		copy(owned.TopicID[:], name)
		for _, n := range strings.Split(numbers, ",") {
			owned.Partitions = append(owned.Partitions, int32(number(t, n)))
		}
		list = append(list, owned)
	}
	return list
}

func showSet(p partitionSet) string {
	var parts []string
	for _, id := range p.sortedTopics() {
		for _, n := range p[id] {
			parts = append(parts, fmt.Sprintf("%s-%d", strings.TrimRight(string(id[:]), "\x00"), n))
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func (w *world) playConsumerClassic(a act, verb, name string) {
	c := w.client(name)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = int16(a.int("v", 9)), "g", c.id, "consumer"
	if v := a.optional("instance"); v != nil {
		c.instance = v
	}
	req.InstanceID = c.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(c.session.Milliseconds()), int32(c.rebalance.Milliseconds())
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{"t"}
	if v, has := a.set["topics"]; has {
		m.Topics = strings.Split(v, "+")
	}
	for _, t := range ownedTopics(a.t, a.set["owns"]) {
		m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{
			Topic: strings.TrimRight(string(t.TopicID[:]), "\x00"), Partitions: t.Partitions,
		})
	}
	o := kmsg.NewJoinGroupRequestProtocol()
	o.Name, o.Metadata = map[string]string{"eager": "range", "coop": "cooperative-sticky"}[verb], m.AppendTo(nil)
	req.Protocols = append(req.Protocols, o)
	c.protocol = o.Name
	w.sendJoin(act{t: a.t, verb: "join"}, c, req)
}

func (w *world) playConsumerSync(name string) {
	c := w.client(name)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 5, "g", c.id, c.instance, c.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), &c.protocol
	w.request(name, "sync", req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.SyncGroupResponse)
		var assigned kmsg.ConsumerMemberAssignment
		if resp.ErrorCode != 0 {
			w.draw(name, "sync: %s", errorName(resp.ErrorCode))
			return
		}
		if err := assigned.ReadFrom(resp.MemberAssignment); err != nil {
			w.draw(name, "sync: %v", err)
			return
		}
		var parts []string
		for _, t := range assigned.Topics {
			parts = append(parts, fmt.Sprintf("%s%d", t.Topic, t.Partitions))
		}
		w.draw(name, "sync: has %v", parts)
	})
}

func (w *world) describeConsumer() {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups = 1, []string{"g"}
	w.request("", "describe", req, func(kr kmsg.Response) {
		for _, g := range kr.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			if g.ErrorCode != 0 {
				w.draw("", "describe: %s %s", errorName(g.ErrorCode), text(g.ErrorMessage))
				continue
			}
			w.draw("", "%s, epoch %d, targets of epoch %d by %s", g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName)
			for _, m := range g.Members {
				kind := map[int8]string{0: "classic", 1: "consumer"}[m.MemberType]
				w.draw("", "  %s, %s, epoch %d, has %s, target %s", m.MemberID, kind, m.MemberEpoch, namedPartitions(m.Assignment), namedPartitions(m.TargetAssignment))
			}
		}
	})
}

func namedPartitions(a kmsg.Assignment) string {
	var parts []string
	for _, t := range a.TopicPartitions {
		parts = append(parts, fmt.Sprintf("%s%d", t.Topic, t.Partitions))
	}
	return strings.Join(parts, " ")
}

// consumerRecord is a record of a consumer group as transcripts show it, "" for
// another one.
func consumerRecord(r Record) string {
	kind := binary.BigEndian.Uint16(r.Key)
	names := map[uint16]string{
		keyConsumerGroup: "epoch", keyConsumerTopics: "topics", keyConsumerMember: "member", keyConsumerEpoch: "target epoch",
		keyConsumerTarget: "target", keyConsumerCurrent: "current", keyConsumerRegex: "expression",
	}
	what := names[kind]
	if what == "" {
		return ""
	}
	var group, name string
	if err := readKey(r.Key, &group, &name); err == nil {
		what += " of " + name
	}
	if r.Value == nil {
		return what + " = tombstone"
	}
	switch kind {
	case keyConsumerGroup:
		v := must(decodeGroupEpoch(r.Value))
		return fmt.Sprintf("%s = %d, of topics that exist: %v", what, v.epoch, v.hash != 0)
	case keyConsumerMember:
		v := must(decodeMemberMeta(r.Value))
		return fmt.Sprintf("%s = instance %q, topics %v, expression %q, classic %v", what, text(v.instance), v.topics, v.regex, v.classic != nil)
	case keyConsumerEpoch:
		return fmt.Sprintf("%s = %d", what, must(decodeTargetEpoch(r.Value)))
	case keyConsumerTarget:
		return fmt.Sprintf("%s = %s", what, showSet(must(decodeTarget(r.Value))))
	case keyConsumerCurrent:
		v := must(decodeCurrent(r.Value))
		return fmt.Sprintf("%s = epoch %d after %d, state %d, has %s, gives up %s", what, v.epoch, v.previous, v.state, showSet(v.assigned), showSet(v.revoking))
	}
	return fmt.Sprintf("%s = %v", what, must(decodeResolved(r.Value)).topics)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
