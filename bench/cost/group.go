package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Group cells: members that speak the protocol themselves, each with its own
// connection, form a group; one more joins; one leaves; then all of them beat as
// fast as the broker answers. They follow what clients do: they come when the
// broker's last answer, or heartbeat.interval.ms, says so, and report at once
// what they have given up or taken. At full speed sixteen beat at a time.

// herd is one group.
type herd struct {
	b     *broker
	group string
	topic string
	parts int
	kind  protocol

	mu      sync.Mutex
	members []*member
	owners  []int8 // of each partition
	owned   int    // partitions that somebody has
	epochs  map[int32]int
	was     int32     // the epoch in which the step began
	moved   time.Time // last change of an owner
	since   time.Time // dark is counted up to here
	dark    float64   // partition-seconds without an owner
	settled chan struct{}
	err     error

	fast  atomic.Bool   // beat without a pause
	gate  chan struct{} // of those in flight then
	beats atomic.Int64
}

// protocol is how members of one kind talk.
type protocol interface {
	// talk has one exchange with the broker and says when the next is due; a
	// plain heartbeat says so.
	talk(m *member) (next time.Duration, plain bool, err error)
	// leave says good-bye for several members of one herd.
	leave(ms []*member) error
}

// member is one client.
type member struct {
	h     *herd
	c     *conn
	id    string
	epoch int32
	own   []int32
	state any // of the protocol

	frame []byte // its plain heartbeat, as long as nothing changes
	wake  chan struct{}
	quit  atomic.Bool
	done  chan struct{}
}

// patience is how long a step may take until everybody is where it belongs.
const patience = 90 * time.Second

// add lets a member begin.
func (h *herd) add(c *conn) {
	h.mu.Lock()
	m := &member{h: h, c: c, wake: make(chan struct{}, 1), done: make(chan struct{}), id: fmt.Sprintf("%s-%04d", h.group, len(h.members))}
	h.members = append(h.members, m)
	h.epochs[m.epoch]++
	h.mu.Unlock()
	go m.live()
}

func (m *member) live() {
	defer close(m.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !m.quit.Load() {
		fast := m.h.fast.Load()
		if fast {
			m.h.gate <- struct{}{}
		}
		next, plain, err := m.h.kind.talk(m)
		if fast {
			<-m.h.gate
		}
		if err != nil {
			m.h.fail(fmt.Errorf("member %s in epoch %d: %w", m.id, m.epoch, err))
			return
		}
		if plain && fast && m.h.fast.Load() {
			m.h.beats.Add(1)
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-m.wake:
		}
	}
}

func (h *herd) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
	h.look()
}

// have notes what a member has from now on, and in which epoch.
func (m *member) have(own []int32, epoch int32) {
	h := m.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick()
	now := time.Now()
	for i, list := range [][]int32{m.own, own} {
		for _, p := range list {
			if i == 0 {
				h.owners[p]--
				h.owned -= zero(h.owners[p])
			} else {
				h.owned += zero(h.owners[p])
				h.owners[p]++
			}
		}
	}
	for _, p := range own {
		if h.owners[p] > 1 {
			h.err = errors.Join(h.err, fmt.Errorf("partition %d has %d owners", p, h.owners[p]))
		}
	}
	if !same(m.own, own) {
		h.moved, m.own = now, own
	}
	h.inEpoch(m, epoch)
	h.look()
}

func zero(n int8) int {
	if n == 0 {
		return 1
	}
	return 0
}

func same(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	in := make(map[int32]bool, len(a))
	for _, p := range a {
		in[p] = true
	}
	for _, p := range b {
		if !in[p] {
			return false
		}
	}
	return true
}

func (h *herd) inEpoch(m *member, epoch int32) {
	if h.epochs[m.epoch]--; h.epochs[m.epoch] == 0 {
		delete(h.epochs, m.epoch)
	}
	if epoch >= 0 {
		h.epochs[epoch]++
	}
	if m.epoch != epoch {
		m.epoch, m.frame = epoch, nil
	}
}

// tick counts what has been without an owner since the last look.
func (h *herd) tick() {
	now := time.Now()
	h.dark += float64(h.parts-h.owned) * now.Sub(h.since).Seconds()
	h.since = now
}

// look tells the step that it is over: everybody is in one new epoch, everything
// has an owner, and the load is even.
func (h *herd) look() {
	if h.settled == nil || h.err == nil && (h.owned < h.parts || len(h.epochs) != 1 || h.epochs[h.was] > 0) {
		return
	}
	low := h.parts / len(h.members)
	for _, m := range h.members {
		if h.err == nil && (len(m.own) < low || len(m.own) > low+1) {
			return
		}
	}
	close(h.settled)
	h.settled = nil
}

// step does something to the group and waits until it is at rest again.
func (h *herd) step(r reading, name string, do func() error) error {
	cpu, err := cpuSeconds(h.b.pid)
	if err != nil {
		return err
	}
	settled := make(chan struct{})
	h.mu.Lock()
	began := time.Now()
	h.since, h.moved, h.dark, h.settled = began, began, 0, settled
	for epoch := range h.epochs {
		h.was = epoch
	}
	h.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	select {
	case <-settled:
	case <-time.After(patience):
		h.fail(errors.New("the group did not come to rest"))
	}
	after, err := cpuSeconds(h.b.pid)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick()
	r[name+": everything owned, s"] = h.moved.Sub(began).Seconds()
	r[name+": one epoch, s"] = h.since.Sub(began).Seconds()
	r[name+": dark partition-s"] = h.dark
	r[name+": broker CPU, s"] = after - cpu
	return errors.Join(h.err, err)
}

