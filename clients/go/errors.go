// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// What may go wrong: the Kind of an *Error, for errors.Is. Where servers differ it is the first of
// these that one of them said. A call whose context was cancelled has context.Canceled instead.
var (
	// A server has no worker ID, or no IDs for the present time.
	ErrUnavailable = errors.New("no server has IDs now")
	// The clock of a server is behind its IDs, or outside their layout.
	ErrClock = errors.New("no server has a clock to go by")
	// The deadline was over first. It is a context.DeadlineExceeded too.
	ErrTimeout = errors.New("no answer within the deadline")
	// No server can be connected to, or what answers is none.
	ErrUnreachable = errors.New("no server can be reached")
	// The agent is none, or a server refuses it.
	ErrInvalidAgent = errors.New("the agent is refused")
	// The client is closed, or was during the call.
	ErrClosed = errors.New("the client is closed")
	// An argument cannot be.
	ErrInvalidArgument = errors.New("invalid argument")
)

// An Attempt is a server that was asked, and why it did not answer with IDs.
type Attempt struct {
	Server string // as it was given
	Reason string
}

// Error is what all functions of this package return. Its message is one line that names each
// server and why it failed.
type Error struct {
	Kind       error         // one of Err..., or context.Canceled
	Detail     string        // more of it, or empty
	Attempts   []Attempt     // in the order in which they were made
	RetryAfter time.Duration // of ErrUnavailable: the least that a server said; 0: none did
}

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
		text.WriteString(separator + attempt.Server + ": " + attempt.Reason)
		separator = "; "
	}
	return text.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error {
	return e.Kind
}

// Is also says of a timeout that it is one in the ways of context and of os.
func (e *Error) Is(target error) bool {
	return e.Timeout() && (target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded)
}

// Timeout is for those who look for a net.Error.
func (e *Error) Timeout() bool {
	return e.Kind == ErrTimeout
}

func invalid(detail string) error {
	return &Error{Kind: ErrInvalidArgument, Detail: detail}
}

// A failure is why one server did not answer with IDs.
type failure struct {
	kind       error
	reason     string
	retryAfter time.Duration
	isStale    bool // an old connection broke, which says nothing of the server
}

type failures []struct {
	server *server
	*failure
}

func (all failures) attempts() []Attempt {
	var attempts []Attempt
	for _, one := range all {
		attempts = append(attempts, Attempt{one.server.text, one.reason})
	}
	return attempts
}

// as is an error of that kind, of servers that all have been tried.
func (all failures) as(kind error) error {
	return &Error{Kind: kind, Attempts: all.attempts()}
}

// asError finds the kind that tells most.
func (all failures) asError(isOver bool) error {
	found := &Error{Kind: ErrUnreachable, Attempts: all.attempts()}
	count := map[error]int{}
	for _, one := range all {
		count[one.kind]++
		if one.retryAfter > 0 && (found.RetryAfter == 0 || one.retryAfter < found.RetryAfter) {
			found.RetryAfter = one.retryAfter
		}
	}
	switch {
	case count[ErrUnavailable] > 0:
		found.Kind = ErrUnavailable
	case count[ErrClock] > 0:
		found.Kind = ErrClock
	case isOver || count[ErrTimeout] == len(all):
		found.Kind = ErrTimeout
	}
	return found
}
