package group

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timeouts are the times that a member has given to its group.
type Timeouts struct {
	Member    string
	Session   time.Duration // session.timeout.ms; 0: the group's configs say it (consumer and streams groups)
	Rebalance time.Duration // how long the member may take to give partitions up; of Java clients max.poll.interval.ms
}

// TimeoutsOf reads what a record of __consumer_offsets, written by this
// coordinator or by Kafka's, tells of the time-outs of a group's members: all
// of a classic group, one of a consumer or streams group. It is nil for every
// other record, and for one that cannot be read.
func TimeoutsOf(id string, r Record) []Timeouts {
	if len(r.Key) < 2 || len(r.Value) == 0 {
		return nil
	}
	kind := binary.BigEndian.Uint16(r.Key)
	if kind == keyClassic {
		return classicTimeouts(id, r)
	}
	if kind != keyConsumerMember && kind != keyStreamsMember {
		return nil
	}
	var of string
	t := Timeouts{}
	if err := readKey(r.Key, &of, &t.Member); err != nil || of != id {
		return nil
	}
	if kind == keyStreamsMember {
		m, err := decodeStreamsMeta(r.Value)
		if err != nil {
			return nil
		}
		t.Rebalance = m.rebalance
		return []Timeouts{t}
	}
	m, err := decodeMemberMeta(r.Value)
	if err != nil {
		return nil
	}
	t.Rebalance = m.rebalance
	if m.classic != nil {
		t.Session = m.classic.session
	}
	return []Timeouts{t}
}

func classicTimeouts(id string, r Record) []Timeouts {
	var key kmsg.GroupMetadataKey
	var value kmsg.GroupMetadataValue
	if key.ReadFrom(r.Key) != nil || key.Group != id || readValue(&value, r.Value) != nil {
		return nil
	}
	var out []Timeouts
	for _, m := range value.Members {
		out = append(out, Timeouts{m.MemberID, time.Duration(m.SessionTimeoutMillis) * time.Millisecond, time.Duration(m.RebalanceTimeoutMillis) * time.Millisecond})
	}
	return out
}