// drop lets members leave, as clients do that are closed.
func (h *herd) drop(gone []*member) error {
	for _, m := range gone {
		m.quit.Store(true)
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	for _, m := range gone {
		<-m.done
	}
	h.mu.Lock()
	keep := h.members[:0:0]
	for _, m := range h.members {
		if !m.quit.Load() {
			keep = append(keep, m)
		}
	}
	h.members = keep
	h.mu.Unlock()
	for _, m := range gone {
		m.have(nil, -1)
	}
	return h.kind.leave(gone)
}

// groupCell is a cell of n members on so many partitions.
func groupCell(kind func() protocol, name string, n, parts int) func(*broker, float64, int) (reading, error) {
	return func(b *broker, secs float64, rep int) (reading, error) {
		members, parts := n, parts
		if rep < 0 { // a warm-up need not be the whole thing
			members, parts = min(n, 20), min(parts, 100)
		}
		topic := fmt.Sprintf("herd-%d", parts)
		if err := keptTopic(b, topic, int32(parts)); err != nil {
			return nil, err
		}
		group := fmt.Sprintf("%s-%d-%d-%d", name, n, parts, rep)
		h := &herd{b: b, group: group, topic: topic, parts: parts, kind: kind(),
			owners: make([]int8, parts), epochs: map[int32]int{}, gate: make(chan struct{}, 16)}
		conns := make([]*conn, members+1)
		for i := range conns {
			c, err := dial(b.addr)
			if err != nil {
				return nil, err
			}
			defer c.Close() //nolint:errcheck // of a connection that is done with
			conns[i] = c
		}
		if err := waitForGroup(conns[0], h.group); err != nil {
			return nil, err
		}
		return h.measure(conns, secs)
	}
}

// keptTopic creates a topic that later cells use too: to create thousands of
// partitions takes Kafka half a minute and more.
func keptTopic(b *broker, name string, partitions int32) error {
	err := newTopic(b, name, partitions, false)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

func (h *herd) measure(conns []*conn, secs float64) (reading, error) {
	r := reading{}
	last := len(conns) - 1
	err := h.step(r, "form", func() error {
		for _, c := range conns[:last] {
			h.add(c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("forming: %w", err)
	}
	time.Sleep(time.Second)
	if err := h.step(r, "join", func() error { h.add(conns[last]); return nil }); err != nil {
		return nil, fmt.Errorf("one joins: %w", err)
	}
	time.Sleep(time.Second)
	if err := h.step(r, "leave", func() error { return h.drop(h.members[last/2 : last/2+1]) }); err != nil {
		return nil, fmt.Errorf("one leaves: %w", err)
	}
	if err := h.beat(r, secs); err != nil {
		return nil, fmt.Errorf("beating: %w", err)
	}
	return r, h.drop(h.members)
}

// beat has everybody beat as fast as the broker answers.
func (h *herd) beat(r reading, secs float64) error {
	before, err := cpuSeconds(h.b.pid)
	if err != nil {
		return err
	}
	h.beats.Store(0)
	h.fast.Store(true)
	for _, m := range h.members {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	began := time.Now()
	time.Sleep(time.Duration(secs * float64(time.Second)))
	h.fast.Store(false)
	n, took := float64(h.beats.Load()), time.Since(began).Seconds()
	after, err := cpuSeconds(h.b.pid)
	if n == 0 {
		err = errors.Join(err, errors.New("nobody did"))
	}
	r["beats/s +"], r["broker CPU, us a beat"] = n/took, (after-before)/n*1e6
	return errors.Join(h.err, err)
}

// groupColumns are the columns of a whole group cell.
func groupColumns() []string {
	columns := []string{}
	for _, step := range []string{"form", "join", "leave"} {
		columns = append(columns, step+": everything owned, s", step+": one epoch, s", step+": broker CPU, s")
	}
	return append(columns, "join: dark partition-s", "leave: dark partition-s", "beats/s +", "broker CPU, us a beat")
}

func groupCells() []cell {
	dark := []string{"join: everything owned, s", "join: dark partition-s", "leave: everything owned, s", "leave: dark partition-s"}
	commits := []string{"commits/s +", "p50, ms", "p99, ms", "broker CPU, us a commit"}
	return []cell{
		{name: "durable commits of 10 offsets, 16 groups", columns: commits, run: durableCommits},
		{name: "group, eager: 10 members, 100 partitions, an eleventh joins", columns: dark, run: groupCell(eager, "eager", 10, 100)},
		{name: "group, cooperative: 10 members, 100 partitions, an eleventh joins", columns: dark, run: groupCell(cooperative, "cooperative", 10, 100)},
		{name: "group, consumer: 10 members, 100 partitions, an eleventh joins", columns: dark, run: groupCell(consumer, "consumer", 10, 100)},
		{name: "group, cooperative: 100 members, 1,000 partitions", columns: groupColumns(), run: groupCell(cooperative, "cooperative", 100, 1000)},
		{name: "group, consumer: 100 members, 1,000 partitions", columns: groupColumns(), run: groupCell(consumer, "consumer", 100, 1000)},
		{name: "group, streams: 100 members, 1,000 tasks", columns: groupColumns(), run: groupCell(streams, "streams", 100, 1000)},
		{name: "group, cooperative: 1,000 members, 9,900 partitions", columns: groupColumns(), run: groupCell(cooperative, "cooperative", 1000, 9900)},
		{name: "group, consumer: 1,000 members, 9,900 partitions", columns: groupColumns(), run: groupCell(consumer, "consumer", 1000, 9900)},
		{name: "coordinator load: 1,000 groups, 100 offsets each, committed 20 times",
			columns: []string{"start to the last offset, ms", "broker CPU, s", "records/s +"}, run: loadCell(1000, 100, 20)},
	}
}
