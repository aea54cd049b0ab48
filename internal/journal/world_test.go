package journal

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	worldSeeds = flag.Int("seeds", 0, "how many worlds TestWorld plays; 0: a few; 10,000 before a release")
	worldFirst = flag.Int64("first-seed", 0, "the first of those worlds")
	worldSeed  = flag.Int64("seed", -1, "play this one world alone and print what happens")
)

// TestWorld plays random worlds: one directory, opened again and again with
// other settings, and in each life everything that can be done to a log, on a
// disk that fills up, fails and is slow. A life ends with Close, the end of the
// process, or a power cut. The checks are in world_check_test.go:
//
//   - what was acknowledged is there, once, in order, byte for byte, unless
//     retention, compaction or DeleteRecords may have taken it,
//   - producers are judged by what was acknowledged, whatever happened since,
//   - look-ups by time agree with what can be read,
//   - when failures end, everything is settled, appended to and cleaned up,
//   - a second start finds what the first one found.
//
// More worlds: go test ./internal/journal -run World -seeds 10000; also with -race
// and -cpu 1,2, because when which goroutine runs is not in the seed.
func TestWorld(t *testing.T) {
	first, n := uint64(*worldFirst), uint64(60)
	if *worldSeeds > 0 {
		n = uint64(*worldSeeds)
	}
	if *worldSeed >= 0 {
		first, n = uint64(*worldSeed), 1
	}
	for seed := first; seed < first+n; seed++ {
		synctest.Test(t, func(t *testing.T) { playWorld(t, seed) })
		if t.Failed() {
			return
		}
	}
}

// world is one directory, and what the test knows of it.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	fs   *MemFS
	cfg  Config
	l    *Log
	told []string
	next int // numbers values
	// forgetful: in some life the log may have forgotten a producer.
	forgetful bool

	mu       sync.Mutex // guards what follows, and the books
	books    []*book
	maybe    []*book // their creation was not acknowledged
	creating map[ID]bool

	disk    sync.Mutex // guards what follows
	trips   []*trip
	faults  int // operations that failed in this life
	holding string
	gate    chan struct{}
}

// trip makes one operation fail, after so many of its kind.
type trip struct {
	op, part string
	after    int
	times    int
	err      error
}

func playWorld(t *testing.T, seed uint64) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 4)), fs: &MemFS{}, creating: map[ID]bool{}}
	w.fs.Before = w.before
	defer func() {
		w.letGo()
		if w.l != nil {
			w.l.Close()
		}
		if t.Failed() || *worldSeed >= 0 {
			t.Logf("seed %d: go test ./internal/journal -run World -seed %d -v\n%s", seed, seed, strings.Join(w.told, "\n"))
		}
	}()
	loose := false // the last life may have lost what was not synced
	for life := range 2 + w.rng.IntN(4) {
		w.say("life %d", life)
		w.open(loose)
		for range 10 + w.rng.IntN(30) {
			w.step()
		}
		if w.rng.IntN(2) == 0 {
			w.calm()
		}
		loose = w.end()
	}
	w.heal()
	w.open(loose)
	w.calm()
	w.endWith("close")
}

func (w *world) say(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf("%s ", time.Now().Format("02 15:04:05.000"))+fmt.Sprintf(format, args...))
}

// pick chooses one of some values.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (w *world) config() Config {
	r := w.rng
	return Config{
		Dir: "data", FS: w.fs, Logger: quiet(),
		Flush:         pick(r, FlushAlways, FlushAlways, FlushAlways, FlushInterval, FlushNever),
		SegmentBytes:  pick(r, int64(300), 1000, 3000, 10_000),
		UnsettledMax:  pick(r, int64(0), 2000, 20_000),
		Spares:        pick(r, 0, -1, 1, 3),
		Ahead:         pick(r, int64(0), -1, 16, 5000),
		HotBytes:      pick(r, int64(0), 1, 700),
		CheckInterval: pick(r, 0, time.Second, 20*time.Second),

		CleanerBackoff: pick(r, 0, 100*time.Millisecond, 3*time.Second),
		CleanerKeys:    pick(r, 0, 0, 1, 3),
		ProducersMax:   pick(r, 0, 0, 0, 0, 2),
		Ballast:        pick(r, int64(-1), 300, 2000),

		ProducerExpiration: 10_000 * time.Hour,
	}
}

