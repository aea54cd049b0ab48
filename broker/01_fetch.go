package broker

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readCommitted is the isolation level of those who read transactions.
const readCommitted = 1

// fetch is a Fetch request: what it asks for, and how long it may wait.
type fetch struct {
	b        *Broker
	rq       *request
	msg      *kmsg.FetchRequest
	parts    []*fetchPart
	session  *fetchSession
	full     bool // every partition is answered, changed or not
	deadline time.Time
	loans    []*loan // of the attempt
}

// parking is one wait of a fetch. Whoever ends it first goes on.
type parking struct {
	f       *fetch
	mu      sync.Mutex
	over    bool
	cancels []func() // of the timer and of the journal's waiters
}

// fetched is what one partition gives.
type fetched struct {
	part      *fetchPart
	code      int16
	watermark int64
	start     int64
	diverged  bool // the client's log went another way: epoch and end say where
	epoch     int32
	end       int64
	records   [][]byte
	size      int
	log       *journal.Partition
	at        *partition // as it was when it was asked
	aborted   bool       // an empty list of aborted transactions is written, not null
}

// handleFetch answers with what is there, when that is enough or something is
// wrong; otherwise it waits for more, until its time is up.
func (b *Broker) handleFetch(rq *request) {
	msg := rq.msg.(*kmsg.FetchRequest)
	parts, session, e := b.sessions.context(msg, rq.at)
	if e != nil {
		rq.replyFrames(encodeFetch(rq, e.Code, 0, nil))
		return
	}
	f := &fetch{
		b: b, rq: rq, msg: msg, parts: parts, session: session,
		full:     session == nil || msg.SessionEpoch == sessionInitial,
		deadline: rq.at.Add(time.Duration(msg.MaxWaitMillis) * time.Millisecond),
	}
	f.attempt()
}

// attempt reads and answers, or parks.
func (f *fetch) attempt() {
	over := !time.Now().Before(f.deadline)
	wants := f.wants()
	room := f.b.replies.take(wants)
	if room == 0 {
		f.b.shed()
		if !over {
			f.park(nil, time.Now().Add(memoryRetry))
			return
		}
	}
	limit := min(int(f.msg.MaxBytes), f.b.fetchMax)
	if room < wants {
		limit = min(limit, int(room))
	}
	got, enough := f.read(limit, room > 0)
	if enough || len(f.parts) == 0 || over {
		f.reply(got) // and what it has is counted
		f.b.replies.add(-room)
		return
	}
	f.b.replies.add(-room)
	f.b.lender.takeBack(f.loans)
	f.loans = nil
	f.park(got, f.deadline)
}

// space is memory for records that come from the disk.
func (f *fetch) space(n int) []byte {
	b, l := f.b.lender.lend(n)
	if l != nil {
		f.loans = append(f.loans, l)
	}
	return b
}

// wants is the most that the answer may carry, and not nothing.
func (f *fetch) wants() int64 {
	sum := int64(0)
	for _, p := range f.parts {
		sum += int64(max(p.maxBytes, 0))
	}
	return max(1, min(sum, int64(f.msg.MaxBytes), int64(f.b.fetchMax)))
}

// read collects what there is, at most left bytes, but one batch at least if one
// says so. It reports whether that is reason enough to answer.
func (f *fetch) read(left int, one bool) (got []fetched, enough bool) {
	c := f.b.catalog()
	got = make([]fetched, 0, len(f.parts))
	bytes := 0
	for _, p := range f.parts {
		r := f.readPart(c, p, min(int(p.maxBytes), left), one)
		if r.size > 0 {
			one = false
			left = max(0, left-r.size)
			bytes += r.size
		}
		enough = enough || r.code != 0 || r.diverged
		got = append(got, r)
	}
	return got, enough || bytes >= int(f.msg.MinBytes)
}

