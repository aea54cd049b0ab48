package group

import (
	"container/heap"
	"time"
)

// alarm is one deadline: of a member's session, of a join phase, of the next
// look for expired offsets. It rings once each time it is set.
type alarm struct {
	at    time.Time
	order uint64 // alarms of one instant ring in the order in which they were set
	place int    // in the queue, counted from one; 0: not set
	ring  func()
}

// alarms are those that are set, the next one first.
type alarms struct {
	queue alarmQueue
	order uint64
}

// set sets an alarm, or moves it when it is set already.
func (as *alarms) set(a *alarm, at time.Time) {
	as.order++
	a.at, a.order = at, as.order
	if a.place == 0 {
		heap.Push(&as.queue, a)
		return
	}
	heap.Fix(&as.queue, a.place-1)
}

func (as *alarms) stop(a *alarm) {
	if a.place > 0 {
		heap.Remove(&as.queue, a.place-1)
	}
}

func (as *alarms) clear() {
	for _, a := range as.queue {
		a.place = 0
	}
	as.queue = nil
}

func (as *alarms) next() (time.Time, bool) {
	if len(as.queue) == 0 {
		return time.Time{}, false
	}
	return as.queue[0].at, true
}

// due takes the next alarm whose time has come, or nil.
func (as *alarms) due(now time.Time) *alarm {
	if len(as.queue) == 0 || as.queue[0].at.After(now) {
		return nil
	}
	return heap.Pop(&as.queue).(*alarm)
}

type alarmQueue []*alarm

func (q alarmQueue) Len() int { return len(q) }

func (q alarmQueue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}

func (q alarmQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (q *alarmQueue) Push(x any) {
	a := x.(*alarm)
	*q = append(*q, a)
	a.place = len(*q)
}

func (q *alarmQueue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	a.place = 0
	return a
}
