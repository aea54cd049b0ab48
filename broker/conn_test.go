package broker

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A frame that breaks the protocol ends its connection without an answer, and
// no other connection notices.
func TestMalformedFramesCloseTheirConnection(t *testing.T) {
	b := startBroker(t)
	other := dialClient(t, b)
	framed := func(s string) string { return fmt.Sprintf("%08x", len(s)/2) + s }
	for name, text := range map[string]string{
		"negative size":                    "ffffffff",
		"size above the limit":             "06400001",
		"largest size":                     "7fffffff",
		"size zero":                        "00000000",
		"header cut off":                   framed("0012"),
		"client id longer than the frame":  framed("00120000000000010fff61"),
		"body cut off":                     framed("000c00000000000100016700"),
		"array of 2^31-1 elements":         framed("000f0000000000010001687fffffff"),
		"unknown API":                      framed("03e70000000000010000"),
		"version that is too new":          framed("000c0063000000010000"),
		"version that is too old":          framed("00010003000000010000"),
		"Produce of a version before 3":    framed("00000002000000010000"),
		"tags longer than the frame":       framed("000300090000000100010001ff"),
		"large frame of a small request":   "00500000000c0004",
		"batch of topics without an end":   framed("000000090000000100000000ffff00001388ffffffff0f"),
		"more elements than bytes, in tag": framed("00120003000000010000ffffffff0f"),
	} {
		c := dialClient(t, b)
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.nc.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := c.closed(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		do[*kmsg.ApiVersionsResponse](other, kmsg.NewPtrApiVersionsRequest(), 0)
	}
}

// An ApiVersions request of a version that nobody knows is answered in v0.
func TestUnknownVersionOfAPIVersions(t *testing.T) {
	c := dialClient(t, startBroker(t))
	c.nc.Write([]byte("\x00\x00\x00\x0d\x00\x12\x00\x63\x00\x00\x00\x09\x00\x00\x00\x00\x00")) //nolint:errcheck // the read tells
	resp := kmsg.NewPtrApiVersionsResponse()
	head := make([]byte, 8)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c.nc, body); err != nil {
		t.Fatal(err)
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].MaxVersion != 4 {
		t.Errorf("answer %+v", resp)
	}
}

// Everything that is advertised is served: an empty request of every API in
// every version gets an answer, and one that can be decoded.
func TestEveryAdvertisedVersionIsServed(t *testing.T) {
	b := startBroker(t)
	first := dialClient(t, b)
	for _, k := range do[*kmsg.ApiVersionsResponse](first, kmsg.NewPtrApiVersionsRequest(), 0).ApiKeys {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			if k.ApiKey == wire.Produce && v < firstProduce || k.ApiKey == wire.JoinGroup {
				continue // listed for old librdkafka only; a join needs a group
			}
			c := dialClient(t, b)
			req := kmsg.RequestForKey(k.ApiKey)
			if p, ok := req.(*kmsg.ProduceRequest); ok {
				p.Acks = 1
			}
			if f, ok := req.(*kmsg.FetchRequest); ok {
				f.MaxWaitMillis = 0
			}
			if a, ok := req.(*kmsg.DescribeACLsRequest); ok {
				a.ResourceType, a.ResourcePatternType, a.Operation, a.PermissionType = 1, 1, 1, 1
			}
			req.SetVersion(v)
			if _, err := c.receive(req, c.send(req)); err != nil {
				t.Errorf("%s version %d: %v", kmsg.NameForKey(k.ApiKey), v, err)
			}
			c.nc.Close() //nolint:errcheck // one of many
		}
	}
}

