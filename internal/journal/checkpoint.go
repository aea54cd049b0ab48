package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// The checkpoint says what the partition files hold and from which journal
// segment on a start must replay. It is one file, written anew each time,
// synced, and renamed over the old one; what it does not name does not exist.
// That makes settling, retention and compaction atomic, whatever files they
// touched. Integers are varints; a CRC-32C of everything stands at the end.
const (
	checkpointName  = "checkpoint"
	checkpointTemp  = "checkpoint.tmp"
	checkpointMagic = "RNDCKPT1"
)

type checkpoint struct {
	first      uint64 // journal segment
	nextNumber uint32
	parts      []partitionState
}

type partitionState struct {
	id        ID
	number    uint32
	settings  Settings
	start     int64
	settled   int64
	cleaned   int64
	segments  []segment
	epochs    epochs
	producers producers // from batches below settled only: the journal has the rest
}

// state is the partition as a checkpoint notes it.
func (p *Partition) state() partitionState {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := slices.Clone(p.epochs)
	e.cut(max(p.settled, p.start+1))
	return partitionState{
		id: p.id, number: p.number, settings: p.settings, start: p.start, settled: p.settled, cleaned: p.cleaned,
		segments: p.segments, epochs: e, producers: p.checkpointed(),
	}
}

func (l *Log) writeCheckpoint(first uint64) error {
	c := checkpoint{first: first}
	l.mu.Lock()
	c.nextNumber = l.nextNumber
	parts := make([]*Partition, 0, len(l.numbers))
	for _, p := range l.numbers {
		parts = append(parts, p)
	}
	l.mu.Unlock()
	slices.SortFunc(parts, func(a, b *Partition) int { return int(a.number) - int(b.number) })
	for _, p := range parts {
		c.parts = append(c.parts, p.state())
	}
	if err := l.replaceCheckpoint(c.encode()); err != nil {
		return fmt.Errorf("write the checkpoint of %s: %w", l.cfg.Dir, err)
	}
	return nil
}

func (l *Log) replaceCheckpoint(b []byte) error {
	f, err := l.fs.Create(l.path(checkpointTemp))
	if err != nil {
		return err
	}
	if err = f.WriteVec(0, b); err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		// A part of it must not hold the space that the next try needs.
		if removeErr := l.fs.Remove(l.path(checkpointTemp)); removeErr != nil && !gone(removeErr) {
			err = errors.Join(err, removeErr)
		}
		return err
	}
	if err := l.fs.Rename(l.path(checkpointTemp), l.path(checkpointName)); err != nil {
		return err
	}
	return l.fs.SyncDir(l.cfg.Dir)
}

