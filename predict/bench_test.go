package predict

import (
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// Ten thousand settings a second is a tenth of a millisecond each.
func BenchmarkEvaluate(b *testing.B) {
	for _, c := range []struct {
		name string
		s    Settings
	}{
		{"fixed", Settings{Tasks: 3, Latency: Always(time.Second)}},
		{"evicted", Settings{Tasks: 3, Latency: Always(12 * time.Second), MaxPollInterval: 30 * time.Second}},
		{"fast", Settings{Tasks: 8, Latency: Always(20 * time.Millisecond)}},
		{"jump", Settings{Latency: JumpTo(time.Minute, 10*time.Millisecond, 10*time.Second), Arrival: 2}},
		{"ramp", Settings{Latency: RampTo(5*time.Minute, 0, 10*time.Second), Arrival: 2}},
		{"consumer", Settings{Kind: JavaConsumer, Latency: Always(time.Second)}},
		{"rondo", Settings{Kind: Rondo, Latency: Always(time.Second)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Evaluate(c.s)
			}
		})
	}
}

// A virtual day of the loop itself, as counter-examples run it.
func BenchmarkDay(b *testing.B) {
	s := Settings{Tasks: 3, Queued: 9000, Latency: Always(9 * time.Second)}.WithDefaults()
	b.ReportAllocs()
	for b.Loop() {
		sim.Run(s.scenario(3, 24*time.Hour))
	}
}

func BenchmarkPredict(b *testing.B) {
	for b.Loop() {
		if _, err := Predict(Settings{Tasks: 3, Latency: Always(12 * time.Second), MaxPollInterval: 30 * time.Second}); err != nil {
			b.Fatal(err)
		}
	}
}
