package call

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

// Permanent marks an error so that no further attempt is made. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// PanicError is a panic of user code, with its stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Recovered turns what recover answered into an error.
func Recovered(v any) error { return &PanicError{Value: v, Stack: debug.Stack()} }

// Classify says what an attempt's error means for the next one.
func Classify(err error) (failure Failure, retryAfter time.Duration) {
	if err == nil {
		return None, 0
	}
	var p permanent
	if errors.As(err, &p) {
		return Fatal, 0
	}
	var crash *PanicError
	if errors.As(err, &crash) {
		return Crash, 0
	}
	var answer *HTTPError
	if errors.As(err, &answer) {
		if !answer.Temporary() {
			return Fatal, 0
		}
		return Service, answer.RetryAfter
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Late, 0
	}
	var says interface{ RetryAfter() time.Duration }
	if errors.As(err, &says) {
		return Service, says.RetryAfter()
	}
	return Service, 0
}
