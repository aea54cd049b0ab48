package rondo

import "sync"

// mailbox carries work to the one goroutine that owns a task or a thread. put
// never waits, so it may be called from a producer's callback.
type mailbox struct {
	mu     sync.Mutex
	items  []func()
	signal chan struct{}
}

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

// put adds one piece of work; the owner runs them in order.
func (m *mailbox) put(f func()) {
	m.mu.Lock()
	m.items = append(m.items, f)
	m.mu.Unlock()
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// run does what has come, also what comes meanwhile, on the goroutine of the
// caller, and answers whether there was any.
func (m *mailbox) run() bool {
	any := false
	for {
		m.mu.Lock()
		items := m.items
		m.items = nil
		m.mu.Unlock()
		if len(items) == 0 {
			return any
		}
		any = true
		for _, f := range items {
			f()
		}
	}
}
