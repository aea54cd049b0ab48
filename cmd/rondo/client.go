package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rondo-streams/rondo/internal/spell"
)

// clientFlags are the flags of every verb that talks to a cluster.
type clientFlags struct {
	Bootstrap  []string      `name:"bootstrap-server" short:"b" aliases:"brokers" default:"127.0.0.1:9092" env:"RONDO_BOOTSTRAP_SERVER,KAFKA_BOOTSTRAP_SERVERS,BOOTSTRAP_SERVERS" placeholder:"HOST:PORT" help:"Brokers to start from (${env})."`
	X          []string      `name:"property" short:"X" sep:"none" placeholder:"NAME=VALUE" help:"Client setting under Kafka's name; may be repeated."`
	Properties string        `aliases:"command-config" env:"RONDO_PROPERTIES" placeholder:"FILE" help:"Properties file with client settings."`
	Timeout    time.Duration `default:"5s" type:"milliseconds" env:"RONDO_TIMEOUT" help:"How long to wait for the cluster's first answer; a number alone is milliseconds."`

	member []kgo.Opt // of a member of a group; groupSettings then count, and win
}

// decodeMilliseconds reads a duration, or milliseconds as Kafka's tools have
// them.
func decodeMilliseconds(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if ms, numberErr := strconv.ParseInt(text, 10, 32); numberErr == nil {
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("want a duration such as 5s, or milliseconds, but got %q", text)
	}
	target.SetInt(int64(d))
	return nil
}

// security collects the settings that only mean something together.
type security struct {
	protocol, mechanism, user, password string
	ca, cert, key                       string
}

// clientSetting turns one Kafka setting into options of the client.
type clientSetting func(value string, s *security) ([]kgo.Opt, error)

func one(o kgo.Opt) []kgo.Opt { return []kgo.Opt{o} }

func milliseconds(option func(time.Duration) kgo.Opt) clientSetting {
	return func(v string, _ *security) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("want milliseconds, a whole number from 0")
		}
		return one(option(time.Duration(n) * time.Millisecond)), nil
	}
}

func size[O kgo.Opt](option func(int32) O) clientSetting {
	return func(v string, _ *security) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want bytes, a whole number from 1")
		}
		return one(option(int32(n))), nil
	}
}

func choice(options map[string][]kgo.Opt) clientSetting {
	return func(v string, _ *security) ([]kgo.Opt, error) {
		o, ok := options[strings.ToLower(v)]
		if !ok {
			return nil, fmt.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		return o, nil
	}
}

func keep(field func(*security) *string) clientSetting {
	return func(v string, s *security) ([]kgo.Opt, error) {
		*field(s) = v
		return nil, nil
	}
}

// clientSettings are the settings that produce and consume understand, under
// the names of Kafka's clients; sasl.username and sasl.password are those of
// librdkafka, where Java has sasl.jaas.config.
func clientSettings() map[string]clientSetting {
	codecs := map[string][]kgo.Opt{}
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		codecs[name] = one(kgo.ProducerBatchCompression(codec))
	}
	leader := []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}
	none := []kgo.Opt{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()}
	all := one(kgo.RequiredAcks(kgo.AllISRAcks()))
	return map[string]clientSetting{
		"acks":                      choice(map[string][]kgo.Opt{"all": all, "-1": all, "1": leader, "0": none}),
		"enable.idempotence":        choice(map[string][]kgo.Opt{"true": nil, "false": one(kgo.DisableIdempotentWrite())}),
		"compression.type":          choice(codecs),
		"batch.size":                size(kgo.ProducerBatchMaxBytes),
		"linger.ms":                 milliseconds(func(d time.Duration) kgo.Opt { return kgo.ProducerLinger(d) }),
		"delivery.timeout.ms":       milliseconds(func(d time.Duration) kgo.Opt { return kgo.RecordDeliveryTimeout(d) }),
		"request.timeout.ms":        milliseconds(kgo.RequestTimeoutOverhead),
		"metadata.max.age.ms":       milliseconds(kgo.MetadataMaxAge),
		"fetch.max.wait.ms":         milliseconds(func(d time.Duration) kgo.Opt { return kgo.FetchMaxWait(d) }),
		"fetch.min.bytes":           size(kgo.FetchMinBytes),
		"fetch.max.bytes":           size(kgo.FetchMaxBytes),
		"max.partition.fetch.bytes": size(kgo.FetchMaxPartitionBytes),
		"isolation.level": choice(map[string][]kgo.Opt{
			"read_committed":   one(kgo.FetchIsolationLevel(kgo.ReadCommitted())),
			"read_uncommitted": one(kgo.FetchIsolationLevel(kgo.ReadUncommitted())),
		}),
		"client.id":   func(v string, _ *security) ([]kgo.Opt, error) { return one(kgo.ClientID(v)), nil },
		"client.rack": func(v string, _ *security) ([]kgo.Opt, error) { return one(kgo.Rack(v)), nil },

		"security.protocol":        keep(func(s *security) *string { return &s.protocol }),
		"sasl.mechanism":           keep(func(s *security) *string { return &s.mechanism }),
		"sasl.username":            keep(func(s *security) *string { return &s.user }),
		"sasl.password":            keep(func(s *security) *string { return &s.password }),
		"ssl.ca.location":          keep(func(s *security) *string { return &s.ca }),
		"ssl.certificate.location": keep(func(s *security) *string { return &s.cert }),
		"ssl.key.location":         keep(func(s *security) *string { return &s.key }),
	}
}

