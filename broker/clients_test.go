package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newKgo(t testing.TB, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// consume reads n values of a topic from its beginning, in order of offset for
// each partition.
func consume(t testing.TB, b *Broker, topic string, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cl := newKgo(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	var out []*kgo.Record
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(out), n, err)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

// A franz-go producer and consumer with their defaults: idempotent, sessions,
// pipelined; in every codec, which comes back as it was sent.
func TestProduceAndConsume(t *testing.T) {
	b := startBroker(t)
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		cl := newKgo(t, b, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(name))
		const n = 1000
		for i := range n {
			cl.Produce(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, "%s-%d-%s", name, i, strings.Repeat("x", 100))}, func(r *kgo.Record, err error) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, r := range consume(t, b, name, n) {
			if r.Offset != int64(i) || !strings.HasPrefix(string(r.Value), fmt.Sprintf("%s-%d-", name, i)) {
				t.Fatalf("%s: record %d at offset %d is %.20q", name, i, r.Offset, r.Value)
			}
			if got := map[uint8]string{0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}[r.Attrs.CompressionType()]; got != name {
				t.Fatalf("%s came back as %s", name, got)
			}
		}
	}
}

// What an administrator does with topics, through kadm.
func TestAdministration(t *testing.T) {
	b := startBroker(t)
	ctx := t.Context()
	adm := kadm.NewClient(newKgo(t, b))
	for _, r := range must(adm.CreateTopics(ctx, 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("1000")}, "a", "b")) {
		if r.Err != nil || r.NumPartitions != 3 || r.ReplicationFactor != 1 || r.Configs["retention.ms"].Value == nil || *r.Configs["retention.ms"].Value != "1000" {
			t.Errorf("create %s: %+v", r.Topic, r)
		}
	}
	if r := must(adm.CreateTopics(ctx, 1, 1, nil, "a"))["a"]; !errors.Is(r.Err, kerr.TopicAlreadyExists) {
		t.Errorf("create a again: %v", r.Err)
	}
	if r := must(adm.CreatePartitions(ctx, 2, "a"))["a"]; r.Err != nil {
		t.Errorf("add two partitions: %v", r.Err)
	}
	if got := must(adm.ListTopics(ctx)).Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("topics %v", got)
	}
	if n := len(must(adm.ListTopics(ctx))["a"].Partitions); n != 5 {
		t.Errorf("a has %d partitions", n)
	}
	must(adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, "a"))
	got := map[string]string{}
	for _, c := range must(adm.DescribeTopicConfigs(ctx, "a"))[0].Configs {
		got[c.Key] = fmt.Sprintf("%s from %v", c.MaybeValue(), c.Source)
	}
	for key, want := range map[string]string{
		"cleanup.policy":    "compact from DYNAMIC_TOPIC_CONFIG",
		"retention.ms":      "1000 from DYNAMIC_TOPIC_CONFIG",
		"max.message.bytes": "1048588 from DEFAULT_CONFIG",
	} {
		if got[key] != want {
			t.Errorf("config %s is %s, want %s", key, got[key], want)
		}
	}
	if r := must(adm.DeleteTopics(ctx, "a", "none")); r["a"].Err != nil || !errors.Is(r["none"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete: %v, %v", r["a"].Err, r["none"].Err)
	}
	if got := b.catalog().names(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("topics after the deletion %v", got)
	}
	if s := b.Stats(); s.Topics != 1 || s.Partitions != 3 {
		t.Errorf("stats count %d topics, %d partitions", s.Topics, s.Partitions)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Topics, their ids and configs, data, producer ids and the cluster's id are
// there again after a restart, and after a power cut.
func TestRestart(t *testing.T) {
	for _, how := range []string{"clean", "power cut"} {
		t.Run(how, func(t *testing.T) {
			fs := &journal.MemFS{}
			open := func(c *Config) { c.Dir, c.FS = "data", fs }
			b := startBroker(t, open)
			c := dialClient(t, b)
			id := c.makeTopic("t", 2, map[string]string{"retention.ms": "-1", "max.message.bytes": "100000"})
			c.makeTopic("gone", 1, nil)
			adm := kadm.NewClient(newKgo(t, b))
			must(adm.DeleteTopics(t.Context(), "gone"))
			must(adm.CreatePartitions(t.Context(), 1, "t"))
			cl := newKgo(t, b, kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range 100 {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Partition: int32(i % 3), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			pid, _ := must2(cl.ProducerID(t.Context()))
			cluster := b.catalog().clusterID
			if how == "clean" {
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				fs.PowerCut(rand.New(rand.NewPCG(1, 2)))
				b.Close() //nolint:errcheck // its files are gone
				fs.Start()
			}
			b = startBroker(t, open)
			after := b.catalog().topic("t")
			if b.catalog().clusterID != cluster || after == nil || after.id != id || len(after.partitions) != 3 {
				t.Fatalf("cluster %s became %s, topic is %+v", cluster, b.catalog().clusterID, after)
			}
			if after.configs["retention.ms"] != "-1" || after.settings.maxMessageBytes != 100000 {
				t.Errorf("configs are %v", after.configs)
			}
			if b.catalog().topic("gone") != nil {
				t.Error("the deleted topic is back")
			}
			seen := map[string]bool{}
			for _, r := range consume(t, b, "t", 100) {
				seen[string(r.Value)] = true
			}
			if len(seen) != 100 {
				t.Errorf("%d of 100 records are there", len(seen))
			}
			if next, _ := must2(newKgo(t, b).ProducerID(t.Context())); next <= pid {
				t.Errorf("producer id %d after %d: it may have been given out twice", next, pid)
			}
		})
	}
}

func must2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}
