package rondo_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/internal/secure"
)

// TestStoriesInRealTime tells every story over TCP, scaled down, on Rondo's own
// broker with its log on disk. RONDO_BOOTSTRAP=host:port tells them on any
// Apache Kafka instead; it needs no more than the right to make topics.
// RONDO_SETTINGS are settings of TLS and SASL for it, a NAME=VALUE a line.
func TestStoriesInRealTime(t *testing.T) {
	boot := strings.Split(os.Getenv("RONDO_BOOTSTRAP"), ",")
	if boot[0] == "" {
		boot = []string{embedded(t)}
	}
	// session.timeout.ms cannot be below Kafka's group.min.session.timeout.ms,
	// which is 6 s unless it was changed.
	scaled := pace{poll: 4 * time.Second, session: 6 * time.Second, beat: 500 * time.Millisecond, drain: 500 * time.Millisecond, commit: 300 * time.Millisecond, slack: 30 * time.Second}
	settings := map[string]string{}
	for line := range strings.Lines(os.Getenv("RONDO_SETTINGS")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		settings[name] = value
	}
	transport, err := secure.New(settings)
	if err != nil {
		t.Fatalf("RONDO_SETTINGS: %v", err)
	}
	for _, s := range stories {
		if slices.Contains(killed, s.name) && os.Getenv("RONDO_BOOTSTRAP") == "" {
			continue // they wait for session.timeout.ms; in virtual time that costs nothing
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, boot, nil, transport.Options(nil)...)
			w.secure = []rondo.Option{rondo.Properties(settings)}
			s.tell(w, scaled)
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