// options reads file, environment and -X flags into options of the client.
func (f *clientFlags) options(t *terminal) ([]kgo.Opt, error) {
	settings := clientSettings()
	if len(f.member) > 0 {
		maps.Copy(settings, groupSettings())
	}
	known := slices.Sorted(maps.Keys(settings))
	file, err := readProperties(f.Properties)
	if err != nil {
		return nil, err
	}
	flags, err := parsePairs(f.X)
	if err != nil {
		return nil, err
	}
	bootstrap := f.Bootstrap
	properties := layer(file, environProperties(t.environ, known), flags)
	if servers, ok := properties["bootstrap.servers"]; ok {
		bootstrap = strings.Split(servers, ",")
		delete(properties, "bootstrap.servers")
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.ClientID("rondo"),
		kgo.RecordDeliveryTimeout(2 * time.Minute), // Kafka's default of delivery.timeout.ms; franz-go's is for ever
	}
	opts = append(opts, f.member...)
	var s security
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		set, ok := settings[name]
		if !ok && groupSettings()[name] != nil {
			return nil, fail(exitUsage, fmt.Errorf("setting %s: of members of a group only", name), "rondo consume -G GROUP TOPIC takes it")
		}
		if !ok {
			return nil, fail(exitUsage, fmt.Errorf("unknown setting %s", name), "%s", unknownHint(name, append(known, "bootstrap.servers")))
		}
		more, err := set(properties[name], &s)
		if err != nil {
			return nil, fail(exitUsage, fmt.Errorf("%s=%s: %w", name, properties[name], err), "the names and values are those of Kafka's clients")
		}
		opts = append(opts, more...)
	}
	secure, err := s.options()
	return append(opts, secure...), err
}

// unknownHint offers the nearest name.
func unknownHint(name string, known []string) string {
	if best, meant := spell.Nearest(name, slices.Values(known)); meant {
		return "did you mean " + best + "?"
	}
	return "known: " + strings.Join(known, ", ")
}

func (s *security) options() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	switch protocol := strings.ToUpper(s.protocol); protocol {
	case "", "PLAINTEXT", "SASL_PLAINTEXT":
	case "SSL", "SASL_SSL":
		config, err := s.tls()
		if err != nil {
			return nil, fail(exitUsage, err, "ssl.ca.location, ssl.certificate.location and ssl.key.location are PEM files")
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	default:
		return nil, fail(exitUsage, fmt.Errorf("security.protocol=%s: unknown", s.protocol), "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	}
	if !strings.HasPrefix(strings.ToUpper(s.protocol), "SASL") {
		return opts, nil
	}
	var mechanism sasl.Mechanism
	switch strings.ToUpper(s.mechanism) {
	case "PLAIN":
		mechanism = plain.Auth{User: s.user, Pass: s.password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: s.user, Pass: s.password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: s.user, Pass: s.password}.AsSha512Mechanism()
	default:
		return nil, fail(exitUsage, fmt.Errorf("sasl.mechanism=%s: unknown", s.mechanism), "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	}
	return append(opts, kgo.SASL(mechanism)), nil
}

func (s *security) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("read ssl.ca.location: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ssl.ca.location %s: no certificate in it", s.ca)
		}
	}
	if s.cert != "" || s.key != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("read ssl.certificate.location: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// connect opens a client and waits for the cluster's first answer.
func (f *clientFlags) connect(ctx context.Context, t *terminal, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := f.options(t)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("configure client: %w", err), "look at -b and -X")
	}
	if err := f.ping(ctx, client); err != nil {
		client.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		servers := strings.Join(f.Bootstrap, ",")
		return nil, fail(exitUnreachable, fmt.Errorf("connect to %s: %w", servers, err),
			"is a broker listening there? rondo serve --data DIR --listen %s starts one", servers)
	}
	return client, nil
}

// ping waits for the first answer. A broker that was started a moment ago does
// not listen yet.
func (f *clientFlags) ping(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	for {
		err := client.Ping(ctx)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		retry := time.NewTimer(50 * time.Millisecond)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return err
		}
	}
}

// partitionsOf lists the partitions of a topic that exists.
func partitionsOf(ctx context.Context, client *kgo.Client, topic string) ([]int32, error) {
	details, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return nil, fail(exitUnreachable, fmt.Errorf("describe topic %s: %w", topic, err), "look at -b and --timeout")
	}
	detail := details[topic]
	if errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		return nil, fail(exitNotFound, fmt.Errorf("topic %s: not found", topic), "rondo produce -t %s --partitions 1 creates it", topic)
	}
	if detail.Err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", topic, detail.Err)
	}
	return detail.Partitions.Numbers(), nil
}
