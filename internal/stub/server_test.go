package stub

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The tests call the handler itself inside a bubble: its waits take no time.

func newServer(t *testing.T, settings string) *Server {
	t.Helper()
	s, err := ParseSettings(Settings{}, []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(Config{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func send(ctx context.Context, s http.Handler, method, path, body string) (*httptest.ResponseRecorder, time.Duration) {
	w := httptest.NewRecorder()
	start := time.Now()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
	return w, time.Since(start)
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestScoreWaitsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, `{"latency": "12s"}`)
		w, took := send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
		want(t, "status", w.Code, 200)
		want(t, "took", took, 12*time.Second)
		var score Score
		if err := json.Unmarshal(w.Body.Bytes(), &score); err != nil {
			t.Fatal(err)
		}
		want(t, "score", score, ScoreOf("CVE-1", []byte(`{"cve":"CVE-1"}`)))
		send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
		send(t.Context(), s, "POST", "/score", `{"cve":"CVE-2"}`)
		send(t.Context(), s, "POST", "/score", `not a record`)
		w, _ = send(t.Context(), s, "GET", "/counts?min=2", "")
		want(t, "repeated", strings.Join(strings.Fields(w.Body.String()), ""), `{"calls":4,"keys":{"CVE-1":2}}`)
		w, _ = send(t.Context(), s, "GET", "/counts?key=CVE-9", "")
		want(t, "unknown key", strings.Join(strings.Fields(w.Body.String()), ""), `{"calls":4,"keys":{"CVE-9":0}}`)
		send(t.Context(), s, "DELETE", "/counts", "")
		want(t, "forgotten", len(s.Counts(1)), 0)
	})
}

func TestControlWhileCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, `{"latency": "30s"}`)
		slow := make(chan time.Duration, 1)
		go func() {
			_, took := send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
			slow <- took
		}()
		time.Sleep(time.Second)
		want(t, "in flight", s.Stats().InFlight, 1)
		w, _ := send(t.Context(), s, "PUT", "/control", `{"latency": "20ms"}`)
		want(t, "put", w.Code, 200)
		_, took := send(t.Context(), s, "POST", "/score", `{"cve":"CVE-2"}`)
		want(t, "recovered call", took, 20*time.Millisecond)
		want(t, "call from before", <-slow, 30*time.Second)

		w, _ = send(t.Context(), s, "POST", "/control", `{"fail": 1}`)
		want(t, "post", w.Code, 200)
		want(t, "post changes some", time.Duration(s.Settings().Latency), 20*time.Millisecond)
		w, _ = send(t.Context(), s, "POST", "/score", `{"cve":"CVE-3"}`)
		want(t, "failure", w.Code, 500)
		w, _ = send(t.Context(), s, "PUT", "/control", `{"fail": 3}`)
		want(t, "bad settings", w.Code, 400)
		w, _ = send(t.Context(), s, "DELETE", "/control", "")
		want(t, "bad method", w.Code, 405)
	})
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, `{"latency": "5s", "max_in_flight": 2, "retry_after": "1500ms"}`)
		for range 2 {
			go send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
		}
		synctest.Wait()
		w, took := send(t.Context(), s, "POST", "/score", `{"cve":"CVE-2"}`)
		want(t, "status", w.Code, 429)
		want(t, "took", took, time.Duration(0))
		want(t, "Retry-After", w.Header().Get("Retry-After"), "2")
		time.Sleep(10 * time.Second)
		want(t, "most at once", s.Stats().MaxInFlight, 3)
	})
}

func TestHangEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, `{"hang": 1}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w, took := send(ctx, s, "POST", "/score", `{"cve":"CVE-1"}`)
		want(t, "took", took, time.Hour)
		want(t, "body", w.Body.Len(), 0)
		want(t, "cut", s.Stats().Cut, 1)
		hung := make(chan struct{})
		go func() {
			send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
			close(hung)
		}()
		synctest.Wait()
		s.Close()
		<-hung
	})
}

func TestTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, `{"trickle": 1, "trickle_every": "2s"}`)
		w, took := send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
		want(t, "body", w.Header().Get("Content-Length") != "", true)
		want(t, "took", took, time.Duration(w.Body.Len()-1)*2*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w, _ = send(ctx, s, "POST", "/score", `{"cve":"CVE-1"}`)
		want(t, "bytes in five seconds", w.Body.Len(), 3)
		want(t, "outcomes", s.Stats().Outcomes["trickle"], 1)
	})
}

func TestRecordTooLarge(t *testing.T) {
	s := newServer(t, `{}`)
	w, _ := send(t.Context(), s, "POST", "/score", strings.Repeat("x", maxRecordBytes+1))
	want(t, "status", w.Code, 400)
	want(t, "calls", s.Stats().Calls, 0)
}

func TestEventsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		s, err := New(Config{
			Settings: Settings{Latency: Duration(time.Second)},
			OnCall:   func(c Call) { seen = append(seen, "call "+c.Key+c.Header.Get("Rondo-Member")) },
			OnDone:   func(c Call) { seen = append(seen, "done "+c.Key+" "+c.Took.String()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		send(t.Context(), s, "POST", "/score", `{"cve":"CVE-1"}`)
		want(t, "events", strings.Join(seen, ", "), "call CVE-1, done CVE-1 1s")
	})
}
