package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rondo-streams/rondo/internal/stub"
)

// side is one of the two that read the records: a group of processes, their
// service, and the ledger of what happened.
type side struct {
	name   string // rondo, streams
	policy string // percall, streams42
	group  string
	scores string
	dead   string

	service *stub.Server
	url     string
	served  chan error

	instances []*process // in order of their start

	mu        sync.Mutex // held for a moment, never across a wait
	ledger    *Ledger
	errs      []error
	scored    map[Place]bool // answered by the service
	committed map[int32]int64
	done      time.Duration // when everything was committed, 0 while it is not
}

// newSide starts the service of a side on a free port of this machine.
func newSide(ctx context.Context, name, policy, run string) (*side, error) {
	s := &side{
		name: name, policy: policy,
		group: run + "-" + name, scores: run + "-" + name + "-scores", dead: run + "-" + name + "-failed",
		ledger: NewLedger(), scored: map[Place]bool{}, committed: map[int32]int64{}, served: make(chan error, 1),
	}
	service, err := stub.New(stub.Config{OnCall: s.called, OnDone: s.answered})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scoring service: %w", err)
	}
	s.service, s.url = service, "http://"+l.Addr().String()
	go func() { s.served <- service.Serve(ctx, l) }()
	return s, nil
}

// called notes a call in the ledger.
func (s *side) called(c stub.Call) {
	call, err := callOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	s.ledger.Called(call)
}

// answered notes that a call came to its end.
func (s *side) answered(c stub.Call) {
	call, err := callOf(c)
	if err != nil || !c.Answered {
		return // called has noted the error
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scored[call.Place] = true
}

// produced notes a record of the input topic.
func (s *side) produced(p Place, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Produced(p, key)
}

// start starts another instance.
func (s *side) start(o Options, c *cluster, sc Schedule, input string) error {
	instance := Instance{
		Name: fmt.Sprintf("%s-%d", s.name, len(s.instances)+1), Policy: s.policy, Bootstrap: c.bootstrap,
		Group: s.group, Input: input, Scores: s.scores, Dead: s.dead, Service: s.url,
		Parallel: o.Parallel, Timeout: sc.CallTimeout, Poll: sc.Poll, Commit: sc.Commit, Session: sc.Session,
	}
	p, err := startProcess(o.Command, instance)
	if err != nil {
		return err
	}
	s.instances = append(s.instances, p)
	return nil
}

// kill kills the youngest instance with SIGKILL and notes it.
func (s *side) kill() (name string, err error) {
	p := s.instances[len(s.instances)-1]
	if err := p.kill(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Killed(p.instance.Name)
	return p.instance.Name, nil
}

// stop stops every instance that still runs, in good order.
func (s *side) stop(within time.Duration) error {
	var errs []error
	for _, p := range s.instances {
		p.interrupt()
	}
	for _, p := range s.instances {
		errs = append(errs, p.wait(within))
	}
	return errors.Join(errs...)
}

// broken is the first error of the side: a process that ended by itself, or a
// call that cannot be read.
func (s *side) broken() error {
	for _, p := range s.instances {
		if err := p.ended(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// look asks the cluster where the group stands.
func (s *side) look(ctx context.Context, c *cluster, input string, records int, at time.Duration) error {
	offsets, err := c.committed(ctx, s.group, input)
	if notYet(err) {
		return nil // the next look will tell
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	total := int64(0)
	for partition, offset := range offsets {
		total += offset
		if offset > s.committed[partition] {
			s.committed[partition] = offset
			s.ledger.Committed(Commit{Partition: partition, Offset: offset, At: now})
		}
	}
	if s.done == 0 && total == int64(records) {
		s.done = at
	}
	return nil
}

// isDone says whether everything is committed.
func (s *side) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done != 0
}

// counts are the records that the service answered for, and those that are
// covered by commits.
func (s *side) counts() (scored int, committed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, offset := range s.committed {
		committed += offset
	}
	return len(s.scored), committed
}

// notYet says whether a coordinator is on its way: at the first use of
// __consumer_offsets, or after it moved.
func notYet(err error) bool {
	for _, passing := range []error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
