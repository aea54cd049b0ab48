package loop

import "time"

// PerCall gives every task a lane of its own and bounds bursts by time.
type PerCall struct{}

// NewPerCall starts without lanes.
func NewPerCall(set Settings) *PerCall { return &PerCall{} }

// Step takes one thing that happened and gives what to start now.
func (p *PerCall) Step(now time.Time, in In) []Act { return nil }

// Next is when a Tick is due: a commit, or the end of a drain budget.
func (p *PerCall) Next() (time.Time, bool) { return time.Time{}, false }
