package journal

// AppendPair appends to two partitions of one log, next to each other: the first is
// never durable later than the second, and the second waits for nothing more than
// it would alone. Each is as with Append, and fails or succeeds by itself.
func AppendPair(p *Partition, first Append, firstDone func(Result), q *Partition, second Append, secondDone func(Result)) {
	now := wallMs()
	low, high := p, q
	if q.number < p.number {
		low, high = q, p
	}
	low.mu.Lock()
	high.mu.Lock()
	e, f := p.entry(first, firstDone, now), q.entry(second, secondDone, now)
	err := p.l.enqueue(e, f)
	high.mu.Unlock()
	low.mu.Unlock()
	if err != nil {
		firstDone(failed(err))
		secondDone(failed(err))
	}
}

// entry is an append on its way to the journal, or its refusal.
func (p *Partition) entry(a Append, done func(Result), now int64) pending {
	e := pending{p: p, done: done, at: now}
	if err := p.assign(&e, a); err != nil {
		e.kind, e.body = 0, nil
		e.result = failed(err)
	}
	return e
}

// failed is the result of an append that was not made.
func failed(err error) Result { return Result{Base: -1, Last: -1, LogAppendTime: -1, Err: err} }
