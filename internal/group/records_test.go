package group

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is written is Kafka's, byte for byte: these are the fields of
// OffsetCommitValue and GroupMetadataValue of Kafka 4.2.0, laid out by hand.
func TestRecordBytes(t *testing.T) {
	id := [16]byte{15: 9}
	for _, c := range []struct{ what, key, value string }{
		{
			"a commit by topic name is version 4 without tags",
			"0001 0001 67 0001 74 00000003", // type, group "g", topic "t", partition 3
			"0004 0000000000000005 00000002 02 6d 0000000000000007 00",
		},
		{
			"a commit by topic id names it in tag 0",
			"0001 0001 67 0001 74 00000003",
			"0004 0000000000000005 00000002 02 6d 0000000000000007 01 00 10 00000000000000000000000000000009",
		},
		{
			"a commit with a retention is version 1",
			"0001 0001 67 0001 74 00000003",
			"0001 0000000000000005 0001 6d 0000000000000007 0000000000000008",
		},
	} {
		o := offset{at: 5, epoch: 2, metadata: "m", committedMs: 7, expiresMs: -1}
		switch {
		case strings.Contains(c.what, "topic id"):
			o.topicID = id
		case strings.Contains(c.what, "retention"):
			o.expiresMs = 8
		}
		same(t, c.what, offsetRecord("g", partition{"t", 3}, o), c.key, c.value)
	}
	s := New(Config{}, rand.New(rand.NewPCG(1, 1)))
	g := s.make("g")
	c := g.members.(*classic)
	c.sinceMs = 6
	same(t, "an empty group", c.record(nil), "0002 0001 67", "0003 0000 00000000 ffff ffff 0000000000000006 00000000")
	c.protocolType, c.protocol, c.generation = "consumer", "r", 4
	c.enrol(&member{
		id: "m", instance: kmsg.StringPtr("i"), clientID: "c", host: "/h", session: time.Millisecond, rebalance: 2 * time.Millisecond,
		offers: []offer{{"r", []byte("S")}}, assignment: []byte("A"),
	})
	same(t, "a group with a static member", c.record(nil), "0002 0001 67",
		"0003 0008 636f6e73756d6572 00000004 0001 72 0001 6d 0000000000000006 00000001"+
			"0001 6d 0001 69 0001 63 0002 2f68 00000002 00000001 00000001 53 00000001 41")
}

func same(t *testing.T, what string, r Record, key, value string) {
	t.Helper()
	if got, want := hex.EncodeToString(r.Key), strings.ReplaceAll(key, " ", ""); got != want {
		t.Errorf("%s: key\n%s, want\n%s", what, got, want)
	}
	if got, want := hex.EncodeToString(r.Value), strings.ReplaceAll(value, " ", ""); got != want {
		t.Errorf("%s: value\n%s, want\n%s", what, got, want)
	}
}

// Records of kinds that this version does not know are left alone and counted;
// a known kind that cannot be read, or comes from a newer version, is an error
// that says where.
func TestReplayOfTheUnknown(t *testing.T) {
	s := New(Config{}, rand.New(rand.NewPCG(1, 1)))
	for _, key := range []string{"0009 0001 67", "000f 0001 67 0001 78", "7fff"} {
		if err := s.Apply(Record{Key: unhex(t, key), Value: []byte{0, 0}}); err != nil {
			t.Errorf("key %s: %v", key, err)
		}
	}
	if s.Skipped() != 3 {
		t.Errorf("skipped %d records, want 3", s.Skipped())
	}
	for _, c := range []struct{ key, value, want string }{
		{"00", "", "too short"},
		{"0001 0001 67", "0004", "key of an offset commit"},
		{"0001 0001 67 0001 74 00000000", "0004 00", `offset of group "g" for t-0`},
		{"0001 0001 67 0001 74 00000000", "0005 0000000000000005 00000002 02 6d 0000000000000007 00", "newer version"},
		{"0002 0001 67", "0003 0008 63", `group "g"`},
		{"0002 0001 67", "0009 0000 00000000 00 00 0000000000000006 01 00", "newer version"},
	} {
		err := s.Apply(Record{Key: unhex(t, c.key), Value: unhex(t, c.value)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("key %s value %s: error %v, want one with %q", c.key, c.value, err, c.want)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
