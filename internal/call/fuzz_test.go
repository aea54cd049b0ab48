package call

import (
	"net/http"
	"testing"
	"time"
)

// FuzzRetryAfter: whatever a service writes into Retry-After, the pause is not
// negative.
func FuzzRetryAfter(f *testing.F) {
	h := NewHTTP(HTTPOptions{Now: func() time.Time { return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) }})
	for _, s := range []string{"", "5", "-5", "Mon, 30 Nov 2026 00:01:00 GMT", "Mon, 30 Nov 1926 00:01:00 GMT", "9999999999", "soon", "1.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if d := h.retryAfter(http.Header{"Retry-After": {value}}); d < 0 {
			t.Fatalf("%q is %s", value, d)
		}
	})
}
