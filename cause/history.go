package cause

import (
	"encoding/json"
	"fmt"
	"slices"
)

// HistoryTopic is the internal topic in which Rondo's broker keeps the events
// of its groups, for any Kafka client to read: one partition, the group id as
// the key, [Event.Record] as the value, the time of the trigger as the
// timestamp. An event has a record when its generation is written, with the stage
// [Begun], and another when it is over: [Settle] makes one of the two. It is made
// with the topic of the groups; its retention.ms and
// retention.bytes say how long the history is.
const HistoryTopic = "__rondo_group_events"

// HistoryVersion is the version of the schema of [Event.Record]. A field that
// is added does not change it; one that is removed or changes its meaning does.
const HistoryVersion = 1

// historyRecord is an Event with the version of its schema in front.
type historyRecord struct {
	Version int `json:"version"`
	Event
}

// Record is the event as the history topic and -o json have it: one JSON
// object with a version. It fails for a time past the year 9999 alone.
func (e Event) Record() ([]byte, error) {
	record, err := json.Marshal(historyRecord{Version: HistoryVersion, Event: e})
	if err != nil {
		return nil, fmt.Errorf("write an event of group %s: %w", e.Group, err)
	}
	return record, nil
}

// ParseRecord reads what Record wrote. Fields that are not known are left
// alone; a version that is newer than [HistoryVersion], or anything that is no
// event, is an error.
func ParseRecord(value []byte) (Event, error) {
	var r historyRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return Event{}, fmt.Errorf("read a group event: %w", err)
	}
	if r.Version < 1 || r.Version > HistoryVersion {
		return Event{}, fmt.Errorf("read a group event: version %d of its schema: this program knows 1 to %d", r.Version, HistoryVersion)
	}
	if r.Group == "" || r.Cause == 0 {
		return Event{}, fmt.Errorf("read a group event: no group or no cause in it")
	}
	return r.Event, nil
}

// Settle makes one event of all records of it, in the order in which each was
// first told: a whole one takes the place of the one that had begun, one that tells
// of the same step at a second attempt replaces it, and what was taken back is left
// out.
func Settle(records []Event) []Event {
	type step struct {
		group    string
		from, to int32
	}
	newest := map[step]int{} // where it stands
	settled := make([]Event, 0, len(records))
	for _, e := range records {
		at := step{e.Group, e.From, e.To}
		i, known := newest[at]
		same := known && settled[i].At.Equal(e.At)
		switch {
		case same && settled[i].Stage == Whole:
			continue // the other records of it came later
		case same:
			settled[i] = e
			continue
		case e.Stage == TakenBack:
			continue
		case known && settled[i].Stage == Begun:
			settled[i].Stage = TakenBack
		}
		newest[at] = len(settled)
		settled = append(settled, e)
	}
	return slices.DeleteFunc(settled, func(e Event) bool { return e.Stage == TakenBack })
}

// ClocksTag is the number of the tagged field with which a client asks Rondo's
// broker for the clocks of members: in a DescribeGroups, ConsumerGroupDescribe
// or StreamsGroupDescribe request it is empty, and each member of the answer
// then has one with the JSON of its [Clocks]. Kafka leaves alone tagged fields
// that it does not know (KIP-482), and no client gets one that it did not ask
// for.
const ClocksTag uint32 = 0x526f6e
