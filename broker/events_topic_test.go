package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
)

// history reads what the topic of events has, as any client would.
func history(t *testing.T, b *Broker) []cause.Event {
	t.Helper()
	topic := b.catalog().topic(cause.HistoryTopic)
	if topic == nil {
		return nil
	}
	log := topic.partition(0).log
	var events []cause.Event
	for offset := log.Start(); offset < log.HighWatermark(); {
		chunks, err := log.Read(offset, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range chunks {
			err := wire.EachBatch(chunk, func(h wire.Header, batch []byte) error {
				offset = h.LastOffset() + 1
				return wire.EachRecord(batch, func(r wire.Record) error {
					e, err := cause.ParseRecord(r.Value)
					if err == nil && (string(r.Key) != e.Group || r.Timestamp != e.At.UnixMilli()) {
						t.Errorf("key %s, timestamp %d of %v", r.Key, r.Timestamp, e)
					}
					events = append(events, e)
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return cause.Settle(events)
}

// The history of causes is a topic: made with the groups' own, kept over a
// restart, and nobody else's to write or delete.
func TestEventsAreATopic(t *testing.T) {
	disk := &journal.MemFS{}
	onDisk := func(c *Config) { c.Dir, c.FS = "data", disk }
	b := startBroker(t, onDisk)
	c := dialClient(t, b)
	if topic := b.catalog().topic(cause.HistoryTopic); topic != nil {
		t.Fatal("there is a history before there are groups")
	}
	c.awaitCoordinator()
	c.join("g", 50*time.Millisecond)
	waitFor(t, "the session to end", func() bool { return len(b.Events()) == 2 })
	told := b.Events()
	if err := b.Close(); err != nil { // writes what waits
		t.Fatal(err)
	}

	b = startBroker(t, onDisk)
	got := history(t, b)
	if len(got) != 2 || got[0].Cause != cause.MemberChange || got[1].Cause != cause.SessionClock || got[1].Trigger != told[1].Trigger || !got[1].At.Equal(told[1].At) {
		t.Fatalf("the history is %v, told was %v", got, told)
	}
	topic := b.catalog().topic(cause.HistoryTopic)
	if !topic.internal || topic.settings.journal.RetentionBytes != 64<<20 || topic.settings.journal.Compact {
		t.Errorf("topic %+v", topic)
	}
	c = dialClient(t, b)
	resp := do[*kmsg.ProduceResponse](c, produceRequest(cause.HistoryTopic, 0, batchWith("x")), 9)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidTopicException.Code {
		t.Errorf("somebody else writes into it: %s", errorName(code))
	}
	c.awaitLoaded()
	c.join("g", 50*time.Millisecond)
	waitFor(t, "the history to go on", func() bool { return len(history(t, b)) == 4 })
}

// A coordinator never waits for the writer of events.
func TestEventsNeverBlock(t *testing.T) {
	b := startBroker(t)
	e := &eventsTopic{b: b, queue: make(chan *cause.Event, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	for range 3 {
		e.put(cause.Event{Group: "g", Cause: cause.PollClock})
	}
	if n := e.lost.Load(); n != 2 {
		t.Errorf("%d were left out, want 2", n)
	}
	go e.run()
	e.close()
	if got := history(t, b); len(got) != 1 {
		t.Errorf("history %v", got)
	}
}
