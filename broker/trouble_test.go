package broker

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A full disk gives the protocol's error, to producers and administrators
// alike, loses nothing that was acknowledged, and the broker goes on by itself
// when there is space again.
func TestFullDisk(t *testing.T) {
	fs := &journal.MemFS{}
	b := startBroker(t, func(c *Config) {
		c.Dir, c.FS, c.Logger = "data", fs, slog.New(slog.DiscardHandler)
	})
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	produce := func() int16 {
		resp := do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(strings.Repeat("x", 1000))), 9)
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	acknowledged := 0
	for ; acknowledged < 10; acknowledged++ {
		if code := produce(); code != 0 {
			t.Fatal(errorName(code))
		}
	}
	used := 0
	for _, size := range fs.Files() {
		used += size
	}
	fs.SetLimit(int64(used))
	for acknowledged < 10_000 && produce() == 0 { // into what the journal has written ahead
		acknowledged++
	}
	for range 3 {
		if code := produce(); code != kerr.KafkaStorageError.Code {
			t.Fatalf("produce on a full disk: %s", errorName(code))
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "u", NumPartitions: 100, ReplicationFactor: 1}}
	if r := do[*kmsg.CreateTopicsResponse](c, create, 7).Topics[0]; r.ErrorCode != kerr.KafkaStorageError.Code || !strings.Contains(*r.ErrorMessage, "space") {
		t.Errorf("create a topic on a full disk: %s, %s", errorName(r.ErrorCode), *r.ErrorMessage)
	}
	got := values(t, do[*kmsg.FetchResponse](c, fetchRequest("t", 0, 0, 0), 12))
	if len(got) != acknowledged {
		t.Errorf("%d of %d records can be read on a full disk", len(got), acknowledged)
	}
	fs.SetLimit(0)
	waitFor(t, "the broker to go on", func() bool { return produce() == 0 })
	c.makeTopic("u", 1, nil)
	got = values(t, do[*kmsg.FetchResponse](c, fetchRequest("t", 0, 0, 0), 12))
	if len(got) != acknowledged+1 {
		t.Errorf("%d records after the full disk, %d were acknowledged", len(got), acknowledged+1)
	}
}

// Clients that ask for much and read nothing cost the broker no more than one
// answer each, and nobody else waits for them.
func TestSlowReaders(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	for range 16 {
		do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(strings.Repeat("x", 500_000))), 9)
	}
	before := heap()
	for range 50 {
		slow := dialClient(t, b)
		req := fetchRequest("t", 0, 0, 0)
		req.SetVersion(12)
		for range 20 {
			slow.send(req) // 8 MB each, never read
		}
	}
	began := time.Now()
	for range 10 {
		do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith("y")), 9)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("ten records took %v beside slow readers", took)
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap grew by %d MB for 50 slow readers of 20 answers of 8 MB", grown>>20)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A size that is only claimed costs nothing: thirty connections that
// announce 100 MB and send a little hold a megabyte each at most.
func TestClaimedSizes(t *testing.T) {
	b := startBroker(t)
	before := heap()
	for range 30 {
		c := dialClient(t, b)
		if _, err := c.nc.Write([]byte("\x06\x40\x00\x00\x00\x00\x00\x09 and a little more")); err != nil {
			t.Fatal(err)
		}
	}
	do[*kmsg.ApiVersionsResponse](dialClient(t, b), kmsg.NewPtrApiVersionsRequest(), 0)
	time.Sleep(20 * time.Millisecond)
	if grown := heap() - before; grown > 40<<20 {
		t.Errorf("30 announcements of 100 MB took %d MB", grown>>20)
	}
}

// A broker starts on a disk that is full to the last byte, and a topic can be
// deleted there, with a producer that goes on trying; then there is room again.
func TestStartOnAFullDisk(t *testing.T) {
	fs := &journal.MemFS{}
	config := func(c *Config) { c.Dir, c.FS, c.Logger = "data", fs, slog.New(slog.DiscardHandler) }
	b := startBroker(t, config)
	c := dialClient(t, b)
	c.makeTopic("big", 1, nil)
	c.makeTopic("small", 1, nil)
	produce := func(topic string) int16 {
		resp := do[*kmsg.ProduceResponse](c, produceRequest(topic, 0, batchWith(strings.Repeat("x", 500_000))), 9)
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	for range 8 {
		if code := produce("big"); code != 0 {
			t.Fatal(errorName(code))
		}
	}
	waitFor(t, "the ballast", func() bool { return fs.Files()["data/ballast"] > 0 })
	used := 0
	for _, size := range fs.Files() {
		used += size
	}
	fs.SetLimit(int64(used))
	if err := b.Close(); err != nil {
		t.Logf("close on a full disk: %v", err)
	}
	b = startBroker(t, config)
	c = dialClient(t, b)
	if code := produce("small"); code != kerr.KafkaStorageError.Code {
		t.Fatalf("produce on a full disk: %s", errorName(code))
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	name := "big"
	del.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	if r := do[*kmsg.DeleteTopicsResponse](c, del, 6).Topics[0]; r.ErrorCode != 0 {
		t.Fatalf("delete a topic on a full disk: %s", errorName(r.ErrorCode))
	}
	waitFor(t, "the broker to go on", func() bool { return produce("small") == 0 })
}

// A request that names a great many groups is refused before any coordinator
// hears of it, and one that names many gives back what it took when it has its
// answer.
func TestManyGroupsInOneRequest(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	req := kmsg.NewPtrDescribeGroupsRequest()
	for range maxGroups {
		req.Groups = append(req.Groups, "g")
	}
	if n := len(do[*kmsg.DescribeGroupsResponse](c, req, 5).Groups); n != maxGroups {
		t.Fatalf("%d groups are described, want %d", n, maxGroups)
	}
	if used := b.decoding.inUse(); used != 0 {
		t.Fatalf("%d bytes are held for nobody", used)
	}
	req.Groups = append(req.Groups, "one too many")
	req.SetVersion(5)
	c.send(req)
	if _, err := c.nc.Read(make([]byte, 1)); err == nil {
		t.Fatal("it was answered")
	}
	if used := b.decoding.inUse(); used != 0 {
		t.Fatalf("%d bytes are held for nobody", used)
	}
}
