package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes of the command; rondo help exit-codes prints them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFindings    = 3
	exitNotFound    = 4
	exitUnreachable = 5
)

// failure is an error with what main needs to end well: the exit code and a
// hint that says what to do. The operation and its object are the verb and
// the words in front of the cause.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail wraps err with an exit code and a hint.
func fail(code int, err error, hint string, args ...any) error {
	return &failure{code: code, err: err, hint: fmt.Sprintf(hint, args...)}
}

// hinted is what errors of other rooms may carry.
type hinted interface {
	error
	Hint() string
}

// report prints err the way every verb fails and returns its exit code.
func report(w io.Writer, verb string, err error) int {
	if err == nil {
		return exitOK
	}
	name := strings.TrimSpace("rondo " + verb)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(w, "%s: interrupted\n", name)
		return 130
	}
	code, hint := exitFailed, ""
	if f, ok := errors.AsType[*failure](err); ok {
		code, hint = f.code, f.hint
	} else if h, ok := errors.AsType[hinted](err); ok {
		hint = h.Hint()
	}
	fmt.Fprintf(w, "%s: %v\n", name, err)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
	return code
}