// open begins a life, and checks what it finds. Once in a while the disk fails
// in the middle of it.
func (w *world) open(loose bool) {
	w.disk.Lock()
	w.faults, w.trips = 0, nil
	if w.fs.Limit > 0 {
		w.faults = 1
	}
	w.disk.Unlock()
	w.cfg = w.config()
	w.forgetful = w.forgetful || w.cfg.ProducersMax > 0
	if w.rng.IntN(4) == 0 {
		w.disk.Lock()
		w.trips = append(w.trips, &trip{op: pick(w.rng, "list", "read", "open", "datasync", "syncdir", "mkdir"), after: w.rng.IntN(12), times: 1, err: errInjected})
		w.disk.Unlock()
	}
	w.say("open %+v, loose %v, limit %d", w.cfg, loose, w.fs.Limit)
	l, err := Open(w.cfg)
	for try := 0; errors.Is(err, errInjected) && try < 5; try++ {
		w.say("%v", err)
		l, err = Open(w.cfg)
	}
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.l = l
	w.takeUp(loose)
	if w.rng.IntN(3) > 0 {
		return
	}
	before := w.state()
	w.say("once more")
	w.endWith(pick(w.rng, "close", "kill"))
	if w.l, err = Open(w.cfg); errors.Is(err, errInjected) {
		w.heal()
		w.l, err = Open(w.cfg)
	}
	if err != nil {
		w.t.Fatalf("open again: %v", err)
	}
	w.takeUp(false)
	if after := w.state(); after != before {
		w.t.Fatalf("opened again, the log has\n%s\nit had\n%s", after, before)
	}
}

func (w *world) end() (loose bool) {
	how := pick(w.rng, "close", "kill", "powercut", "powercut")
	w.endWith(how)
	return how == "powercut" && w.cfg.Flush != FlushAlways
}

