package memnet

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// patience is how long a bubble may take on the wall clock. A bubble that works
// is over in a second or two even for hours of virtual time; the rest is for
// slow and busy machines.
const patience = 90 * time.Second

// Bubble runs f in a testing/synctest bubble, with a watchdog on the wall
// clock outside of it: a wait that is not durable (a mutex held across a
// wait, a real socket) stops the bubble's clock, and the watchdog then ends
// the test binary with all stacks instead of leaving it silent until the
// test time-out.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	watchdog := time.AfterFunc(patience, func() { bark(t.Name()) })
	defer watchdog.Stop()
	synctest.Test(t, f)
}

func bark(name string) {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	fmt.Fprintf(os.Stderr, "memnet: bubble of %s has not ended after %s: look below for a goroutine in the bubble whose wait is not \"(durable)\"\n\n%s\n", name, patience, buf)
	os.Exit(2)
}
