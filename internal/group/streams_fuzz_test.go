package group

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsStage is a group in the middle of a move, with everything that its
// records can hold.
func streamsStage(t *testing.T) *world {
	w := newWorld(Config{StreamsDelay: -1, StreamsStandbys: 1})
	for line := range strings.Lines(`streams topics in:4 two:3 rep:3 store:4
		streams topology "0: in [store] >rep" "1: two <rep ~"
		streams join a endpoint=hosta
		streams join b
		streams beat a owns=0:0,1,2,3;1:0,1,2/
		streams beat b owns=/
		streams join c process=pa
		streams leave c
		commit a in:0=5 gen=2 v=9`) {
		w.play(t, strings.TrimSpace(line))
	}
	return w
}

// FuzzStreamsRecords gives records of streams groups with any bytes to a shard.
// Whatever they are, it reads them or refuses them; and what it read survives
// being written again.
func FuzzStreamsRecords(f *testing.F) {
	for _, r := range streamsStage(&testing.T{}).durable {
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(value) == 0 {
			value = nil
		}
		s, now := New(Config{}, rand.New(rand.NewPCG(1, 1))), time.Unix(1_800_000_000, 0)
		if s.Apply(Record{key, value}) != nil {
			return
		}
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

// FuzzStreamsRequests gives requests of any bytes to a shard with a streams
// group in it. Each is answered at most once, and nothing panics.
func FuzzStreamsRequests(f *testing.F) {
	w := streamsStage(&testing.T{})
	beat := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = "g", "a", 3, -1
	f.Add(beat.Key(), beat.AppendTo(nil))
	beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis, beat.Topology = "z", 0, 1000, &w.streams.topology
	beat.ActiveTasks, beat.StandbyTasks, beat.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	f.Add(beat.Key(), beat.AppendTo(nil))
	beat.Group = "h"
	f.Add(beat.Key(), beat.AppendTo(nil))
	describe := kmsg.NewPtrStreamsGroupDescribeRequest()
	describe.Groups = []string{"g", "h"}
	f.Add(describe.Key(), describe.AppendTo(nil))
	f.Fuzz(func(t *testing.T, key int16, body []byte) {
		if key != beat.Key() && key != describe.Key() {
			return
		}
		w := streamsStage(t)
		for range 2 {
			req := kmsg.RequestForKey(key)
			mine := bytes.Clone(body)
			if req.ReadFrom(mine) != nil {
				return
			}
			w.request("z", "fuzz", req, func(kmsg.Response) {})
			clear(mine) // the connection reads its next request
			w.advance(10 * time.Minute)
		}
		before := snapshot(w.s)
		w.play(t, "streams restart")
		if after := snapshot(w.s); before != after {
			t.Fatalf("after a restart it is different:\n%s\n%s", before, after)
		}
		if bytes.Contains(w.paper.Bytes(), []byte("twice")) {
			t.Fatal(w.paper.String())
		}
	})
}
