package journal

import (
	"time"
)

// trim queues a partition whose start has moved.
func (k *keeper) trim(p *Partition) {
	k.mu.Lock()
	k.trims = append(k.trims, p)
	k.mu.Unlock()
	signal(k.wake)
}

// look does what time and change ask for: space below moved start offsets,
// retention, and compaction. It waits for nobody: what needs an entry in the
// journal is queued and comes back as a trim.
func (k *keeper) look() {
	now := time.Now()
	k.applyTrims()
	k.mu.Lock()
	if k.changed {
		k.changed = false
		if k.nextLook.IsZero() {
			k.nextLook = now.Add(k.l.cfg.CheckInterval)
		}
		if k.nextClean.IsZero() {
			k.nextClean = now.Add(k.l.cfg.CleanerBackoff)
		}
	}
	retain := !k.nextLook.IsZero() && !now.Before(k.nextLook)
	clean := !k.nextClean.IsZero() && !now.Before(k.nextClean)
	if retain {
		k.nextLook = time.Time{}
	}
	if clean {
		k.nextClean = time.Time{}
	}
	k.mu.Unlock()
	if !retain && !clean {
		return
	}
	parts := k.l.all()
	if retain && k.retain(parts, now) {
		k.mu.Lock()
		k.nextLook = now.Add(k.l.cfg.CheckInterval)
		k.mu.Unlock()
	}
	k.sealIfWanted(parts, now)
	if !clean {
		return
	}
	again, err := k.compactAll(parts, now)
	k.note(err)
	if again || err != nil {
		k.mu.Lock()
		k.nextClean = now.Add(k.l.cfg.CleanerBackoff)
		k.mu.Unlock()
	}
}

// applyTrims drops what lies below starts that have moved.
func (k *keeper) applyTrims() {
	k.mu.Lock()
	trims := k.trims
	k.trims = nil
	k.mu.Unlock()
	for _, p := range trims {
		k.dropBelowStart(p)
	}
}

// all lists the partitions in no order.
func (l *Log) all() []*Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := make([]*Partition, 0, len(l.numbers))
	for _, p := range l.numbers {
		parts = append(parts, p)
	}
	return parts
}

// dropBelowStart gives back the segments that end below the start.
func (k *keeper) dropBelowStart(p *Partition) {
	p.mu.Lock()
	n := 0
	var bytes int64
	for n < len(p.segments) && p.segments[n].last < p.start {
		bytes += p.segments[n].size
		n++
	}
	dropped := p.segments[:n]
	p.segments = append([]segment(nil), p.segments[n:]...)
	removed := p.removed
	p.mu.Unlock()
	if n == 0 || removed {
		return
	}
	k.l.stats.expired.Add(bytes)
	k.discard(p, dropped)
}

// discard removes files of segments once a checkpoint no longer names them.
func (k *keeper) discard(p *Partition, dropped []segment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range dropped {
		k.garbage = append(k.garbage, p.logPath(s), p.indexPath(s))
	}
	k.unsaved = true
}

// retain moves start offsets by retention.ms and retention.bytes, and forgets
// producers that were idle for too long. It says whether there is anything to
// come back for.
func (k *keeper) retain(parts []*Partition, now time.Time) (again bool) {
	for _, p := range parts {
		p.mu.Lock()
		p.producers.expire(now.Add(-k.l.cfg.ProducerExpiration).UnixMilli())
		p.countProducers()
		start := p.retainFrom(now.UnixMilli())
		moved := start > p.start
		again = again || p.hw > p.start || len(p.producers) > 0
		p.mu.Unlock()
		if moved {
			e := startEntry(p, start)
			// Failing costs space only, and the next look tries again.
			e.control = func(error) {}
			_ = k.l.enqueue(e)
		}
	}
	return again
}

// retainFrom is the first offset that retention keeps, under the lock. As in
// Kafka, whole segments go; what is not settled yet counts as one segment.
func (p *Partition) retainFrom(now int64) int64 {
	start := p.start
	if !p.settings.Delete {
		return start
	}
	i := 0
	if ms := p.settings.RetentionMs; ms >= 0 {
		for i < len(p.segments) && p.segments[i].age(now) > ms {
			start = p.segments[i].last + 1
			i++
		}
		if i == len(p.segments) && len(p.extents) > 0 {
			newest := int64(-1)
			for _, e := range p.extents {
				newest = max(newest, e.maxTs)
			}
			if newest >= 0 && now-newest > ms {
				start = p.hw
			}
		}
	}
	if limit := p.settings.RetentionBytes; limit >= 0 {
		var total int64
		for _, s := range p.segments[i:] {
			total += s.size
		}
		for _, e := range p.extents {
			total += int64(e.size)
		}
		for ; i < len(p.segments) && total-p.segments[i].size >= limit; i++ {
			total -= p.segments[i].size
			start = p.segments[i].last + 1
		}
	}
	return max(start, p.start)
}

// age is by the newest record, as Kafka counts, or by the segment's making when
// its records have no timestamps.
func (s segment) age(now int64) int64 {
	if s.maxTs < 0 {
		return now - s.created
	}
	return now - s.maxTs
}

// sealIfWanted has the active journal segment sealed early when a partition
// has enough in it, or for long enough, that Kafka would have rolled to a new
// segment: otherwise small segment.bytes and segment.ms would do nothing until
// a whole journal segment is full.
func (k *keeper) sealIfWanted(parts []*Partition, now time.Time) {
	for _, p := range parts {
		p.mu.Lock()
		wants := p.wantsSeal(now.UnixMilli())
		p.mu.Unlock()
		if wants {
			_ = k.l.enqueue(pending{seal: true}) // a closed log needs no seal
			return
		}
	}
	for _, p := range parts {
		p.mu.Lock()
		waits := len(p.extents) > 0 && (p.settings.Compact || p.settings.SegmentMs < k.l.cfg.CheckInterval.Milliseconds())
		p.mu.Unlock()
		if waits {
			k.mu.Lock()
			k.nextClean = now.Add(k.l.cfg.CleanerBackoff)
			k.mu.Unlock()
			return
		}
	}
}

func (p *Partition) wantsSeal(now int64) bool {
	if len(p.extents) == 0 {
		return false
	}
	age := p.settings.SegmentMs
	if p.settings.Compact {
		age = min(age, p.settings.MaxCompactionLagMs)
	}
	var bytes int64
	for _, e := range p.extents {
		bytes += int64(e.size)
	}
	return bytes >= p.settings.SegmentBytes || now-p.unsettledSince >= age
}
