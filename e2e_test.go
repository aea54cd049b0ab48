package rondo_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/broker"
)

// TestStoriesInRealTime tells every story over TCP, scaled down, on Rondo's own
// broker with its log on disk. RONDO_BOOTSTRAP=host:port tells them on any
// Apache Kafka instead; it needs no more than the right to make topics.
func TestStoriesInRealTime(t *testing.T) {
	boot := strings.Split(os.Getenv("RONDO_BOOTSTRAP"), ",")
	if boot[0] == "" {
		boot = []string{embedded(t)}
	}
	// session.timeout.ms cannot be below Kafka's group.min.session.timeout.ms,
	// which is 6 s unless it was changed.
	scaled := pace{poll: 4 * time.Second, session: 6 * time.Second, beat: 500 * time.Millisecond, drain: 500 * time.Millisecond, commit: 300 * time.Millisecond, slack: 30 * time.Second}
	for _, s := range stories {
		if slices.Contains(killed, s.name) && os.Getenv("RONDO_BOOTSTRAP") == "" {
			continue // they wait for session.timeout.ms; in virtual time that costs nothing
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(newWorld(t, boot, nil), scaled)
		})
	}
}

// embedded starts a broker on a free port.
func embedded(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b, err := broker.Start(ctx, broker.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: quiet(),
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"},
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	return b.Addr()
}
