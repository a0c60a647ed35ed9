// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
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

// A connection is used by one goroutine at a time. Any goroutine can close it.
type connection struct {
	net.Conn
	out, in     []byte // the last call, and what has been received since
	sequence    uint32
	method      int // the first one of methods that the server may know
	limit       int // IDs of one call that the server may grant
	hasAnswered bool
	isSilent    bool // no byte came since the last call
	isSent      bool // a call, whose reply has not been received
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
	return &connection{Conn: conn, in: make([]byte, 0, 4096), sequence: uint32(random(1 << 30)), limit: maxBatch}, nil
}

// request returns count IDs, or fewer if the server grants no more at once. After a timeout, another
// request waits for the same reply. After any other failure that is not an answer, the connection must
// not be used.
func (c *connection) request(agent string, count int, limit time.Duration) ([]run, *failure) {
	_ = c.SetDeadline(time.Now().Add(limit))
	for {
		asked := 1
		if methods[c.method].isBatch {
			asked = min(count, c.limit)
		}
		runs, failed := c.call(agent, asked)
		switch {
		case failed == nil:
			c.hasAnswered = true
			return runs, nil
		case failed.state == unknownMethod && c.method+1 < len(methods):
			c.method++
		case failed.state == invalidCount && asked > 1:
			c.limit = asked / 2
		case failed.Kind == ErrTimeout:
			failed.Reason = fmt.Sprintf("no answer within %v", limit)
			return nil, failed
		default:
			return nil, failed
		}
	}
}

func (c *connection) call(agent string, count int) ([]run, *failure) {
	m := &methods[c.method]
	if !c.isSent {
		c.isSent, c.isSilent = true, true
		c.sequence = (c.sequence + 1) & 0x7fffffff
		c.out = appendCall(c.out[:0], m, c.sequence, agent, count)
		if _, err := c.Write(c.out); err != nil {
			return nil, c.broken(err)
		}
	}
	size, failed := c.receive()
	if failed != nil {
		return nil, failed
	}
	runs, failed := readReply(c.in[4:size], m, c.sequence)
	c.isSent, c.in = false, c.in[:copy(c.in, c.in[size:])]
	if got := sum(runs); failed == nil && got != count {
		failed = notReply(fmt.Errorf("%d IDs instead of %d", got, count))
	}
	return runs, failed
}

// receive returns the size of the first frame in c.in, once it is complete.
func (c *connection) receive() (int, *failure) {
	for {
		size := 4
		if len(c.in) >= size {
			length := binary.BigEndian.Uint32(c.in)
			if length == 0 || length > maxFrame {
				return 0, notReply(fmt.Errorf("a frame of %d bytes", length))
			}
			if size += int(length); len(c.in) >= size {
				return size, nil
			}
		}
		if size > cap(c.in) {
			c.in = append(make([]byte, 0, size), c.in...)
		}
		n, err := c.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		c.isSilent = c.isSilent && n == 0
		if err != nil && n == 0 {
			return 0, c.broken(err)
		}
	}
}

func (c *connection) broken(err error) *failure {
	found := newBroken(err, "no answer")
	if c.hasAnswered && c.isSilent && found.Kind == ErrUnreachable {
		found.state = stale
	}
	return found
}

func notReply(err error) *failure {
	return newFailure(ErrUnreachable, "not the reply to the call: "+err.Error(), err)
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