func (f *fetch) readPart(c *catalog, p *fetchPart, limit int, one bool) fetched {
	r := fetched{part: p, watermark: -1, start: -1}
	t, missing := c.topic(p.key.name), kerr.UnknownTopicOrPartition
	if f.msg.Version >= 13 {
		t, missing = c.byID[p.key.id], kerr.UnknownTopicID
	}
	at := t.partition(p.key.n)
	if at == nil {
		r.aborted, r.code = true, kerr.UnknownTopicOrPartition.Code
		if t == nil {
			r.code = missing.Code
		}
		return r
	}
	r.at = at
	if r.code = f.rq.checkLeader(at, p.epoch); r.code != 0 {
		return r
	}
	r.log = at.log
	if p.last >= 0 {
		epoch, end := at.epochEnd(p.last)
		if epoch < 0 || end < 0 {
			r.code = kerr.OffsetOutOfRange.Code
			return r
		}
		if epoch < p.last || end < p.offset {
			r.diverged, r.epoch, r.end = true, epoch, end
		}
	}
	watermark, start := at.log.HighWatermark(), at.log.Start()
	if p.offset < start || p.offset > watermark {
		r.code = kerr.OffsetOutOfRange.Code
		return r
	}
	r.watermark, r.start = watermark, start
	r.aborted = f.msg.IsolationLevel == readCommitted
	if r.diverged || p.offset == watermark || limit <= 0 && !one {
		return r
	}
	records, err := at.log.ReadInto(f.space, p.offset, limit, one)
	if err != nil {
		r.watermark, r.start = -1, -1
		if r.code = errorCode(err); r.code == kerr.KafkaStorageError.Code {
			f.b.log.Error("fetch", "topic", t.name, "partition", p.key.n, "offset", p.offset, "cause", err)
		}
		return r
	}
	r.records = records
	for _, chunk := range records {
		r.size += len(chunk)
	}
	return r
}

// park waits for the first of: an append to any of the partitions, the end of
// the wait, the client going away.
func (f *fetch) park(got []fetched, until time.Time) {
	w := &parking{f: f}
	timer := time.AfterFunc(time.Until(until), w.wake)
	w.add(func() { timer.Stop() })
	for _, r := range got {
		if r.log != nil {
			w.add(r.log.Wait(max(r.watermark, r.part.offset), w.wakeLater))
		}
	}
	f.rq.onHangUp(func() {
		if w.end() {
			f.b.sessions.release(f.session)
			f.rq.silence()
		}
	})
}

// add keeps what ends a part of the wait, or calls it when the wait is over.
func (w *parking) add(cancel func()) {
	w.mu.Lock()
	over := w.over
	if !over {
		w.cancels = append(w.cancels, cancel)
	}
	w.mu.Unlock()
	if over {
		cancel()
	}
}

// end ends the wait; only the first caller gets true.
func (w *parking) end() bool {
	w.mu.Lock()
	first, cancels := !w.over, w.cancels
	w.over, w.cancels = true, nil
	w.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
	return first
}

// wakeLater is called by the journal, which must not be kept.
func (w *parking) wakeLater() {
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if !over {
		go w.wake()
	}
}

func (w *parking) wake() {
	if w.end() {
		w.f.attempt()
	}
}

// reply answers, and remembers in the session what was told.
func (f *fetch) reply(got []fetched) {
	f.rq.loans = f.loans
	if f.session == nil {
		f.rq.replyFrames(f.encode(0, f.count(got)))
		return
	}
	answered := got[:0:0]
	var gave map[*fetchPart]bool
	for _, r := range got {
		p := r.part
		changed := f.full || r.size > 0 || r.code != 0 || r.diverged || !p.told || p.watermark != r.watermark || p.start != r.start
		p.told, p.watermark, p.start = r.code == 0, r.watermark, r.start
		if changed {
			answered = append(answered, r)
		}
		if r.size > 0 {
			if gave == nil {
				gave = map[*fetchPart]bool{}
			}
			gave[p] = true
		}
	}
	f.session.rotate(gave)
	f.b.sessions.release(f.session)
	f.rq.replyFrames(f.encode(f.session.id, f.count(answered)))
}

func (f *fetch) encode(session int32, got []fetched) net.Buffers {
	return encodeFetch(f.rq, 0, session, got, f.endpoints(got)...)
}

func (f *fetch) count(got []fetched) []fetched {
	for _, r := range got {
		f.b.stats.fetchBytes.Add(int64(r.size))
	}
	return got
}

