package journal

import "sync"

// spares are files of settled journal segments that wait to be written over.
//
// Syncing a file that grows makes the file system find blocks and write down
// where they are and how long the file is; writing over blocks that are there
// takes half the time and half the processor. What a spare holds does no harm:
// an entry counts only in the segment whose sequence it has, and no sequence is
// ever used twice (see reuse).
type spares struct {
	mu    sync.Mutex
	files []spare
}

type spare struct {
	path   string
	length int64
}

// keep takes a file that nobody reads, and says whether it did. A file of an
// unusual length is no use, and while the disk is full nothing is kept.
func (s *spares) keep(l *Log, path string, length int64) bool {
	b := &l.ballast
	if length < l.cfg.SegmentBytes/2 || length > 2*l.cfg.SegmentBytes || b.spent.Load() || b.size > 0 && !b.there.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) >= l.cfg.Spares {
		return false
	}
	s.files = append(s.files, spare{path, length})
	return true
}

func (s *spares) take() (spare, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		return spare{}, false
	}
	last := s.files[len(s.files)-1]
	s.files = s.files[:len(s.files)-1]
	return last, true
}

// clear removes all of them, and says whether that made room.
func (s *spares) clear(l *Log) bool {
	freed := false
	for {
		file, ok := s.take()
		if !ok {
			return freed
		}
		if err := l.fs.Remove(file.path); err != nil && !gone(err) {
			l.cfg.Logger.Warn("a spare journal segment could not be removed from a full disk; the next start will", "err", err)
			continue
		}
		freed = true
	}
}

const (
	// pageBytes is the unit in which the page cache reads and writes.
	pageBytes = 4 << 10
	// markBytes: at least so many zeros follow a group, which is where the next
	// start knows its end from.
	markBytes = 4
	// aheadPart: a group of less than this part of Config.Ahead is small.
	aheadPart = 8
)

// reuse gives a new segment the file of a spare, if there is one. Its new name
// is durable before anything is written: so there is no file with entries of a
// sequence that a later start, which goes on after the highest name it finds,
// could use again. When a spare cannot be had, a new file does as well.
func (c *committer) reuse(seg *journalSegment) error {
	old, ok := c.l.spares.take()
	if !ok {
		return nil
	}
	path := c.l.journalPath(seg.seq)
	if err := c.l.fs.Rename(old.path, path); err != nil {
		c.l.cfg.Logger.Warn("a spare journal segment could not be renamed, and is not used", "err", err)
		return nil
	}
	if err := c.l.fs.SyncDir(c.l.path(journalDir)); err != nil {
		return err
	}
	f, err := c.l.fs.Open(path)
	if err != nil {
		return err
	}
	seg.file, seg.length, seg.linked = f, old.length, true
	c.l.stats.reused.Add(1)
	return nil
}

// ahead is how many zeros are to be written behind a group that ends at end.
func (c *committer) ahead(end int64) int64 {
	ahead, seg := c.l.cfg.Ahead, c.active
	if ahead <= 0 || c.l.ballast.spent.Load() {
		return 0
	}
	page := min(pageBytes, ahead)
	to := (end + markBytes + page - 1) / page * page
	if to > seg.length && end-seg.size < ahead/aheadPart {
		to += ahead
	}
	if more := int(to - end); more > len(c.zeros) {
		c.zeros = make([]byte, more)
	}
	return to - end
}
