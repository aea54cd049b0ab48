package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Config is what a server is made of.
type Config struct {
	Settings Settings
	// KeyField is the JSON field of a record that is its key, default "cve".
	// A record without it, or that is not a JSON object, has the key "".
	KeyField string
	// OnCall is told of every call when it arrives, OnDone when it has left.
	// Both are called from the call's own goroutine and must be quick.
	OnCall func(Call)
	OnDone func(Call)
}

// Call is one call of the service.
type Call struct {
	Key      string
	Nth      int         // how often this key was called before
	Header   http.Header // of the request
	At       time.Time   // arrival
	Planned  Planned
	Answered bool          // the answer was written whole; false in OnCall
	Took     time.Duration // 0 in OnCall
}

// maxKeys bounds the counters: further keys are counted together under "".
const maxKeys = 1 << 20

// maxRecordBytes bounds a record.
const maxRecordBytes = 1 << 20

// Server is the service. Make it with New and serve it with Serve, or mount
// it as a handler.
type Server struct {
	config Config
	mux    *http.ServeMux
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex // never held while a call waits
	settings Settings
	since    time.Time
	keys     map[string]int
	stats    Stats
}

// Stats is what the service has done.
type Stats struct {
	Calls       int            `json:"calls"`
	InFlight    int            `json:"in_flight"`
	MaxInFlight int            `json:"max_in_flight"`
	Cut         int            `json:"cut"` // left before their answer
	Outcomes    map[string]int `json:"outcomes"`
}

// New makes a server.
func New(c Config) (*Server, error) {
	if err := c.Settings.Check(); err != nil {
		return nil, fmt.Errorf("settings of the stub: %w", err)
	}
	if c.KeyField == "" {
		c.KeyField = "cve"
	}
	s := &Server{
		config: c, mux: http.NewServeMux(), closed: make(chan struct{}),
		settings: c.Settings, since: time.Now(), keys: map[string]int{},
		stats: Stats{Outcomes: map[string]int{}},
	}
	s.mux.HandleFunc("POST /score", s.score)
	s.mux.HandleFunc("/control", s.control)
	s.mux.HandleFunc("GET /counts", s.counts)
	s.mux.HandleFunc("DELETE /counts", s.forget)
	s.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Stats()) })
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return s, nil
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve serves a listener until ctx ends. Calls that wait are then cut off.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		s.Close()
		server.Close()
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Close cuts off the calls that wait.
func (s *Server) Close() { s.close.Do(func() { close(s.closed) }) }

// Set replaces the settings. Calls that wait keep what they were planned.
func (s *Server) Set(settings Settings) error {
	if err := settings.Check(); err != nil {
		return fmt.Errorf("settings of the stub: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings, s.since = settings, time.Now()
	return nil
}

// Settings are the current ones.
func (s *Server) Settings() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Stats are the counters now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := s.stats
	copied.Outcomes = map[string]int{}
	for k, n := range s.stats.Outcomes {
		copied.Outcomes[k] = n
	}
	return copied
}

// Counts are the calls a key, those with at least min.
func (s *Server) Counts(min int) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]int{}
	for k, n := range s.keys {
		if n >= min {
			keys[k] = n
		}
	}
	return keys
}

// begin counts a call and plans it.
func (s *Server) begin(key string) (c Call, settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.keys[key]; !known && len(s.keys) >= maxKeys {
		key = ""
	}
	c = Call{Key: key, Nth: s.keys[key], At: time.Now()}
	s.keys[key]++
	s.stats.Calls++
	s.stats.InFlight++
	s.stats.MaxInFlight = max(s.stats.MaxInFlight, s.stats.InFlight)
	c.Planned = Plan(s.settings, key, c.Nth, c.At.Sub(s.since))
	if limit := s.settings.MaxInFlight; limit > 0 && s.stats.InFlight > limit {
		c.Planned = Planned{Kind: Limit, Status: http.StatusTooManyRequests}
	}
	return c, s.settings
}

func (s *Server) end(c *Call) {
	c.Took = time.Since(c.At)
	s.mu.Lock()
	s.stats.InFlight--
	if c.Answered {
		s.stats.Outcomes[c.Planned.Kind.String()]++
	} else {
		s.stats.Cut++
	}
	s.mu.Unlock()
	if s.config.OnDone != nil {
		s.config.OnDone(*c)
	}
}

func (s *Server) score(w http.ResponseWriter, r *http.Request) {
	record, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRecordBytes))
	if err != nil {
		http.Error(w, fmt.Sprintf("read record: %v", err), http.StatusBadRequest)
		return
	}
	call, settings := s.begin(s.keyOf(record))
	call.Header = r.Header
	if s.config.OnCall != nil {
		s.config.OnCall(call)
	}
	defer s.end(&call)
	if call.Planned.Kind == Hang {
		s.wait(r.Context(), math.MaxInt64)
		return
	}
	if !s.wait(r.Context(), call.Planned.Wait) {
		return
	}
	call.Answered = s.answer(r.Context(), w, call, settings, record)
}

// answer writes what was planned and says whether all of it went out.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, call Call, settings Settings, record []byte) bool {
	switch call.Planned.Kind {
	case Fail:
		http.Error(w, "the stub was told to fail", call.Planned.Status)
		return true
	case Limit:
		seconds := math.Ceil(time.Duration(settings.RetryAfter).Seconds())
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		http.Error(w, "the stub was told to be busy", http.StatusTooManyRequests)
		return true
	}
	body, err := json.Marshal(ScoreOf(call.Key, record))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if call.Planned.Kind != Trickle {
		_, err = w.Write(body)
		return err == nil
	}
	every := time.Duration(settings.TrickleEvery)
	if every == 0 {
		every = time.Second
	}
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil {
			return false
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return false
		}
		if i+1 < len(body) && !s.wait(ctx, every) {
			return false
		}
	}
	return true
}

// wait waits, unless the caller goes away or the server closes.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.closed:
	}
	return false
}

func (s *Server) keyOf(record []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(record, &fields) != nil {
		return ""
	}
	var key string
	if json.Unmarshal(fields[s.config.KeyField], &key) != nil {
		return string(fields[s.config.KeyField])
	}
	return key
}

func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	base := Settings{}
	switch r.Method {
	case http.MethodGet:
		reply(w, s.Settings())
		return
	case http.MethodPut:
	case http.MethodPost:
		base = s.Settings()
	default:
		w.Header().Set("Allow", "GET, PUT, POST")
		http.Error(w, "control takes GET, PUT (replace) and POST (change some)", http.StatusMethodNotAllowed)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRecordBytes))
	if err == nil {
		var settings Settings
		if settings, err = ParseSettings(base, data); err == nil {
			err = s.Set(settings)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, s.Settings())
}

func (s *Server) counts(w http.ResponseWriter, r *http.Request) {
	min := 1
	if text := r.URL.Query().Get("min"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			http.Error(w, fmt.Sprintf("min=%s: not a number", text), http.StatusBadRequest)
			return
		}
		min = n
	}
	keys := s.Counts(min)
	if r.URL.Query().Has("key") {
		key := r.URL.Query().Get("key")
		keys = map[string]int{key: s.Counts(0)[key]}
	}
	reply(w, map[string]any{"calls": s.Stats().Calls, "keys": keys})
}

func (s *Server) forget(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	clear(s.keys)
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// reply writes JSON. An error here is a caller that went away.
func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v)
}
