package group

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// partitionOf reads "t:0".
func partitionOf(a act, s string) partition {
	topic, index, _ := strings.Cut(s, ":")
	return partition{topic, int32(number(a.t, index))}
}

// playCommit commits offsets: "commit a t:0=5", "commit - t:0=5" by nobody in
// particular; gen, id, v, epoch, meta and retention (ms) as settings; "txncommit a
// pid=7 t:0=5" in the transaction of producer 7.
func (w *world) playCommit(a act) {
	c := &client{name: "-", generation: -1}
	if a.words[0] != "-" {
		c = w.client(a.words[0])
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = int16(a.int("v", 9))
	req.Group, req.MemberID, req.InstanceID, req.Generation = a.group(), c.id, c.instance, int32(a.int("gen", int(c.generation)))
	req.RetentionTimeMillis = int64(a.int("retention", -1))
	if v, ok := a.set["id"]; ok {
		req.MemberID = w.idOf(v)
	}
	for _, word := range a.words {
		key, value, set := strings.Cut(word, "=")
		if !set || !strings.Contains(key, ":") {
			continue
		}
		tp := partitionOf(a, key)
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = tp.topic
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = tp.index, int64(number(a.t, value)), a.optional("meta")
		p.LeaderEpoch = int32(a.int("epoch", -1))
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	if a.verb == "txncommit" {
		w.txnCommit(a, c, req)
		return
	}
	w.request(c.name, "commit", req, func(kr kmsg.Response) {
		var rows []string
		for _, t := range kr.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				rows = append(rows, fmt.Sprintf("%s:%d %s", t.Topic, p.Partition, errorName(p.ErrorCode)))
			}
		}
		w.draw(c.name, "committed: %s", strings.Join(rows, ", "))
	})
}

func (w *world) txnCommit(a act, c *client, plain *kmsg.OffsetCommitRequest) {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version = 3
	req.Group, req.MemberID, req.InstanceID, req.Generation = plain.Group, plain.MemberID, plain.InstanceID, plain.Generation
	req.TransactionalID, req.ProducerID = "x", int64(a.int("pid", 0))
	for _, pt := range plain.Topics {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = pt.Topic
		for _, pp := range pt.Partitions {
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = pp.Partition, pp.Offset, pp.LeaderEpoch
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	w.request(c.name, "txncommit", req, func(kr kmsg.Response) {
		var rows []string
		for _, t := range kr.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				rows = append(rows, fmt.Sprintf("%s:%d %s", t.Topic, p.Partition, errorName(p.ErrorCode)))
			}
		}
		w.draw(c.name, "committed in the transaction of producer %d: %s", req.ProducerID, strings.Join(rows, ", "))
	})
}

// playFetch reads offsets: "fetch t:0 t:1", "fetch" for all, "fetch stable t:0".
func (w *world) playFetch(a act) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = a.group()
	for _, word := range a.plain() {
		if word == "stable" {
			req.RequireStable = true
			continue
		}
		tp := partitionOf(a, word)
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: tp.topic, Partitions: []int32{tp.index}})
	}
	req.Groups = append(req.Groups, g)
	w.request("", "fetch", req, func(kr kmsg.Response) {
		for _, g := range kr.(*kmsg.OffsetFetchResponse).Groups {
			rows := []string{}
			if g.ErrorCode != 0 {
				rows = append(rows, errorName(g.ErrorCode))
			}
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					row := fmt.Sprintf("%s:%d=%d", t.Topic, p.Partition, p.Offset)
					if p.LeaderEpoch >= 0 {
						row += fmt.Sprintf(" epoch %d", p.LeaderEpoch)
					}
					if text(p.Metadata) != "" {
						row += fmt.Sprintf(" %q", *p.Metadata)
					}
					if p.ErrorCode != 0 {
						row += " " + errorName(p.ErrorCode)
					}
					rows = append(rows, row)
				}
			}
			w.draw("", "fetched: %s", strings.Join(rows, ", "))
		}
	})
}

// playOffsetDelete: "uncommit t:0 t:1".
func (w *world) playOffsetDelete(a act) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = a.group()
	for _, word := range a.plain() {
		tp := partitionOf(a, word)
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic, t.Partitions = tp.topic, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: tp.index}}
		req.Topics = append(req.Topics, t)
	}
	w.request("", "uncommit", req, func(kr kmsg.Response) {
		resp := kr.(*kmsg.OffsetDeleteResponse)
		rows := []string{}
		if resp.ErrorCode != 0 {
			rows = append(rows, errorName(resp.ErrorCode))
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				rows = append(rows, fmt.Sprintf("%s:%d %s", t.Topic, p.Partition, errorName(p.ErrorCode)))
			}
		}
		w.draw("", "offsets deleted: %s", strings.Join(rows, ", "))
	})
}

// playAdmin describes, lists or deletes groups.
func (w *world) playAdmin(a act) {
	switch a.verb {
	case "describe":
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 6, []string{a.group()}
		w.request("", "describe", req, func(kr kmsg.Response) {
			for _, g := range kr.(*kmsg.DescribeGroupsResponse).Groups {
				var members []string
				for _, m := range g.Members {
					members = append(members, fmt.Sprintf("%s=%s", m.MemberID, m.MemberAssignment))
				}
				w.draw("", "group %s is %s, type %q, protocol %q, members %v, %s", g.Group, g.State, g.ProtocolType, g.Protocol, members, errorName(g.ErrorCode))
			}
		})
	case "list":
		req := kmsg.NewPtrListGroupsRequest()
		req.Version = 5
		req.StatesFilter = append(req.StatesFilter, a.plain()...)
		if v, ok := a.set["type"]; ok {
			req.TypesFilter = []string{v}
		}
		w.request("", "list", req, func(kr kmsg.Response) {
			var rows []string
			for _, g := range kr.(*kmsg.ListGroupsResponse).Groups {
				rows = append(rows, fmt.Sprintf("%s %s %s %q", g.Group, g.GroupState, g.GroupType, g.ProtocolType))
			}
			if code := kr.(*kmsg.ListGroupsResponse).ErrorCode; code != 0 {
				rows = append(rows, errorName(code))
			}
			w.draw("", "groups: %s", strings.Join(rows, ", "))
		})
	case "delete":
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 2, []string{a.group()}
		w.request("", "delete", req, func(kr kmsg.Response) {
			for _, g := range kr.(*kmsg.DeleteGroupsResponse).Groups {
				w.draw("", "group %s deleted: %s", g.Group, errorName(g.ErrorCode))
			}
		})
	}
}
