package journal

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rondo-streams/rondo/internal/wire"
)

// TestFailureBehindARemoval removes a partition while an idempotent producer
// writes to it, and then the disk fails: what is taken back of its producers is
// of a table that is gone.
func TestFailureBehindARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &MemFS{}
		var failing atomic.Bool
		m.Before = func(op Op) error {
			if failing.Load() && op.Name == "write" && strings.Contains(op.Path, journalDir) {
				return errInjected
			}
			return nil
		}
		l, err := Open(testConfig(m))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		id := ID{topicID(1), 0}
		p, err := l.Create(id, DefaultSettings())
		if err != nil {
			t.Fatal(err)
		}
		batch := func(seq int32) Append {
			o := wire.BatchOptions{Idempotent: true, ProducerID: 7, BaseSequence: seq}
			return Append{Batches: wire.AppendBatch(nil, o, wire.Record{Value: []byte("x")})}
		}
		appendWait(p, batch(0))
		gate := make(chan struct{})
		p.Append(batch(1), func(Result) { <-gate })
		synctest.Wait()
		// The next group is the removal alone, and the one behind it fails.
		p.Wait(p.HighWatermark(), func() { failing.Store(true) })
		done := make(chan Result, 1)
		if err := l.enqueue(pending{kind: kindRemove, p: p, urgent: true, control: func(error) {}}); err != nil {
			t.Fatal(err)
		}
		large := batch(2)
		large.Batches = wire.AppendBatch(nil, wire.BatchOptions{Idempotent: true, ProducerID: 7, BaseSequence: 2},
			wire.Record{Value: make([]byte, groupBytes)})
		p.Append(large, func(r Result) { done <- r })
		close(gate)
		if r := <-done; !errors.Is(r.Err, ErrFull) {
			t.Fatal(r.Err)
		}
	})
}
