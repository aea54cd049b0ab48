package member

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/group"
)

// seeds is how many worlds the simulation tries; replay is the one whose story
// is written down when it fails.
var (
	seeds  = flag.Uint64("seeds", 200, "how many worlds the simulation tries")
	replay = flag.Uint64("replay", 1<<40, "the seed whose story is written down when it fails")
)

// Members come, go, crash, hang, lose their links and their coordinator, in
// every order that a seed can think of. At no instant do two members work on
// one partition, and when it is quiet again everybody has a fair share and
// every partition has an owner.
func TestSeeds(t *testing.T) {
	for seed := range *seeds {
		w := newWorld(seed, group.Config{InitialRebalanceDelay: time.Duration(seed%3) * time.Second})
		w.quiet = seed != *replay
		eager := seed%7 == 0
		w.topics["in"] = 1 + int32(w.rng.IntN(12))
		for range 40 {
			w.mischief(eager)
			w.advance(time.Duration(w.rng.IntN(20000)) * time.Millisecond)
		}
		w.calm()
		w.settled(eager)
		if len(w.faults) > 0 {
			t.Errorf("seed %d (-replay tells its story):\n%v", seed, w.faults)
			if seed == *replay {
				t.Log(w.paper.String())
			}
		}
	}
}

// The same for members that behave as the Java client. They promise less (a
// thread that is busy does not know that its lease is gone), but whatever
// happens they come back.
func TestSeedsInPoll(t *testing.T) {
	for seed := range *seeds / 10 {
		w := newWorld(seed, group.Config{InitialRebalanceDelay: time.Duration(seed%3) * time.Second})
		w.quiet, w.inPoll = seed != *replay, true
		w.latency = time.Duration(1+w.rng.IntN(70)) * time.Millisecond
		w.topics["in"] = 1 + int32(w.rng.IntN(12))
		for range 40 {
			w.mischief(false)
			w.advance(time.Duration(w.rng.IntN(20000)) * time.Millisecond)
		}
		w.latency = time.Millisecond
		w.calm()
		w.settled(false)
		if len(w.faults) > 0 {
			t.Errorf("seed %d (-replay tells its story):\n%v", seed, w.faults)
			if seed == *replay {
				t.Log(w.paper.String())
			}
		}
	}
}

// living are the applications that run.
func (w *world) living() (out []*application) {
	for _, name := range w.names {
		if a := w.apps[name]; !a.gone && a.core.State() != Stopped {
			out = append(out, a)
		}
	}
	return out
}

func (w *world) mischief(eager bool) {
	alive := w.living()
	var a *application
	if len(alive) > 0 {
		a = alive[w.rng.IntN(len(alive))]
	}
	roll := w.rng.IntN(100)
	switch {
	case a == nil || roll < 25 && len(alive) < 6:
		w.newcomer(eager)
	case roll < 35:
		w.draw(a.name, "crashes")
		w.crash(a)
	case roll < 45:
		w.release(a, a.owned)
		w.step(a, Closing{})
	case roll < 55:
		w.draw(a.name, "link is cut")
		a.cut = true
	case roll < 65:
		for _, b := range alive {
			b.cut = false
		}
	case roll < 70:
		if !w.down {
			w.draw("**", "coordinator moves")
			w.move()
		}
	case roll < 75:
		if !w.down {
			w.draw("**", "coordinator dies")
			w.kill()
		}
	case roll < 85:
		if w.down {
			w.draw("**", "coordinator is back")
			w.open()
		}
	case roll < 90:
		w.topics["in"] += int32(w.rng.IntN(3))
	case roll < 95:
		w.step(a, Asked{Reason: "asked to"})
	default:
		if len(a.owned) > 0 && !w.inPoll {
			p := a.owned[w.rng.IntN(len(a.owned))]
			a.works = append(a.works, openWork{Work{p.Topic, p.Partition, 1, "call"}, w.now})
		}
	}
}

