package rondo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/secure"
	"github.com/rondo-streams/rondo/internal/spell"
)

// Option configures an App.
type Option func(*config)

// Set sets one setting by Kafka's own name, for example
// Set("max.poll.interval.ms", "120000"). Times are milliseconds as in Kafka, or
// Go durations such as "2m". The prefixes consumer., main.consumer. and
// producer. are understood. An unknown name is an error of NewApp that says
// which known name is nearest; Settings lists all of them.
func Set(name, value string) Option { return func(c *config) { c.set(name, value) } }

// Properties sets many settings.
func Properties(p map[string]string) Option {
	return func(c *config) {
		names := make([]string, 0, len(p))
		for name := range p {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			c.set(name, p[name])
		}
	}
}

// Bootstrap sets bootstrap.servers.
func Bootstrap(hostports ...string) Option {
	return Set("bootstrap.servers", strings.Join(hostports, ","))
}

// WithLogger sets where the App logs. The default is slog.Default.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		if l != nil {
			c.logger = l
		}
	}
}

// WithDialer sets how connections to brokers are opened. The default is TCP.
func WithDialer(dial func(ctx context.Context, network, hostport string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// OnDeserializationError sets the deserialization handler; the default is
// Fail.
func OnDeserializationError(h DeserializationHandler) Option {
	return func(c *config) { c.deserialization = h }
}

// OnProcessingError sets the processing handler; the default is Fail.
func OnProcessingError(h ProcessingHandler) Option { return func(c *config) { c.processing = h } }

// OnProductionError sets the production handler; the default is Fail.
func OnProductionError(h ProductionHandler) Option { return func(c *config) { c.production = h } }

// OnUncaughtError sets the handler of threads that ended with an error; the
// default is ShutdownClient.
func OnUncaughtError(h UncaughtHandler) Option { return func(c *config) { c.uncaught = h } }

// config is the sum of all options.
type config struct {
	values  map[string]string // by bare name, as they were set
	ignored []Ignored
	errs    []error
	secure  secure.Transport

	logger          *slog.Logger
	dial            func(ctx context.Context, network, hostport string) (net.Conn, error)
	deserialization DeserializationHandler
	processing      ProcessingHandler
	production      ProductionHandler
	uncaught        UncaughtHandler
}

// Ignored is a known setting that was set and has no effect.
type Ignored struct{ Name, Value, Reason string }

// Setting describes one setting that an App understands.
type Setting struct {
	Name    string
	Default string // as Set would take it
	Help    string
	Ignored string // why it has no effect; empty for settings that have one
}

// Settings lists every setting in the order in which they are documented.
func Settings() []Setting {
	keys := settingKeys()
	out := make([]Setting, len(keys))
	for i, k := range keys {
		out[i] = Setting{k.name, k.def, k.help, k.ignored}
	}
	return out
}

func newConfig(app string, opts []Option) (*config, error) {
	c := &config{values: map[string]string{"application.id": app}, logger: slog.Default()}
	for _, o := range opts {
		o(c)
	}
	c.check()
	return c, errors.Join(c.errs...)
}

func (c *config) set(name, value string) {
	bare := name
	for _, prefix := range []string{"main.consumer.", "consumer.", "producer.", "admin."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			bare = rest
			break
		}
	}
	k, ok := findKey(bare)
	switch {
	case !ok:
		c.errs = append(c.errs, fmt.Errorf("setting %.100q is unknown: did you mean %q?", name, nearest(bare)))
		return
	case k.ignored != "":
		c.ignored = append(c.ignored, Ignored{name, value, k.ignored})
		return
	}
	if err := k.check(value); err != nil {
		if secure.Secret(bare) {
			value = "(hidden)"
		}
		c.errs = append(c.errs, fmt.Errorf("setting %s=%.100q: %w", name, value, err))
		return
	}
	c.values[bare] = value
}

// check holds settings against each other.
func (c *config) check() {
	if c.text("bootstrap.servers") == "" {
		c.errs = append(c.errs, errors.New("setting bootstrap.servers is missing: where is the cluster? rondo.Bootstrap(\"127.0.0.1:9092\")"))
	}
	var err error
	if c.secure, err = secure.New(c.values); err != nil {
		c.errs = append(c.errs, err)
	}
	if h, s := c.duration("heartbeat.interval.ms"), c.duration("session.timeout.ms"); h >= s {
		c.errs = append(c.errs, fmt.Errorf("heartbeat.interval.ms (%s) must be below session.timeout.ms (%s), usually a third of it", h, s))
	}
	if d, m := c.duration("drain.timeout.ms"), c.duration("max.poll.interval.ms"); d >= m {
		c.errs = append(c.errs, fmt.Errorf("drain.timeout.ms (%s) must be below max.poll.interval.ms (%s), which is how long the group waits for a member to hand partitions over", d, m))
	}
}

func (c *config) text(name string) string {
	if v, ok := c.values[name]; ok {
		return v
	}
	k, ok := findKey(name)
	if !ok {
		panic("rondo: setting " + name + " is not in the table")
	}
	return k.def
}

func (c *config) duration(name string) time.Duration {
	d, err := parseDuration(c.text(name))
	if err != nil {
		return 0 // set refused it, and NewApp reports that
	}
	return d
}

func (c *config) number(name string) int {
	n, err := strconv.Atoi(c.text(name))
	if err != nil {
		return 0
	}
	return n
}

func (c *config) servers() []string {
	var out []string
	for _, s := range strings.Split(c.text("bootstrap.servers"), ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// parseDuration reads Kafka's milliseconds or a Go duration.
func parseDuration(s string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms < 0 || ms > int64(1<<62)/int64(time.Millisecond) {
			return 0, errors.New("want milliseconds from 0 on")
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("want milliseconds such as 300000, or a duration such as 5m")
	}
	return d, nil
}

// nearest is the known setting that takes the fewest changes to reach.
func nearest(name string) string {
	best, _ := spell.Nearest(name, func(yield func(string) bool) {
		for _, k := range settingKeys() {
			if !yield(k.name) {
				return
			}
		}
	})
	return best
}
