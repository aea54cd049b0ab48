package journal

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

const ballastName = "ballast"

// ballast is a file that holds nothing: space that is kept back. Without it a
// full disk would be a trap, for what gives space back (removing a partition,
// DeleteRecords, retention, settling) has to be written down first. When the
// disk is full the file goes, those few bytes are written, and until there is
// room for the file again ordinary appends are refused, so that producers do
// not take what was meant for the way out.
type ballast struct {
	l     *Log
	size  int64 // 0: none is kept
	there atomic.Bool
	spent atomic.Bool   // there is no room for it: it was given up, or never made
	turn  chan struct{} // of one: whoever fills the disk, with it or a copy, or writes what it was kept for
}

// open finds out whether the file is there, in full.
func (b *ballast) open() error {
	files, err := b.l.fs.List(b.l.cfg.Dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch {
		case f.Name != ballastName:
		case b.size <= 0: // of a process that was told to keep one
			b.l.k.orphans = append(b.l.k.orphans, b.l.path(ballastName))
		case f.Size >= b.size:
			b.there.Store(true)
		}
	}
	return nil
}

// spend gives the space back to the disk, and says whether what is left of it
// may be used: that it was given up before is no reason against.
func (b *ballast) spend() bool {
	if !b.there.CompareAndSwap(true, false) {
		return b.spent.Load()
	}
	b.spent.Store(true)
	if err := b.l.fs.Remove(b.l.path(ballastName)); err != nil && !gone(err) {
		b.l.cfg.Logger.Warn("the ballast of a full disk could not be removed", "err", err)
		return true // another file may have made room
	}
	b.l.cfg.Logger.Warn("the disk is full: the ballast is given up, so that records can still be removed; appends are refused until there is room again",
		"bytes", b.size, "dir", b.l.cfg.Dir)
	return true
}

// keep makes the file when it is not there. Failing is no error: it is tried
// again, and until then appends are refused on a disk that is full. That holds
// after a start as well, or appends would take what the process before had kept.
func (b *ballast) keep() {
	if b.size <= 0 || b.there.Load() {
		return
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if err := b.write(); err != nil {
		b.l.cfg.Logger.Debug("no room for the ballast", "err", err)
		if err := b.l.fs.Remove(b.l.path(ballastName)); err != nil && !gone(err) {
			b.l.cfg.Logger.Warn("a ballast that was not finished could not be removed", "err", err)
		}
		b.lack(err)
		return
	}
	b.there.Store(true)
	if b.spent.CompareAndSwap(true, false) {
		b.l.cfg.Logger.Info("the disk has room again: appends go on")
	}
}

// lack notes an error of a disk that has no room, while no ballast is there.
func (b *ballast) lack(err error) {
	if b.size > 0 && full(err) && !b.there.Load() && b.spent.CompareAndSwap(false, true) {
		b.l.cfg.Logger.Warn("the disk is full, and has no room for the ballast: appends are refused until it has", "bytes", b.size, "dir", b.l.cfg.Dir)
	}
}

func (b *ballast) write() error {
	f, err := b.l.fs.Create(b.l.path(ballastName))
	if err != nil {
		return err
	}
	// Zeros are written, not a hole: only that takes the space.
	piece := make([]byte, min(b.size, 64<<10))
	var bufs [][]byte
	for left := b.size; left > 0; left -= int64(len(piece)) {
		bufs = append(bufs, piece[:min(left, int64(len(piece)))])
	}
	return errors.Join(f.WriteVec(0, bufs...), f.Close())
}

// full says that an error is a full disk.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// refused is the error of an append that the ballast holds off.
func (b *ballast) refused() error {
	return fmt.Errorf("room is kept for removing records: %w", syscall.ENOSPC)
}
