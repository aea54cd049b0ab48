package sim

import (
	"slices"
	"time"
)

// arrival is records that reach a partition together.
type arrival struct {
	at time.Duration
	n  int
}

// partition is the log of one partition and what became of its records.
type partition struct {
	arrivals []arrival // in order of time
	next     int       // the first arrival that has not happened at the time looked at last
	end      int       // records that have arrived by then

	committed int
	done      []uint16 // how often each record's call has ended
	begun     []uint16 // how often each record's call has begun
}

// endAt is the number of records in the log at a time. Times never go back.
func (p *partition) endAt(t time.Duration) int {
	for p.next < len(p.arrivals) && p.arrivals[p.next].at <= t {
		p.end += p.arrivals[p.next].n
		p.next++
	}
	return p.end
}

// nextAfter is when the log grows again; never is Forever.
func (p *partition) nextAfter(t time.Duration) time.Duration {
	p.endAt(t)
	if p.next < len(p.arrivals) {
		return p.arrivals[p.next].at
	}
	return Forever
}

func (p *partition) began(offset int) int {
	for len(p.begun) <= offset {
		p.begun, p.done = append(p.begun, 0), append(p.done, 0)
	}
	p.begun[offset]++
	return int(p.begun[offset])
}

// feed spreads the arrivals of a scenario over its partitions.
func feed(sc *Scenario, parts []partition) {
	for _, f := range sc.Feeds {
		to := f.Partitions
		if to == nil {
			for i := range parts {
				to = append(to, i)
			}
		}
		burst := max(f.Burst, 1)
		if f.Every == 0 {
			burst = f.Total
		}
		at, turn := f.At, 0
		for left := f.Total; left > 0; left -= burst {
			for i, n := 0, min(burst, left); i < min(n, len(to)); i++ {
				share := n / len(to)
				if i < n%len(to) {
					share++
				}
				p := &parts[to[(turn+i)%len(to)]]
				p.arrivals = append(p.arrivals, arrival{at, share})
			}
			turn = (turn + burst) % len(to)
			at += f.Every
		}
	}
	for i := range parts {
		slices.SortStableFunc(parts[i].arrivals, func(a, b arrival) int { return int(a.at - b.at) })
	}
}