func (w *world) newcomer(eager bool) {
	cfg := w.defaults()
	cfg.Eager = eager
	cfg.MaxPoll = time.Minute
	cfg.Session = 20 * time.Second
	cfg.MetadataMaxAge = 30 * time.Second
	name := fmt.Sprintf("m%d", len(w.names))
	if w.rng.IntN(3) == 0 {
		cfg.InstanceID = "i" + name
	}
	cfg.InPoll = w.inPoll
	a := w.join(name, cfg)
	a.drain = time.Duration(w.rng.IntN(30000)) * time.Millisecond
	if w.inPoll {
		a.thread = &thread{n: 1, call: time.Duration(1+w.rng.IntN(40)) * time.Second}
		a.thread.poll(w, a)
	}
}

// calm heals everything and lets it settle.
func (w *world) calm() {
	if w.down {
		w.open()
	}
	for _, a := range w.living() {
		a.cut = false
		if !w.inPoll {
			a.works = nil
		}
	}
	if len(w.living()) == 0 {
		w.newcomer(false)
	}
	for _, a := range w.living() {
		if a.thread != nil {
			a.thread.call = 0
		}
	}
	w.advance(10 * time.Minute)
}

// settled checks that everybody is stable and that the shares are fair.
func (w *world) settled(eager bool) {
	var all []TopicPartition
	least, most := 1<<30, 0
	for _, a := range w.living() {
		if s := a.core.State(); s != Stable {
			w.fault("%s is %s after ten quiet minutes", a.name, s)
		}
		all = append(all, a.owned...)
		least, most = min(least, len(a.owned)), max(most, len(a.owned))
	}
	if len(all) != int(w.topics["in"]) || len(sorted(all)) != len(all) {
		w.fault("%d partitions, owned: %s", w.topics["in"], list(sorted(all)))
	}
	if most-least > 1 {
		w.fault("shares differ by %d", most-least)
	}
}

// A member that joins a settled group takes only what it ends up with, and one
// that leaves moves only what it had.
func TestMinimalMovement(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(seed, group.Config{InitialRebalanceDelay: -1})
		w.quiet = true
		w.topics["in"] = 1 + int32(w.rng.IntN(40))
		n := 1 + w.rng.IntN(6)
		for i := range n {
			w.join(fmt.Sprintf("m%d", i), w.defaults())
		}
		w.advance(time.Minute)
		before := w.owners()
		for _, a := range w.living() {
			a.moved = 0
		}
		b := w.join("new", w.defaults())
		w.advance(time.Minute)
		if moved := w.moved(before); moved != len(b.owned) {
			t.Errorf("seed %d: %d partitions moved for a newcomer with %d", seed, moved, len(b.owned))
		}
		before = w.owners()
		gone := w.living()[w.rng.IntN(len(w.living()))]
		had := len(gone.owned)
		w.release(gone, gone.owned)
		w.step(gone, Closing{})
		w.advance(time.Minute)
		if moved := w.moved(before); moved != had {
			t.Errorf("seed %d: %d partitions moved for a leaver with %d", seed, moved, had)
		}
		if w.settled(false); len(w.faults) > 0 {
			t.Errorf("seed %d: %v", seed, w.faults)
		}
	}
}

func (w *world) owners() map[TopicPartition]string {
	out := map[TopicPartition]string{}
	for p, name := range w.holder {
		out[p] = name
	}
	return out
}

// moved counts the partitions that have another owner than before.
func (w *world) moved(before map[TopicPartition]string) (n int) {
	for p, name := range before {
		if w.holder[p] != name {
			n++
		}
	}
	return n
}

// A group of twenty members that all start at once settles within a minute.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(1, group.Config{})
	w.quiet = true
	w.topics["in"] = 64
	for i := range 20 {
		w.join(fmt.Sprintf("m%02d", i), w.defaults())
	}
	w.advance(time.Minute)
	if w.settled(false); len(w.faults) > 0 {
		t.Error(w.faults)
	}
	if !slices.IsSorted(w.names) {
		t.Error("names are out of order")
	}
}
