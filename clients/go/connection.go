// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

const singlesTime = 20 * time.Millisecond // for the calls to get_id that make up one request

// A connection is used by one goroutine at a time. Any goroutine can close it.
type connection struct {
	net.Conn
	reader      *bufio.Reader
	out, in     []byte
	sequence    uint32
	method      int // the first one of methods that the server may know
	limit       int // IDs of one call that the server may grant
	hasAnswered bool
	isSilent    bool // no byte came since the last call
	isSent      bool // by requestNow, which got no answer
}

// connect ends early if ctx is cancelled. Go's dialer takes care that it does not connect to itself,
// at a local port without a listener.
func connect(ctx context.Context, to *endpoint, limit time.Duration) (*connection, *failure) {
	deadline := time.Now().Add(limit)
	conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, to.network, to.address)
	if err == nil && to.server.tls != nil {
		plain := conn
		_ = plain.SetDeadline(deadline)
		secure := tls.Client(plain, to.server.tls)
		if err = secure.HandshakeContext(ctx); err != nil {
			plain.Close()
		}
		conn = secure
	}
	if err != nil {
		return nil, newBroken(err, fmt.Sprintf("no connection within %v", limit))
	}
	// Random, so that a reply of another connection is not taken for one of this.
	return &connection{Conn: conn, reader: bufio.NewReader(conn), sequence: uint32(random(1 << 30)),
		limit: maxBatch}, nil
}

// request returns count IDs, or fewer if the server grants no more at once. A failure closes the
// connection, unless it is an answer.
func (c *connection) request(agent string, count int, limit time.Duration) ([]run, *failure) {
	_ = c.SetDeadline(time.Now().Add(limit))
	for {
		runs, err := c.requestOnce(agent, min(count, c.limit))
		var refused *refusal
		isRefused := errors.As(err, &refused)
		switch {
		case err == nil:
			c.hasAnswered = true
			return runs, nil
		case isRefused && refused.isUnknownMethod && c.method+1 < len(methods):
			c.method++
		case isRefused && refused.isInvalidCount && min(count, c.limit) > 1:
			c.limit = min(count, c.limit) / 2
		case isRefused:
			found := newFailure(refused.kind, "the server refused: "+refused.message, nil)
			found.retryAfter, found.isAnswer = refused.retryAfter, true
			return nil, found
		default:
			c.Close()
			var broken *brokenError
			if !errors.As(err, &broken) {
				return nil, newFailure(ErrUnreachable, "not the reply to the call: "+err.Error(), err)
			}
			found := newBroken(broken.cause, fmt.Sprintf("no answer within %v", limit))
			found.isStale = c.hasAnswered && c.isSilent && found.Kind == ErrUnreachable
			return nil, found
		}
	}
}

func (c *connection) requestOnce(agent string, count int) ([]run, error) {
	m := &methods[c.method]
	if m.isBatch {
		runs, err := c.call(m, agent, count)
		if got := sum(runs); err == nil && got != count {
			err = fmt.Errorf("%d IDs instead of %d", got, count)
		}
		return runs, err
	}
	var runs reader
	var all []run
	for began := time.Now(); runs.err == nil && (len(all) == 0 ||
		sum(all) < count && time.Since(began) < singlesTime); {
		one, err := c.call(m, agent, 1)
		if err != nil {
			return nil, err
		}
		all = runs.extend(all, one[0].first, 1)
	}
	return all, runs.err
}

// A brokenError is an error of the connection.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return e.cause.Error() }

// requestNow is request for the usual case: one call, answered before the deadline of the connection.
// In any other case it returns nil, and request goes on with the call.
func (c *connection) requestNow(agent string, count int) []run {
	m := &methods[c.method]
	if !m.isBatch || count > c.limit {
		return nil
	}
	c.isSent = true
	if c.send(m, agent, count) != nil {
		return nil
	}
	frame, err := c.reader.Peek(4)
	if err == nil {
		length := min(4+int(binary.BigEndian.Uint32(frame)), maxFrame) // Peek refuses those that are long
		frame, err = c.reader.Peek(length)
	}
	if err != nil {
		return nil
	}
	runs, err := readReply(frame[4:], m, c.sequence)
	if err != nil || sum(runs) != count {
		return nil
	}
	_, _ = c.reader.Discard(len(frame))
	c.hasAnswered, c.isSent = true, false
	return runs
}

func (c *connection) send(m *method, agent string, count int) error {
	c.sequence = (c.sequence + 1) & 0x7fffffff
	c.out = appendCall(c.out[:0], m, c.sequence, agent, count)
	_, err := c.Write(c.out)
	return err
}

func (c *connection) call(m *method, agent string, count int) ([]run, error) {
	if !c.isSent {
		c.isSilent = true
		if err := c.send(m, agent, count); err != nil {
			return nil, &brokenError{err}
		}
	}
	c.isSent = false
	head, err := c.reader.Peek(4)
	c.isSilent = len(head) == 0
	if err != nil {
		return nil, &brokenError{err}
	}
	length := binary.BigEndian.Uint32(head)
	if length == 0 || length > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	if cap(c.in) < 4+int(length) {
		c.in = make([]byte, 4+int(length))
	}
	c.in = c.in[:4+int(length)]
	if _, err := io.ReadFull(c.reader, c.in); err != nil {
		return nil, &brokenError{err}
	}
	return readReply(c.in[4:], m, c.sequence)
}

// newBroken is for a connection that failed.
func newBroken(err error, timeout string) *failure {
	var timed net.Error
	var number syscall.Errno
	switch {
	case errors.As(err, &timed) && timed.Timeout():
		return newFailure(ErrTimeout, timeout, err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return newFailure(ErrUnreachable, "the server closed the connection", err)
	case errors.As(err, &number):
		return newFailure(ErrUnreachable, number.Error(), err)
	}
	return newFailure(ErrUnreachable, err.Error(), err)
}
