package call

import "time"

// queue is a first-in first-out list through entry.inQueue.
type queue struct {
	head, tail *entry
	len        int
}

func (q *queue) push(e *entry) {
	e.inQueue = nil
	if q.head == nil {
		q.head = e
	} else {
		q.tail.inQueue = e
	}
	q.tail = e
	q.len++
}

func (q *queue) pop() *entry {
	e := q.head
	if e == nil {
		return nil
	}
	q.head, e.inQueue = e.inQueue, nil
	q.len--
	return e
}

// alarms is a heap of times. Each entry has at most one valid alarm, the one
// with its present seq; stale ones are dropped when they come up, and all at
// once when they outnumber the valid ones.
type alarms []alarm

type alarm struct {
	at  time.Time
	id  ID
	seq uint32
}

func (h *alarms) set(e *entry, at time.Time, live map[ID]*entry) {
	e.seq++
	if len(*h) > 2*len(live)+64 {
		h.compact(live)
	}
	*h = append(*h, alarm{at, e.id, e.seq})
	h.up(len(*h) - 1)
}

func (h *alarms) compact(live map[ID]*entry) {
	kept := (*h)[:0]
	for _, a := range *h {
		if e := live[a.id]; e != nil && e.seq == a.seq {
			kept = append(kept, a)
		}
	}
	*h = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// first is the time of the first valid alarm.
func (h *alarms) first(live map[ID]*entry) (time.Time, bool) {
	for len(*h) > 0 {
		if e := live[(*h)[0].id]; e != nil && e.seq == (*h)[0].seq {
			return (*h)[0].at, true
		}
		h.drop()
	}
	return time.Time{}, false
}

// pop answers the entry of the first valid alarm when its time has come.
func (h *alarms) pop(now time.Time, live map[ID]*entry) *entry {
	at, ok := h.first(live)
	if !ok || at.After(now) {
		return nil
	}
	e := live[(*h)[0].id]
	h.drop()
	e.seq++
	return e
}

func (h *alarms) drop() {
	n := len(*h) - 1
	(*h)[0] = (*h)[n]
	*h = (*h)[:n]
	h.down(0)
}

// less breaks ties by age, so that the same story is told the same way.
func (h alarms) less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].id < h[j].id
}

func (h alarms) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h alarms) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
