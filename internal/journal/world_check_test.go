package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing/synctest"

	"github.com/rondo-streams/rondo/internal/wire"
)

// book is what a world knows of one partition.
type book struct {
	id      ID
	number  uint32
	p       *Partition
	recs    map[int64]kept // acknowledged, by offset
	end     int64
	byUID   map[string]*sending
	flying  int
	prods   map[int64]*prod
	sentSeq map[int64]int32 // the next sequence while something flies

	asked, started  int64 // starts that were asked for and acknowledged
	goneAsked, gone bool
	solid           int64 // the end that this life found: a power cut does not take it
	solidStart      int64

	compact   bool  // it was compacted at some time
	tombMs    int64 // the least delete.retention.ms that it had
	keepMs    int64 // the least retention.ms
	keepBytes bool  // retention.bytes was limited at some time
	epoch     int32
}

type kept struct {
	offset     int64
	uid        string // in a record header, so that a tombstone has one
	key, value string // key "-": none; value "-": a tombstone
	ts         int64
	at         int64 // when it was acknowledged
}

func (k kept) String() string {
	value := k.value
	if len(value) > 1 {
		value = fmt.Sprintf("%d bytes", len(value))
	}
	return fmt.Sprintf("%d %s:%s uid %s ts %d acknowledged %d", k.offset, k.key, value, k.uid, k.ts, k.at)
}

// sending is one append.
type sending struct {
	batches [][]kept
	n       int
	pid     int64 // -1: not idempotent
	epoch   int16
	seq     int32
	a       Append
	expect  string // "": anything
	result  Result
}

// prod is a producer by what was acknowledged.
type prod struct {
	epoch int16
	last  []*sending // at most keptBatches
}

func newBook(id ID) *book {
	return &book{id: id, recs: map[int64]kept{}, byUID: map[string]*sending{}, prods: map[int64]*prod{}, sentSeq: map[int64]int32{},
		tombMs: forever, keepMs: forever}
}

// note remembers what settings allow to be taken away.
func (g *book) note(s Settings) {
	if s.Compact {
		g.compact = true
		g.tombMs = min(g.tombMs, s.DeleteRetentionMs)
	}
	if s.Delete && s.RetentionMs >= 0 {
		g.keepMs = min(g.keepMs, s.RetentionMs)
	}
	g.keepBytes = g.keepBytes || s.Delete && s.RetentionBytes >= 0
}

// append sends something to some partition.
func (w *world) append() {
	g := w.any()
	if g == nil {
		w.create()
		return
	}
	w.send(g, w.batch(g, w.rng.IntN(3) == 0))
	if w.rng.IntN(12) == 0 {
		if h := w.any(); h != nil && h != g {
			s, u := w.batch(g, false), w.batch(h, false)
			w.depart(g, s)
			w.depart(h, u)
			AppendPair(g.p, s.a, w.done(g, s), h.p, u.a, w.done(h, u))
		}
	}
}

