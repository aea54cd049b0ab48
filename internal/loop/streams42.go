package loop

import "time"

// Streams42 is the stream thread of Kafka Streams 4.2.
type Streams42 struct{}

// NewStreams42 starts with N = 1 and the commit clock at zero.
func NewStreams42(set Settings) *Streams42 { return &Streams42{} }

// Step takes the end of the last act and gives the next one.
func (s *Streams42) Step(now time.Time, in In) Act { return Act{} }

// Reading is what can be seen of a Streams42.
type Reading struct {
	N          int       // numIterations: the records of each task in a pass
	LastPoll   time.Time // when the last poll began, as the thread remembers it
	LastCommit time.Time // when the commit clock was restarted; zero: never
	Pass       int       // passes since the thread began
	Queued     int       // records waiting in all tasks
	Tasks      int       // tasks that are ready
	State      State
}

// State is the state of the thread, under Kafka Streams' names.
type State int8

// The states that matter to the loop.
const (
	Starting State = iota
	PartitionsRevoked
	PartitionsAssigned
	Running
)

// N is the number of records of each task in a pass.
func (s *Streams42) N() int { return 1 }

// Reading shows the state.
func (s *Streams42) Reading() Reading { return Reading{} }
