package loop

import (
	"cmp"
	"strconv"
	"time"
)

// TaskID names a task: one partition group of one subtopology.
type TaskID struct{ Sub, Part int32 }

// String is the task as Kafka Streams writes it: "0_3" is partition 3 of
// subtopology 0.
func (t TaskID) String() string {
	return strconv.Itoa(int(t.Sub)) + "_" + strconv.Itoa(int(t.Part))
}

// Compare orders tasks by subtopology, then by partition. It is the order in
// which a pass visits them.
func (t TaskID) Compare(u TaskID) int {
	if c := cmp.Compare(t.Sub, u.Sub); c != 0 {
		return c
	}
	return cmp.Compare(t.Part, u.Part)
}

// Settings are the knobs of a loop, under Kafka's names where Kafka has them.
// A zero field means its default.
type Settings struct {
	MaxPollInterval time.Duration // max.poll.interval.ms, default 5 min
	CommitInterval  time.Duration // commit.interval.ms, default 30 s
	PollTimeout     time.Duration // poll.ms, default 100 ms (Streams42)
	MaxPollRecords  int           // max.poll.records, default 1000 as in Kafka Streams; kept by the shell of the consumer
	BufferedRecords int           // buffered.records.per.partition, default 1000
	Burst           time.Duration // how long one lane runs before the clocks are looked at, default 100 ms (PerCall)
	Punctuates      bool          // the topology has punctuations: Streams42 asks for them once a pass
	FirstN          int           // the N that a Streams42 begins with, default 1; a prediction begins with one that was learned before
	Whole           bool          // a pass of Streams42 takes all that is queued and N plays no part: a plain consumer, which handles what a poll gave it and polls again
}

// WithDefaults fills the zero fields in.
func (s Settings) WithDefaults() Settings {
	s.MaxPollInterval = cmp.Or(s.MaxPollInterval, 5*time.Minute)
	s.CommitInterval = cmp.Or(s.CommitInterval, 30*time.Second)
	s.PollTimeout = cmp.Or(s.PollTimeout, 100*time.Millisecond)
	s.MaxPollRecords = cmp.Or(s.MaxPollRecords, 1000)
	s.BufferedRecords = cmp.Or(s.BufferedRecords, 1000)
	s.Burst = cmp.Or(s.Burst, 100*time.Millisecond)
	s.FirstN = max(s.FirstN, 1)
	return s
}

// Delivery is a number of records of one task.
type Delivery struct {
	Task    TaskID
	Records int
}
