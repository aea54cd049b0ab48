package rondo

import (
	"errors"

	"github.com/rondo-streams/rondo/internal/call"
)

var (
	// ErrLeaseLost matches the cause of a context that ended because the
	// partition of its record went to another member, or because a thread was
	// removed or the application stopped and drain.timeout.ms was over.
	ErrLeaseLost = errors.New("the task's lease ended")
	// ErrPollClock matches the cause of a context that the poll clock
	// cancelled: the work was older than max.poll.interval.ms.
	ErrPollClock = errors.New("poll clock")
	// ErrRunning is answered by Run when the App was run before.
	ErrRunning = errors.New("an App runs once: make another one with NewApp")
	// ErrNotRunning is answered by AddStreamThread and RemoveStreamThread
	// before Run and after its end.
	ErrNotRunning = errors.New("the App is not running")
)

// HTTPError is an answer of a service that is not a success. Status 408, 425,
// 429 and 5xx make another attempt, and RetryAfter, when the service sent it,
// is honoured; other ones fail for good.
type HTTPError = call.HTTPError

// Permanent marks an error of a call so that no further attempt is made.
func Permanent(err error) error { return call.Permanent(err) }

// HTTP makes HTTP requests for calls. See NewHTTP.
type HTTP = call.HTTP

// HTTPOptions tune NewHTTP.
type HTTPOptions = call.HTTPOptions

// NewHTTP makes a client for calls over HTTP. Requests end when their context
// does, also while the body of the answer trickles in; an answer larger than
// HTTPOptions.MaxResponse is an error; an answer that is not a success is an
// *HTTPError. Connections are kept and their buffers are small, so that
// thousands of calls may be in flight. Share one HTTP among calls.
func NewHTTP(o HTTPOptions) *HTTP { return call.NewHTTP(o) }
