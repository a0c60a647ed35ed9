// SPDX-License-Identifier: Apache-2.0

// Package snowflake gives unique IDs that sort by time, from a Snowflake server.
//
//	client, err := snowflake.New([]string{"127.0.0.1:7609"}, snowflake.Options{Agent: "my-program"})
//	...
//	defer client.Close()
//	id, err := client.NextID(ctx)
package snowflake

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// Version of this package.
const Version = "0.1.0"

// NoPrefetch makes each call ask a server: Options{Prefetch: NoPrefetch}.
const NoPrefetch time.Duration = -1

const longest = time.Hour // of any option

var agentPattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z\-0-9]{0,255}$`)

// Options of a client. What is 0 has its default.
type Options struct {
	// The name of the program, by which servers count: a letter, then letters, figures and "-",
	// 256 at most. It must be given.
	Agent string
	// The deadline of each call, over all servers together, with the look-up of names; that of the
	// call's context counts where it is sooner. Default 3 s.
	Timeout time.Duration
	// For how long the IDs in hand are to last, by how fast they are taken. Default 50 ms;
	// NoPrefetch: each call asks a server.
	Prefetch time.Duration
	// IDs that were asked for longer ago are thrown away; twice Prefetch or more. Default 1 s.
	MaxAge time.Duration
	// For servers after "tls:". Default: the certificates that the machine believes in.
	TLS *tls.Config
}

// Generator is what a Client does, and the fake of package snowflaketest.
type Generator interface {
	NextID(ctx context.Context) (int64, error)
	NextIDs(ctx context.Context, count int) ([]int64, error)
	Close() error
}

var _ Generator = (*Client)(nil)

// A Client gives IDs of one of several servers, to any number of goroutines. It has none of its own
// while nobody takes.
type Client struct {
	timeout    time.Duration
	isPrefetch bool
	hand       hand
	turn       chan struct{} // full: somebody asks the servers. Those who wait come in order
	servers    *servers
	roundTrip  time.Duration
	closeOnce  sync.Once
	closed     chan struct{}
	lock       sync.Mutex // of what follows
	isClosed   bool
	interrupt  context.CancelFunc // the call that has the turn
	background sync.WaitGroup
}

// New makes a client; nothing is connected to before its first call. Servers are HOST, HOST:PORT,
// [IPV6]:PORT, one of these after "tls:", or unix:/PATH; none stands for DefaultServer. The error is
// an ErrInvalidAgent or an ErrInvalidArgument.
func New(servers []string, options Options) (*Client, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		servers = []string{DefaultServer}
	}
	known, err := newServers(servers, options.Agent, options.TLS)
	if err != nil {
		return nil, err
	}
	known.timeout = options.Timeout
	return &Client{
		timeout:    options.Timeout,
		isPrefetch: options.Prefetch > 0,
		hand:       hand{prefetch: options.Prefetch, maxAge: options.MaxAge, now: time.Now},
		turn:       make(chan struct{}, 1),
		servers:    known,
		closed:     make(chan struct{}),
	}, nil
}

// complete puts defaults where nothing is given.
func (o *Options) complete() error {
	if !agentPattern.MatchString(o.Agent) {
		return &Error{Kind: ErrInvalidAgent, Detail: fmt.Sprintf("agent %.40q: not a letter and "+
			`then letters, figures and "-", 256 at most`, o.Agent)}
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Prefetch == 0 {
		o.Prefetch = 50 * time.Millisecond
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Second
	}
	switch {
	case o.Timeout < time.Millisecond || o.Timeout > longest:
		return invalid(fmt.Sprintf("Timeout %v: 1ms to %v", o.Timeout, longest))
	case o.Prefetch < 0 && o.Prefetch != NoPrefetch || o.Prefetch > longest:
		return invalid(fmt.Sprintf("Prefetch %v: above 0 to %v, or NoPrefetch", o.Prefetch, longest))
	case o.MaxAge < time.Millisecond || o.MaxAge < 2*o.Prefetch || o.MaxAge > longest:
		return invalid(fmt.Sprintf("MaxAge %v: 1ms to %v, and twice Prefetch (%v) or more",
			o.MaxAge, longest, o.Prefetch))
	}
	return nil
}

// NextID gives an ID. Those that one goroutine takes increase as long as one server answers. Errors
// are *Error. What is in hand is given whether or not ctx is over.
func (c *Client) NextID(ctx context.Context) (int64, error) {
	id, ok := c.take()
	if ok {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.inTurn(ctx, cancel, func() error {
		if id, ok = c.take(); ok { // others may have put it there meanwhile
			return nil
		}
		found, err := c.fetch(ctx, 1)
		if err == nil {
			id = found[0].first
		}
		return err
	})
	return id, err
}

// NextIDs gives as many IDs, increasing as those of NextID do; all of them, or an error.
func (c *Client) NextIDs(ctx context.Context, count int) ([]int64, error) {
	if count < 1 {
		return nil, invalid(fmt.Sprintf("count %d: not 1 or more", count))
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// What is in hand comes first, since it is older. So it is when a batch is asked for that
	// nothing is in hand, and what comes there after it is younger.
	ids := c.takeMany(make([]int64, 0, smaller(count, maxBatch)), count)
	for len(ids) < count {
		err := c.inTurn(ctx, cancel, func() error {
			if ids = c.takeMany(ids, count); len(ids) == count {
				return nil
			}
			found, err := c.servers.fetch(ctx, smaller(count-len(ids), maxBatch))
			ids = appendAll(ids, found)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Close ends calls that are under way, and those that come, with ErrClosed. What is in hand is lost.
// It returns nil, when no goroutine of the client is left, but that of a look-up which hangs.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		c.lock.Lock()
		c.isClosed = true
		close(c.closed)
		if c.interrupt != nil {
			c.interrupt()
		}
		c.lock.Unlock()
		c.hand.close()
		c.background.Wait()
		c.turn <- struct{}{} // for good
		c.servers.disconnect()
	})
	return nil
}

// inTurn has what is done by one at a time done, unless ctx or the client is over first. cancel ends
// ctx.
func (c *Client) inTurn(ctx context.Context, cancel context.CancelFunc, ask func() error) error {
	began := time.Now()
	if err := c.awaitTurn(ctx); err != nil {
		return err
	}
	if c.servers.isForOthers(ctx, began) {
		<-c.turn
		if err := c.awaitTurn(ctx); err != nil {
			return err
		}
	}
	defer func() { <-c.turn }()
	if !c.setInterrupt(cancel) {
		return &Error{Kind: ErrClosed}
	}
	err := ask()
	if !c.setInterrupt(nil) && err != nil { // that is why
		return &Error{Kind: ErrClosed, Detail: "during the call"}
	}
	return err
}

func (c *Client) awaitTurn(ctx context.Context) error {
	select {
	case <-c.closed:
		return &Error{Kind: ErrClosed}
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return c.servers.overdue(ctx)
	}
}

// setInterrupt returns false if the client is closed.
func (c *Client) setInterrupt(interrupt context.CancelFunc) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.interrupt = interrupt
	return !c.isClosed
}

// fetch gets IDs, of which the first given are the caller's; the others go into the hand.
func (c *Client) fetch(ctx context.Context, given int) ([]run, error) {
	wanted := given
	if c.isPrefetch {
		wanted = c.hand.wanted(c.roundTrip)
	}
	found, err := c.servers.fetch(ctx, wanted)
	if err != nil {
		return nil, err
	}
	c.roundTrip = time.Since(c.servers.askedAt)
	c.hand.put(append([]run(nil), found...), given, c.servers.askedAt)
	return found, nil
}

func (c *Client) take() (int64, bool) {
	id, ok, isLow := c.hand.take()
	if isLow {
		c.startRefill()
	}
	return id, ok
}

func (c *Client) takeMany(ids []int64, count int) []int64 {
	ids, isLow := c.hand.takeMany(ids, count)
	if isLow {
		c.startRefill()
	}
	return ids
}

func (c *Client) startRefill() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.isClosed {
		c.background.Add(1)
		go c.refill()
	}
}

// refill is before the hand is empty. Why it fails, they learn who then ask for themselves; until
// then it is not tried again.
func (c *Client) refill() {
	defer c.background.Done()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	_ = c.inTurn(ctx, cancel, func() error {
		if !c.hand.isLow() {
			return nil
		}
		_, err := c.fetch(ctx, 0)
		return err
	})
}

func appendAll(ids []int64, runs []run) []int64 {
	for _, one := range runs {
		for i := 0; i < one.count; i++ {
			ids = append(ids, one.first+int64(i))
		}
	}
	return ids
}

func smaller(a, b int) int {
	if a < b {
		return a
	}
	return b
}
