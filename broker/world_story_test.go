//go:build synctests

package broker

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// What random worlds have found, one story each.

// tell plays a story in a world of three brokers.
func tell(t *testing.T, story func(t *testing.T, w *world)) {
	memnet.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.n = 3
		w.start()
		story(t, w)
		for _, c := range w.calls {
			c.hangUp()
		}
		if err := w.b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// restart ends the process and starts the next one.
func (w *world) restart() {
	for _, c := range w.calls {
		c.hangUp()
	}
	w.fs.Kill()
	w.b.Close() //nolint:errcheck // its files are gone
	w.fs.Start()
	w.start()
}

// breakWhen makes every change of the disk fail while it holds.
func (w *world) breakWhen(holds func() bool) {
	w.breakAt(func(op journal.Op) bool { return op.Changes() && holds() })
}

// breakAt makes the operations fail that it says.
func (w *world) breakAt(fails func(journal.Op) bool) {
	hook := func(op journal.Op) error {
		if fails(op) {
			return syscall.EIO
		}
		return nil
	}
	w.hook.Store(&hook)
}

func (w *world) removeTopic(name string) int16 {
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &name
	req.Topics = append(req.Topics, rt)
	resp, err := ask[*kmsg.DeleteTopicsResponse](w.calls[0], req, 6)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Topics[0].ErrorCode
}

// The disk fails after a topic has been deleted and before its partitions have
// been removed: they are when the disk is well, and do not fill it until the
// broker is started again.
func TestRemovalIsTriedAgain(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		w.create("t", 2, nil)
		broken.Store(true)
		w.breakWhen(func() bool { return broken.Load() && w.b.catalog().topic("t") == nil })
		if code := w.removeTopic("t"); code != 0 {
			t.Fatal(errorName(code))
		}
		if n := len(w.b.journal.Partitions()); n != 3 {
			t.Fatalf("%d partitions, want those of t and the metadata", n)
		}
		broken.Store(false)
		w.settle()
		w.checkOrphans()
	})
}

// The disk fails while partitions are added, and while those that were made are
// taken back: they are not in the way when it is tried again.
func TestGrowAgain(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		grow := func() int16 {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 2}}
			resp, err := ask[*kmsg.CreatePartitionsResponse](w.calls[0], req, 3)
			if err != nil {
				t.Fatal(err)
			}
			return resp.Topics[0].ErrorCode
		}
		var broken atomic.Bool
		w.create("t", 1, nil)
		broken.Store(true)
		w.breakWhen(func() bool { return broken.Load() && len(w.b.journal.Partitions()) == 3 })
		if code := grow(); code != kerr.KafkaStorageError.Code {
			t.Fatal(errorName(code))
		}
		broken.Store(false)
		if code := grow(); code != 0 {
			t.Errorf("on a disk that is well: %s", errorName(code))
		}
	})
}

// The tombstones of the offsets of a deleted topic are lost with the disk, or with
// the process: they are written later, and a topic of the same name does not begin
// with the old offsets.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	for _, killed := range []bool{false, true} {
		tell(t, func(t *testing.T, w *world) {
			var broken atomic.Bool
			w.create("t", 1, nil)
			at := worldOffset{"g", "t", 0}
			w.await("commit", func() error { return w.commitAt(at, 7) })
			id := journal.ID{Topic: w.topics["t"].id}
			broken.Store(true)
			w.breakWhen(func() bool {
				return broken.Load() && w.b.catalog().topic("t") == nil && w.b.journal.Partition(id) == nil
			})
			if code := w.removeTopic("t"); code != 0 {
				t.Fatal(errorName(code))
			}
			time.Sleep(time.Millisecond) // the coordinator has tried
			broken.Store(false)
			if killed {
				w.restart()
			}
			delete(w.topics, "t")
			w.await("create", func() error { return w.refusal(w.create("t", 1, nil)) })
			if has, err := w.fetchOffsets("g"); err == nil && has[at] > 0 {
				t.Errorf("right away the new topic begins at %d", has[at])
			}
			w.settle()
			if has, err := w.fetchOffsets("g"); err != nil || len(has) > 0 {
				t.Errorf("the new topic begins with %v %v", has, err)
			}
			w.await("commit", func() error { return w.commitAt(at, 3) })
			w.settle()
			if has, err := w.fetchOffsets("g"); err != nil || has[at] != 3 {
				t.Errorf("what the new topic was committed at: %v %v", has, err)
			}
		})
	}
}

// The disk cannot be read while a coordinator loads its log: it is read again, and
// the groups are not refused until the broker is started again.
func TestCoordinatorLoadsAgain(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		w.create("t", 1, nil)
		at := worldOffset{"g", "t", 0}
		w.await("commit", func() error { return w.commitAt(at, 7) })
		w.restart()
		w.breakAt(func(op journal.Op) bool { return op.Name == "read" && broken.Load() })
		broken.Store(true)
		n := group.PartitionFor("g", 5)
		for to := range int32(3) {
			if code, err := w.tryReassign(offsetsTopicName, n, to+1); code != 0 || err != nil {
				t.Fatal(errorName(code), err)
			}
		}
		time.Sleep(time.Second)
		if _, err := w.fetchOffsets("g"); err == nil {
			t.Fatal("the log was not read again after the move")
		}
		broken.Store(false)
		w.settle()
		if has, err := w.fetchOffsets("g"); err != nil || has[at] != 7 {
			t.Errorf("on a disk that is well: %v %v", has, err)
		}
	})
}

// The history cannot be written, for its topic cannot be made: the causes are in it
// when the disk is well.
func TestHistoryIsWrittenLater(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		w.create("t", 1, nil)
		w.breakWhen(func() bool { return broken.Load() })
		broken.Store(true)
		w.b.groups.told.put(cause.Event{Group: "g", From: 0, To: 1, Cause: cause.PollClock, At: time.Now()})
		time.Sleep(time.Second)
		broken.Store(false)
		w.settle()
		if got := history(t, w.b); len(got) != 1 || got[0].To != 1 {
			t.Errorf("history %v", got)
		}
	})
}
