package group

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzReplay gives records of any bytes to a shard. Whatever they are, it reads
// them or refuses them; and what it read survives being written again.
func FuzzReplay(f *testing.F) {
	w := newWorld(Config{InitialRebalanceDelay: -1})
	t := &testing.T{}
	for _, line := range []string{
		"join a protocols=range,sticky", "join b instance=i2", "advance 0s", "sync a a=A b=B", "sync b",
		"commit a t:0=5 meta=m", "commit - group=h gen=-1 v=3 retention=1000 t:1=7", "leave a", "leave b", "delete",
	} {
		w.play(t, line)
	}
	for _, line := range []string{
		"consumer topics t:4 u:2", "consumer join n instance=i topics=t+u assignor=range", "consumer join o regex=[tu]", "advance 1s",
		"consumer beat n owns=t:0,1", "consumer beat o", "consumer eager c", "consumer leave n for=while", "consumer leave o",
	} {
		w.play(t, line)
	}
	for _, r := range w.durable {
		f.Add(r.Key, r.Value, int64(1))
	}
	f.Add([]byte{0, 9, 0, 1, 'g'}, []byte{0, 0}, int64(0))
	f.Add([]byte{0}, []byte(nil), int64(0))
	f.Fuzz(func(t *testing.T, key, value []byte, producer int64) {
		s := New(Config{}, rand.New(rand.NewPCG(1, 1)))
		if len(value) == 0 {
			value = nil
		}
		if producer%2 == 0 {
			if s.ApplyTxn(producer, Record{key, value}) == nil {
				s.ApplyMarker(producer, true)
			}
		} else if err := s.Apply(Record{key, value}); err != nil {
			return
		}
		now := time.Unix(1_800_000_000, 0)
		s.Step(now, Loaded{})
		again := New(Config{}, rand.New(rand.NewPCG(1, 1)))
		for _, g := range s.sorted() {
			for _, r := range recordsOf(g) {
				if err := again.Apply(r); err != nil {
					t.Fatalf("what was read cannot be read again: %v", err)
				}
			}
			for _, tp := range g.offsets.all() {
				if o, ok := g.offsets.get(tp); ok {
					if err := again.Apply(offsetRecord(g.id, tp, o)); err != nil {
						t.Fatalf("what was read cannot be read again: %v", err)
					}
				}
			}
		}
		again.Step(now, Loaded{})
		if a, b := snapshot(s), snapshot(again); a != b {
			t.Fatalf("written and read again it is different:\n%s\n%s", a, b)
		}
		for at, ok := s.Next(); ok && at.Before(now.Add(time.Hour)); at, ok = s.Next() {
			s.Step(at, Tick{})
		}
	})
}

// FuzzRequests gives requests of any bytes to a shard with groups in it. Each
// is answered at most once, and nothing panics.
func FuzzRequests(f *testing.F) {
	seed := func(req kmsg.Request, version int16) {
		req.SetVersion(version)
		f.Add(req.Key(), version, req.AppendTo(nil))
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 10_000, 20_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	for _, v := range []int16{0, 3, 4, 9} {
		seed(join, v)
	}
	for key := range int16(70) {
		switch req := kmsg.RequestForKey(key).(type) {
		case *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
			*kmsg.TxnOffsetCommitRequest, *kmsg.OffsetFetchRequest, *kmsg.OffsetDeleteRequest, *kmsg.DescribeGroupsRequest,
			*kmsg.ListGroupsRequest, *kmsg.DeleteGroupsRequest, *kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupDescribeRequest:
			for v := range req.MaxVersion() + 1 {
				seed(req, v)
			}
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		w := newWorld(Config{InitialRebalanceDelay: -1})
		for _, line := range []string{
			"join a", "join b instance=i2", "advance 0s", "sync a a=A b=B", "sync b", "commit a t:0=5", "ask c",
			"consumer topics t:4", "consumer join n group=k", "consumer join o group=k", "consumer beat n group=k",
		} {
			w.play(t, line)
		}
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() || !served(req) {
			return
		}
		req.SetVersion(version)
		before := bytes.Clone(body)
		if req.ReadFrom(body) != nil {
			return
		}
		w.request("z", "fuzz", req, func(kmsg.Response) {})
		clear(body) // the connection reads its next request
		w.advance(30 * time.Minute)
		w.request("z", "fuzz", reread(t, key, version, before), func(kmsg.Response) {})
		w.advance(30 * time.Minute)
		if bytes.Contains(w.paper.Bytes(), []byte("twice")) {
			t.Fatal(w.paper.String())
		}
	})
}

// served says whether an API is a group coordinator's.
func served(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
		*kmsg.TxnOffsetCommitRequest, *kmsg.OffsetFetchRequest, *kmsg.OffsetDeleteRequest, *kmsg.DescribeGroupsRequest,
		*kmsg.ListGroupsRequest, *kmsg.DeleteGroupsRequest, *kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupDescribeRequest:
		return true
	}
	return false
}

func reread(t *testing.T, key, version int16, body []byte) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if err := req.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return req
}
