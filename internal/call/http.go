package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HTTPOptions tune NewHTTP. The zero value is a good choice.
type HTTPOptions struct {
	// MaxResponse bounds the body of an answer in bytes; 0 means 1 MiB.
	MaxResponse int64
	// ConnectTimeout bounds the making of a connection; 0 means 5 s.
	ConnectTimeout time.Duration
	// IdleConnections is how many idle connections to one host are kept; 0
	// means 10,000, so that calls in flight do not churn connections.
	IdleConnections int
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport replaces the tuned transport altogether, for example to add
	// authentication. ConnectTimeout, IdleConnections and Dial have no effect
	// then.
	Transport http.RoundTripper
	// Now is used to read a Retry-After that is a date; nil means time.Now.
	Now func() time.Time
}

// HTTP makes requests that end with their context.
type HTTP struct {
	transport http.RoundTripper
	max       int64
	now       func() time.Time
}

// NewHTTP makes a client. Answers are never followed to another address
// (a redirect is an *HTTPError): a call that was bounded for one service must
// not wander to another.
func NewHTTP(o HTTPOptions) *HTTP {
	if o.MaxResponse <= 0 {
		o.MaxResponse = 1 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	rt := o.Transport
	if rt == nil {
		rt = tunedTransport(o)
	}
	return &HTTP{transport: rt, max: o.MaxResponse, now: o.Now}
}

func tunedTransport(o HTTPOptions) http.RoundTripper {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.IdleConnections <= 0 {
		o.IdleConnections = 10_000
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return newLines(o, &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: o.ConnectTimeout,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: o.IdleConnections,
		IdleConnTimeout:     90 * time.Second,
		// A call is one small request and one small answer. Buffers of 4 KiB
		// each way, net/http's default, would be a third of the memory of a
		// call in flight.
		ReadBufferSize:     1 << 10,
		WriteBufferSize:    1 << 10,
		DisableCompression: true,
	})
}

// HTTPError is an answer that is not a success (2xx).
type HTTPError struct {
	Status     int
	RetryAfter time.Duration // 0 when the service did not say
	Body       string        // at most the first 256 bytes
	URL        string        // without query and user, which may be secrets
}

func (e *HTTPError) Error() string {
	s := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %s", e.RetryAfter)
	}
	if e.Body != "" {
		s += fmt.Sprintf(": %q", e.Body)
	}
	return s
}

// Temporary says whether the same request may succeed later.
func (e *HTTPError) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// ErrTooLarge is the cause of an answer that is larger than MaxResponse. It is
// permanent: the same request would bring the same answer.
var ErrTooLarge = errors.New("answer is larger than MaxResponse")

// Do sends a request and reads the whole answer. The request's context bounds
// all of it. The header of the answer is nil when there was none.
func (h *HTTP) Do(req *http.Request) (body []byte, header http.Header, err error) {
	if u := req.URL.User; u != nil && req.Header.Get("Authorization") == "" {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return nil, nil, contextError(req.Context(), err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, h.max+1))
	switch {
	case err != nil:
		return nil, resp.Header, contextError(req.Context(), fmt.Errorf("read answer of %s after %d bytes: %w", bareURL(req), len(body), err))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, resp.Header, &HTTPError{Status: resp.StatusCode, RetryAfter: h.retryAfter(resp.Header), Body: string(body[:min(len(body), 256)]), URL: bareURL(req)}
	case int64(len(body)) > h.max:
		return nil, resp.Header, Permanent(fmt.Errorf("read answer of %s: %w (%d bytes)", bareURL(req), ErrTooLarge, h.max))
	}
	return body, resp.Header, nil
}

// contextError prefers the reason for which a context ended (the poll clock, a
// lost lease) to the transport's description of it.
func contextError(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

func bareURL(req *http.Request) string {
	u := *req.URL
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	return u.String()
}

// retryAfter reads seconds or a date; anything else is as if nothing was said.
func (h *HTTP) retryAfter(header http.Header) time.Duration {
	v := strings.TrimSpace(header.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return time.Duration(max(s, 0)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(h.now()), 0)
	}
	return 0
}

// PostJSON posts in as JSON and reads the answer as JSON.
func (h *HTTP) PostJSON[In, Out any](ctx context.Context, url string, in In) (Out, error) {
	var out Out
	data, err := json.Marshal(in)
	if err != nil {
		return out, Permanent(fmt.Errorf("encode request for %s: %w", url, err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return out, Permanent(fmt.Errorf("make request: %w", err))
	}
	req.Header.Set("Content-Type", "application/json")
	return readJSON[Out](h, req)
}

// GetJSON gets an address and reads the answer as JSON.
func (h *HTTP) GetJSON[Out any](ctx context.Context, url string) (Out, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		var out Out
		return out, Permanent(fmt.Errorf("make request: %w", err))
	}
	return readJSON[Out](h, req)
}

func readJSON[Out any](h *HTTP, req *http.Request) (out Out, err error) {
	req.Header.Set("Accept", "application/json")
	body, _, err := h.Do(req)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, Permanent(fmt.Errorf("read answer of %s: %w", bareURL(req), err))
	}
	return out, nil
}

// Close drops idle connections.
func (h *HTTP) Close() {
	if t, ok := h.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
