package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/stub"
)

// stubCmd serves the scoring service. Its flags are the settings it starts
// with; PUT /control changes them.
type stubCmd struct {
	Listen       string        `default:"127.0.0.1:8085" env:"RONDO_STUB_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one, the address is printed."`
	Latency      time.Duration `help:"How long an answer takes."`
	RampTo       time.Duration `help:"Move the latency to this ..."`
	RampOver     time.Duration `default:"1m" help:"... in this time."`
	Tail         []string      `placeholder:"Q=DURATION" help:"Latency by quantile instead, as in --tail 0.5=20ms,0.99=2s,1=10s."`
	Fail         float64       `help:"Share of the calls that fail."`
	FailStatus   int           `default:"500" help:"Status of a failure."`
	Limit        float64       `help:"Share of the calls answered with 429."`
	MaxInFlight  int           `help:"Answer 429 to more calls than this at once, 0 is no limit."`
	RetryAfter   time.Duration `default:"1s" help:"Retry-After of a 429."`
	Hang         float64       `help:"Share of the calls that never get an answer."`
	Trickle      float64       `help:"Share of the calls whose answer comes a byte at a time."`
	TrickleEvery time.Duration `default:"1s" help:"Time between two bytes."`
	Seed         uint64        `default:"1" help:"Chooses which calls the shares and quantiles hit."`
	KeyField     string        `default:"cve" help:"JSON field of a record that is its key."`
}

// Run serves until interrupted, then prints what was served.
func (c *stubCmd) Run(ctx context.Context, t *terminal) error {
	settings, err := c.settings()
	if err != nil {
		return fail(exitUsage, err, "rondo stub --help")
	}
	server, err := stub.New(stub.Config{Settings: settings, KeyField: c.KeyField})
	if err != nil {
		return fail(exitUsage, err, "rondo stub --help")
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	fmt.Fprintf(t.out, "listening on http://%s\n", l.Addr())
	err = server.Serve(ctx, l)
	stats, marshalErr := json.Marshal(server.Stats())
	if marshalErr == nil {
		t.say("%s", stats)
	}
	return err
}

func (c *stubCmd) settings() (stub.Settings, error) {
	s := stub.Settings{
		Latency: stub.Duration(c.Latency), Fail: c.Fail, FailStatus: c.FailStatus,
		Limit: c.Limit, MaxInFlight: c.MaxInFlight, RetryAfter: stub.Duration(c.RetryAfter),
		Hang: c.Hang, Trickle: c.Trickle, TrickleEvery: stub.Duration(c.TrickleEvery), Seed: c.Seed,
	}
	if c.RampTo > 0 {
		s.Ramp = &stub.Ramp{To: stub.Duration(c.RampTo), Over: stub.Duration(c.RampOver)}
	}
	for _, point := range c.Tail {
		q, at, ok := strings.Cut(point, "=")
		share, err := strconv.ParseFloat(q, 64)
		d, durationErr := time.ParseDuration(at)
		if !ok || err != nil || durationErr != nil {
			return s, fmt.Errorf("--tail %s: want Q=DURATION, as in 0.99=2s", point)
		}
		s.Tail = append(s.Tail, stub.Quantile{Q: share, At: stub.Duration(d)})
	}
	return s, s.Check()
}
