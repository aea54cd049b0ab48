package sim

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	coordinator "github.com/rondo-streams/rondo/internal/group"
)

// This file and the other consumers*.go are the second world of this package:
// plain consumers, which read and commit and do nothing else, around the real
// coordinator of package group. Requests and answers are those of Kafka's
// protocol; what is virtual is the time, the log and the clients, which are the
// Java consumer as far as a group sees it.

// Protocol is how plain consumers share partitions.
type Protocol int8

// The protocols: classic with the range assignor (eager), classic with the
// cooperative sticky one, and KIP-848.
const (
	Range Protocol = iota
	Cooperative
	NextGen
)

// String is the name that scenarios use.
func (p Protocol) String() string {
	return [...]string{"range", "cooperative", "consumer"}[p]
}

// Consumers is a run of plain consumers. Times are since its beginning.
type Consumers struct {
	Members     []Consumer
	Assignor    string        // group.remote.assignor, default the broker's: uniform
	Session     time.Duration // session.timeout.ms, and group.consumer.session.timeout.ms; default 45 s
	Heartbeat   time.Duration // heartbeat.interval.ms, default 3 s
	BrokerBeat  time.Duration // group.consumer.heartbeat.interval.ms, default 5 s; below 0: the coordinator chooses
	MaxPoll     time.Duration // max.poll.interval.ms, default 5 min
	MetadataAge time.Duration // metadata.max.age.ms, default 5 min
	JoinDelay   time.Duration // group.initial.rebalance.delay.ms, default 0
	Partitions  int           // of the topic
	Feeds       []Feed        // of the topic
	Growths     []Growth
	Moves       []time.Duration // when the coordinator moves to another broker
	Load        time.Duration   // how long the new one reads its log
	Loss        float64         // the part of classic heartbeats that never arrive though they are answered
	LossFrom    time.Duration
	NoCommits   bool // a commit is a sign of life to a classic group, too
	Seed        uint64
	RoundTrip   time.Duration // default 2 ms
	For         time.Duration
}

// Consumer is one of them.
type Consumer struct {
	Member
	Instance string // group.instance.id
	Protocol Protocol
}

// Growth is new partitions: the topic has To of them from a time on, or, with
// Other, there is another topic of To partitions, and everybody is subscribed
// to it by its expression.
type Growth struct {
	At    time.Duration
	To    int
	Other bool
}

// Consumed is what came of a run of consumers.
type Consumed struct {
	Events    []cause.Event // of the coordinator; its time is that of [Consumers] after 1970
	Assigned  []Assignment  // what a member owns, whenever it changes
	Revoked   []Taken       // by the protocol, in an orderly way
	Lost      []Taken       // a member heard that it has none any more
	Commits   []Moment      // that committed something
	Refused   []Moment      // commits refused, by the coordinator or by the client itself
	Fatal     []Moment      // a member gave up
	Consumed  int           // records read
	Distinct  int
	Committed int
}

// Taken is how many partitions a member had to give up at a moment.
type Taken struct {
	Moment
	Partitions int
}

// otherTopic is where the partitions of the second topic begin in numbers.
func (s *Consumers) otherTopic() int {
	most := s.Partitions
	for _, g := range s.Growths {
		if !g.Other {
			most = max(most, g.To)
		}
	}
	return most
}

// stage is the world of one run.
type stage struct {
	s     Consumers
	now   time.Duration
	todo  agenda
	order int
	rng   *rand.Rand
	parts []partition
	count [2]int // partitions of the topic and of the other one

	shard   *coordinator.Shard
	home    int // which broker the coordinator is on, counted
	version int64
	durable []coordinator.Record
	token   uint64
	asked   map[uint64]func(kmsg.Response)
	all     []*consumer
	out     Consumed
}

// RunConsumers plays a run.
func RunConsumers(s Consumers) Consumed {
	s.Session, s.Heartbeat = cmp.Or(s.Session, 45*time.Second), cmp.Or(s.Heartbeat, 3*time.Second)
	s.BrokerBeat, s.MaxPoll = cmp.Or(s.BrokerBeat, 5*time.Second), cmp.Or(s.MaxPoll, 5*time.Minute)
	s.MetadataAge, s.RoundTrip = cmp.Or(s.MetadataAge, 5*time.Minute), cmp.Or(s.RoundTrip, 2*time.Millisecond)
	w := &stage{s: s, rng: rand.New(rand.NewPCG(s.Seed, 11)), asked: map[uint64]func(kmsg.Response){}}
	w.count[0] = s.Partitions
	w.parts = make([]partition, w.s.otherTopic())
	for _, g := range s.Growths {
		if g.Other {
			w.parts = append(w.parts, make([]partition, g.To)...)
		}
	}
	feed(&Scenario{Feeds: s.Feeds}, w.parts[:s.Partitions])
	w.open()
	w.carry(w.shard.Step(w.time(), coordinator.Loaded{}))
	for i, m := range s.Members {
		c := &consumer{w: w, idx: i, set: m, generation: -1}
		w.all = append(w.all, c)
		w.at(m.Start, c.start)
	}
	for _, g := range s.Growths {
		w.at(g.At, func() { w.grow(g) })
	}
	for _, at := range s.Moves {
		w.at(at, w.move)
	}
	w.play()
	return w.out
}

