package journal

import (
	"errors"
	"fmt"
	"sort"

	"github.com/rondo-streams/rondo/internal/wire"
)

// errFound ends a walk.
var errFound = errors.New("found")

// OffsetForTime finds the first record whose timestamp is ms or later: its
// offset, timestamp and leader epoch. ok is false when there is none. It looks
// into one batch, which it decompresses.
func (p *Partition) OffsetForTime(ms int64) (offset, ts int64, epoch int32, ok bool, err error) {
	err = p.walkFrom(func(maxTs int64) bool { return maxTs >= ms }, func(h wire.Header, batch []byte) error {
		start := p.Start()
		if h.MaxTimestamp < ms || h.LastOffset() < start {
			return nil
		}
		return eachTimed(h, batch, start, func(o, t int64) error {
			if t < ms || o < start {
				return nil
			}
			offset, ts, epoch, ok = o, t, h.LeaderEpoch, true
			return errFound
		})
	})
	if err != nil {
		return 0, 0, 0, false, fmt.Errorf("look up time %d in %s: %w", ms, p.id, err)
	}
	return offset, ts, epoch, ok, nil
}

// MaxTimestamp finds the record with the largest timestamp, the first of them
// when several have it. ok is false when the log is empty.
func (p *Partition) MaxTimestamp() (offset, ts int64, ok bool, err error) {
	p.mu.Lock()
	start, newest, deleted := p.start, int64(-1), int64(-1)
	note := func(base, maxTs int64) {
		if base < start { // its largest may be of a record that is deleted
			deleted = max(deleted, maxTs)
		} else {
			newest = max(newest, maxTs)
		}
	}
	for _, s := range p.segments {
		note(s.base, s.maxTs)
	}
	for _, e := range p.extents {
		note(e.base, e.maxTs)
	}
	p.mu.Unlock()
	if deleted > newest {
		if newest, err = p.largest(newest); err != nil {
			return 0, 0, false, fmt.Errorf("look up the largest timestamp in %s: %w", p.id, err)
		}
	}
	if newest < 0 {
		return 0, 0, false, nil
	}
	offset, ts, _, ok, err = p.OffsetForTime(newest)
	return offset, ts, ok, err
}

// largest is the largest timestamp that is above one, by looking at records.
func (p *Partition) largest(ts int64) (int64, error) {
	start := p.Start()
	err := p.walkFrom(func(maxTs int64) bool { return maxTs > ts }, func(h wire.Header, batch []byte) error {
		if h.MaxTimestamp <= ts || h.LastOffset() < start {
			return nil
		}
		return eachTimed(h, batch, start, func(o, t int64) error {
			if o >= start {
				ts = max(ts, t)
			}
			return nil
		})
	})
	return ts, err
}

// eachTimed gives offsets and timestamps of a batch's records. Log append time
// is one for all, so nothing is decompressed for it, unless the first records of
// the batch are deleted.
func eachTimed(h wire.Header, batch []byte, start int64, f func(offset, ts int64) error) error {
	if h.LogAppendTime() && h.BaseOffset >= start {
		return f(h.BaseOffset, h.MaxTimestamp)
	}
	return wire.EachRecord(batch, func(r wire.Record) error {
		if h.LogAppendTime() {
			r.Timestamp = h.MaxTimestamp
		}
		return f(r.Offset, r.Timestamp)
	})
}

// walkFrom gives the batches of segments and extents whose largest timestamp
// is wanted, in order, until f ends the walk with errFound.
func (p *Partition) walkFrom(wanted func(maxTs int64) bool, f func(wire.Header, []byte) error) error {
	for try := 0; ; try++ {
		p.mu.Lock()
		segments := p.segments
		extents := append([]extent(nil), p.extents...)
		p.mu.Unlock()
		err := p.walk(segments, extents, wanted, f)
		switch {
		case errors.Is(err, errFound):
			return nil
		case (errors.Is(err, errMoved) || gone(err)) && try < readRetries:
			continue
		}
		return err
	}
}

func (p *Partition) walk(segments []segment, extents []extent, wanted func(int64) bool, f func(wire.Header, []byte) error) error {
	for _, s := range segments {
		if !wanted(s.maxTs) {
			continue
		}
		begin, err := p.searchIndex(s, func(e indexEntry) bool { return !wanted(e.before) })
		if err != nil {
			return err
		}
		if err := p.l.k.eachBatchFrom(p, s, begin, f); err != nil {
			return err
		}
	}
	i := sort.Search(len(extents), func(i int) bool { return len(segments) == 0 || extents[i].base > segments[len(segments)-1].last })
	for _, e := range extents[i:] {
		if !wanted(e.maxTs) {
			continue
		}
		datas, err := p.l.readRun(fresh, []extent{e})
		if err != nil {
			return err
		}
		if err := wire.EachBatch(datas[0], f); err != nil {
			return err
		}
	}
	return nil
}
