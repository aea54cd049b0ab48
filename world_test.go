package rondo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/serde"
)

// world is a cluster that end-to-end stories are told on, wherever it is: in
// memory inside of a bubble, embedded, or an Apache Kafka.
type world struct {
	t      testing.TB
	boot   []string
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	client *kgo.Client
	suffix string // keeps the stories of one cluster apart
	log    *slog.Logger
	secure []rondo.Option // how its applications reach it
	more   []kgo.Opt      // and its own clients
}

func newWorld(t testing.TB, boot []string, dial func(ctx context.Context, network, addr string) (net.Conn, error), more ...kgo.Opt) *world {
	t.Helper()
	w := &world{t: t, boot: boot, dial: dial, more: more, suffix: fmt.Sprintf("-%x", time.Now().UnixNano()), log: slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	opts := []kgo.Opt{kgo.SeedBrokers(boot...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMinAge(100 * time.Millisecond), kgo.UnknownTopicRetries(100)}
	if dial != nil {
		opts = append(opts, kgo.Dialer(dial))
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	t.Cleanup(client.Close)
	return w
}

// testWriter logs to the test, and is silent once it is over.
type testWriter struct {
	mu sync.Mutex
	t  testing.TB
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", p)
	}
	return len(p), nil
}

// topic makes a topic and answers its full name.
func (w *world) topic(name string, partitions int32) string {
	w.t.Helper()
	name += w.suffix
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := kadm.NewClient(w.client).CreateTopic(ctx, partitions, 1, nil, name)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		w.t.Fatalf("create topic %s: %v", name, err)
	}
	return name
}

// fill writes n records, numbered from first, in turn over the partitions. The
// key of record i is key(i).
func (w *world) fill(topic string, partitions, first, n int, key func(i int) string) {
	w.t.Helper()
	var records []*kgo.Record
	for i := first; i < first+n; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Key: []byte(key(i)), Value: []byte(strconv.Itoa(i))})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		w.t.Fatalf("fill %s: %v", topic, err)
	}
}

// read takes everything that is in a topic now.
func (w *world) read(topic string) []*kgo.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(w.client).ListEndOffsets(ctx, topic)
	if err != nil {
		w.t.Fatalf("read %s: %v", topic, err)
	}
	want := int64(0)
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		want += o.Offset
		from[o.Partition] = kgo.NewOffset().At(0)
	})
	opts := []kgo.Opt{kgo.SeedBrokers(w.boot...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})}
	if w.dial != nil {
		opts = append(opts, kgo.Dialer(w.dial))
	}
	client, err := kgo.NewClient(append(opts, w.more...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	var out []*kgo.Record
	for int64(len(out)) < want {
		f := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("read %s: %d of %d records", topic, len(out), want)
		}
		out = append(out, f.Records()...)
	}
	return out
}

// notes are the metadata of the committed offsets.
func (w *world) notes(group, topic string) map[int32]string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	offsets, err := kadm.NewClient(w.client).FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) {
		w.t.Fatalf("offsets of %s: %v", group, err)
	}
	out := map[int32]string{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			out[o.Partition] = o.Metadata
		}
	})
	return out
}

// plug is the network of one process: pulled, it is as if the process were
// killed, as far as the cluster can see.
type plug struct {
	world *world
	mu    sync.Mutex
	conns []net.Conn
	out   bool
}

func (p *plug) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := p.world.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.out {
		conn.Close()
		return nil, errors.New("the plug is pulled")
	}
	p.conns = append(p.conns, conn)
	return conn, err
}

func (p *plug) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = true
	for _, c := range p.conns {
		if c != nil {
			c.Close()
		}
	}
}

// committed is the committed offset of each partition.
func (w *world) committed(group, topic string) map[int32]int64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	offsets, err := kadm.NewClient(w.client).FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) {
		w.t.Fatalf("offsets of %s: %v", group, err)
	}
	out := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			out[o.Partition] = o.At
		}
	})
	return out
}

func sum(m map[int32]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// service is a remote service that counts what it is asked.
type service struct {
	mu    sync.Mutex
	calls map[string]int
	order []string
	high  int // most calls at once
	now   int
	act   func(ctx context.Context, key, value string, nth int) (string, error)
}

func (s *service) ask(ctx context.Context, key, value string) (string, error) {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[value]++
	nth := s.calls[value]
	s.order = append(s.order, value)
	s.now++
	s.high = max(s.high, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	return s.act(ctx, key, value, nth)
}

func (s *service) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		n += c
	}
	return n
}

func (s *service) count(value string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[value]
}

// after answers after d, or when the context ends.
func after(d time.Duration) func(ctx context.Context, key, value string, nth int) (string, error) {
	return func(ctx context.Context, key, value string, nth int) (string, error) {
		return "scored " + value, wait(ctx, d)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// scorer is the topology of most stories: in, call, out, failures to dead.
type scorer struct {
	group, in, out, dead string
	service              *service
	timeout              time.Duration
	policy               rondo.CallPolicy
	fail                 func(rondo.CallStream[string, string, string]) rondo.Stream[string, string]
}

func (w *world) scorer(name string, partitions int32, s *service) *scorer {
	return &scorer{group: name + w.suffix, in: w.topic(name+"-in", partitions), out: w.topic(name+"-out", partitions), dead: w.topic(name+"-dead", 1), service: s, timeout: time.Hour}
}

func text(name string) rondo.Topic[string, string] {
	return rondo.TopicOf(name, serde.String(), serde.String())
}

func (w *world) build(s *scorer) *rondo.Topology {
	w.t.Helper()
	b := rondo.New(s.group)
	calls := b.From(text(s.in)).Call("model", s.timeout, s.service.ask, s.policy)
	if s.fail == nil {
		s.fail = func(c rondo.CallStream[string, string, string]) rondo.Stream[string, string] {
			return c.FailuresTo(text(s.dead))
		}
	}
	s.fail(calls).To(text(s.out))
	t, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// instance is one process of an application.
type instance struct {
	*rondo.App
	t      testing.TB
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func (w *world) run(topology *rondo.Topology, opts ...rondo.Option) *instance {
	w.t.Helper()
	all := []rondo.Option{rondo.Bootstrap(w.boot...), rondo.WithLogger(w.log), rondo.Set("compression.type", "none"), rondo.Set("linger.ms", "0")}
	if w.dial != nil {
		all = append(all, rondo.WithDialer(w.dial))
	}
	all = append(all, w.secure...)
	app, err := rondo.NewApp(topology, append(all, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{App: app, t: w.t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(i.ended)
		i.err = app.Run(ctx)
	}()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			stats, _ := json.Marshal(i.Stats())
			w.t.Logf("at the failure: %s", stats)
		}
		i.cancel()
		<-i.ended
		if w.t.Failed() && i.err != nil {
			w.t.Logf("Run: %v", i.err)
		}
	})
	return i
}

// stop ends the instance and answers how long that took.
func (i *instance) stop() time.Duration {
	i.t.Helper()
	began := time.Now()
	i.cancel()
	<-i.ended
	if i.err != nil {
		i.t.Errorf("Run: %v", i.err)
	}
	return time.Since(began)
}

// eventually waits until ok answers true.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	step := max(limit/2000, time.Millisecond)
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(step) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

func values(records []*kgo.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	slices.Sort(out)
	return out
}

// quiet is a logger that says nothing.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
