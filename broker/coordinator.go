package broker

import "github.com/rondo-streams/rondo/cause"

// coordinator runs the groups of every __consumer_offsets partition in use.
type coordinator struct{ b *Broker }

// newCoordinator is called once, after the catalog has been read and before
// the first connection is accepted.
func newCoordinator(b *Broker) *coordinator { return &coordinator{b: b} }

// topicsDeleted is called after topics have been deleted, from the metadata
// goroutine; it must not block.
func (c *coordinator) topicsDeleted(topics []*topic) {}

// events returns the last rebalances, oldest first.
func (c *coordinator) events() []cause.Event { return nil }

// close stops the coordinator's goroutines; connections are gone by then.
func (c *coordinator) close() {}
