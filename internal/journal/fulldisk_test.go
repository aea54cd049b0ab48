package journal

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPowerCutOnAFullDisk is TestPowerCut with a disk that becomes full in the
// middle of the workload: the ballast is given up, what is urgent is written in
// its place, and the power goes before every single operation of all that. The
// log must open on the full disk as it is, with all that was acknowledged, and
// go on when there is room.
func TestPowerCutOnAFullDisk(t *testing.T) {
	spent := false
	for seed, limit := range []int64{2200, 3000, 3800, 5000} {
		for at, through := 1, false; !through; at++ {
			name := fmt.Sprintf("seed %d, disk of %d bytes, power cut at operation %d", seed, limit, at)
			synctest.Test(t, func(t *testing.T) {
				var gaveUp bool
				through, gaveUp = cutPowerOnFullDisk(t, name, uint64(seed), limit, at)
				spent = spent || gaveUp
			})
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
	if !spent {
		t.Fatal("no disk was full enough for the ballast to be given up")
	}
}

// cutPowerOnFullDisk says whether the workload was through before the cut, and
// whether the ballast had been given up.
func cutPowerOnFullDisk(t *testing.T, name string, seed uint64, limit int64, at int) (through, spent bool) {
	m := &MemFS{Limit: limit}
	n := 0
	m.Before = oneAtATime(func(op Op) error {
		if op.Changes() {
			n++
		}
		if n >= at {
			return errDead
		}
		return nil
	})
	w := &workload{rng: rand.New(rand.NewPCG(seed, 1)), goOn: true}
	l, err := Open(testConfig(m))
	if err == nil {
		w.l = l
		w.run(workloadRounds)
		time.Sleep(3 * retryAfter) // the keeper tries to make room
		spent = l.ballast.spent.Load()
		l.Close() // fails, without power
	}
	through = n < at
	m.PowerCut(rand.New(rand.NewPCG(seed, uint64(at))))
	m.Before = nil
	m.Start()
	if l, err = Open(testConfig(m)); err != nil {
		t.Fatalf("%s: on the full disk: %v", name, err)
	}
	defer l.Close()
	w.check(t, l)
	m.SetLimit(0)
	time.Sleep(3 * retryAfter)
	w.goesOn(t, l)
	if err := l.Close(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return through, spent
}

// TestFullDiskIsNoTrap fills a disk with what cannot be settled any more, over a
// restart, while a producer goes on trying: the partition can be removed
// nevertheless, its space comes back, and appends go on by themselves.
func TestFullDiskIsNoTrap(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { leaveFullDisk(t, restart) })
	}
}

func leaveFullDisk(t *testing.T, restart bool) {
	m := &MemFS{Limit: 12_000}
	cfg := Config{Dir: "data", FS: m, Logger: quiet(), SegmentBytes: 4000, UnsettledMax: 8000, Ballast: 1000}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	full, other := ID{topicID(1), 0}, ID{topicID(2), 0}
	for _, id := range []ID{full, other} {
		if _, err := l.Create(id, DefaultSettings()); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id ID) error {
		done := make(chan error, 1)
		l.Partition(id).Append(Append{Batches: batchOf(1, fmt.Sprintf("%400d", 1))}, func(r Result) { done <- r.Err })
		return <-done
	}
	for send(full) == nil {
	}
	if _, err := l.Partition(other).DeleteRecords(0); err != nil {
		t.Fatal(err)
	}
	if restart {
		l.Close()
		if l, err = Open(cfg); err != nil {
			t.Fatal(err)
		}
		for range 10 { // takes nothing that was kept
			send(other)
			time.Sleep(retryAfter)
		}
	}
	defer func() { l.Close() }()
	// In one group with what cannot be written, and behind it in the queue.
	p := l.Partition(full)
	for range 3 {
		p.Append(Append{Batches: batchOf(1, fmt.Sprintf("%900d", 1))}, func(Result) {})
	}
	if err := l.Remove(full); err != nil {
		t.Fatalf("restart %v: %v", restart, err)
	}
	time.Sleep(3 * retryAfter)
	if err := send(other); err != nil {
		t.Fatalf("restart %v: the space did not come back: %v", restart, err)
	}
}

// TestFullDiskIsQuiet leaves a log alone on a disk that has no room for its
// ballast: it looks once a second whether there is room, and not all the time.
func TestFullDiskIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &MemFS{Limit: 1000}
		var tries atomic.Int64
		m.Before = func(op Op) error {
			if op.Name == "create" && strings.HasSuffix(op.Path, ballastName) && tries.Add(1) > 1000 {
				m.SetLimit(0) // or it would never end
			}
			return nil
		}
		l, err := Open(Config{Dir: "data", FS: m, Logger: quiet(), Ballast: 2000})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		time.Sleep(time.Minute)
		if n := tries.Load(); n < 30 || n > 70 {
			t.Fatalf("in a minute it tried %d times to make its ballast", n)
		}
	})
}
