package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/rondo-streams/rondo/internal/journal"
)

// A wrong setting stops the start, and the error says what is wrong with it
// and which name may have been meant.
func TestSettingsErrors(t *testing.T) {
	for given, want := range map[string]string{
		"group.inital.rebalance.delay.ms=0":             "did you mean group.initial.rebalance.delay.ms?",
		"Auto.create.topics.enable=true":                "did you mean auto.create.topics.enable?",
		"zzz=1":                                         "Apache Kafka 4.2 has no such broker property",
		"num.partitions=many":                           "Not a number of type INT",
		"num.partitions=0":                              "the value must be at least 1",
		"auto.create.topics.enable=maybe":               "Expected value to be either true or false",
		"default.replication.factor=3":                  "a single node has one replica",
		"log.cleanup.policy=burn":                       "String must be one of: compact, delete",
		"group.min.session.timeout.ms=9999999":          "above group.max.session.timeout.ms",
		"log.message.timestamp.type=Whenever":           "String must be one of: CreateTime, LogAppendTime",
		"max.incremental.fetch.session.cache.slots=-1":  "the value must be at least 0",
		"log.cleaner.min.cleanable.ratio=2":             "Value must be no more than 1",
		"group.initial.rebalance.delay.ms=3000000000":   "Not a number of type INT",
		"offsets.retention.check.interval.ms=yesterday": "Not a number of type LONG",
	} {
		name, value, _ := strings.Cut(given, "=")
		_, err := Start(context.Background(), Config{Dir: "data", FS: &journal.MemFS{}, Listen: "127.0.0.1:0", Properties: map[string]string{name: value}})
		var mistake *ConfigError
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) || !errors.As(err, &mistake) {
			t.Errorf("%s: %v, want a ConfigError with %q", given, err, want)
		}
	}
}

// What matters to a cluster only is accepted, with the reason why it has no
// effect; what matters is not on that list.
func TestSettingsIgnored(t *testing.T) {
	s, err := parseSettings(map[string]string{
		"broker.session.timeout.ms": "120000", "offsets.topic.replication.factor": "3", "ssl.protocol": "TLSv1.3",
		"num.partitions": "7", "group.consumer.max.size": "2", "log.dirs": "/data",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"broker.session.timeout.ms":        "single node",
		"offsets.topic.replication.factor": "single node",
		"ssl.protocol":                     "plaintext",
		"log.dirs":                         "Config",
		"num.partitions":                   "",
	} {
		if got := s.ignored()[name]; why == "" && got != "" || !strings.Contains(got, why) {
			t.Errorf("%s is ignored because %q, want %q", name, got, why)
		}
	}
}

// Every default of the table can be parsed and passes its own checks.
func TestSettingsDefaults(t *testing.T) {
	s, err := parseSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.table) < 300 {
		t.Errorf("the table has %d properties", len(s.table))
	}
	for name, p := range s.table {
		if p.kind == 0 {
			t.Errorf("%s has no type", name)
		}
		if msg := checkValue(p.kind, p.value); msg != "" && !p.null {
			t.Errorf("the default of %s is %q: %s", name, p.value, msg)
		}
	}
	for _, d := range topicConfigs() {
		if _, ok := s.table[d.broker]; d.broker != "" && !ok {
			t.Errorf("topic config %s: no broker property %s", d.name, d.broker)
		}
	}
}

// Times in coarser units count when the finer one is not set.
func TestTopicDefaults(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  int64
	}{
		{nil, 7 * 24 * 3_600_000},
		{map[string]string{"log.retention.hours": "1"}, 3_600_000},
		{map[string]string{"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000},
		{map[string]string{"log.retention.minutes": "2", "log.retention.ms": "3"}, 3},
		{map[string]string{"log.retention.hours": "-1"}, -1},
	} {
		s, err := parseSettings(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := (configView{static: s}).settingsOf(nil).journal.RetentionMs; got != c.want {
			t.Errorf("%v: retention.ms %d, want %d", c.given, got, c.want)
		}
	}
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.9.9.9:1": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "10.1.2.3:0": false, "example.org:0": false, "nonsense": false,
	} {
		if err := checkLoopback(addr, false); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := checkLoopback("0.0.0.0:0", true); err != nil {
		t.Error(err)
	}
}

// A second broker on the same directory is refused and leaves the first alone;
// a port in use is an error that names it, and gives the directory free again.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(c *Config) { c.Dir = dir })
	if _, err := Start(context.Background(), Config{Dir: dir, Listen: "127.0.0.1:0"}); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("second broker: %v", err)
	}
	dialClient(t, b).makeTopic("t", 1, nil)
	other := t.TempDir()
	if _, err := Start(context.Background(), Config{Dir: other, Listen: b.Addr()}); err == nil || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("port in use: %v", err)
	}
	startBroker(t, func(c *Config) { c.Dir = other })
	if _, err := Start(context.Background(), Config{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("started without a directory")
	}
	if _, err := Start(context.Background(), Config{Dir: other, ClusterID: "x", Listen: "127.0.0.1:0"}); err == nil {
		t.Error("started on a directory in use")
	}
}

// Clients are told the advertised address; the cluster's id can be chosen once.
func TestAdvertiseAndClusterID(t *testing.T) {
	fs := &journal.MemFS{}
	open := func(id string) func(*Config) {
		return func(c *Config) {
			c.Dir, c.FS, c.ClusterID, c.Advertise, c.Rack = "data", fs, id, "broker.example:1234", "r1"
		}
	}
	b := startBroker(t, open("mine"))
	if host, port, err := net.SplitHostPort(b.Addr()); err != nil || host != "broker.example" || port != "1234" {
		t.Errorf("advertised %s, %v", b.Addr(), err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(context.Background(), Config{Dir: "data", FS: fs, ClusterID: "yours", Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Errorf("another cluster's data: %v", err)
	}
	if b := startBroker(t, open("")); b.catalog().clusterID != "mine" {
		t.Errorf("the cluster is %s after a restart", b.catalog().clusterID)
	}
}

// Start ends with its context.
func TestContextEndsTheBroker(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b, err := Start(ctx, Config{Dir: "data", FS: &journal.MemFS{}, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	waitFor(t, "the listener to close", func() bool {
		nc, err := net.Dial("tcp", b.Addr())
		if err == nil {
			nc.Close() //nolint:errcheck // only a probe
		}
		return err != nil
	})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