func (w *world) endWith(how string) {
	w.say("%s", how)
	clean := how == "close" && !w.troubled()
	if how != "close" {
		w.fs.Kill()
	}
	w.letGo()
	err := w.l.Close()
	synctest.Wait()
	if how == "powercut" {
		rng := w.rng
		if rng.IntN(3) == 0 {
			rng = nil
		}
		w.fs.PowerCut(rng)
	}
	w.fs.Start()
	if clean && err != nil {
		w.t.Fatalf("close: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.books {
		if g.flying > 0 {
			w.t.Fatalf("%s: %d appends were never answered", g.id, g.flying)
		}
	}
	w.l = nil
}

// troubled says that the disk may fail at this moment.
func (w *world) troubled() bool {
	w.disk.Lock()
	defer w.disk.Unlock()
	return len(w.trips) > 0 || w.gate != nil || w.fs.Limit > 0
}

// before fails and holds operations.
func (w *world) before(op Op) error {
	w.disk.Lock()
	gate := w.gate
	if gate != nil && !strings.HasPrefix(op.String(), w.holding) {
		gate = nil
	}
	w.disk.Unlock()
	if gate != nil {
		<-gate
	}
	w.disk.Lock()
	defer w.disk.Unlock()
	for i, tr := range w.trips {
		if tr.op != op.Name || !strings.Contains(op.Path, tr.part) {
			continue
		}
		if tr.after--; tr.after >= 0 {
			continue
		}
		if tr.times--; tr.times <= 0 {
			w.trips = slices.Delete(w.trips, i, i+1)
		}
		w.faults++
		return tr.err
	}
	return nil
}

func (w *world) letGo() {
	w.disk.Lock()
	defer w.disk.Unlock()
	if w.gate != nil {
		close(w.gate)
		w.gate = nil
	}
}

// heal ends all troubles of the disk.
func (w *world) heal() {
	w.letGo()
	w.fs.SetLimit(0)
	w.disk.Lock()
	w.trips = nil
	w.disk.Unlock()
}

// step does one thing.
func (w *world) step() {
	switch n := w.rng.IntN(100); {
	case n < 45:
		for range 1 + w.rng.IntN(6) {
			w.append()
		}
	case n < 51:
		w.create()
	case n < 54:
		w.remove()
	case n < 62:
		w.deleteRecords()
	case n < 66:
		w.configure()
	case n < 76:
		d := pick(w.rng, time.Millisecond, 100*time.Millisecond, 2*time.Second, 20*time.Second, 6*time.Minute)
		w.say("advance %v", d)
		time.Sleep(d)
	case n < 84:
		w.read()
	case n < 88:
		w.say("seal")
		_ = w.l.enqueue(pending{seal: true})
	case n < 94:
		w.trouble()
	case n < 97:
		w.say("heal")
		w.heal()
	default:
		w.check(false)
	}
	if w.rng.IntN(3) > 0 {
		synctest.Wait()
	}
}

// trouble makes the disk full, slow or failing.
func (w *world) trouble() {
	r := w.rng
	switch r.IntN(4) {
	case 0:
		used := int64(0)
		for _, size := range w.fs.Files() {
			used += int64(size)
		}
		limit := used + r.Int64N(3000)
		w.say("limit %d", limit)
		w.fs.SetLimit(limit)
		w.disk.Lock()
		w.faults++
		w.disk.Unlock()
	case 1:
		w.disk.Lock()
		if w.gate == nil {
			w.gate = make(chan struct{})
			w.holding = pick(r, "write data/journal", "datasync data/journal", "datasync data/partitions", "write data/partitions",
				"rename data/checkpoint", "syncdir data", "create data", "remove data")
			w.say("hold %s", w.holding)
		}
		w.disk.Unlock()
	default:
		tr := &trip{op: pick(r, "create", "write", "write", "datasync", "datasync", "truncate", "rename", "remove", "syncdir", "open", "read", "list", "mkdir"),
			part: pick(r, "", "data/journal", "data/partitions"), after: r.IntN(6), times: pick(r, 1, 1, 1, 2, 10), err: errInjected}
		if w.cfg.Flush != FlushAlways && tr.op == "datasync" {
			// A sync of acknowledged records that fails, and then the power: with these
			// policies they are lost, and the log says so by not opening.
			tr.part = "data/partitions"
		}
		if r.IntN(5) == 0 && (Op{Name: tr.op}).Changes() {
			tr.err = syscall.ENOSPC
		}
		w.say("trip %+v", *tr)
		w.disk.Lock()
		w.trips = append(w.trips, tr)
		w.disk.Unlock()
	}
}

// any chooses a partition that is there, nil when there is none.
func (w *world) any() *book {
	w.mu.Lock()
	defer w.mu.Unlock()
	var there []*book
	for _, g := range w.books {
		if !g.gone {
			there = append(there, g)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[w.rng.IntN(len(there))]
}

func (w *world) settings(s Settings) Settings {
	r := w.rng
	s.RetentionMs = pick(r, int64(-1), -1, -1, 1000, 30_000)
	s.RetentionBytes = pick(r, int64(-1), -1, -1, 0, 2000)
	s.SegmentBytes = pick(r, int64(200), 1000, 5000)
	s.SegmentMs = pick(r, int64(0), 1000, 60_000)
	s.Compact = r.IntN(2) == 0
	s.Delete = !s.Compact || r.IntN(4) == 0
	s.DeleteRetentionMs = pick(r, int64(0), 1000, 60_000)
	s.MinCompactionLagMs = pick(r, int64(0), 0, 500, 10_000)
	s.MaxCompactionLagMs = pick(r, int64(0), 0, 2000)
	s.MinDirtyRatio = pick(r, 0, 0.01, 0.9)
	return s.withDefaults()
}

// create makes some of a few partitions, again when they were removed.
func (w *world) create() {
	s := DefaultSettings()
	s.RetentionMs = -1
	if w.rng.IntN(3) > 0 {
		s = w.settings(s)
	}
	var made []*book
	var ids []ID
	w.mu.Lock()
	for range 1 + w.rng.IntN(3) {
		id := ID{topicID(byte(1 + w.rng.IntN(3))), int32(w.rng.IntN(2))}
		if w.creating[id] || slices.Contains(ids, id) || slices.ContainsFunc(w.books, func(g *book) bool { return g.id == id && !g.gone }) {
			continue
		}
		w.creating[id] = true
		ids = append(ids, id)
		g := newBook(id)
		g.note(s)
		made = append(made, g)
	}
	w.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	w.say("create %v %+v", ids, s)
	l := w.l
	go func() {
		ps, err := l.CreateAll(ids, s)
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, g := range made {
			delete(w.creating, g.id)
			if err != nil {
				w.maybe = append(w.maybe, g)
				continue
			}
			g.p, g.number = ps[i], ps[i].number
			w.books = append(w.books, g)
		}
		if err != nil && !excused(err) {
			w.t.Errorf("create: %v", err)
		}
	}()
}

// excused says that an error is the disk's, or comes with the end of a life.
func excused(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrClosed) || errors.Is(err, errInjected) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, errDead)
}

func (w *world) remove() {
	g := w.any()
	if g == nil {
		return
	}
	w.say("remove %s", g.id)
	w.mu.Lock()
	g.goneAsked = true
	w.mu.Unlock()
	l := w.l
	go func() {
		err := l.Remove(g.id)
		w.mu.Lock()
		defer w.mu.Unlock()
		g.gone = g.gone || err == nil
		if err != nil && !excused(err) && !errors.Is(err, ErrUnknown) {
			w.t.Errorf("remove: %v", err)
		}
	}()
	synctest.Wait() // or two removals could be of two partitions of one name
}

func (w *world) deleteRecords() {
	g := w.any()
	if g == nil {
		return
	}
	start, hw := g.p.Start(), g.p.HighWatermark()
	before := start + w.rng.Int64N(1+max(hw-start, 0))
	if w.rng.IntN(3) == 0 {
		before = hw
	}
	w.say("delete records of %s before %d", g.id, before)
	w.mu.Lock()
	g.asked = max(g.asked, before)
	w.mu.Unlock()
	go func() {
		low, err := g.p.DeleteRecords(before)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil:
			g.started = max(g.started, low)
			if low < before {
				w.t.Errorf("delete records of %s before %d: low %d", g.id, before, low)
			}
		case !excused(err) && !errors.Is(err, ErrRemoved):
			w.t.Errorf("delete records: %v", err)
		}
	}()
}