// encodeFetch writes a response by hand: the record batches go to the socket
// from where the journal has them.
func encodeFetch(rq *request, code int16, session int32, got []fetched, leaders ...*node) net.Buffers {
	v := rq.version
	e := fetchEncoder{flexible: rq.flexible, version: v, buf: make([]byte, wire.SizeBytes, 128+96*len(got)), out: make(net.Buffers, 0, 1+3*len(got))}
	e.buf = wire.AppendResponseHeader(e.buf, wire.Fetch, rq.correlationID, rq.flexible)
	e.int32(0) // throttle time
	if v >= 7 {
		e.int16(code)
		e.int32(session)
	}
	topics := 0
	for i := range got {
		if i == 0 || !sameTopic(got[i-1], got[i]) {
			topics++
		}
	}
	e.length(topics)
	for i := 0; i < len(got); {
		j := i + 1
		for j < len(got) && sameTopic(got[i], got[j]) {
			j++
		}
		e.topic(got[i:j])
		i = j
	}
	if len(leaders) > 0 {
		e.buf = append(e.buf, 1)
		e.tag(0, endpointsBody(leaders, rq.conn.b.rack()))
	} else {
		e.tags()
	}
	e.cut()
	size := -wire.SizeBytes
	for _, b := range e.out {
		size += len(b)
	}
	binary.BigEndian.PutUint32(e.out[0], uint32(size))
	return e.out
}

func sameTopic(a, b fetched) bool {
	return a.part.key.name == b.part.key.name && a.part.key.id == b.part.key.id
}

// fetchEncoder appends to buf; cut moves what is there to out.
type fetchEncoder struct {
	flexible bool
	version  int16
	buf      []byte
	from     int
	out      net.Buffers
}

func (e *fetchEncoder) int16(n int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(n)) }
func (e *fetchEncoder) int32(n int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(n)) }
func (e *fetchEncoder) int64(n int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(n)) }

// length is that of an array or of bytes that are not null.
func (e *fetchEncoder) length(n int) {
	if e.flexible {
		e.buf = binary.AppendUvarint(e.buf, uint64(n)+1)
		return
	}
	e.int32(int32(n))
}

func (e *fetchEncoder) tags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) cut() {
	if len(e.buf) > e.from {
		e.out = append(e.out, e.buf[e.from:len(e.buf):len(e.buf)])
		e.from = len(e.buf)
	}
}

func (e *fetchEncoder) topic(parts []fetched) {
	key := parts[0].part.key
	switch {
	case e.version >= 13:
		e.buf = append(e.buf, key.id[:]...)
	case e.flexible:
		e.buf = append(binary.AppendUvarint(e.buf, uint64(len(key.name))+1), key.name...)
	default:
		e.int16(int16(len(key.name)))
		e.buf = append(e.buf, key.name...)
	}
	e.length(len(parts))
	for _, r := range parts {
		e.partition(r)
	}
	e.tags()
}

func (e *fetchEncoder) partition(r fetched) {
	e.int32(r.part.key.n)
	e.int16(r.code)
	e.int64(r.watermark)
	e.int64(r.watermark) // last stable offset: there are no transactions
	if e.version >= 5 {
		e.int64(r.start)
	}
	switch {
	case r.aborted:
		e.length(0)
	case e.flexible:
		e.buf = append(e.buf, 0) // null
	default:
		e.int32(-1)
	}
	if e.version >= 11 {
		e.int32(-1) // preferred read replica
	}
	e.length(r.size)
	if r.size > 0 {
		e.cut()
		e.out = append(e.out, r.records...)
	}
	if !e.flexible {
		return
	}
	switch {
	case r.diverged:
		e.buf = append(e.buf, 1, 0, 13) // one tag, number 0, of 13 bytes
		e.int32(r.epoch)
		e.int64(r.end)
		e.buf = append(e.buf, 0)
	case r.misled(e.version):
		e.buf = append(e.buf, 1)
		e.tag(1, leaderBody(r.at))
	default:
		e.buf = append(e.buf, 0)
	}
}
