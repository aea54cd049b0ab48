//go:build synctests

package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/rondo-streams/rondo/internal/memnet"
	"github.com/rondo-streams/rondo/internal/wire"
)

var worldSeeds = flag.Int("seeds", 0, "how many random worlds the simulation of the broker plays; 0: a few; 1,000 before a release")
var worldSeed = flag.Int64("seed", -1, "play this one world alone and print what happens")

// TestWorld plays random worlds: an administrator who makes, changes, moves and
// deletes topics, producers and consumers, groups of the three protocols, over a
// disk that fills up and fails, in a process that is killed and loses its power,
// several lives of one directory. Checkers hold what the broker says against what
// it was told:
//
//   - what was acknowledged is there, in this life and in the next,
//   - what was refused has not happened,
//   - what nobody was told about has happened wholly or not at all,
//   - the offsets of a topic that was deleted do not come back,
//   - when failures end, everything works again within seconds, by itself,
//   - a restart changes nothing,
//   - every generation has one cause in the history, and none comes twice.
func TestWorld(t *testing.T) {
	if *worldSeed >= 0 {
		playWorld(t, uint64(*worldSeed), true)
		return
	}
	n := *worldSeeds
	if n == 0 {
		n = 20
	}
	for seed := range n {
		if playWorld(t, uint64(seed), false); t.Failed() {
			t.Fatalf("seed %d: go test -tags synctests ./broker -run TestWorld -seed %d -v", seed, seed)
		}
	}
}

func playWorld(t *testing.T, seed uint64, loud bool) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		memnet.Bubble(t, func(t *testing.T) {
			w := newWorld(t, seed, loud)
			w.play()
		})
	})
}

// world is a broker with everything around it, and what it must have.
type world struct {
	t     *testing.T
	loud  bool
	began time.Time
	rng   *rand.Rand
	fs    *journal.MemFS
	net   *memnet.Net
	n     int // brokers
	b     *Broker
	life  int
	disk  trouble
	hook  atomic.Pointer[func(journal.Op) error] // of a story
	calm  atomic.Bool                            // nobody leaves a group

	healed time.Time
	ghosts []func()  // see refusedChange
	calls  []*caller // one for each broker

	topics  map[string]*worldTopic
	serial  int // of values
	pids    []*worldProducer
	offsets map[worldOffset]*worldValue
	deleted map[string]bool // groups that were deleted and not made again
	bots    []*worldBot
	session worldSession
}

// trouble is what is wrong with the disk. It is read from the goroutines of the
// broker.
type trouble struct {
	rate   atomic.Int64 // one of how many operations fails; 0: none
	cutIn  atomic.Int64 // the power is cut at this operation, counted down; 0: it is not
	dead   atomic.Bool  // the process has been ended
	reads  atomic.Bool  // reads fail too
	only   atomic.Value // the operations that fail, "" for all: a name, or a part of a path
	failed atomic.Int64
}

func newWorld(t *testing.T, seed uint64, loud bool) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		t: t, loud: loud, began: time.Now(), rng: rng, fs: &journal.MemFS{}, net: memnet.New(0), n: 1 + 2*rng.IntN(2),
		topics: map[string]*worldTopic{}, offsets: map[worldOffset]*worldValue{}, deleted: map[string]bool{},
	}
	cut := rand.New(rand.NewPCG(seed, 8))
	coin := rand.New(rand.NewPCG(seed, 9))
	w.fs.Before = func(op journal.Op) error {
		if hook := w.hook.Load(); hook != nil {
			return (*hook)(op)
		}
		if n := w.disk.cutIn.Load(); n > 0 && w.disk.cutIn.Add(-1) == 0 {
			w.disk.dead.Store(true)
			w.fs.PowerCut(cut)
			return nil
		}
		rate := w.disk.rate.Load()
		if rate == 0 || !op.Changes() && (op.Name != "read" || !w.disk.reads.Load()) || coin.Int64N(rate) > 0 {
			return nil
		}
		if only, _ := w.disk.only.Load().(string); op.Name != only && !strings.Contains(op.Path, only) {
			return nil
		}
		w.disk.failed.Add(1)
		return syscall.EIO
	}
	w.fs.Before = oneAtATime(w.fs.Before)
	return w
}

// oneAtATime calls f from one goroutine at a time.
func oneAtATime(f func(journal.Op) error) func(journal.Op) error {
	turn := make(chan struct{}, 1)
	return func(op journal.Op) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return f(op)
	}
}

