package call_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/call"
)

// serve starts a service; it must not wait for handlers that hang on purpose.
func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// TestDeadlineCuts: a deadline ends a call in every phase in which a service
// can be slow: before it answers, and while its body trickles in, one byte at
// a time, never idle.
func TestDeadlineCuts(t *testing.T) {
	for name, f := range map[string]http.HandlerFunc{
		"silent": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"trickle": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, f)
			h := call.NewHTTP(call.HTTPOptions{})
			defer h.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := h.GetJSON[int](ctx, url)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the deadline", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("cut after %s", took)
			}
			if f, _ := call.Classify(err); f != call.Late {
				t.Errorf("the cut counts as %s, want timeout", f)
			}
		})
	}
}

// TestCauseIsKept: when the poll clock ends the context, the error says so and
// not just "context canceled".
func TestCauseIsKept(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h := call.NewHTTP(call.HTTPOptions{})
	defer h.Close()
	clock := errors.New("poll clock")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(clock) })
	_, err := h.GetJSON[int](ctx, url)
	if !errors.Is(err, clock) {
		t.Errorf("%v does not say that it was the poll clock", err)
	}
}

func TestAnswers(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/seconds":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "/date":
			w.Header().Set("Retry-After", now.Add(90*time.Second).Format(http.TimeFormat))
			w.WriteHeader(503)
		case "/nonsense":
			w.Header().Set("Retry-After", "soon")
			w.WriteHeader(500)
		case "/bad":
			http.Error(w, strings.Repeat("no ", 1000), 400)
		case "/large":
			fmt.Fprint(w, strings.Repeat("9", 2000))
		case "/elsewhere":
			http.Redirect(w, r, "/seconds", http.StatusFound)
		case "/text":
			fmt.Fprint(w, "hello")
		default:
			fmt.Fprint(w, "42")
		}
	})
	h := call.NewHTTP(call.HTTPOptions{MaxResponse: 1000, Now: func() time.Time { return now }})
	defer h.Close()
	for path, want := range map[string]struct {
		failure call.Failure
		after   time.Duration
		text    string
	}{
		"/seconds?key=secret": {call.Service, 7 * time.Second, "429 Too Many Requests, retry after 7s"},
		"/date":               {call.Service, 90 * time.Second, "503"},
		"/nonsense":           {call.Service, 0, "500"},
		"/bad":                {call.Fatal, 0, "400 Bad Request"},
		"/large":              {call.Fatal, 0, "larger than MaxResponse"},
		"/elsewhere":          {call.Fatal, 0, "302"},
		"/text":               {call.Fatal, 0, "invalid character"},
		"/":                   {call.None, 0, ""},
	} {
		n, err := h.PostJSON[string, int](t.Context(), url+path, "in")
		failure, after := call.Classify(err)
		if failure != want.failure || after != want.after {
			t.Errorf("%s: %s after %s, want %s after %s: %v", path, failure, after, want.failure, want.after, err)
		}
		if err == nil && n != 42 {
			t.Errorf("%s: %d", path, n)
		}
		if err != nil && (!strings.Contains(err.Error(), want.text) || strings.Contains(err.Error(), "secret") || len(err.Error()) > 1000) {
			t.Errorf("%s: error %q, want %q in it, bounded, and no query", path, err, want.text)
		}
	}
}

func TestGateRefuses(t *testing.T) {
	now := time.Now()
	g := call.NewGate(call.GateOptions{})
	pass, ok, _ := g.Admit(now, nil, nil)
	if !ok {
		t.Fatal("an open gate refused")
	}
	g.Done(pass, now, call.Service, 5*time.Second)
	if _, ok, again := g.Admit(now.Add(time.Second), nil, nil); ok || !again.Equal(now.Add(5*time.Second)) {
		t.Errorf("admitted during the pause that the service asked for: %v, again at %s", ok, again)
	}
	if _, ok, _ := g.Admit(now.Add(5*time.Second), nil, nil); !ok {
		t.Error("refused after the pause")
	}
}

func TestBreakerOpensAndProbes(t *testing.T) {
	g := call.NewGate(call.GateOptions{BreakerFailures: 3, BreakerWindow: 5, BreakerDelay: 30 * time.Millisecond})
	fail := func(f call.Failure) bool {
		pass, ok, _ := g.Admit(time.Now(), t, func() {})
		if ok {
			g.Done(pass, time.Now(), f, 0)
		}
		return ok
	}
	for range 5 {
		fail(call.Fatal) // an answer, though one that does not help
	}
	if g.Reading().Breaker != "closed" {
		t.Error("answers opened the breaker")
	}
	for fail(call.Late) {
	}
	if r := g.Reading(); r.Breaker != "open" || r.InFlight != 0 {
		t.Errorf("after failures: %+v", r)
	}
	for !fail(call.None) { // the delay, then the probe
		time.Sleep(time.Millisecond)
	}
	if r := g.Reading(); r.Breaker != "closed" {
		t.Errorf("after a probe that worked: %+v", r)
	}
}

func TestLimitWakes(t *testing.T) {
	g := call.NewGate(call.GateOptions{LimitMin: 1, LimitMax: 2, LimitStart: 2})
	var passes []call.Pass
	woken := 0
	for range 2 {
		p, ok, _ := g.Admit(time.Now(), 1, nil)
		if !ok {
			t.Fatal("refused below the bound")
		}
		passes = append(passes, p)
	}
	for range 10 {
		if _, ok, _ := g.Admit(time.Now(), 1, func() { woken++ }); ok {
			t.Fatal("admitted beyond the bound")
		}
	}
	g.Done(passes[0], time.Now(), call.None, 0)
	if woken != 1 {
		t.Errorf("woken %d times, want once for one asker", woken)
	}
	g.Drop(passes[1])
	if r := g.Reading(); r.InFlight != 0 || r.Limit != 2 || r.Made != 2 {
		t.Errorf("%+v", r)
	}
}
