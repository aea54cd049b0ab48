package broker

import (
	"slices"
	"sync"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
)

// Memory over all connections. A client pays for what it makes the broker hold:
// the frame that it sends (Broker.frames), what decoding it takes
// (Broker.decoding), and the answers that it does not take (Broker.replies).
// None of them depends on how many clients there are.
const (
	// frameMemory is the bound on frames when queued.max.request.bytes is not
	// set, where Kafka has none.
	frameMemory = 128 << 20
	// decodeMemory bounds what requests become when they are decoded and served.
	decodeMemory = 256 << 20
	// replyMemory bounds answers that wait for their readers.
	replyMemory = 128 << 20
	// smallFrame is what a frame may have before it costs anything.
	smallFrame = 16 << 10
	// decodeFactor is how many times its size a request of short strings and
	// small arrays takes when it is decoded.
	decodeFactor = 64
	// partsFactor is decodeFactor of a request that is served in parts, one for
	// each group.
	partsFactor = 256
	// decodeFree is the largest request whose decoding is not counted.
	decodeFree = 1 << 10
	// frameTime and frameRate bound how long a large frame may take to arrive:
	// what is half there is held.
	frameTime = 30 * time.Second
	frameRate = 64 << 10 // bytes a second
	// slowReader is how long an answer may wait for its reader while memory for
	// answers is used up.
	slowReader = 5 * time.Second
	// memoryRetry is how soon somebody looks again whether there is memory.
	memoryRetry = 25 * time.Millisecond
)

// memory is a number of bytes that many take from.
type memory struct {
	limit     int64
	overdraft bool // one may go on although nothing is left

	mu      sync.Mutex
	used    int64
	lone    bool // somebody goes on although nothing is left
	waiting []*claim
}

// claim is one taking, which waits its turn.
type claim struct {
	n       int64
	lone    bool
	granted chan struct{}
}

// acquire waits for n bytes. Who wants more than there are gets them when nobody
// else has any. With an overdraft, for those who hold a part already and must
// not wait for each other for ever, one goes on besides the others. It returns
// nil when quit is closed first.
func (m *memory) acquire(n int64, quit <-chan struct{}) *claim {
	c := &claim{n: n}
	m.mu.Lock()
	if len(m.waiting) == 0 && m.grant(c) {
		m.mu.Unlock()
		return c
	}
	c.granted = make(chan struct{})
	m.waiting = append(m.waiting, c)
	m.mu.Unlock()
	select {
	case <-c.granted:
		return c
	case <-quit:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.waiting, c); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	} else {
		m.give(c) // it was granted meanwhile
	}
	m.pass()
	return nil
}

// grant takes the bytes of a claim, if it may have them.
func (m *memory) grant(c *claim) bool {
	switch {
	case m.used+c.n <= m.limit, m.used == 0:
	case m.overdraft && !m.lone:
		m.lone, c.lone = true, true
	default:
		return false
	}
	m.used += c.n
	return true
}

// pass serves those who wait, in their order.
func (m *memory) pass() {
	for len(m.waiting) > 0 && m.grant(m.waiting[0]) {
		close(m.waiting[0].granted)
		m.waiting[0] = nil
		m.waiting = m.waiting[1:]
	}
	if len(m.waiting) == 0 {
		m.waiting = nil
	}
}

func (m *memory) give(c *claim) {
	m.used -= c.n
	if c.lone {
		m.lone = false
	}
	c.n, c.lone = 0, false
}

// release gives a claim back; nil and a second time are no error.
func (m *memory) release(c *claim) {
	if c == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.give(c)
	m.pass()
}

// take takes at most n bytes, and at most a quarter of what is left, so that the
// first who come do not leave nothing; 0 when nothing is left.
func (m *memory) take(n int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := max(0, m.limit-m.used)
	n = min(n, left, max(left/4, smallFrame))
	m.used += n
	return n
}

// add takes bytes that somebody has already.
func (m *memory) add(n int64) {
	m.mu.Lock()
	m.used += n
	m.mu.Unlock()
}

func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// plenty tells whether less than half is used: then a size is believed.
func (m *memory) plenty() bool { return m.inUse() < m.limit/2 }

// full tells whether nothing is left.
func (m *memory) full() bool { return m.inUse() >= m.limit }

// shed hangs up on readers that have left an answer standing for too long, to
// make room for others. It looks at most once a second.
func (b *Broker) shed() {
	now := time.Now()
	last := b.shedAt.Load()
	if now.UnixNano()-last < int64(time.Second) || !b.shedAt.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	var slow []*conn
	b.mu.Lock()
	for c := range b.conns {
		if since := c.sending.Load(); since != 0 && now.UnixNano()-since > int64(slowReader) {
			slow = append(slow, c)
		}
	}
	b.mu.Unlock()
	for _, c := range slow {
		b.log.Warn("connection closed", "remote", c.nc.RemoteAddr().String(), "client_id", c.name(), "cause", "it does not read its answers while memory for answers is used up")
		c.hangUp()
	}
}

// inParts tells the APIs whose requests may name several groups.
func inParts(key int16) bool {
	switch key {
	case wire.OffsetFetch, wire.DescribeGroups, wire.DeleteGroups, wire.ConsumerGroupDescribe, wire.StreamsGroupDescribe:
		return true
	}
	return false
}

// heavy tells the APIs whose answers may be much larger than their requests and
// that nobody's lease depends on: they wait until there is memory for answers.
// A fetch asks for it itself.
func heavy(key int16) bool {
	switch key {
	case wire.Metadata, wire.OffsetFetch, wire.DescribeGroups, wire.ListGroups, wire.DescribeConfigs,
		wire.DescribeLogDirs, wire.DescribeProducers, wire.ListConfigResources, wire.DescribeTopicPartitions,
		wire.ElectLeaders, wire.CreateTopics:
		return true
	}
	return false
}