func (w *world) logf(format string, args ...any) {
	if w.loud {
		fmt.Printf("%10s %s\n", time.Since(w.began), fmt.Sprintf(format, args...))
	}
}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	w.logf("WRONG: "+format, args...)
	w.t.Errorf("life %d, %s: "+format, append([]any{w.life, time.Since(w.began)}, args...)...)
}

// play is all lives of the world.
func (w *world) play() {
	w.start()
	w.settle()
	w.startBots()
	for w.life < 3 && !w.t.Failed() {
		for range 30 + w.rng.IntN(60) {
			w.act()
			if w.disk.dead.Load() {
				break
			}
			if w.t.Failed() {
				break
			}
		}
		if w.t.Failed() {
			break
		}
		w.endLife()
	}
	w.heal()
	w.calm.Store(true)
	if !w.t.Failed() {
		w.settle()
		w.check()
		w.checkSettled()
	}
	w.stopBots()
	for _, c := range w.calls {
		c.hangUp()
	}
	time.Sleep(time.Second)
	w.checkHeld()
	if err := w.b.Close(); err != nil {
		w.errorf("close: %v", err)
	}
	if n := w.b.Stats().Panics; n > 0 {
		w.errorf("%d handlers panicked", n)
	}
}

func (w *world) start() {
	w.life++
	level := slog.LevelError + 10
	if w.loud {
		level = slog.LevelInfo
	}
	config := Config{
		Dir: "data", FS: w.fs, Listen: "127.0.0.1:9092", ListenFunc: w.net.Listen, Brokers: w.n,
		Properties: map[string]string{
			"group.initial.rebalance.delay.ms": "0", "group.streams.initial.rebalance.delay.ms": "0",
			"offsets.topic.num.partitions": "5", "log.retention.check.interval.ms": "5000", "log.cleaner.backoff.ms": "3000",
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	b, err := Start(context.Background(), config)
	if err != nil && !w.healthy() {
		w.logf("life %d does not start: %v", w.life, err)
		w.heal()
		w.fs.Kill()
		w.fs.Start()
		b, err = Start(context.Background(), config)
	}
	if err != nil {
		w.t.Fatalf("life %d does not start: %v", w.life, err)
	}
	w.b = b
	w.calls = nil
	for i := range w.n {
		w.calls = append(w.calls, &caller{w: w, name: "main", node: i})
	}
	w.session = worldSession{}
	w.logf("---- life %d of %d brokers", w.life, w.n)
}

// endLife ends the process in one of the ways in which processes end, and starts
// the next. When everything is at rest before, nothing may differ afterwards.
func (w *world) endLife() {
	var before []string
	rest := !w.disk.dead.Load() && w.rng.IntN(2) == 0
	if rest {
		w.calm.Store(true)
		defer w.calm.Store(false)
		w.heal()
		w.settle()
		w.check()
		w.checkSettled()
		w.pauseBots()
		before = w.snapshot()
	}
	how := w.rng.IntN(3)
	if w.disk.dead.Load() {
		how = 3
	}
	w.disk.cutIn.Store(0)
	switch how {
	case 0:
		w.logf("---- close")
		if err := w.b.Close(); err != nil && w.disk.failed.Load() == 0 && w.fs.Limit == 0 {
			w.errorf("close: %v", err)
		}
	case 1:
		w.logf("---- kill")
		w.fs.Kill()
	case 2:
		w.logf("---- power cut")
		w.fs.PowerCut(w.rng)
	}
	w.disk.dead.Store(true)
	for _, ghost := range w.ghosts {
		ghost()
	}
	w.ghosts = nil
	w.b.Close() //nolint:errcheck // its files are gone
	if n := w.b.Stats().Panics; n > 0 {
		w.errorf("%d handlers panicked", n)
	}
	for _, c := range w.calls {
		c.hangUp()
	}
	w.fs.Start()
	if w.rng.IntN(3) > 0 {
		w.heal()
	}
	w.disk.dead.Store(false)
	if w.rng.IntN(4) == 0 {
		w.n = 4 - w.n // one broker becomes three, or three become one
	}
	w.start()
	if rest {
		w.heal()
		w.settle()
		if after := w.snapshot(); !slices.Equal(before, after) {
			w.errorf("a restart has changed something:\n%s", difference(before, after))
		}
		w.resumeBots()
		return
	}
	if w.rng.IntN(2) == 0 {
		w.heal()
	}
	w.adopt()
}

func difference(a, b []string) string {
	var out strings.Builder
	for _, line := range a {
		if !slices.Contains(b, line) {
			fmt.Fprintf(&out, "- %s\n", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			fmt.Fprintf(&out, "+ %s\n", line)
		}
	}
	return out.String()
}

// heal ends all that is wrong with the disk.
func (w *world) heal() {
	w.disk.rate.Store(0)
	w.disk.cutIn.Store(0)
	w.disk.failed.Store(0)
	w.fs.SetLimit(0)
	w.healed = time.Now()
}

// breakDisk begins something that is wrong with the disk.
func (w *world) breakDisk() {
	switch w.rng.IntN(5) {
	case 0, 1:
		used := 0
		for _, size := range w.fs.Files() {
			used += size
		}
		used += w.rng.IntN(100_000)
		w.logf("the disk is full at %d", used)
		w.fs.SetLimit(int64(used))
	case 2, 3:
		rate := int64(1 + w.rng.IntN(20))
		w.disk.reads.Store(w.rng.IntN(2) == 0)
		only := ""
		if w.rng.IntN(2) == 0 {
			kinds := []string{"write", "datasync", "create", "remove", "rename", "syncdir", "truncate", "read", "mkdir", "journal/", "partitions/", "checkpoint"}
			only, rate = kinds[w.rng.IntN(len(kinds))], int64(1+w.rng.IntN(3))
		}
		w.disk.only.Store(only)
		w.logf("one of %d operations fails %s", rate, only)
		w.disk.rate.Store(rate)
	default:
		n := int64(1 + w.rng.IntN(60))
		w.logf("the power will be cut at operation %d", n)
		w.disk.cutIn.Store(n)
	}
}

// settle waits until the broker has had time to get over what was.
func (w *world) settle() { time.Sleep(15 * time.Second) }

// errUnanswered says that a request was not answered, since the connection
// ended.
var errUnanswered = errors.New("not answered")

// caller is a client that speaks with one broker.
type caller struct {
	w    *world
	name string
	node int // number of the broker, from 0
	nc   net.Conn
	next int32
}

func (c *caller) hangUp() {
	if c.nc != nil {
		c.nc.Close() //nolint:errcheck // over
		c.nc = nil
	}
}

// call sends a request and waits for the answer. An answer that comes from a
// process that has been ended says nothing.
func (c *caller) call(req kmsg.Request, version int16) (kmsg.Response, error) {
	dead := c.w.disk.dead.Load()
	resp, err := c.exchange(req, version)
	if err != nil {
		c.hangUp()
		if errors.Is(err, os.ErrDeadlineExceeded) && !dead && !c.w.disk.dead.Load() {
			c.w.errorf("%s version %d of %s was neither answered nor was its connection closed", kmsg.NameForKey(req.Key()), version, c.name)
		}
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return resp, nil
}

// post sends a request.
func (c *caller) post(req kmsg.Request, version int16) error {
	if c.nc == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		nc, err := c.w.net.Dialer(c.name)(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", 9092+c.node))
		if err != nil {
			return err
		}
		c.nc = nc
	}
	req.SetVersion(version)
	c.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.name)).AppendRequest(nil, req, c.next)
	_, err := c.nc.Write(frame)
	return err
}

func (c *caller) exchange(req kmsg.Request, version int16) (kmsg.Response, error) {
	if err := c.post(req, version); err != nil {
		return nil, err
	}
	c.nc.SetReadDeadline(time.Now().Add(90 * time.Second)) //nolint:errcheck // a read that never ends fails the test by its own
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.nc, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != c.next {
		return nil, fmt.Errorf("the answer is to request %d, want %d", got, c.next)
	}
	body = body[4:]
	if req.IsFlexible() && req.Key() != wire.APIVersions {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	return resp, resp.ReadFrom(body)
}

// ask is call with the type of the answer.
func ask[T kmsg.Response](c *caller, req kmsg.Request, version int16) (T, error) {
	resp, err := c.call(req, version)
	if err != nil {
		var none T
		return none, err
	}
	return resp.(T), nil
}

// any is some broker.
func (w *world) any() *caller { return w.calls[w.rng.IntN(len(w.calls))] }

// await asks until there is no error.
func (w *world) await(what string, f func() error) bool {
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return true
		}
		if w.disk.dead.Load() {
			return false
		}
	}
	w.errorf("%s does not work: %v", what, err)
	return false
}
