// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/apache/thrift/lib/go/thrift"

	"snowflake/internal/generated"
)

const (
	maxBatch    = 10000 // IDs of one call
	singleCalls = 100   // of get_id, for one batch
)

// A method is one way to ask for IDs; a server that lacks it is asked by the next.
type method func(ctx context.Context, client *generated.SnowflakeExtendedClient, agent string,
	count int) ([]run, error)

var methods = []method{idRuns, idList, singleIDs}

// A connection to one address. Used by one goroutine at a time.
type connection struct {
	conn        net.Conn
	frames      *frames
	client      *generated.SnowflakeExtendedClient
	hasAnswered bool
	isClosed    bool
}

// connect ends with ctx. Go's dialer sees to it that nobody connects to himself, at a port of this
// host where nobody listens.
func connect(ctx context.Context, to *place, config *tls.Config) (*connection, *failure) {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, to.network, to.address)
	if err == nil && config != nil {
		secure := tls.Client(conn, config)
		if err = secure.HandshakeContext(ctx); err != nil {
			conn.Close()
		}
		conn = secure
	}
	if err != nil {
		return nil, broken(ctx, err, "not connected", began)
	}
	frames := newFrames(conn)
	return &connection{conn: conn, frames: frames, client: newClient(frames)}, nil
}

func newClient(frames *frames) *generated.SnowflakeExtendedClient {
	configuration := &thrift.TConfiguration{
		MaxMessageSize:    maxFrameBytes,
		TBinaryStrictRead: thrift.BoolPtr(true),
	}
	protocol := thrift.NewTBinaryProtocolConf(frames, configuration)
	return generated.NewSnowflakeExtendedClient(&numberedClient{
		TStandardClient: thrift.NewTStandardClient(protocol, protocol),
		protocol:        protocol,
		last:            int32(random(1 << 30)),
	})
}

// A numberedClient is Thrift's, but its sequence IDs begin anywhere, so that those of two connections
// differ.
type numberedClient struct {
	*thrift.TStandardClient
	protocol thrift.TProtocol
	last     int32
}

// Call is that of a thrift.TClient.
func (c *numberedClient) Call(ctx context.Context, method string,
	args, result thrift.TStruct) (thrift.ResponseMeta, error) {
	c.last = c.last%math.MaxInt32 + 1
	if err := c.Send(ctx, c.protocol, c.last, method, args); err != nil {
		return thrift.ResponseMeta{}, err
	}
	return thrift.ResponseMeta{}, c.Recv(ctx, c.protocol, c.last, method, result)
}

// fetch gets IDs, count of them or as many as the server gives at once.
func (c *connection) fetch(ctx context.Context, agent string, count int, to *place) ([]run, *failure) {
	began := time.Now()
	stop := c.interruptAfter(ctx)
	defer stop()
	for {
		asked := count
		if asked > to.limit {
			asked = to.limit
		}
		found, err := methods[to.method](ctx, c.client, agent, asked)
		if err == nil {
			c.hasAnswered = true
			return found, nil
		}
		var exception thrift.TApplicationException
		var invalidCount *generated.InvalidCount
		switch {
		case errors.As(err, &exception) && exception.TypeId() == thrift.UNKNOWN_METHOD &&
			to.method+1 < len(methods):
			to.method++
		case errors.As(err, &invalidCount) && asked > 1:
			to.limit = asked / 2
		default:
			return nil, c.judge(ctx, err, began)
		}
	}
}

// judge says what an error means, and closes the connection unless it is the server's reply.
func (c *connection) judge(ctx context.Context, err error, began time.Time) *failure {
	var clock *generated.InvalidSystemClock
	var agent *generated.InvalidUserAgentError
	var worker *generated.WorkerIdUnavailable
	var invalidCount *generated.InvalidCount
	var exception thrift.TApplicationException
	switch {
	case c.frames.err != nil:
		found := broken(ctx, c.frames.err, "no answer", began)
		found.isStale = c.hasAnswered && c.frames.isSilent && found.kind == ErrUnreachable
		c.close()
		return found
	case errors.As(err, &clock):
		return failed(ErrClock, clock.Message, "its clock is wrong")
	case errors.As(err, &agent):
		return failed(ErrInvalidAgent, agent.Message, "it refuses the agent")
	case errors.As(err, &worker):
		found := failed(ErrUnavailable, worker.Message, "it has no IDs")
		if wait := worker.RetryAfterMs; wait > 0 && wait < math.MaxInt64/int64(time.Millisecond) {
			found.retryAfter = time.Duration(wait) * time.Millisecond
		}
		return found
	case errors.As(err, &invalidCount):
		return failed(ErrUnreachable, "it says: "+invalidCount.Message, "")
	case errors.As(err, &exception) && exception.TypeId() == thrift.INTERNAL_ERROR:
		return ofTheYear2010(exception.Error())
	}
	c.close()
	return failed(ErrUnreachable, "what it answers is not the reply: "+err.Error(), "")
}

