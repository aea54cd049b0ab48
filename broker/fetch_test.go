package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionRequest asks within a session for what is named, here partition to
// offset.
func sessionRequest(id, epoch int32, offsets map[int32]int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionID, req.SessionEpoch = 1<<20, id, epoch
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "t"
	for n, offset := range offsets {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = n, offset, 1<<20, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	if len(offsets) > 0 {
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// answered lists what a response says of each partition, in order.
func answered(resp *kmsg.FetchResponse) []string {
	var out []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			s := fmt.Sprintf("%d %s watermark=%d", p.Partition, errorName(p.ErrorCode), p.HighWatermark)
			if len(p.RecordBatches) > 0 {
				s += " with records"
			}
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// A session (KIP-227): the first answer has everything, later ones what has
// changed; an error comes again until it is dealt with; partitions are added,
// moved on and forgotten by naming them.
func TestFetchSession(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 3, nil)
	produce := func(n int32) {
		t.Helper()
		do[*kmsg.ProduceResponse](c, produceRequest("t", n, batchWith("x")), 9)
	}
	ask := func(req *kmsg.FetchRequest, want ...string) int32 {
		t.Helper()
		resp := do[*kmsg.FetchResponse](c, req, 12)
		if got := answered(resp); !slices.Equal(got, want) || resp.ErrorCode != 0 {
			t.Fatalf("epoch %d: %s, %q; want %q", req.SessionEpoch, errorName(resp.ErrorCode), got, want)
		}
		return resp.SessionID
	}
	id := ask(sessionRequest(0, 0, map[int32]int64{0: 0, 1: 0}), "0 NONE watermark=0", "1 NONE watermark=0")
	if id == 0 {
		t.Fatal("no session")
	}
	ask(sessionRequest(id, 1, nil))
	produce(1)
	ask(sessionRequest(id, 2, nil), "1 NONE watermark=1 with records")
	ask(sessionRequest(id, 3, map[int32]int64{1: 1, 2: 9}), "2 OFFSET_OUT_OF_RANGE watermark=-1")
	ask(sessionRequest(id, 4, nil), "2 OFFSET_OUT_OF_RANGE watermark=-1")
	forget := sessionRequest(id, 5, nil)
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{2}}}
	ask(forget)
	produce(0)
	produce(2)
	ask(sessionRequest(id, 6, nil), "0 NONE watermark=1 with records")

	for epoch, want := range map[int32]*kerr.Error{6: kerr.InvalidFetchSessionEpoch, 9: kerr.InvalidFetchSessionEpoch} {
		if resp := do[*kmsg.FetchResponse](c, sessionRequest(id, epoch, nil), 12); resp.ErrorCode != want.Code {
			t.Errorf("epoch %d: %s", epoch, errorName(resp.ErrorCode))
		}
	}
	if resp := do[*kmsg.FetchResponse](c, sessionRequest(id, 7, nil), 13); resp.ErrorCode != kerr.FetchSessionTopicIDError.Code {
		t.Errorf("a session of names used with ids: %s", errorName(resp.ErrorCode))
	}
	ask(sessionRequest(id, -1, map[int32]int64{0: 1}), "0 NONE watermark=1")
	if resp := do[*kmsg.FetchResponse](c, sessionRequest(id, 7, nil), 12); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("after the end: %s", errorName(resp.ErrorCode))
	}
	if n := b.Stats().FetchSessions; n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// When the slots are taken by sessions in use there is no new session, and the
// fetch works all the same; a session that was left alone gives its slot up.
func TestFetchSessionSlots(t *testing.T) {
	s := newFetchSessions(17) // two for each of eight shards: 16
	now := time.Unix(1, 0)
	open := func(at time.Time) *fetchSession {
		parts, session, e := s.context(sessionRequestVersion(12), at)
		if e != nil || len(parts) != 1 {
			t.Fatal(parts, e)
		}
		return session
	}
	for i := range 16 {
		if open(now.Add(time.Duration(i))) == nil {
			t.Fatalf("no session %d", i)
		}
	}
	if open(now.Add(sessionGrace)) != nil {
		t.Error("a session in use lost its slot")
	}
	if open(now.Add(sessionGrace+1)) == nil || s.count() != 16 {
		t.Errorf("no slot was given up; %d sessions", s.count())
	}
}

func sessionRequestVersion(v int16) *kmsg.FetchRequest {
	req := sessionRequest(0, 0, map[int32]int64{0: 0})
	req.Version = v
	return req
}

// Under a limit on bytes every partition of a session has its turn.
func TestFetchSessionIsFair(t *testing.T) {
	c := dialClient(t, startBroker(t))
	c.makeTopic("t", 3, nil)
	for n := range int32(3) {
		for range 3 {
			do[*kmsg.ProduceResponse](c, produceRequest("t", n, batchWith("x")), 9)
		}
	}
	first := sessionRequest(0, 0, map[int32]int64{0: 0, 1: 0, 2: 0})
	first.MaxBytes = 1
	resp := do[*kmsg.FetchResponse](c, first, 12)
	served := map[int32]int{}
	for epoch := int32(1); epoch <= 9; epoch++ {
		for _, p := range resp.Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				served[p.Partition]++
			}
		}
		next := sessionRequest(resp.SessionID, epoch, nil)
		next.MaxBytes = 1
		resp = do[*kmsg.FetchResponse](c, next, 12)
	}
	for n := range int32(3) {
		if served[n] != 3 {
			t.Errorf("turns by partition: %v, want 3 each", served)
			break
		}
	}
}

// A fetch waits for as many bytes as it wants, or until its time is up; an
// append wakes it, an error does not let it wait.
func TestLongPoll(t *testing.T) {
	b := startBroker(t)
	c, other := dialClient(t, b), dialClient(t, b)
	c.makeTopic("t", 1, nil)
	began := time.Now()
	if resp := do[*kmsg.FetchResponse](c, fetchRequest("t", 0, 0, 50*time.Millisecond), 12); len(values(t, resp)) != 0 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), answered(resp))
	}
	for _, minBytes := range []int32{1, 200} {
		long := fetchRequest("t", 0, b.catalog().topic("t").partition(0).log.End(), time.Hour)
		long.MinBytes = minBytes
		long.SetVersion(12)
		id := c.send(long)
		for range 3 {
			do[*kmsg.ProduceResponse](other, produceRequest("t", 0, batchWith("x")), 9)
		}
		resp, err := c.receive(long, id)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if len(got) < int(minBytes) {
			t.Errorf("%d bytes, wanted %d", len(got), minBytes)
		}
	}
	if resp := do[*kmsg.FetchResponse](c, fetchRequest("t", 0, 99, time.Hour), 12); answered(resp)[0] != "0 OFFSET_OUT_OF_RANGE watermark=-1" {
		t.Errorf("out of range: %v", answered(resp))
	}
}

// A topic that is deleted under a long poll ends it.
func TestDeletedTopicEndsALongPoll(t *testing.T) {
	b := startBroker(t)
	c, other := dialClient(t, b), dialClient(t, b)
	c.makeTopic("t", 1, nil)
	long := fetchRequest("t", 0, 0, time.Hour)
	long.SetVersion(12)
	id := c.send(long)
	time.Sleep(5 * time.Millisecond)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"t"}
	do[*kmsg.DeleteTopicsResponse](other, remove, 5)
	resp, err := c.receive(long, id)
	if err != nil {
		t.Fatal(err)
	}
	if got := answered(resp.(*kmsg.FetchResponse)); got[0] != "0 UNKNOWN_TOPIC_OR_PARTITION watermark=-1" {
		t.Errorf("answer %v", got)
	}
}
