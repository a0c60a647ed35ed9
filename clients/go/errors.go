// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"unicode"
)

// The kinds of errors, for errors.Is. If servers fail in different ways, the error has the kind
// that comes first in this list. If its context was cancelled, a call fails with context.Canceled.
var (
	// A server has no worker ID, or no IDs left for the current time.
	ErrUnavailable = errors.New("no server has IDs now")
	// A server's clock is behind the IDs that it has issued, or outside their layout.
	ErrClock = errors.New("no server has a usable clock")
	// No server answered before the deadline. It is also a context.DeadlineExceeded.
	ErrTimeout = errors.New("no answer within the deadline")
	// No server accepts connections, or the reply is not from a Snowflake server.
	ErrUnreachable = errors.New("no server can be reached")
	// The agent is invalid, or a server refused it.
	ErrInvalidAgent = errors.New("invalid agent")
	// The client is closed, or was closed during the call.
	ErrClosed = errors.New("the client is closed")
	// An argument is out of range.
	ErrInvalidArgument = errors.New("invalid argument")
)

// An Attempt is a request to a server that did not return IDs.
type Attempt struct {
	Server  string // as it was given
	Address string // of the server, if it was given by name and resolved
	Kind    error  // ErrUnavailable, ErrClock, ErrTimeout, ErrUnreachable or ErrInvalidAgent
	Reason  string // one line
	Cause   error  // such as a *net.OpError or a *net.DNSError; nil if the server answered
}

func (a Attempt) String() string {
	if a.Address != "" {
		return a.Server + ": " + a.Address + ": " + a.Reason
	}
	return a.Server + ": " + a.Reason
}

// Error is the type of all errors in this package. Its message is one line that lists each server
// that was tried and why it failed. errors.Is and errors.As find its kind and the causes of its
// attempts.
type Error struct {
	Kind       error         // one of the Err variables, or context.Canceled
	Detail     string        // about the kind, can be empty
	Attempts   []Attempt     // the last one of each address, in the order in which they ended
	RetryAfter time.Duration // with ErrUnavailable: the least that a server named; 0: none did
}

var _ net.Error = (*Error)(nil)

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("snowflake: ")
	if e.Kind != nil {
		text.WriteString(e.Kind.Error())
	}
	if e.Detail != "" {
		text.WriteString(": " + e.Detail)
	}
	separator := ": "
	for _, attempt := range e.Attempts {
		text.WriteString(separator + attempt.String())
		separator = "; "
	}
	return text.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is matches the causes of attempts. A timeout also matches context.DeadlineExceeded and
// os.ErrDeadlineExceeded.
func (e *Error) Is(target error) bool {
	if e.Timeout() && (target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded) {
		return true
	}
	for _, attempt := range e.Attempts {
		if errors.Is(attempt.Cause, target) {
			return true
		}
	}
	return false
}

// As finds the first cause of an attempt that has the target's type.
func (e *Error) As(target any) bool {
	for _, attempt := range e.Attempts {
		if attempt.Cause != nil && errors.As(attempt.Cause, target) {
			return true
		}
	}
	return false
}

// Timeout is a method of net.Error.
func (e *Error) Timeout() bool { return e.Kind == ErrTimeout }

// Temporary is a method of net.Error: whether a later call can succeed.
func (e *Error) Temporary() bool {
	return e.Timeout() || e.Kind == ErrUnavailable || e.Kind == ErrUnreachable || e.Kind == ErrClock
}

func invalid(format string, values ...any) error {
	return &Error{Kind: ErrInvalidArgument, Detail: fmt.Sprintf(format, values...)}
}

// A failure is an attempt, and what only the client needs to know about it.
type failure struct {
	Attempt
	endpoint   *endpoint
	retryAfter time.Duration
	state      int
}

// The state of the connection after a failure. It is still good from answered on. After the last two,
// the client changes its request.
const (
	broken   = iota
	stale    // it was idle, and had ended
	answered // the server refused
	unknownMethod
	invalidCount
)

// of sets the endpoint of a failure.
func (f *failure) of(e *endpoint) *failure {
	f.Server, f.endpoint = e.server.text, e
	if e.server.name != nil && !e.isName() {
		f.Address = e.address
	}
	return f
}

// newFailure makes one line of a reason: servers can send anything.
func newFailure(kind error, reason string, cause error) *failure {
	if len(reason) > 200 {
		reason = reason[:200]
	}
	reason = strings.Map(func(letter rune) rune {
		if unicode.IsPrint(letter) {
			return letter
		}
		return ' '
	}, reason)
	return &failure{Attempt: Attempt{Kind: kind, Reason: reason, Cause: cause}}
}

func newRefusal(kind error, text string, state int) *failure {
	found := newFailure(kind, "the server refused: "+text, nil)
	found.state = state
	return found
}

// newError returns the error of a call that these failures ended.
func newError(failures []*failure) *Error {
	found := &Error{Kind: ErrUnreachable}
	rank := map[error]int{ErrUnreachable: 1, ErrTimeout: 2, ErrClock: 3, ErrUnavailable: 4}
	for _, one := range failures {
		found.Attempts = append(found.Attempts, one.Attempt)
		if rank[one.Kind] > rank[found.Kind] {
			found.Kind = one.Kind
		}
		if one.retryAfter > 0 && (found.RetryAfter == 0 || one.retryAfter < found.RetryAfter) {
			found.RetryAfter = one.retryAfter
		}
	}
	return found
}
