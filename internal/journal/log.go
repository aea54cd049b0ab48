package journal

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Log is the log of one data directory. Its methods are safe from many
// goroutines.
type Log struct {
	cfg  Config
	fs   FS
	lock io.Closer

	mu         sync.Mutex // guards the registry; nothing waits under it
	parts      map[ID]*Partition
	numbers    map[uint32]*Partition
	creating   map[ID]bool
	nextNumber uint32
	closed     bool

	queueMu     sync.Mutex // after a Partition.mu, never before
	queue       []pending
	queueClosed bool
	wake        chan struct{} // to the committer: the queue is not empty

	segments segmentSet
	spares   spares
	c        committer
	k        keeper
	ballast  ballast
	stats    counters
	stopped  chan struct{} // closed when both goroutines have ended
}

// counters behind Stats.
type counters struct {
	appends, appendedBytes, groups, syncs, failures          atomic.Int64
	settled, settledBytes, unsettled, hot                    atomic.Int64
	hotReads, journalReads, segmentReads, compacted, expired atomic.Int64
	producers, forgotten, reused                             atomic.Int64
}

// Stats reads the counters.
func (l *Log) Stats() Stats {
	s := &l.stats
	return Stats{
		Appends: s.appends.Load(), AppendedBytes: s.appendedBytes.Load(), Groups: s.groups.Load(), Syncs: s.syncs.Load(),
		Failures: s.failures.Load(), Settled: s.settled.Load(), SettledBytes: s.settledBytes.Load(),
		Unsettled: s.unsettled.Load(), HotBytes: s.hot.Load(), HotReads: s.hotReads.Load(),
		JournalReads: s.journalReads.Load(), SegmentReads: s.segmentReads.Load(), Compacted: s.compacted.Load(),
		Expired: s.expired.Load(), Producers: s.producers.Load(), Forgotten: s.forgotten.Load(),
		Reused: s.reused.Load(),
	}
}

// Partition finds a partition, nil when it is not there.
func (l *Log) Partition(id ID) *Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[id]
}

// Partitions lists all partitions, sorted.
func (l *Log) Partitions() []ID {
	l.mu.Lock()
	ids := make([]ID, 0, len(l.parts))
	for id := range l.parts {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	slices.SortFunc(ids, compareIDs)
	return ids
}

func compareIDs(a, b ID) int {
	if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// Create makes one partition; see CreateAll.
func (l *Log) Create(id ID, s Settings) (*Partition, error) {
	ps, err := l.CreateAll([]ID{id}, s)
	if err != nil {
		return nil, err
	}
	return ps[0], nil
}

// CreateAll makes partitions, all or none, with one write and one sync. They
// are durable when it returns. ErrExists when one of them is there.
func (l *Log) CreateAll(ids []ID, s Settings) ([]*Partition, error) {
	ps, err := l.reserve(ids, s.withDefaults())
	if err != nil {
		return nil, err
	}
	// The group is all or none because its entries go in one write and one
	// sync; after a crash in between some may be there, unacknowledged.
	errs := make(chan error, len(ps))
	batch := make([]pending, len(ps))
	for i, p := range ps {
		batch[i] = pending{kind: kindCreate, p: p, body: appendCreate(nil, p.id, p.settings), control: func(err error) { errs <- err }}
	}
	if err := l.enqueue(batch...); err != nil {
		l.unreserve(ids)
		return nil, fmt.Errorf("create %d partitions: %w", len(ids), err)
	}
	for range ps {
		if e := <-errs; e != nil {
			err = e
		}
	}
	l.unreserve(ids)
	if err != nil {
		return nil, fmt.Errorf("create %d partitions: %w", len(ids), err)
	}
	return ps, nil
}

// reserve takes names and numbers, so that nobody else creates the same.
func (l *Log) reserve(ids []ID, s Settings) ([]*Partition, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	for i, id := range ids {
		if l.parts[id] != nil || l.creating[id] || slices.Contains(ids[:i], id) {
			return nil, fmt.Errorf("create partition %s: %w", id, ErrExists)
		}
	}
	ps := make([]*Partition, len(ids))
	for i, id := range ids {
		l.creating[id] = true
		ps[i] = newPartition(l, id, l.nextNumber, s)
		l.nextNumber++
	}
	return ps, nil
}

func (l *Log) unreserve(ids []ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.creating, id)
	}
}

// Remove removes a partition and all its records. That is durable when it
// returns; space on the disk is given back soon after.
func (l *Log) Remove(id ID) error {
	p := l.Partition(id)
	if p == nil {
		return fmt.Errorf("remove partition %s: %w", id, ErrUnknown)
	}
	if err := l.control(pending{kind: kindRemove, p: p, urgent: true}); err != nil {
		return fmt.Errorf("remove partition %s: %w", id, err)
	}
	return nil
}

// control queues one control entry and waits until it is durable.
func (l *Log) control(e pending) error {
	done := make(chan error, 1)
	e.control = func(err error) { done <- err }
	if err := l.enqueue(e); err != nil {
		return err
	}
	return <-done
}

// enqueue hands entries to the committer, next to each other.
func (l *Log) enqueue(entries ...pending) error {
	l.queueMu.Lock()
	if l.queueClosed {
		l.queueMu.Unlock()
		return ErrClosed
	}
	l.queue = append(l.queue, entries...)
	l.queueMu.Unlock()
	signal(l.wake)
	return nil
}

// signal leaves one token in a channel of capacity one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// String shows an ID as its directory has it.
func (id ID) String() string { return fmt.Sprintf("%x-%d", id.Topic, id.Partition) }

// Close writes what is queued, ends both goroutines and frees the directory.
// Appends that come later get ErrClosed. Closing twice is no error.
func (l *Log) Close() error {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		<-l.stopped
		return nil
	}
	l.queueMu.Lock()
	l.queueClosed = true
	l.queueMu.Unlock()
	close(l.c.stop)
	<-l.c.stopped
	close(l.k.stop)
	<-l.k.stopped
	err := l.c.err
	for _, id := range l.Partitions() {
		l.Partition(id).end()
	}
	l.segments.close()
	l.k.files.close()
	if lockErr := l.lock.Close(); err == nil && lockErr != nil {
		err = fmt.Errorf("unlock %s: %w", l.cfg.Dir, lockErr)
	}
	close(l.stopped)
	return err
}

func (l *Log) path(parts ...string) string {
	return filepath.Join(append([]string{l.cfg.Dir}, parts...)...)
}
