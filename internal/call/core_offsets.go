package call

import "sort"

// Offsets knows which records of one partition are unfinished. Records begin in
// order and end in any. It is a value for one goroutine.
type Offsets struct {
	items  []item
	head   int // items before it have left
	next   int64
	epoch  int32
	open   int
	passed int64
	closed bool
}

type item struct {
	offset int64
	epoch  int32
	done   bool
}

// NewOffsets begins at the offset from which the partition is read.
func NewOffsets(start int64) *Offsets { return &Offsets{next: start, epoch: -1} }

// Begin says that the record at offset entered the task. leaderEpoch travels
// with a commit, so that the next reader notices a log that was cut.
func (o *Offsets) Begin(offset int64, leaderEpoch int32) {
	if o.head > 64 && o.head > len(o.items)/2 {
		n := copy(o.items, o.items[o.head:])
		o.items, o.head = o.items[:n], 0
	}
	o.items = append(o.items, item{offset: offset, epoch: leaderEpoch})
	o.open++
}

// End says that the record is finished. It answers false after Close, and for
// a record that is not open.
func (o *Offsets) End(offset int64) bool {
	if o.closed {
		return false
	}
	live := o.items[o.head:]
	i := sort.Search(len(live), func(i int) bool { return live[i].offset >= offset })
	if i == len(live) || live[i].offset != offset || live[i].done {
		return false
	}
	live[i].done = true
	o.open--
	for o.head < len(o.items) && o.items[o.head].done {
		o.next, o.epoch = o.items[o.head].offset+1, o.items[o.head].epoch
		o.head++
		o.passed++
	}
	return true
}

// Lowest is the lowest unfinished offset: what may be committed. leaderEpoch is
// that of the last record before it, -1 when none has finished.
func (o *Offsets) Lowest() (offset int64, leaderEpoch int32) { return o.next, o.epoch }

// Open is how many records have begun and not ended.
func (o *Offsets) Open() int { return o.open }

// Ahead is how many records have ended above an unfinished one. They will be
// read again if the partition goes away now.
func (o *Offsets) Ahead() int { return len(o.items) - o.head - o.open }

// Passed is how many records lie below Lowest.
func (o *Offsets) Passed() int64 { return o.passed }

// Close ends the story: nothing that ends later changes what may be committed.
// It answers what is thrown away: records begun and not finished, and records
// finished above an unfinished one.
func (o *Offsets) Close() (unfinished, ahead int) {
	if o.closed {
		return 0, 0
	}
	o.closed = true
	return o.Open(), o.Ahead()
}