// batch makes an append; one of an idempotent producer is new, a repetition,
// or wrong.
func (w *world) batch(g *book, idempotent bool) *sending {
	r := w.rng
	s := &sending{pid: -1}
	now := wallMs()
	n := 1
	if !idempotent && r.IntN(5) == 0 {
		n = 2 + r.IntN(2)
	}
	for range n {
		var recs []kept
		for range 1 + r.IntN(4) {
			w.next++
			k := kept{uid: fmt.Sprint(w.next), key: "-", value: strings.Repeat("x", pick(r, 0, 10, 60, 60, 300, 900)), ts: now - r.Int64N(3000)}
			if r.IntN(4) > 0 {
				k.key = string('a' + rune(r.IntN(5)))
				if r.IntN(4) == 0 {
					k.value = "-"
				}
			}
			recs = append(recs, k)
		}
		s.batches = append(s.batches, recs)
		s.n += len(recs)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if idempotent {
		w.sequence(g, s)
	}
	if r.IntN(30) == 0 {
		g.epoch++
	}
	s.a = Append{LeaderEpoch: g.epoch, LogAppendTime: r.IntN(6) == 0, Urgent: r.IntN(20) == 0}
	for _, recs := range s.batches {
		o := wire.BatchOptions{Idempotent: s.pid >= 0, ProducerID: s.pid, ProducerEpoch: s.epoch, BaseSequence: s.seq}
		var records []wire.Record
		for _, k := range recs {
			rec := wire.Record{Timestamp: k.ts, Headers: []wire.RecordHeader{{Key: "uid", Value: []byte(k.uid)}}}
			if k.key != "-" {
				rec.Key = []byte(k.key)
			}
			if k.value != "-" {
				rec.Value = []byte(k.value)
			}
			records = append(records, rec)
		}
		s.a.Batches = wire.AppendBatch(s.a.Batches, o, records...)
	}
	return s
}

// sequence makes it an append of an idempotent producer.
func (w *world) sequence(g *book, s *sending) {
	r := w.rng
	s.pid = int64(r.IntN(3))
	p := g.prods[s.pid]
	calm := g.flying == 0
	next := int32(0)
	if p != nil {
		last := p.last[len(p.last)-1]
		s.epoch, next = p.epoch, last.seq+int32(last.n)
	}
	if seq, ok := g.sentSeq[s.pid]; ok && !calm {
		next = seq
	}
	s.seq, s.expect = next, "ok"
	switch {
	case p == nil:
		s.seq = pick(r, next, next, 3)
	case r.IntN(4) == 0:
		old := p.last[r.IntN(len(p.last))]
		s.batches, s.n, s.seq, s.expect = old.batches, old.n, old.seq, "duplicate"
	case r.IntN(8) == 0:
		s.seq, s.expect = next+1+r.Int32N(3), "gap"
	case r.IntN(8) == 0:
		s.epoch, s.seq = s.epoch+1, pick(r, int32(0), 0, 4)
		if s.seq != 0 {
			s.expect = "gap"
		}
	case r.IntN(12) == 0 && s.epoch > 0:
		s.epoch, s.seq, s.expect = s.epoch-1, next, "fenced"
	}
	if s.expect == "ok" {
		g.sentSeq[s.pid] = s.seq + int32(s.n)
	}
	if !calm || w.forgetful {
		s.expect = ""
	}
}

func (w *world) send(g *book, s *sending) {
	w.depart(g, s)
	g.p.Append(s.a, w.done(g, s))
}

func (w *world) depart(g *book, s *sending) {
	w.say("append %s %d records in %d bytes, producer %d epoch %d seq %d %s", g.id, s.n, len(s.a.Batches), s.pid, s.epoch, s.seq, s.expect)
	w.mu.Lock()
	defer w.mu.Unlock()
	g.flying++
	for _, recs := range s.batches {
		for _, k := range recs {
			g.byUID[k.uid] = s
		}
	}
}

// done takes an answer, in the order of the log.
func (w *world) done(g *book, s *sending) func(Result) {
	return func(r Result) {
		w.mu.Lock()
		defer w.mu.Unlock()
		g.flying--
		s.result = r
		class := "ok"
		switch {
		case r.Duplicate:
			class = "duplicate"
		case errors.Is(r.Err, ErrOutOfOrderSequence):
			class = "gap"
		case errors.Is(r.Err, ErrProducerFenced):
			class = "fenced"
		case r.Err != nil:
			if !excused(r.Err) && !errors.Is(r.Err, ErrRemoved) {
				w.t.Errorf("append: %v", r.Err)
			}
			return
		}
		if s.expect != "" && s.expect != class && !g.goneAsked {
			w.t.Errorf("%s: producer %d epoch %d sequence %d: %s, want %s: %v", g.id, s.pid, s.epoch, s.seq, class, s.expect, r.Err)
		}
		switch class {
		case "ok":
			if !g.gone && r.Base < g.end || r.Last-r.Base+1 != int64(s.n) {
				w.t.Errorf("%s: acknowledged %d records at %d to %d, behind %d", g.id, s.n, r.Base, r.Last, g.end)
			}
			g.accept(w, s, r)
		case "duplicate":
			w.repeated(g, s)
		}
	}
}

// accept notes an append that is durable.
func (g *book) accept(w *world, s *sending, r Result) {
	o := r.Base
	for _, recs := range s.batches {
		for _, k := range recs {
			k.offset, k.at = o, wallMs()
			if r.LogAppendTime >= 0 {
				k.ts = r.LogAppendTime
			}
			g.recs[o] = k
			o++
		}
	}
	g.end = max(g.end, o)
	if s.pid < 0 {
		return
	}
	p := g.prods[s.pid]
	if p != nil && !w.forgetful {
		last := p.last[len(p.last)-1]
		if s.epoch < p.epoch || s.epoch > p.epoch && s.seq != 0 || s.epoch == p.epoch && s.seq != last.seq+int32(last.n) {
			w.t.Errorf("%s: producer %d epoch %d sequence %d was taken after epoch %d sequence %d", g.id, s.pid, s.epoch, s.seq, p.epoch, last.seq)
		}
	}
	if p == nil || p.epoch != s.epoch {
		p = &prod{epoch: s.epoch}
		g.prods[s.pid] = p
	}
	p.last = append(p.last, s)
	if len(p.last) > keptBatches {
		p.last = p.last[1:]
	}
}

// repeated checks where a repetition says that the original is.
func (w *world) repeated(g *book, s *sending) {
	if w.forgetful {
		return
	}
	if p := g.prods[s.pid]; p != nil {
		for _, old := range p.last {
			if p.epoch == s.epoch && old.seq == s.seq && old.n == s.n && old.result.Base == s.result.Base && old.result.Last == s.result.Last {
				return
			}
		}
	}
	w.t.Errorf("%s: producer %d epoch %d sequence %d is no repetition: %+v", g.id, s.pid, s.epoch, s.seq, s.result)
}

// recordsOf reads a partition from an offset on, in pieces, at most so many
// times when limit is not negative.
func recordsOf(p *Partition, from int64, maxBytes, limit int) (got []kept, err error) {
	for hw := p.HighWatermark(); from < hw && limit != 0; limit-- {
		batches, err := p.Read(from, maxBytes, true)
		if err != nil {
			return got, err
		}
		if len(batches) == 0 {
			return got, nil
		}
		for _, b := range batches {
			err := wire.EachBatch(b, func(h wire.Header, batch []byte) error {
				if _, err := wire.CheckStored(batch); err != nil {
					return err
				}
				at := from
				from = max(from, h.LastOffset()+1)
				return wire.EachRecord(batch, func(r wire.Record) error {
					if r.Offset < at {
						return nil
					}
					k := kept{offset: r.Offset, key: "-", value: "-", ts: r.Timestamp, uid: string(r.Headers[0].Value)}
					if r.Key != nil {
						k.key = string(r.Key)
					}
					if r.Value != nil {
						k.value = string(r.Value)
					}
					if h.LogAppendTime() {
						k.ts = h.MaxTimestamp
					}
					got = append(got, k)
					return nil
				})
			})
			if err != nil {
				return got, err
			}
		}
	}
	return got, nil
}

// takeUp holds a log that was opened against the books, and opens new ones for
// what survived without an acknowledgement. After a power cut under a policy
// that does not sync, loose, what was done in the last life may be gone.
func (w *world) takeUp(loose bool) {
	books := w.books
	w.books = nil
	left := slices.Clone(w.maybe)
	w.maybe = nil
	for _, id := range w.l.Partitions() {
		p := w.l.Partition(id)
		i := slices.IndexFunc(books, func(g *book) bool { return g.id == id && g.number == p.number })
		var g *book
		if i >= 0 {
			g = books[i]
			books = slices.Delete(books, i, i+1)
		} else if i = slices.IndexFunc(left, func(g *book) bool { return g.id == id }); i >= 0 {
			g = left[i]
			for _, other := range left {
				if other.id == id { // any of them
					g.compact, g.keepBytes = g.compact || other.compact, g.keepBytes || other.keepBytes
					g.tombMs, g.keepMs = min(g.tombMs, other.tombMs), min(g.keepMs, other.keepMs)
				}
			}
		} else {
			w.t.Fatalf("partition %s number %d: nobody made it, or it was made another time", id, p.number)
		}
		if g.gone && !loose {
			w.t.Fatalf("partition %s was removed and is there", id)
		}
		g.p, g.number, g.gone, g.goneAsked = p, p.number, false, false
		w.books = append(w.books, g)
		w.reopen(g, loose)
	}
	for _, g := range books {
		if !g.goneAsked && !loose {
			w.t.Fatalf("partition %s was acknowledged and is gone", g.id)
		}
	}
	w.check(true)
}

// reopen takes over what a start found of one partition.
func (w *world) reopen(g *book, loose bool) {
	got, err := recordsOf(g.p, g.p.Start(), 1+w.rng.IntN(3000), -1)
	for errors.Is(err, errInjected) {
		got, err = recordsOf(g.p, g.p.Start(), 1+w.rng.IntN(3000), -1)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", g.id, err)
	}
	hw := g.p.HighWatermark()
	if loose {
		cut := hw
		for _, k := range got {
			if want, ok := g.recs[k.offset]; ok && want.uid != k.uid {
				cut = min(cut, k.offset)
			}
		}
		if cut < g.solid {
			w.t.Fatalf("%s: the power cut took offset %d; the life began with %d", g.id, cut, g.solid)
		}
		maps.DeleteFunc(g.recs, func(o int64, _ kept) bool { return o >= cut })
		g.end = min(g.end, cut)
		g.started = g.solidStart
		w.recount(g)
	}
	adopted := map[*sending]bool{}
	for _, k := range got {
		if _, ok := g.recs[k.offset]; ok {
			continue
		}
		s := g.byUID[k.uid]
		if s == nil {
			w.t.Fatalf("%s: there is %v, which nobody sent", g.id, k)
		}
		if !adopted[s] {
			adopted[s] = true
			w.adopt(g, s, k)
		}
	}
	g.end = max(g.end, g.p.Start())
	if hw != g.end {
		w.t.Fatalf("%s: the log ends at %d; acknowledged was %d", g.id, hw, g.end)
	}
	clear(g.sentSeq)
	g.solid, g.solidStart = hw, g.p.Start()
	g.started = max(g.started, g.p.Start())
	if last, ok := g.p.EpochAt(hw); ok {
		g.epoch = max(g.epoch, last)
	}
}

// adopt accepts an append that was not acknowledged and is there.
func (w *world) adopt(g *book, s *sending, k kept) {
	o := int64(0)
	for _, recs := range s.batches {
		for _, r := range recs {
			if r.uid == k.uid {
				r := Result{Base: k.offset - o, Last: k.offset - o + int64(s.n) - 1, LogAppendTime: -1}
				if s.a.LogAppendTime {
					r.LogAppendTime = k.ts
				}
				if r.Base < g.end {
					w.t.Fatalf("%s: an append that failed is at %d, before %d", g.id, r.Base, g.end)
				}
				s.result = r
				g.accept(w, s, r)
				return
			}
			o++
		}
	}
}

// recount finds out again what producers are known, from what is left.
func (w *world) recount(g *book) {
	for id, p := range g.prods {
		p.last = slices.DeleteFunc(p.last, func(s *sending) bool { return s.result.Last >= g.end })
		if len(p.last) == 0 {
			delete(g.prods, id)
		}
	}
	w.forgetful = true // batches that newer ones had pushed out are known again
}

// check holds all partitions against the books. When it is calm, there is
// nothing on its way.
func (w *world) check(calm bool) {
	if calm {
		synctest.Wait()
	}
	w.mu.Lock()
	books := slices.Clone(w.books)
	w.mu.Unlock()
	for _, g := range books {
		got, err := recordsOf(g.p, g.p.Start(), 1+w.rng.IntN(3000), -1)
		w.mu.Lock()
		switch {
		case errors.Is(err, ErrRemoved) && g.goneAsked:
		case errors.Is(err, ErrOffsetOutOfRange) && !calm:
		case errors.Is(err, errInjected):
		case err != nil:
			w.t.Errorf("%s: %v", g.id, err)
		case g.gone && len(got) == 0:
		case g.gone && calm:
			w.t.Errorf("%s was removed and can be read", g.id)
		case calm:
			w.checkBook(g, got)
			w.checkTimes(g, got)
			w.checkProducers(g)
		}
		if w.t.Failed() {
			w.say("%s number %d holds %v\nsegments %+v\nextents %+v\nhot %d, compacted to %d", g.id, g.number, got, g.p.segments, g.p.extents, len(g.p.hot), g.p.cleaned)
		}
		w.mu.Unlock()
		if w.t.Failed() {
			w.t.FailNow()
		}
	}
}

// checkBook holds what can be read against what was acknowledged.
func (w *world) checkBook(g *book, got []kept) {
	start, hw, now := g.p.Start(), g.p.HighWatermark(), wallMs()
	if hw != g.end || g.p.End() != hw {
		w.t.Errorf("%s: high watermark %d, end %d; acknowledged was %d", g.id, hw, g.p.End(), g.end)
	}
	if start < g.started || start > hw {
		w.t.Errorf("%s: starts at %d; acknowledged was %d", g.id, start, g.started)
	}
	there := map[int64]bool{}
	newest := map[string]kept{}
	for i, k := range got {
		want, ok := g.recs[k.offset]
		if !ok || want.uid != k.uid || want.key != k.key || want.value != k.value || want.ts != k.ts || i > 0 && got[i-1].offset >= k.offset {
			w.t.Errorf("%s: there is %v, want %v", g.id, k, want)
		}
		there[k.offset] = true
	}
	offsets := slices.Sorted(maps.Keys(g.recs))
	for _, o := range offsets {
		if k := g.recs[o]; k.key != "-" {
			newest[k.key] = k
		}
	}
	for _, o := range offsets {
		k := g.recs[o]
		switch last := newest[k.key]; {
		case o < start:
			if o >= g.asked && !g.compact && !g.keepBytes && (g.keepMs == forever || k.ts+g.keepMs > now) {
				w.t.Errorf("%s: starts at %d, and nobody took %v", g.id, start, k)
			}
			delete(g.recs, o)
		case there[o] && g.compact && last.offset > o && !there[last.offset] && last.offset >= start:
			w.t.Errorf("%s: there is %v, and not the newest %v", g.id, k, last)
		case there[o]:
		case !g.compact:
			w.t.Errorf("%s: acknowledged %v is not there", g.id, k)
		case k.key == "-" || last.offset > o:
		case k.value == "-" && now >= k.at+g.tombMs:
		default:
			w.t.Errorf("%s: acknowledged %v is not there, the newest of its key", g.id, k)
		}
	}
	g.started = max(g.started, start)
}

// checkTimes holds look-ups by time against what was read.
func (w *world) checkTimes(g *book, got []kept) {
	if len(got) == 0 {
		return
	}
	ms := got[w.rng.IntN(len(got))].ts + w.rng.Int64N(3) - 1
	offset, ts, _, ok, err := g.p.OffsetForTime(ms)
	i := slices.IndexFunc(got, func(k kept) bool { return k.ts >= ms })
	switch {
	case errors.Is(err, errInjected):
	case err != nil || ok != (i >= 0):
		w.t.Errorf("%s: look up time %d: found %v, %v, want %v", g.id, ms, ok, err, i >= 0)
	case ok && (offset > got[i].offset || i > 0 && offset <= got[i-1].offset || ts != got[i].ts):
		w.t.Errorf("%s: look up time %d: %d at %d, want %v", g.id, ms, offset, ts, got[i])
	}
	offset, ts, ok, err = g.p.MaxTimestamp()
	best := slices.MaxFunc(got, func(a, b kept) int { return cmp.Compare(a.ts, b.ts) })
	if errors.Is(err, errInjected) {
		return
	}
	if err != nil || !ok || ts != best.ts {
		w.t.Errorf("%s: largest timestamp %d at %d, found %v, %v; want %v", g.id, ts, offset, ok, err, best)
	}
}

// checkProducers holds the table of producers against what was acknowledged.
func (w *world) checkProducers(g *book) {
	if w.forgetful {
		return
	}
	known := map[int64]ProducerState{}
	for _, st := range g.p.Producers() {
		known[st.ID] = st
	}
	for id, p := range g.prods {
		st, last := known[id], p.last[len(p.last)-1]
		if st.Epoch != p.epoch || st.LastSequence != last.seq+int32(last.n)-1 || st.LastOffset != last.result.Last {
			w.t.Errorf("%s: producer %d is %+v, want epoch %d sequence %d+%d at %d", g.id, id, st, p.epoch, last.seq, last.n, last.result.Last)
		}
	}
	if len(known) != len(g.prods) {
		w.t.Errorf("%s: producers %v, want %d", g.id, known, len(g.prods))
	}
}

// checkKeeper wants everything settled and cleaned up.
func (w *world) checkKeeper() {
	l := w.l
	l.k.mu.Lock()
	if l.k.failure != nil || l.k.looked != nil || len(l.k.sealed) > 0 || len(l.k.settled) > 0 || l.stats.unsettled.Load() != 0 {
		w.t.Errorf("the log cannot be settled: %v, %v, %d bytes in %d segments", l.k.failure, l.k.looked, l.stats.unsettled.Load(), len(l.k.sealed))
	}
	l.k.mu.Unlock()
	if l.ballast.spent.Load() || l.cfg.Ballast > 0 && !l.ballast.there.Load() {
		w.t.Errorf("the ballast does not come back")
	}
	named := map[string]bool{l.path(checkpointName): true, l.path(ballastName): true}
	for _, s := range l.spares.files {
		named[s.path] = true
	}
	for _, p := range l.all() {
		p.mu.Lock()
		for _, s := range p.segments {
			named[p.logPath(s)], named[p.indexPath(s)] = true, true
			if s.last < p.start {
				w.t.Errorf("%s: a segment with records to %d, and the start is %d", p.id, s.last, p.start)
			}
		}
		if len(p.extents) > 0 {
			w.t.Errorf("%s: %d extents are not settled", p.id, len(p.extents))
		}
		p.mu.Unlock()
	}
	w.disk.Lock()
	faults := w.faults
	w.disk.Unlock()
	if faults > 0 {
		return // what could not be removed then is removed by the next start
	}
	for path := range w.fs.Files() {
		if !named[path] && !strings.HasPrefix(filepath.Base(path), checkpointTemp) {
			w.t.Errorf("file %s is left", path)
		}
	}
}

// state is everything that a start must find again.
func (w *world) state() string {
	synctest.Wait()
	var b strings.Builder
	for _, id := range w.l.Partitions() {
		p := w.l.Partition(id)
		got, err := recordsOf(p, p.Start(), 5000, -1)
		for errors.Is(err, errInjected) {
			got, err = recordsOf(p, p.Start(), 5000, -1)
		}
		fmt.Fprintf(&b, "%s %d: %d to %d, epochs %v, %d records, %v\n", id, p.number, p.Start(), p.HighWatermark(), p.epochs, len(got), err)
		for _, st := range p.Producers() {
			fmt.Fprintf(&b, "  %+v\n", st)
		}
	}
	return b.String()
}