// The documentation says of each API of Kafka whether it is served.
func TestDocumentedAPIs(t *testing.T) {
	doc, err := os.ReadFile("../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	table := dispatch()
	for _, a := range wire.Kafka42() {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \| .* \| (yes|no)[: ]`, a.Key)).FindSubmatch(doc)
		if row == nil {
			t.Errorf("docs/compatibility.md has no row of %s", a)
			continue
		}
		if _, served := table[a.Key]; served != (string(row[1]) == "yes") {
			t.Errorf("docs/compatibility.md says %q of %s; in the program it is %v", row[1], a, served)
		}
	}
}

// Produce requests that were sent together are answered in their order, and
// their batches lie in their order.
func TestPipelinedProduceKeepsOrder(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	var all []byte
	const n = 3 * pipelined
	f := kmsg.NewRequestFormatter()
	req := produceRequest("t", 0, nil)
	req.SetVersion(9)
	for i := range n {
		req.Topics[0].Partitions[0].Records = batchWith(fmt.Sprint(i))
		all = append(all, f.AppendRequest(nil, req, int32(100+i))...)
	}
	if _, err := c.nc.Write(all); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		resp, err := c.receive(req, int32(100+i))
		if err != nil {
			t.Fatal(err)
		}
		if r := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; r.ErrorCode != 0 || r.BaseOffset != int64(i) {
			t.Fatalf("answer %d: %+v", i, r)
		}
	}
	got := values(t, do[*kmsg.FetchResponse](c, fetchRequest("t", 0, 0, time.Second), 12))
	if len(got) != n || !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("%d records: %v", len(got), got)
	}
}

// While a request is parked, the next one on its connection waits: a heartbeat
// behind a long poll is answered after it.
func TestParkedRequestHoldsItsConnection(t *testing.T) {
	b := startBroker(t)
	c, other := dialClient(t, b), dialClient(t, b)
	c.makeTopic("t", 1, nil)
	long := fetchRequest("t", 0, 0, patience)
	long.SetVersion(12)
	versions := kmsg.NewPtrApiVersionsRequest()
	first, second := c.send(long), c.send(versions)
	do[*kmsg.ProduceResponse](other, produceRequest("t", 0, batchWith("x")), 9)
	resp, err := c.receive(long, first)
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, resp.(*kmsg.FetchResponse)); !slices.Equal(got, []string{"x"}) {
		t.Errorf("long poll gave %v", got)
	}
	if _, err := c.receive(versions, second); err != nil {
		t.Error(err)
	}
}

// A client that hangs up in the middle of a long poll leaves nothing behind.
func TestHangUpEndsALongPoll(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	long := fetchRequest("t", 0, 0, time.Hour)
	long.SetVersion(12)
	c.send(long)
	c.nc.Close() //nolint:errcheck // that is the test
	waitFor(t, "the connection to go", func() bool { return b.Stats().Connections == 0 })
}

// Close comes back although requests are parked and clients are connected.
func TestCloseWithParkedRequests(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	long := fetchRequest("t", 0, 0, time.Hour)
	long.SetVersion(12)
	c.send(long)
	c.send(long)
	time.Sleep(10 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- b.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Close hangs")
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Properties["connections.max.idle.ms"] = "100" })
	if err := dialClient(t, b).closed(); err != nil {
		t.Error(err)
	}
}

func TestMaxConnections(t *testing.T) {
	b := startBroker(t, func(c *Config) { c.Properties["max.connections"] = "1" })
	do[*kmsg.ApiVersionsResponse](dialClient(t, b), kmsg.NewPtrApiVersionsRequest(), 0)
	if err := dialClient(t, b).closed(); err != nil {
		t.Error(err)
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Whatever arrives on a connection, the broker does not panic and goes on
// serving others.
func FuzzConnection(f *testing.F) {
	b := startBroker(f)
	setup := dialClient(f, b)
	setup.makeTopic("t", 1, nil)
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	for _, a := range wire.Kafka42() {
		if _, ok := b.table[a.Key]; !ok {
			continue
		}
		for _, v := range []int16{a.Min, a.Max} {
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(v)
			f.Add(formatter.AppendRequest(nil, req, 1))
		}
	}
	produce := produceRequest("t", 0, batchWith("x"))
	produce.SetVersion(9)
	f.Add(formatter.AppendRequest(nil, produce, 1))
	fetch := fetchRequest("t", 0, 0, 0)
	fetch.SetVersion(12)
	f.Add(formatter.AppendRequest(nil, fetch, 1))
	for _, row := range b.table { // the first and the last version of every API
		for _, version := range []int16{row.Min, row.Max} {
			req := kmsg.RequestForKey(row.Key)
			req.SetVersion(version)
			f.Add(formatter.AppendRequest(nil, req, 1))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		if !b.admit(newConn(b, b.nodes[0], there)) {
			t.Fatal("not admitted")
		}
		go io.Copy(io.Discard, here)                                 //nolint:errcheck // answers do not matter
		here.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) //nolint:errcheck // a parked request stops the reading
		here.Write(data)                                             //nolint:errcheck // the broker may hang up
		here.Close()                                                 //nolint:errcheck // as above
		if n := b.Stats().Panics; n > 0 {
			t.Fatalf("a handler panicked on %x", data)
		}
	})
}
