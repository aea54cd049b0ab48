package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
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

	"github.com/rondo-streams/rondo/internal/secure"
	"github.com/rondo-streams/rondo/internal/spell"
)

// clientFlags are the flags of every verb that talks to a cluster.
type clientFlags struct {
	Bootstrap  []string      `name:"bootstrap-server" short:"b" aliases:"brokers" default:"127.0.0.1:9092" env:"RONDO_BOOTSTRAP_SERVER,KAFKA_BOOTSTRAP_SERVERS,BOOTSTRAP_SERVERS" placeholder:"HOST:PORT" help:"Brokers to start from (${env})."`
	X          []string      `name:"property" short:"X" sep:"none" placeholder:"NAME=VALUE" help:"Client setting under Kafka's name; may be repeated."`
	Properties string        `aliases:"command-config" env:"RONDO_PROPERTIES" placeholder:"FILE" help:"Properties file with client settings."`
	Timeout    time.Duration `default:"5s" type:"milliseconds" env:"RONDO_TIMEOUT" help:"How long to wait for the cluster's first answer; a number alone is milliseconds. A refused connection is given up sooner unless this is above the default."`

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

// clientSetting turns one Kafka setting into options of the client.
type clientSetting func(value string) ([]kgo.Opt, error)

func one(o kgo.Opt) []kgo.Opt { return []kgo.Opt{o} }

func milliseconds(option func(time.Duration) kgo.Opt) clientSetting {
	return func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("want milliseconds, a whole number from 0")
		}
		return one(option(time.Duration(n) * time.Millisecond)), nil
	}
}

func size[O kgo.Opt](option func(int32) O) clientSetting {
	return func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want bytes, a whole number from 1")
		}
		return one(option(int32(n))), nil
	}
}

func choice(options map[string][]kgo.Opt) clientSetting {
	return func(v string) ([]kgo.Opt, error) {
		o, ok := options[strings.ToLower(v)]
		if !ok {
			return nil, fmt.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		return o, nil
	}
}

// clientSettings are the settings that produce and consume understand, under
// the names of Kafka's clients, without those of internal/secure.
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
		"client.id":   func(v string) ([]kgo.Opt, error) { return one(kgo.ClientID(v)), nil },
		"client.rack": func(v string) ([]kgo.Opt, error) { return one(kgo.Rack(v)), nil },
	}
}

// options reads file, environment and -X flags into options of the client.
func (f *clientFlags) options(t *terminal) ([]kgo.Opt, error) {
	settings := clientSettings()
	if len(f.member) > 0 {
		maps.Copy(settings, groupSettings())
	}
	for _, s := range secure.Settings() {
		settings[s.Name] = func(v string) ([]kgo.Opt, error) { return nil, s.Check(v) }
	}
	known := slices.Sorted(maps.Keys(settings))
	file, err := readProperties(f.Properties)
	if err != nil {
		return nil, err
	}
	file, foreign := withoutForeign(file, settings)
	if len(foreign) > 0 {
		t.say("%s: without effect here: %s", f.Properties, strings.Join(foreign, ", "))
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
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		set, ok := settings[name]
		if !ok && groupSettings()[name] != nil {
			return nil, fail(exitUsage, fmt.Errorf("setting %s: of members of a group only", name), "rondo consume -G GROUP TOPIC takes it")
		}
		if !ok {
			return nil, fail(exitUsage, fmt.Errorf("unknown setting %s", name), "%s", unknownHint(name, append(known, "bootstrap.servers")))
		}
		more, err := set(properties[name])
		if err != nil {
			value := properties[name]
			if secure.Secret(name) {
				value = "(hidden)"
			}
			return nil, fail(exitUsage, fmt.Errorf("%s=%s: %w", name, value, err), "the names and values are those of Kafka's clients")
		}
		opts = append(opts, more...)
	}
	transport, err := secure.New(properties)
	if err != nil {
		return nil, fail(exitUsage, err, "the settings of TLS and SASL are those of Kafka's clients; key stores are PEM or PKCS12 files")
	}
	return append(opts, transport.Options(nil)...), nil
}

// unknownHint offers the nearest name.
func unknownHint(name string, known []string) string {
	if best, meant := spell.Nearest(name, slices.Values(known)); meant {
		return "did you mean " + best + "?"
	}
	return "known: " + strings.Join(known, ", ")
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
		if from, ok := client.OptValue(kgo.SeedBrokers).([]string); ok {
			servers = strings.Join(from, ",") // also those of a properties file
		}
		return nil, fail(exitUnreachable, fmt.Errorf("connect to %s: %w", servers, err), "%s", whatToDo(err, servers))
	}
	return client, nil
}

// whatToDo is the hint for a connection that did not come about.
func whatToDo(err error, servers string) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return fmt.Sprintf("the name %s does not resolve: look at --bootstrap-server", unknown.Name)
	}
	if hint := secure.Hint(err); hint != "" {
		return hint
	}
	return fmt.Sprintf("is a broker listening there? rondo serve --data DIR --listen %s starts one", servers)
}

// startPatience is how long a connection that is refused is tried again: a
// broker that was started in the same breath does not listen yet. A refusal
// that stays is certain, and --timeout is for brokers that say nothing. A
// --timeout above its default is meant for brokers that take longer to start.
const (
	startPatience  = 1500 * time.Millisecond
	defaultTimeout = 5 * time.Second
)

// ping waits for the first answer.
func (f *clientFlags) ping(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	patience := startPatience
	if f.Timeout > defaultTimeout {
		patience = f.Timeout
	}
	for began := time.Now(); ; {
		err := client.Ping(ctx)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) >= patience {
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
