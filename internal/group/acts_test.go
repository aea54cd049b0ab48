package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offers makes a member's protocols: each has the subscription to its topics
// as metadata, or plain bytes after a colon.
func offers(protocols, topics string) []kmsg.JoinGroupRequestProtocol {
	var list []kmsg.JoinGroupRequestProtocol
	for _, p := range strings.Split(protocols, ",") {
		if p == "" {
			continue
		}
		name, metadata, plain := strings.Cut(p, ":")
		o := kmsg.NewJoinGroupRequestProtocol()
		o.Name, o.Metadata = name, []byte(metadata)
		if !plain {
			m := kmsg.NewConsumerMemberMetadata()
			m.Version, m.Topics = 1, strings.Split(topics, "+")
			o.Metadata = m.AppendTo(nil)
		}
		list = append(list, o)
	}
	return list
}

func (w *world) playJoin(a act) {
	c := w.client(a.words[0])
	if slices.Contains(a.words, "anew") {
		c.id = ""
	}
	if v, ok := a.set["session"]; ok {
		c.session = duration(a.t, v)
	}
	if v, ok := a.set["rebalance"]; ok {
		c.rebalance = duration(a.t, v)
	}
	if v, ok := a.set["instance"]; ok {
		c.instance = &v
	}
	protocols, topics := "range", "t"
	if v, ok := a.set["protocols"]; ok {
		protocols = v
	}
	if v, ok := a.set["topics"]; ok {
		topics = v
	}
	if _, ok := a.set["protocols"]; ok || c.offers == nil || a.set["topics"] != "" {
		c.offers = offers(protocols, topics)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(a.int("v", 9))
	req.Group, req.MemberID, req.InstanceID, req.Reason = a.group(), c.id, c.instance, a.optional("reason")
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(c.session/time.Millisecond), int32(c.rebalance/time.Millisecond)
	req.ProtocolType, req.Protocols = "consumer", c.offers
	if v, ok := a.set["id"]; ok {
		req.MemberID = w.idOf(v)
	}
	if v, ok := a.set["type"]; ok {
		req.ProtocolType = v
	}
	w.sendJoin(a, c, req)
}

func (w *world) sendJoin(a act, c *client, req *kmsg.JoinGroupRequest) {
	w.request(c.name, a.verb, req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.JoinGroupResponse)
		w.learn(resp.MemberID, c.name)
		if resp.ErrorCode != 0 {
			w.draw(c.name, "%s: %s, member id %q, type %s", a.verb, errorName(resp.ErrorCode), resp.MemberID, show(resp.ProtocolType))
			if errorName(resp.ErrorCode) == "MEMBER_ID_REQUIRED" {
				c.id = resp.MemberID
				if a.verb == "join" {
					again := *req
					again.MemberID = c.id
					w.sendJoin(a, c, &again)
				}
			}
			return
		}
		c.id, c.generation, c.protocol = resp.MemberID, resp.Generation, text(resp.Protocol)
		role := "follows"
		if resp.LeaderID == resp.MemberID {
			role = "leads"
		}
		line := fmt.Sprintf("joined generation %d as %s, %s: %s %s", resp.Generation, resp.MemberID, show(resp.Protocol), role, resp.LeaderID)
		if len(resp.Members) > 0 {
			var ids []string
			for _, m := range resp.Members {
				ids = append(ids, w.alias(m.MemberID))
			}
			line += " of " + strings.Join(ids, " ")
		}
		if resp.SkipAssignment {
			line += ", need not assign"
		}
		w.draw(c.name, "%s", line)
	})
}

func show(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}

// idOf finds the member id behind an alias.
func (w *world) idOf(alias string) string {
	for id, a := range w.aliases {
		if a == alias {
			return id
		}
	}
	return alias
}

func (w *world) playSync(a act) {
	c := w.client(a.words[0])
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = int16(a.int("v", 5))
	req.Group, req.MemberID, req.InstanceID = a.group(), c.id, c.instance
	req.Generation = int32(a.int("gen", int(c.generation)))
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), &c.protocol
	for _, word := range a.words[1:] {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || key == "v" || key == "gen" || key == "group":
		case key == "protocol":
			if req.Protocol = &value; value == "null" {
				req.Protocol = nil
			}
		case key == "id":
			req.MemberID = w.idOf(value)
		default:
			as := kmsg.NewSyncGroupRequestGroupAssignment()
			as.MemberID, as.MemberAssignment = w.idOf(key), []byte(value)
			if m := w.clients[key]; m != nil {
				as.MemberID = m.id
			}
			req.GroupAssignment = append(req.GroupAssignment, as)
		}
	}
	w.request(c.name, "sync", req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.SyncGroupResponse)
		if resp.ErrorCode != 0 {
			w.draw(c.name, "sync: %s", errorName(resp.ErrorCode))
			return
		}
		w.draw(c.name, "synced: assignment %q", resp.MemberAssignment)
	})
}

func (w *world) playBeat(a act) {
	c := w.client(a.words[0])
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group, req.MemberID, req.InstanceID = a.group(), c.id, c.instance
	req.Generation = int32(a.int("gen", int(c.generation)))
	if v, ok := a.set["id"]; ok {
		req.MemberID = w.idOf(v)
	}
	w.request(c.name, "beat", req, func(kr kmsg.Response) {
		w.draw(c.name, "beat: %s", errorName(kr.(*kmsg.HeartbeatResponse).ErrorCode))
	})
}

// playLeave lets clients leave: "leave a b", "leave i=instance" by an
// administrator, "leave id=someone".
func (w *world) playLeave(a act) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = 5
	req.Group = a.group()
	for _, word := range a.words {
		m := kmsg.NewLeaveGroupRequestMember()
		m.Reason = a.optional("reason")
		switch key, value, set := strings.Cut(word, "="); {
		case !set:
			m.MemberID, m.InstanceID = w.client(word).id, w.client(word).instance
		case key == "id":
			m.MemberID = w.idOf(value)
		case key == "i":
			m.InstanceID = &value
		default:
			continue
		}
		req.Members = append(req.Members, m)
	}
	w.request("", "leave", req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.LeaveGroupResponse)
		var rows []string
		for _, m := range resp.Members {
			who := m.MemberID
			if who == "" {
				who = "instance " + text(m.InstanceID)
			}
			rows = append(rows, who+" "+errorName(m.ErrorCode))
		}
		if resp.ErrorCode != 0 {
			rows = append(rows, errorName(resp.ErrorCode))
		}
		w.draw("", "left: %s", strings.Join(rows, ", "))
	})
}
