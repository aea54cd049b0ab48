package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// sights are the generations and epochs that clients have seen, by group.
type sights struct {
	mu   sync.Mutex
	seen map[string]map[int32]bool
}

func (s *sights) add(group string, epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[group] == nil {
		s.seen[group] = map[int32]bool{}
	}
	s.seen[group][epoch] = true
}

// ask sends a request until it is answered by a coordinator that is there.
func ask[T kmsg.Response](ctx context.Context, c *kgo.Client, req kmsg.Request, code func(T) int16) (resp T, err error) {
	err = persist(ctx, func() error {
		answer, err := c.Request(ctx, req)
		if err != nil {
			return err
		}
		resp = answer.(T)
		return kerr.ErrorForCode(code(resp))
	})
	return resp, err
}

// consumers come and go in a group of the consumer protocol, each for one heartbeat.
func (s *sights) consumers(ctx context.Context, c *kgo.Client, group string) error {
	code := func(r *kmsg.ConsumerGroupHeartbeatResponse) int16 { return r.ErrorCode }
	for n := 0; ctx.Err() == nil; n++ {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, fmt.Sprint("m", n), 60_000
		req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp, err := ask(ctx, c, req, code)
		if err != nil {
			return err
		}
		s.add(group, resp.MemberEpoch)
		leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		leave.Group, leave.MemberID, leave.MemberEpoch = group, req.MemberID, -1
		if _, err := ask(ctx, c, leave, code); err != nil && !errors.Is(err, kerr.UnknownMemberID) {
			return err
		}
	}
	return nil
}

// streams come and go in a group of the streams protocol.
func (s *sights) streams(ctx context.Context, c *kgo.Client, group string) error {
	code := func(r *kmsg.StreamsGroupHeartbeatResponse) int16 { return r.ErrorCode }
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", []string{topic}
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	topology.Subtopologies = append(topology.Subtopologies, sub)
	for n := 0; ctx.Err() == nil; n++ {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.Topology = group, fmt.Sprint("m", n), 60_000, &topology
		req.ProcessID = &req.MemberID
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		resp, err := ask(ctx, c, req, code)
		if err != nil {
			return err
		}
		s.add(group, resp.MemberEpoch)
		leave := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		leave.Group, leave.MemberID, leave.MemberEpoch, leave.RebalanceTimeoutMillis = group, req.MemberID, -1, -1
		if _, err := ask(ctx, c, leave, code); err != nil && !errors.Is(err, kerr.UnknownMemberID) {
			return err
		}
	}
	return nil
}

// rejoins is a classic member that joins its group again and again.
func (s *sights) rejoins(ctx context.Context, addr string, t *testing.T, group string) error {
	r := newReader(t, addr, [16]byte{})
	r.group = group
	for ctx.Err() == nil {
		if err := r.join(ctx); errors.Is(err, kerr.UnknownMemberID) {
			continue // the id that it was given died with the broker
		} else if err != nil {
			return err
		}
		s.add(group, r.generation)
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID, leave.Members = group, r.id, []kmsg.LeaveGroupRequestMember{{MemberID: r.id}}
		if _, err := ask(ctx, r.client, leave, func(r *kmsg.LeaveGroupResponse) int16 { return r.ErrorCode }); err != nil {
			return err
		}
	}
	return nil
}

// readHistory is what the history topic tells.
func readHistory(ctx context.Context, t *testing.T, addr string) []cause.Event {
	t.Helper()
	c := client(t, addr, kgo.ConsumeTopics(cause.HistoryTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, cause.HistoryTopic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(cause.HistoryTopic, 0)
	var records []cause.Event
	for next := int64(0); next < end.Offset && ctx.Err() == nil; {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			e, err := cause.ParseRecord(r.Value)
			if err != nil {
				t.Error(err)
			}
			records = append(records, e)
			next = r.Offset + 1
		})
	}
	return cause.Settle(records)
}

// TestKilledHistory kills a broker while members of all three protocols come and go:
// of every generation and epoch that one of them has seen the history has one event,
// and of none has it two.
func TestKilledHistory(t *testing.T) {
	p := newProcess(t)
	p.start()
	p.wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := client(t, p.addr)
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 4, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	s := &sights{seen: map[string]map[int32]bool{}}
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	work := func(do func() error) {
		workers.Go(func() {
			if err := do(); err != nil && working.Err() == nil {
				t.Error(err)
			}
		})
	}
	for i := range 2 {
		work(func() error { return s.consumers(working, c, fmt.Sprint("consumer", i)) })
		work(func() error { return s.streams(working, c, fmt.Sprint("streams", i)) })
	}
	work(func() error { return s.rejoins(working, p.addr, t, "classic") })
	for range max(*kills/4, 3) {
		time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
		p.kill()
		p.start()
		p.wait()
	}
	stop()
	workers.Wait()
	p.kill()
	p.start()
	p.wait()
	told := map[string]map[int32]int{}
	begun := 0
	for _, e := range readHistory(ctx, t, p.addr) {
		if told[e.Group] == nil {
			told[e.Group] = map[int32]int{}
		}
		if told[e.Group][e.To]++; told[e.Group][e.To] > 1 {
			t.Errorf("group %s: two events to %d", e.Group, e.To)
		}
		if e.Stage == cause.Begun {
			begun++
		}
	}
	seen := 0
	for group, epochs := range s.seen {
		for epoch := range epochs {
			if seen++; told[group][epoch] == 0 {
				t.Errorf("group %s: a client has seen %d, of which the history knows nothing", group, epoch)
			}
		}
	}
	t.Logf("%d generations and epochs seen; of %d events the end is not known", seen, begun)
	if seen < 20 {
		t.Errorf("only %d generations and epochs were seen", seen)
	}
	p.stop()
}