func (w *stage) play() {
	for {
		due, ok := w.shard.Next()
		tick := due.Sub(epoch)
		if ok && tick <= w.s.For && (len(w.todo) == 0 || tick <= w.todo[0].at) {
			w.now = max(w.now, tick)
			w.carry(w.shard.Step(w.time(), coordinator.Tick{}))
			continue
		}
		if len(w.todo) == 0 || w.todo[0].at > w.s.For {
			break
		}
		ev := heap.Pop(&w.todo).(deed)
		w.now = ev.at
		ev.do()
	}
	w.now = w.s.For
	for _, c := range w.all {
		c.read()
	}
	for i := range w.parts {
		w.out.Committed += w.parts[i].committed
		for _, n := range w.parts[i].done {
			w.out.Distinct += min(int(n), 1)
		}
	}
}

func (w *stage) time() time.Time { return epoch.Add(w.now) }

func (w *stage) at(t time.Duration, do func()) {
	w.order++
	heap.Push(&w.todo, deed{t, w.order, do})
}

func (w *stage) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// open makes a coordinator of what is durable. It is loaded when it is told.
func (w *stage) open() {
	w.shard = coordinator.New(coordinator.Config{
		InitialRebalanceDelay: cmp.Or(w.s.JoinDelay, -1), MinSession: time.Millisecond,
		ConsumerSession: w.s.Session, ConsumerHeartbeat: max(w.s.BrokerBeat, 0),
	}, rand.New(rand.NewPCG(w.s.Seed, uint64(w.home))))
	w.tell()
	for _, r := range w.durable {
		if err := w.shard.Apply(r); err != nil {
			panic(err) // the coordinator does not read what it wrote
		}
	}
}

// tell says which topics there are.
func (w *stage) tell() {
	w.version++
	topics := []coordinator.Topic{{Name: topicNames()[0], ID: coordinator.TopicID{1}, Partitions: int32(w.count[0])}}
	if w.count[1] > 0 {
		topics = append(topics, coordinator.Topic{Name: topicNames()[1], ID: coordinator.TopicID{2}, Partitions: int32(w.count[1])})
	}
	w.carry(w.shard.Step(w.time(), coordinator.Metadata{Topics: coordinator.NewImage(w.version, topics)}))
}

func (w *stage) grow(g Growth) {
	if g.Other {
		w.count[1] = g.To
	} else {
		w.count[0] = max(w.count[0], g.To)
	}
	w.tell()
}

// move takes the coordinator away and opens it anew, from its log, elsewhere.
func (w *stage) move() {
	w.carry(w.shard.Step(w.time(), coordinator.Unload{}))
	w.home++
	w.open()
	shard := w.shard
	w.after(w.s.Load, func() {
		if w.shard == shard {
			w.carry(shard.Step(w.time(), coordinator.Loaded{}))
		}
	})
}

// carry executes what the coordinator says. Its log is durable at once.
func (w *stage) carry(out coordinator.Output) {
	for {
		for _, r := range out.Replies {
			then := w.asked[r.Token]
			delete(w.asked, r.Token)
			w.after(w.s.RoundTrip/2, func() { then(r.Resp) })
		}
		w.out.Events = append(w.out.Events, out.Events...)
		if out.Seq == 0 {
			return
		}
		w.durable = append(w.durable, out.Records...)
		out = w.shard.Step(w.time(), coordinator.Appended{Seq: out.Seq})
	}
}

// deed is something that happens at a time.
type deed struct {
	at    time.Duration
	order int
	do    func()
}

// agenda is a heap of deeds.
type agenda []deed

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push and Pop are those of package heap.
func (a *agenda) Push(x any) { *a = append(*a, x.(deed)) }

// Pop takes the last.
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// topicNames are the topic and the other one.
func topicNames() [2]string { return [2]string{"t", "t-other"} }

// number is a partition among all of the run.
func (w *stage) number(topic string, p int32) int {
	if topic == topicNames()[1] {
		return w.s.otherTopic() + int(p)
	}
	return int(p)
}

// named is the reverse of number.
func (w *stage) named(n int) (topic int, p int32) {
	if base := w.s.otherTopic(); n >= base {
		return 1, int32(n - base)
	}
	return 0, int32(n)
}

// byTopic lists partitions as requests do.
func (w *stage) byTopic(parts []int, f func(topic int, list []int32)) {
	var lists [2][]int32
	for _, n := range parts {
		t, p := w.named(n)
		lists[t] = append(lists[t], p)
	}
	for t, list := range lists {
		if len(list) > 0 {
			slices.Sort(list)
			f(t, list)
		}
	}
}