// ofTheYear2010 is for get_id, which has no typed exceptions: the message begins with the name.
func ofTheYear2010(message string) *failure {
	name, text, _ := strings.Cut(message, ": ")
	switch name {
	case "InvalidSystemClock":
		return failed(ErrClock, text, "its clock is wrong")
	case "WorkerIdUnavailable":
		return failed(ErrUnavailable, text, "it has no IDs")
	case "InvalidUserAgentError":
		return failed(ErrInvalidAgent, text, "it refuses the agent")
	}
	return failed(ErrUnreachable, "it says: "+message, "")
}

// failed makes one line of a reason: a server may say anything.
func failed(kind error, reason, otherwise string) *failure {
	if reason == "" {
		reason = otherwise
	}
	if len(reason) > 200 {
		reason = reason[:200]
	}
	reason = strings.Map(func(letter rune) rune {
		if unicode.IsPrint(letter) {
			return letter
		}
		return ' '
	}, reason)
	return &failure{kind: kind, reason: reason}
}

// broken is for a connection that is not, or not any more.
func broken(ctx context.Context, err error, what string, began time.Time) *failure {
	var number syscall.Errno
	var timed net.Error
	switch {
	case ctx.Err() != nil || errors.As(err, &timed) && timed.Timeout():
		took := time.Since(began).Milliseconds()
		return failed(ErrTimeout, fmt.Sprintf("%s within %d ms", what, took), "")
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return failed(ErrUnreachable, "it closed the connection", "")
	case errors.As(err, &number):
		return failed(ErrUnreachable, number.Error(), "")
	}
	return failed(ErrUnreachable, err.Error(), what)
}

// interruptAfter makes who waits for the server stop to when ctx is over, until stop is called.
func (c *connection) interruptAfter(ctx context.Context) (stop func()) {
	c.conn.SetDeadline(time.Time{})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			c.conn.SetDeadline(time.Unix(1, 0))
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (c *connection) close() {
	c.isClosed = true
	c.conn.Close()
}

func idRuns(ctx context.Context, client *generated.SnowflakeExtendedClient, agent string,
	count int) ([]run, error) {
	found, err := client.GetIDRuns(ctx, agent, int32(count))
	if err != nil {
		return nil, err
	}
	var runs []run
	for _, one := range found {
		if runs, err = extend(runs, one.First, int(one.Count)); err != nil {
			return nil, err
		}
	}
	return runs, checkCount(runs, count)
}

func idList(ctx context.Context, client *generated.SnowflakeExtendedClient, agent string,
	count int) ([]run, error) {
	found, err := client.GetIds(ctx, agent, int32(count))
	if err != nil {
		return nil, err
	}
	var runs []run
	for _, id := range found {
		if runs, err = extend(runs, id, 1); err != nil {
			return nil, err
		}
	}
	return runs, checkCount(runs, count)
}

func singleIDs(ctx context.Context, client *generated.SnowflakeExtendedClient, agent string,
	count int) ([]run, error) {
	var runs []run
	for i := 0; i < count && i < singleCalls; i++ {
		id, err := client.GetID(ctx, agent)
		if err != nil {
			return nil, err
		}
		if runs, err = extend(runs, id, 1); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// extend appends a run that must be one, and come after those that are there.
func extend(runs []run, first int64, count int) ([]run, error) {
	if first <= 0 || count < 1 || count > maxBatch || first > math.MaxInt64-int64(count)+1 {
		return nil, fmt.Errorf("%d IDs from %d on", count, first)
	}
	if len(runs) > 0 {
		last := &runs[len(runs)-1]
		if first < last.first+int64(last.count) || last.first+int64(last.count) < 0 {
			return nil, fmt.Errorf("ID %d after %d", first, last.first+int64(last.count)-1)
		}
		if first == last.first+int64(last.count) {
			last.count += count
			return runs, nil
		}
	}
	return append(runs, run{first, count}), nil
}

func checkCount(runs []run, wanted int) error {
	if found := count(runs); found != wanted {
		return fmt.Errorf("%d IDs, for %d", found, wanted)
	}
	return nil
}