func (w *world) configure() {
	g := w.any()
	if g == nil {
		return
	}
	s := w.settings(g.p.Settings())
	w.say("configure %s %+v", g.id, s)
	w.mu.Lock()
	g.note(s)
	w.mu.Unlock()
	g.p.Configure(s)
}

// read reads from anywhere while everything goes on.
func (w *world) read() {
	g := w.any()
	if g == nil {
		return
	}
	start, hw := g.p.Start(), g.p.HighWatermark()
	from := start + w.rng.Int64N(1+max(hw-start, 0))
	got, err := recordsOf(g.p, from, 1+w.rng.IntN(3000), w.rng.IntN(30))
	w.say("read %s from %d: %d records, %v", g.id, from, len(got), err)
	if err != nil {
		if !excused(err) && !errors.Is(err, ErrRemoved) && !errors.Is(err, ErrOffsetOutOfRange) {
			w.t.Fatalf("read: %v", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := from
	for _, r := range got {
		want, ok := g.recs[r.offset]
		// An acknowledgement may be on its way, but not a wrong one.
		if ok && want.uid != r.uid || r.offset < next {
			w.t.Fatalf("%s: read %+v, want %+v", g.id, r, want)
		}
		if !ok && g.byUID[r.uid] == nil {
			w.t.Fatalf("%s: read %+v, which nobody sent", g.id, r)
		}
		next = r.offset + 1
	}
}

// calm ends all troubles, and then everything must be well after a while.
func (w *world) calm() {
	w.say("calm")
	w.heal()
	synctest.Wait()
	time.Sleep(w.l.cfg.CleanerBackoff + 3*retryAfter) // a compaction that met a full disk is tried again
	synctest.Wait()
	w.mu.Lock()
	books := slices.Clone(w.books)
	w.mu.Unlock()
	for _, g := range books {
		if g.gone {
			continue
		}
		s := w.batch(g, false)
		w.send(g, s)
		synctest.Wait()
		if s.result.Err != nil {
			w.t.Fatalf("%s: the disk is well, and an append gets %v", g.id, s.result.Err)
		}
	}
	w.check(true)
	_ = w.l.enqueue(pending{seal: true})
	time.Sleep(w.l.cfg.CleanerBackoff + w.l.cfg.CheckInterval + 3*retryAfter)
	_ = w.l.enqueue(pending{seal: true})
	synctest.Wait()
	time.Sleep(retryAfter)
	for range 3 { // retention may have noted something
		_ = w.l.enqueue(pending{seal: true})
		synctest.Wait()
	}
	w.check(true)
	w.checkKeeper()
}

const forever = math.MaxInt64
