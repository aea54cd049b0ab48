package rondo_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/serde"
)

// TestMain lets the test binary be the other side too: a broker and a service
// that answers nobody, in a process of their own, so that what is measured is
// the runtime alone.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RONDO_TEST_OTHER_SIDE"); dir != "" {
		otherSide(dir)
		return
	}
	os.Exit(m.Run())
}

// otherSide prints the addresses of broker and service, and lives until its
// input ends.
func otherSide(dir string) {
	b, err := broker.Start(context.Background(), broker.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: quiet(), Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	fmt.Println(b.Addr(), l.Addr())
	io.Copy(io.Discard, os.Stdin)
	b.Close()
}

// callsInFlight runs an application with n HTTP calls in flight and answers
// the bytes that the process has resident for each.
func callsInFlight(tb testing.TB, n int) (perCall int64, resident int64) {
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "RONDO_TEST_OTHER_SIDE="+tb.TempDir())
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := other.Start(); err != nil {
		tb.Fatal(err)
	}
	defer func() { in.Close(); other.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the other side: %v", err)
	}
	addr := strings.Fields(line)

	w := newWorld(tb, addr[:1], nil)
	topic := w.topic("many", 10)
	w.fill(topic, 10, 0, n, func(i int) string { return fmt.Sprint(i) })
	service := rondo.NewHTTP(rondo.HTTPOptions{})
	defer service.Close()
	b := rondo.New("many" + w.suffix)
	b.From(rondo.TopicOf(topic, serde.String(), serde.String())).
		Call("service", time.Hour, func(ctx context.Context, k, v string) (string, error) {
			return service.PostJSON[string, string](ctx, "http://"+addr[1], v)
		}, rondo.CallPolicy{Parallel: n}).
		SkipFailures().
		Foreach(func(rondo.Record[string, string]) {})
	topology, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	app, err := rondo.NewApp(topology, rondo.Bootstrap(addr[0]), rondo.WithLogger(quiet()), rondo.Set("buffered.records.per.partition", fmt.Sprint(n)), rondo.Set("drain.timeout.ms", "100"))
	if err != nil {
		tb.Fatal(err)
	}
	debug.FreeOSMemory()
	before := residentBytes(tb)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	eventually(tb, 2*time.Minute, "calls in flight", func() bool { return app.Stats().Counts.InFlight == int64(n) })
	time.Sleep(500 * time.Millisecond) // the last ones have written their requests
	resident = residentBytes(tb)
	cancel()
	if err := <-ended; err != nil {
		tb.Error(err)
	}
	return (resident - before) / int64(n), resident
}

// residentBytes is the resident set, or what Go took from the system where
// /proc does not say.
func residentBytes(tb testing.TB) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestCallInFlightIsSmall: 10,000 calls in flight may take 250 MB, so one may
// take 25 KB, with its connection, its goroutines and its record.
func TestCallInFlightIsSmall(t *testing.T) {
	perCall, resident := callsInFlight(t, 1000)
	t.Logf("%d bytes for each call in flight, %d MB in all", perCall, resident>>20)
	// The race detector's own memory is no user's; the calls still run under it.
	if !racing && perCall > 40<<10 {
		t.Errorf("%d bytes for each call in flight", perCall)
	}
}

// BenchmarkTenThousandCalls reports the resident memory of a process with
// 10,000 HTTP calls in flight, and fails above 250 MB.
func BenchmarkTenThousandCalls(b *testing.B) {
	for b.Loop() {
		perCall, resident := callsInFlight(b, 10_000)
		b.ReportMetric(float64(resident)/1e6, "MB")
		b.ReportMetric(float64(perCall), "B/call")
		if resident > 250e6 {
			b.Errorf("%d MB resident", resident/1e6)
		}
	}
}
