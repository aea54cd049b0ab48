//go:build synctests

package rondo_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// bubble tells a story in virtual time on a broker that is not ours, as a
// second opinion.
func bubble(t *testing.T, story func(w *world)) {
	t.Helper()
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(n.Listen), kfake.SleepOutOfOrder())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		story(newWorld(t, c.ListenAddrs(), n.Dialer("app")))
	})
}

// ownBubble tells a story in virtual time on Rondo's broker.
func ownBubble(t *testing.T, story func(w *world)) {
	t.Helper()
	ownBubbleWith(t, nil, story)
}

// ownBubbleWith is ownBubble with further properties of the broker.
func ownBubbleWith(t *testing.T, properties map[string]string, story func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		all := map[string]string{"group.initial.rebalance.delay.ms": "0"}
		maps.Copy(all, properties)
		b, err := broker.Start(ctx, broker.Config{Dir: dir, Listen: "broker:9092", AllowRemote: true, ListenFunc: n.Listen, Logger: quiet(), Properties: all})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cancel()
			b.Close()
		})
		story(newWorld(t, []string{b.Addr()}, n.Dialer("app")))
	})
}

// fullPace is Kafka's defaults.
var fullPace = pace{poll: 5 * time.Minute, session: 45 * time.Second, beat: 3 * time.Second, drain: 5 * time.Second, commit: 30 * time.Second, slack: 2 * time.Second}

func TestStoriesInVirtualTime(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			ownBubble(t, func(w *world) { s.tell(w, fullPace) })
		})
	}
}

func TestStoriesOnAnotherBroker(t *testing.T) {
	for _, s := range stories {
		if slices.Contains(killed, s.name) {
			continue // kfake never expires a member that has joined and then does not sync
		}
		t.Run(s.name, func(t *testing.T) {
			bubble(t, func(w *world) { s.tell(w, fullPace) })
		})
	}
}
