package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/cause"
)

// metrics is what rondo serve tells the outside about its broker. Health is
// about this process alone: livez while it runs, readyz while it serves.
type metrics struct {
	registry   *prometheus.Registry
	rebalances *prometheus.CounterVec
	took       *prometheus.HistogramVec
	broker     atomic.Pointer[broker.Broker]
	state      atomic.Value // string: starting, serving, stopping
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		rebalances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rondo_rebalances_total", Help: "Changes of a group's generation, by cause.",
		}, []string{"cause"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rondo_rebalance_seconds", Help: "From the trigger of a rebalance until the group was stable or empty, by cause.",
			Buckets: []float64{.01, .1, .5, 1, 3, 10, 30, 60, 120, 300, 600},
		}, []string{"cause"}),
	}
	for _, c := range cause.All() {
		m.rebalances.WithLabelValues(c.Label())
	}
	m.state.Store("starting")
	m.registry.MustRegister(m.rebalances, m.took, m)
	return m
}

func (m *metrics) rebalanced(e cause.Event) {
	m.rebalances.WithLabelValues(e.Cause.Label()).Inc()
	m.took.WithLabelValues(e.Cause.Label()).Observe(e.Took.Seconds())
}

func (m *metrics) started(b *broker.Broker) {
	m.broker.Store(b)
	m.state.Store("serving")
}

func (m *metrics) stopping() { m.state.Store("stopping") }

// reading is one number of broker.Stats under its Prometheus name.
type reading struct {
	name, help string
	kind       prometheus.ValueType
	value      func(broker.Stats) int64
}

func readings() []reading {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return append([]reading{
		{"rondo_connections", "Connections open now.", gauge, func(s broker.Stats) int64 { return s.Connections }},
		{"rondo_connections_accepted_total", "Connections accepted.", counter, func(s broker.Stats) int64 { return s.ConnectionsAccepted }},
		{"rondo_connections_broken_total", "Connections closed because of what was sent.", counter, func(s broker.Stats) int64 { return s.ConnectionsBroken }},
		{"rondo_requests_total", "Requests answered.", counter, func(s broker.Stats) int64 { return s.Requests }},
		{"rondo_handler_panics_total", "Requests whose handler panicked: a defect, and a connection closed.", counter, func(s broker.Stats) int64 { return s.Panics }},
		{"rondo_sent_bytes_total", "Bytes of responses.", counter, func(s broker.Stats) int64 { return s.BytesOut }},
		{"rondo_produce_batches_total", "Record batches written by producers.", counter, func(s broker.Stats) int64 { return s.ProduceBatches }},
		{"rondo_produce_bytes_total", "Bytes of record batches written by producers.", counter, func(s broker.Stats) int64 { return s.ProduceBytes }},
		{"rondo_fetch_bytes_total", "Bytes of record batches read by consumers.", counter, func(s broker.Stats) int64 { return s.FetchBytes }},
		{"rondo_fetch_sessions", "Fetch sessions open now.", gauge, func(s broker.Stats) int64 { return int64(s.FetchSessions) }},
		{"rondo_topics", "Topics.", gauge, func(s broker.Stats) int64 { return int64(s.Topics) }},
		{"rondo_partitions", "Partitions.", gauge, func(s broker.Stats) int64 { return int64(s.Partitions) }},
	}, journalReadings()...)
}

func journalReadings() []reading {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return []reading{
		{"rondo_journal_appends_total", "Appends that were acknowledged.", counter, func(s broker.Stats) int64 { return s.Journal.Appends }},
		{"rondo_journal_appended_bytes_total", "Bytes of their batches.", counter, func(s broker.Stats) int64 { return s.Journal.AppendedBytes }},
		{"rondo_journal_groups_total", "Writes to the journal; one carries all appends that waited.", counter, func(s broker.Stats) int64 { return s.Journal.Groups }},
		{"rondo_journal_syncs_total", "Syncs of the journal.", counter, func(s broker.Stats) int64 { return s.Journal.Syncs }},
		{"rondo_journal_failures_total", "Writes to the journal that failed; their producers got an error.", counter, func(s broker.Stats) int64 { return s.Journal.Failures }},
		{"rondo_journal_settled_bytes_total", "Bytes moved from the journal to partition segments.", counter, func(s broker.Stats) int64 { return s.Journal.SettledBytes }},
		{"rondo_journal_unsettled_bytes", "Bytes of the journal now: what the next start must read.", gauge, func(s broker.Stats) int64 { return s.Journal.Unsettled }},
		{"rondo_journal_hot_bytes", "Bytes held in memory for readers at the tail.", gauge, func(s broker.Stats) int64 { return s.Journal.HotBytes }},
		{"rondo_hot_reads_total", "Reads answered from memory.", counter, func(s broker.Stats) int64 { return s.Journal.HotReads }},
		{"rondo_journal_reads_total", "Reads answered from the journal.", counter, func(s broker.Stats) int64 { return s.Journal.JournalReads }},
		{"rondo_segment_reads_total", "Reads answered from partition segments.", counter, func(s broker.Stats) int64 { return s.Journal.SegmentReads }},
		{"rondo_compacted_bytes_total", "Bytes that compaction took away.", counter, func(s broker.Stats) int64 { return s.Journal.Compacted }},
		{"rondo_expired_bytes_total", "Bytes that retention and DeleteRecords took away.", counter, func(s broker.Stats) int64 { return s.Journal.Expired }},
		{"rondo_producer_ids", "Idempotent producers remembered, in all partitions.", gauge, func(s broker.Stats) int64 { return s.Journal.Producers }},
		{"rondo_producer_ids_forgotten_total", "Idempotent producers forgotten because there were too many.", counter, func(s broker.Stats) int64 { return s.Journal.Forgotten }},
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, r := range readings() {
		descriptions <- prometheus.NewDesc(r.name, r.help, nil, nil)
	}
}

// Collect implements prometheus.Collector: one snapshot for all numbers.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	b := m.broker.Load()
	if b == nil {
		return
	}
	stats := b.Stats()
	for _, r := range readings() {
		values <- prometheus.MustNewConstMetric(prometheus.NewDesc(r.name, r.help, nil, nil), r.kind, float64(r.value(stats)))
	}
}

// serve listens for scrapes and probes; stop ends it.
func (m *metrics) serve(t *terminal, address string) (stop func() error, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fail(exitFailed, fmt.Errorf("listen for metrics on %s: %w", address, err), "choose another --metrics-listen")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", m.ready)
	mux.HandleFunc("GET /healthz", m.ready)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.say("metrics on http://%s/metrics", l.Addr())
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		return nil
	}, nil
}

// ready answers a readiness probe: 200 while the broker serves.
func (m *metrics) ready(w http.ResponseWriter, _ *http.Request) {
	state := m.state.Load().(string)
	w.Header().Set("Content-Type", "application/json")
	if state != "serving" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error here is a prober that went away.
	_ = json.NewEncoder(w).Encode(map[string]string{"status": state})
}
