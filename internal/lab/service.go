package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// service is the remote service of one run: HTTP on the loopback, as slow as
// the scenario says. It is also the witness of every call.
type service struct {
	latency sim.Latency
	began   time.Time // of the run
	server  *http.Server
	url     string
	ended   chan struct{} // closed when the run is over: calls that wait are let go

	mu       sync.Mutex // never held while a call waits
	spans    []witnessed
	attempts map[[2]int]int
	closed   bool
}

// witnessed is a call as the service saw it.
type witnessed struct {
	member, partition, offset int
	begin, end                time.Time // end is zero while it lasts
	cut                       bool
}

// startService listens on a free port of the loopback.
func startService(latency sim.Latency) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the service: %w", err)
	}
	s := &service{latency: latency, began: time.Now(), url: "http://" + l.Addr().String(), ended: make(chan struct{}), attempts: map[[2]int]int{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(l) // ends with Close
	return s, nil
}

// begin says when the run began.
func (s *service) begin(at time.Time) {
	s.mu.Lock()
	s.began = at
	s.mu.Unlock()
}

// stop lets all calls go and closes the port. What they were is kept.
func (s *service) stop() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.ended)
	}
	s.mu.Unlock()
	return s.server.Close()
}

// seen is what happened until now.
func (s *service) seen() []witnessed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]witnessed(nil), s.spans...)
}

// done counts the calls that were answered.
func (s *service) done() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := range s.spans {
		if c := &s.spans[i]; !c.end.IsZero() && !c.cut {
			n++
		}
	}
	return n
}

// ServeHTTP is one call: GET /MEMBER/PARTITION/OFFSET.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var member, partition, offset int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d/%d/%d", &member, &partition, &offset); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	s.mu.Lock()
	record := [2]int{partition, offset}
	s.attempts[record]++
	took := s.latency(sim.Call{Partition: partition, Offset: offset, Attempt: s.attempts[record], At: now.Sub(s.began)})
	i := len(s.spans)
	s.spans = append(s.spans, witnessed{member: member, partition: partition, offset: offset, begin: now})
	s.mu.Unlock()
	cut := false
	if took > 0 {
		cut = !wait(r.Context(), s.ended, now.Add(took), took)
	}
	select {
	case <-s.ended:
		return // it had not ended when the run did
	default:
	}
	s.mu.Lock()
	s.spans[i].end, s.spans[i].cut = time.Now(), cut
	s.mu.Unlock()
	if !cut {
		io.WriteString(w, "ok")
	}
}

// wait waits until a time; false when the caller went away or the run ended.
func wait(ctx context.Context, ended <-chan struct{}, until time.Time, took time.Duration) bool {
	var due <-chan time.Time
	if took != sim.Forever {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
		return true
	case <-ctx.Done():
	case <-ended:
	}
	return false
}

// ask is the client's side of a call.
func (s *service) ask(ctx context.Context, client *http.Client, member int, partition int32, offset int64) (string, error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/"+strconv.Itoa(member)+"/"+strconv.Itoa(int(partition))+"/"+strconv.FormatInt(offset, 10), nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(rq)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return string(body), errors.Join(err, answer.Body.Close())
}
