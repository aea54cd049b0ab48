package broker

import (
	"strings"
	"testing"

	"github.com/rondo-streams/rondo/internal/journal"
)

// A record of the metadata partition that makes no sense is an error, never a
// panic and never more memory than it has bytes times a little.
func FuzzMetadataRecord(f *testing.F) {
	f.Add("cluster", []byte(`{"id":"x"}`))
	f.Add("producer-ids", []byte(`{"next":1000}`))
	f.Add("topic:t", []byte(`{"id":"AAAAAAAAAAAAAAAAAAAAEQ","partitions":3,"configs":{"retention.ms":"1"}}`))
	f.Add("topic:t", []byte(nil))
	f.Add("topic:t", []byte(`{"id":"AAAAAAAAAAAAAAAAAAAAEQ","partitions":-1}`))
	f.Add("group:g", []byte(`{"a":"b"}`))
	f.Add("broker:", []byte(`{"a":1}`))
	f.Add("other:", []byte(`{}`))
	b := startBroker(f)
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		if strings.Contains(string(value), "00000") {
			return // so many partitions take their time
		}
		c := &catalog{
			byName: map[string]*topic{}, byID: map[topicID]*topic{},
			groups: map[string]map[string]string{}, brokers: map[string]map[string]string{},
		}
		if err := c.apply(b, key, value); err != nil && !strings.Contains(err.Error(), "metadata record") {
			t.Fatalf("error without its place: %v", err)
		}
	})
}

// Partitions that no topic names were left by a crash, between their creation
// and the record of their topic, or between a topic's end and theirs: they are
// dropped at the next start.
func TestOrphansAreDropped(t *testing.T) {
	fs := &journal.MemFS{}
	open := func(c *Config) { c.Dir, c.FS = "data", fs }
	b := startBroker(t, open)
	id := dialClient(t, b).makeTopic("t", 1, nil)
	strange := journal.ID{Topic: newTopicID(), Partition: 0}
	beyond := journal.ID{Topic: id, Partition: 1}
	for _, o := range []journal.ID{strange, beyond} {
		if _, err := b.journal.Create(o, journal.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, open)
	if b.journal.Partition(strange) != nil || b.journal.Partition(beyond) != nil {
		t.Error("orphans are still there")
	}
	if len(b.catalog().topic("t").partitions) != 1 {
		t.Error("the topic has changed")
	}
}

// A topic whose partitions are gone stops the start: data is missing.
func TestMissingPartitionStopsTheStart(t *testing.T) {
	fs := &journal.MemFS{}
	c := Config{Dir: "data", FS: fs, Listen: "127.0.0.1:0"}
	b := startBroker(t, func(c *Config) { c.Dir, c.FS = "data", fs })
	id := dialClient(t, b).makeTopic("t", 1, nil)
	if err := b.journal.Remove(journal.ID{Topic: id, Partition: 0}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "topic t: partition 0") {
		t.Errorf("started: %v", err)
	}
}