func (c checkpoint) encode() []byte {
	b := []byte(checkpointMagic)
	b = binary.AppendUvarint(b, c.first)
	b = binary.AppendUvarint(b, uint64(c.nextNumber))
	b = binary.AppendUvarint(b, uint64(len(c.parts)))
	for _, p := range c.parts {
		b = appendCreate(b, p.id, p.settings)
		b = appendInts(b, int64(p.number), p.start, p.settled, p.cleaned, int64(len(p.segments)))
		for _, s := range p.segments {
			b = appendInts(b, s.base, int64(s.gen), s.size, s.last, s.maxTs, s.created, s.indexed, s.marked)
		}
		b = appendInts(b, int64(len(p.epochs)))
		for _, e := range p.epochs {
			b = appendInts(b, int64(e.epoch), e.start)
		}
		b = appendInts(b, int64(len(p.producers)))
		ids := make([]int64, 0, len(p.producers))
		for id := range p.producers {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			s := p.producers[id]
			b = appendInts(b, id, int64(s.epoch), s.seen, int64(s.count))
			for _, x := range s.batches[:s.count] {
				b = appendInts(b, int64(x.firstSeq), int64(x.lastSeq), x.base, x.last, x.timestamp)
			}
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendInts(b []byte, vs ...int64) []byte {
	for _, v := range vs {
		b = binary.AppendVarint(b, v)
	}
	return b
}

// appendCreate is the body of kindCreate.
func appendCreate(b []byte, id ID, s Settings) []byte {
	b = append(b, id.Topic[:]...)
	b = appendInts(b, int64(id.Partition))
	return appendSettings(b, s)
}

// appendSettings is the body of kindSettings.
func appendSettings(b []byte, s Settings) []byte {
	flags := int64(0)
	if s.Compact {
		flags |= 1
	}
	if s.Delete {
		flags |= 2
	}
	return appendInts(b, flags, s.RetentionMs, s.RetentionBytes, s.SegmentBytes, s.SegmentMs, s.DeleteRetentionMs,
		s.MinCompactionLagMs, s.MaxCompactionLagMs, int64(math.Float64bits(s.MinDirtyRatio)))
}

// reader takes varints from the front of b; bad is sticky.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is a number of things that take at least one byte each, so it cannot
// ask for more memory than the input has.
func (r *reader) count() int {
	n := r.int()
	if n < 0 || n > int64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) create() (id ID, s Settings) {
	if len(r.b) < len(id.Topic) {
		r.bad = true
		return id, s
	}
	copy(id.Topic[:], r.b)
	r.b = r.b[len(id.Topic):]
	id.Partition = int32(r.int())
	return id, r.settings()
}

func (r *reader) settings() Settings {
	flags := r.int()
	return Settings{
		Compact: flags&1 != 0, Delete: flags&2 != 0,
		RetentionMs: r.int(), RetentionBytes: r.int(), SegmentBytes: r.int(), SegmentMs: r.int(), DeleteRetentionMs: r.int(),
		MinCompactionLagMs: r.int(), MaxCompactionLagMs: r.int(), MinDirtyRatio: math.Float64frombits(uint64(r.int())),
	}
}

// readCheckpoint gives an empty one when there is none.
func (l *Log) readCheckpoint() (checkpoint, error) {
	path := l.path(checkpointName)
	f, err := l.fs.Open(path)
	if gone(err) {
		return checkpoint{first: 1, nextNumber: 1}, nil
	}
	if err != nil {
		return checkpoint{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return checkpoint{}, fmt.Errorf("read the checkpoint %s: %w", path, err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return checkpoint{}, fmt.Errorf("read the checkpoint %s: %w", path, err)
	}
	c, err := parseCheckpoint(b)
	if err != nil {
		return checkpoint{}, fmt.Errorf("read the checkpoint %s: %w: restore it from a copy of the whole directory", path, err)
	}
	return c, nil
}

func parseCheckpoint(b []byte) (checkpoint, error) {
	n := len(b) - 4
	if n < len(checkpointMagic) || string(b[:len(checkpointMagic)]) != checkpointMagic {
		return checkpoint{}, fmt.Errorf("%w: not a checkpoint", ErrCorrupt)
	}
	if binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return checkpoint{}, fmt.Errorf("%w: wrong checksum", ErrCorrupt)
	}
	r := reader{b: b[len(checkpointMagic):n]}
	c := checkpoint{first: r.uint(), nextNumber: uint32(r.uint())}
	for count := r.uint(); count > 0 && !r.bad; count-- {
		c.parts = append(c.parts, r.partition())
	}
	if r.bad || len(r.b) > 0 {
		return checkpoint{}, fmt.Errorf("%w: %d bytes too many or too few", ErrCorrupt, len(r.b))
	}
	return c, nil
}

func (r *reader) partition() partitionState {
	var p partitionState
	p.id, p.settings = r.create()
	p.number, p.start, p.settled, p.cleaned = uint32(r.int()), r.int(), r.int(), r.int()
	for n := r.count(); n > 0; n-- {
		p.segments = append(p.segments, segment{
			base: r.int(), gen: uint32(r.int()), size: r.int(), last: r.int(),
			maxTs: r.int(), created: r.int(), indexed: r.int(), marked: r.int(),
		})
	}
	for n := r.count(); n > 0; n-- {
		p.epochs = append(p.epochs, epochStart{int32(r.int()), r.int()})
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		id := r.int()
		s := &producer{epoch: int16(r.int()), seen: r.int()}
		for m := r.count(); m > 0; m-- {
			if s.count == keptBatches {
				r.bad = true
				return p
			}
			s.batches[s.count] = producerBatch{int32(r.int()), int32(r.int()), r.int(), r.int(), r.int()}
			s.count++
		}
		if p.producers == nil {
			p.producers = producers{}
		}
		p.producers[id] = s
	}
	return p
}
