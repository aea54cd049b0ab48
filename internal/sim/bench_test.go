package sim

import (
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/loop"
)

// A virtual day of one task must stay in the order of a millisecond, so that
// predictions can try thousands of settings.
func BenchmarkDay(b *testing.B) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		sc   Scenario
	}{
		{"streams42/10s", Scenario{Policy: Streams42, Feeds: []Feed{{Total: 9000}}, Latency: Fixed(10 * time.Second)}},
		{"streams42/12s-evicted", Scenario{Policy: Streams42, Partitions: 3, Feeds: []Feed{{Total: 60}}, Latency: Fixed(12 * time.Second),
			Settings: loop.Settings{MaxPollInterval: 30 * time.Second}}},
		{"streams42/idle", Scenario{Policy: Streams42}},
		{"percall/10s", Scenario{Feeds: []Feed{{Total: 9000}}, Latency: Fixed(10 * time.Second)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.sc.For = day
			b.ReportAllocs()
			for b.Loop() {
				Run(c.sc)
			}
		})
	}
}
