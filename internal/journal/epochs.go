package journal

import "sort"

// epochs is the leader-epoch cache of a partition: where each epoch began,
// both columns ascending (Kafka's LeaderEpochFileCache).
type epochs []epochStart

type epochStart struct {
	epoch int32
	start int64
}

// assign notes that a batch of an epoch begins at an offset. An epoch that is
// not newer than the last one changes nothing.
func (e *epochs) assign(epoch int32, start int64) {
	if n := len(*e); epoch < 0 || n > 0 && epoch <= (*e)[n-1].epoch {
		return
	}
	*e = append(*e, epochStart{epoch, start})
}

// cut takes back epochs that begin at or after an offset: the log ends there
// now.
func (e *epochs) cut(end int64) {
	n := len(*e)
	for n > 0 && (*e)[n-1].start >= end {
		n--
	}
	*e = (*e)[:n]
}

// trim moves the first epoch up to the log's new start, and drops those that
// have no record left.
func (e *epochs) trim(start int64) {
	i := sort.Search(len(*e), func(i int) bool { return (*e)[i].start > start }) - 1
	if i < 0 {
		return
	}
	*e = append(epochs{}, (*e)[i:]...)
	(*e)[0].start = start
}

// at is the epoch in which an offset was written: that of the last start that
// is not behind it.
func (e epochs) at(offset int64) (int32, bool) {
	i := sort.Search(len(e), func(i int) bool { return e[i].start > offset }) - 1
	if i < 0 {
		return -1, false
	}
	return e[i].epoch, true
}

// end answers OffsetForLeaderEpoch as Kafka does: the largest epoch that is not
// above the asked one, and where it ended; -1, -1 when nothing is known.
func (e epochs) end(epoch int32, logEnd int64) (int32, int64) {
	if epoch < 0 || len(e) == 0 || epoch > e[len(e)-1].epoch {
		return -1, -1
	}
	if epoch == e[len(e)-1].epoch {
		return epoch, logEnd
	}
	i := sort.Search(len(e), func(i int) bool { return e[i].epoch > epoch })
	if i == 0 {
		// Older than all: it ended where the first one that is known began.
		return epoch, e[0].start
	}
	return e[i-1].epoch, e[i].start
}
