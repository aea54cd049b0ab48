//go:build synctests

package rondo_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rondo-streams/rondo"
)

// inflated is a topology whose output of record 2 has 200,000 bytes, into a
// topic that takes messages of limit bytes.
func (w *world) inflated(name, limit string) (t *rondo.Topology, in, out string) {
	w.t.Helper()
	in, out = w.topic(name+"-in", 1), w.topic(name+"-out", 1)
	w.fill(in, 1, 0, 4, one)
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}
	if _, err := kadm.NewClient(w.client).AlterTopicConfigs(context.Background(), change, out); err != nil {
		w.t.Fatal(err)
	}
	b := rondo.New(name + w.suffix)
	b.From(text(in)).MapValues(func(v string) string {
		if v == "2" {
			return strings.Repeat("2", 200_000)
		}
		return v
	}).To(text(out))
	t, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	return t, in, out
}

// TestProductionHandler: the broker refuses one output. The handler asks for
// another try, and then gives it up; the input record goes to the dead-letter
// topic, and all others are written.
func TestProductionHandler(t *testing.T) {
	ownBubble(t, func(w *world) {
		topology, in, out := w.inflated("refused", "100000")
		dead := w.topic("refused-dead", 1)
		var asked atomic.Int32
		app := w.run(topology, fullPace.options(rondo.Set("errors.dead.letter.queue.topic.name", dead),
			rondo.OnProductionError(func(topic string, r rondo.FailedRecord) rondo.Response {
				if topic != out || r.Topic != in || r.Offset != 2 || string(r.Value) != "2" || !errors.Is(r.Err, kerr.MessageTooLarge) {
					t.Errorf("asked about %s and %+v", topic, r)
				}
				if asked.Add(1) == 1 {
					return rondo.Retry
				}
				return rondo.Continue
			}))...)
		eventually(t, 2*time.Minute, "all committed", func() bool { return sum(w.committed("refused"+w.suffix, in)) == 4 })
		app.stop()
		letters := w.read(dead)
		if len(letters) != 1 || header(letters[0], rondo.HeaderErrorCause) != "production" || header(letters[0], rondo.HeaderErrorOffset) != "2" || string(letters[0].Value) != "2" {
			t.Errorf("dead letters %v", letters)
		}
		if n := len(w.read(out)); n != 3 || asked.Load() != 2 {
			t.Errorf("%d outputs, asked %d times", n, asked.Load())
		}
	})
}

// TestProductionFails: without a handler a refused output ends the App with an
// error that names it, and its input is not committed.
func TestProductionFails(t *testing.T) {
	ownBubble(t, func(w *world) {
		topology, in, out := w.inflated("fails", "100000")
		app := w.run(topology, fullPace.options()...)
		<-app.ended
		var about *rondo.RecordError
		if !errors.As(app.err, &about) || about.Op != "produce to "+out || about.Offset != 2 || !errors.Is(app.err, kerr.MessageTooLarge) || !strings.Contains(app.err.Error(), "OnProductionError") {
			t.Errorf("Run: %v", app.err)
		}
		if n := sum(w.committed("fails"+w.suffix, in)); n != 2 {
			t.Errorf("committed %d, want the two before it", n)
		}
	})
}

// TestBatchSizeBoundsNoRecord: Kafka's batch.size says when a batch is full, not
// how large a record may be.
func TestBatchSizeBoundsNoRecord(t *testing.T) {
	ownBubble(t, func(w *world) {
		topology, in, out := w.inflated("batch", "1048588")
		app := w.run(topology, fullPace.options(rondo.Set("batch.size", "16384"))...)
		eventually(t, 2*time.Minute, "all committed, or the end", func() bool {
			select {
			case <-app.ended:
				return true
			default:
				return sum(w.committed("batch"+w.suffix, in)) == 4
			}
		})
		if n := len(w.read(out)); n != 4 {
			t.Errorf("%d outputs", n)
		}
	})
}
