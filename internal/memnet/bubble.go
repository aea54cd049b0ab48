package memnet

import (
	"testing"
	"testing/synctest"
)

// Bubble runs f in a testing/synctest bubble, with a watchdog on the wall
// clock outside of it: a wait that is not durable (a mutex held across a
// wait, a real socket) stops the bubble's clock, and the watchdog then ends
// the test binary with all stacks instead of leaving it silent until the
// test time-out.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
