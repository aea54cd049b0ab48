package journal

import (
	"fmt"
	"path/filepath"
	"sync"
)

const journalDir = "journal"

func journalName(seq uint64) string { return fmt.Sprintf("%016x.log", seq) }

// journalSegment is one file of the journal. Its sizes belong to whoever owns
// the segment: the committer while it is active, the keeper once it is sealed.
type journalSegment struct {
	seq     uint64
	file    File
	size    int64 // written, and valid
	durable int64 // synced
	length  int64 // of the file, which may go on behind what is valid
	linked  bool  // its directory entry is durable
	suspect bool  // a write or sync of it failed
	touched []*Partition

	refs    int // guarded by segmentSet.mu
	dropped bool
}

// segmentSet finds the open file of a journal segment for readers, and keeps it
// open until the last of them is done, also after the segment was dropped.
type segmentSet struct {
	mu   sync.Mutex
	open map[uint32]*journalSegment // by the low half of the sequence, as extents have it
}

func (s *segmentSet) add(seg *journalSegment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[uint32]*journalSegment{}
	}
	s.open[uint32(seg.seq)] = seg
}

// acquire gives the segment, or nil when it was settled in the meantime.
func (s *segmentSet) acquire(seq uint32) *journalSegment {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.open[seq]
	if seg != nil {
		seg.refs++
	}
	return seg
}

func (s *segmentSet) release(seg *journalSegment) {
	s.mu.Lock()
	seg.refs--
	last := seg.refs == 0 && seg.dropped
	s.mu.Unlock()
	if last {
		seg.file.Close() // read only, and the file is gone: nothing can be lost
	}
}

// drop forgets a segment; its file is closed when nobody reads it any more. It
// says whether that is so already.
func (s *segmentSet) drop(seg *journalSegment) (closed bool) {
	s.mu.Lock()
	delete(s.open, uint32(seg.seq))
	seg.dropped = true
	last := seg.refs == 0
	s.mu.Unlock()
	if last {
		seg.file.Close()
	}
	return last
}

func (s *segmentSet) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for _, seg := range open {
		s.drop(seg)
	}
}

func (l *Log) journalPath(seq uint64) string {
	return filepath.Join(l.cfg.Dir, journalDir, journalName(seq))
}
