package journal

import (
	"cmp"
	"slices"

	"github.com/rondo-streams/rondo/internal/wire"
)

// producersFloor is how many producers a partition may remember whatever others
// do.
const producersFloor = 64

// use is an append of a producer, by the last offset of its batch.
type use struct{ id, last int64 }

// displaced is a producer, or an epoch of one, that was forgotten for a batch which may still fail:
// until that batch is durable, a checkpoint has to know the producer.
type displaced struct {
	at  int64 // the first offset of the batch
	id  int64
	was *producer
}

// checkpointed is the table as it is without what may still fail, from batches below
// the end of the settled log. What is durable behind that is replayed.
func (p *Partition) checkpointed() producers {
	kept := p.producers.below(p.settled)
	for _, d := range p.displaced {
		if _, ok := kept[d.id]; ok {
			continue
		}
		if old := (producers{d.id: d.was}).below(p.settled); old[d.id] != nil {
			kept[d.id] = old[d.id]
		}
	}
	return kept
}

// remember notes a batch of a producer. A partition knows those that have written
// last, in the order of its log, so that replaying the log finds the same ones.
// Who is forgotten is a new producer when it comes back: any sequence number is a
// beginning, and only a repetition of its last batches is not recognized.
func (p *Partition) remember(h wire.Header, base, last, timestamp, now int64) producerUndo {
	undo := p.producers.add(h, base, last, timestamp, now)
	if p.uses != nil {
		p.uses = append(p.uses, use{h.ProducerID, last})
		if len(p.uses) > 4*(len(p.producers)+producersFloor) {
			p.uses = nil // nobody asks any more
		}
	}
	if undo.known {
		if undo.before.epoch != h.ProducerEpoch {
			// What is known of the epoch before is forgotten for this batch.
			was := undo.before
			undo.forgot, undo.was = h.ProducerID, &was
		}
		return undo
	}
	p.countProducers()
	n := len(p.producers)
	crowded := n > producersFloor && p.l.stats.producers.Load() > int64(p.l.cfg.ProducersInAll)
	if n > p.l.cfg.ProducersMax || crowded {
		undo.forgot = p.stalest()
		undo.was = p.producers[undo.forgot]
		delete(p.producers, undo.forgot)
		p.countProducers()
		p.l.stats.forgotten.Add(1)
	}
	return undo
}

// stalest is the producer that has not written for longest. The order of uses is
// kept from the first time that it is asked for.
func (p *Partition) stalest() int64 {
	for {
		for len(p.uses) > 0 && len(p.uses) <= 2*len(p.producers)+producersFloor {
			u := p.uses[0]
			p.uses = p.uses[1:]
			if s := p.producers[u.id]; s != nil && s.lastOffset() == u.last {
				return u.id
			}
		}
		p.uses = make([]use, 0, 2*len(p.producers)+producersFloor)
		for id, s := range p.producers {
			p.uses = append(p.uses, use{id, s.lastOffset()})
		}
		slices.SortFunc(p.uses, func(a, b use) int { return cmp.Compare(a.last, b.last) })
	}
}

func (s *producer) lastOffset() int64 {
	b, _ := s.newest()
	return b.last
}

// takeBack undoes changes of the table, the last first.
func (p *Partition) takeBack(changes []producerUndo) {
	if len(changes) == 0 || p.removed {
		return // a partition that was removed knows no producers any more
	}
	p.producers.undo(changes)
	p.displaced = slices.DeleteFunc(p.displaced, func(d displaced) bool {
		return slices.ContainsFunc(changes, func(c producerUndo) bool { return c.was == d.was })
	})
	p.uses = nil
	p.countProducers()
}

// countProducers tells the log how many producers are remembered here.
func (p *Partition) countProducers() {
	n := len(p.producers)
	p.l.stats.producers.Add(int64(n - p.counted))
	p.counted = n
}
