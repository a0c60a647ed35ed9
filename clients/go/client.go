// SPDX-License-Identifier: Apache-2.0

// Package snowflake gets unique, time-sortable IDs from Snowflake servers.
//
//	client, err := snowflake.New([]string{"127.0.0.1:7609"}, snowflake.Options{})
//	...
//	defer client.Close()
//	id, err := client.NextID(ctx)
package snowflake

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Version of this package.
const Version = "0.1.0"

// Generator is implemented by Client, and by the fake in package snowflaketest.
type Generator interface {
	NextID(ctx context.Context) (int64, error)
	NextIDs(ctx context.Context, count int) ([]int64, error)
	Close() error
}

var _ Generator = (*Client)(nil)

// A Client gets IDs from one of several servers. Any number of goroutines can share it. While no
// IDs are taken, it does not run any goroutines.
type Client struct {
	options    Options
	context    context.Context // cancelled by Close
	cancel     context.CancelFunc
	background sync.WaitGroup

	lock     sync.Mutex // guards all that follows
	isClosed bool
	buffer   buffer
	waiters  *list.List // of *waiter; there are none while the buffer has IDs
	refill   *refill    // nil: none is under way
	servers  []*server
	current  *endpoint  // the one that answered last; can be nil
	failures []*failure // since the last answer
	stats    Stats
}

// A waiter is a call that the buffer had too few IDs for.
type waiter struct {
	ids             []int64
	wanted          int  // more of them
	isSingle        bool // a call to NextID
	began, deadline time.Time
	place           *list.Element
	done            chan struct{} // closed when it has its IDs or an error
	err             error
}

// Stats contains the state of a client, and counts since it was created.
type Stats struct {
	Server     string // that answered last; empty: none
	Prefetched int    // IDs in the buffer
	Waiting    int    // calls that wait for a server
	Taken      uint64 // IDs that calls have returned
	Discarded  uint64 // prefetched IDs that were too old
	Refills    uint64 // requests that were answered with IDs
	Failures   uint64 // attempts that failed or were slow
	Failovers  uint64 // refills by another endpoint than the one before
}

// New creates a client. It connects at the first call. If servers is empty, the client uses the
// servers in the environment variable SNOWFLAKE_SERVERS or, if that is not set, DefaultServer.
func New(servers []string, options Options) (*Client, error) {
	servers, err := options.complete(servers)
	if err != nil {
		return nil, err
	}
	c := &Client{options: options, waiters: list.New(),
		buffer: buffer{prefetch: options.Prefetch, maxAge: options.MaxAge}}
	for _, text := range servers {
		one, err := newServer(text, options.TLS)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, one)
	}
	shuffle(c.servers) // clients spread over the servers
	c.context, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// NextID returns an ID. The IDs taken by one goroutine increase as long as the same server
// answers. If there is a prefetched ID, it is returned even if ctx has been cancelled. Errors are
// of type *Error.
func (c *Client) NextID(ctx context.Context) (int64, error) {
	now := time.Now()
	c.lock.Lock()
	if id, ok := c.buffer.pop(now); ok {
		c.stats.Taken++
		if c.buffer.isLow() {
			c.startRefill(now, nil)
		}
		c.lock.Unlock()
		return id, nil
	}
	ids, err := c.wait(ctx, &waiter{wanted: 1, isSingle: true, began: now})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NextIDs returns count IDs, which increase like those from NextID. It returns either all of them
// or an error.
func (c *Client) NextIDs(ctx context.Context, count int) ([]int64, error) {
	if count < 1 {
		return nil, invalid("count %d: must be 1 or more", count)
	}
	now := time.Now()
	ids := make([]int64, 0, min(count, maxBatch))
	c.lock.Lock()
	for id, ok := c.buffer.pop(now); ok; id, ok = c.buffer.pop(now) {
		if ids = append(ids, id); len(ids) == count {
			if c.buffer.isLow() {
				c.startRefill(now, nil)
			}
			c.stats.Taken += uint64(count)
			c.lock.Unlock()
			return ids, nil
		}
	}
	return c.wait(ctx, &waiter{ids: ids, wanted: count - len(ids), began: now})
}

// wait waits for more IDs. It unlocks the client, which must be locked.
func (c *Client) wait(ctx context.Context, w *waiter) ([]int64, error) {
	defer c.lock.Unlock()
	if c.isClosed {
		return nil, &Error{Kind: ErrClosed}
	}
	w.deadline, w.done = w.began.Add(c.options.Timeout), make(chan struct{})
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(w.deadline) {
		w.deadline = deadline
	}
	if ctx.Err() != nil {
		return nil, c.overdue(ctx, w)
	}
	w.place = c.waiters.PushBack(w)
	if c.refill == nil {
		c.startRefill(w.began, w)
	} else {
		for a := range c.refill.attempts {
			if a.leaveHalf(w.began, w.deadline) {
				c.refill.notify()
			}
		}
	}
	if w.place != nil {
		c.lock.Unlock()
		timer := time.NewTimer(time.Until(w.deadline))
		select {
		case <-w.done:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		c.lock.Lock()
	}
	if w.place != nil {
		c.release(w, c.overdue(ctx, w))
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.ids, nil
}

// release ends the wait of a call.
func (c *Client) release(w *waiter, err error) {
	c.waiters.Remove(w.place)
	w.place, w.err = nil, err
	close(w.done)
}

// failAll ends the waits of all calls.
func (c *Client) failAll(kind error) {
	found := newError(c.failures)
	found.Kind = kind
	for c.waiters.Len() > 0 {
		c.release(c.waiters.Front().Value.(*waiter), found)
	}
}

// overdue returns the error of a call whose time is over. An attempt that has just begun counts only if
// nothing else is known about its endpoint.
func (c *Client) overdue(ctx context.Context, w *waiter) error {
	now, failures, known := time.Now(), append([]*failure(nil), c.failures...), map[*endpoint]bool{}
	for _, one := range failures {
		known[one.endpoint] = true
	}
	if c.refill != nil {
		for a := range c.refill.attempts {
			if a.isSlow || !known[a.endpoint] {
				failures = append(failures, a.late(now))
			}
		}
	}
	found := newError(failures)
	if len(failures) == 0 {
		found.Kind = ErrTimeout
	}
	if ctx.Err() == context.Canceled {
		found.Kind = context.Canceled
	} else if found.Kind == ErrTimeout {
		found.Detail = w.deadline.Sub(w.began).Round(time.Millisecond).String()
	}
	return found
}

// Stats returns a snapshot.
func (c *Client) Stats() Stats {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.stats
	found.Prefetched, found.Waiting, found.Discarded = c.buffer.left, c.waiters.Len(), c.buffer.discarded
	if c.current != nil {
		found.Server = c.current.server.text
	}
	return found
}

// Close makes calls in progress and later calls fail with ErrClosed. Prefetched IDs are lost. It
// returns nil once all of the client's goroutines have ended.
func (c *Client) Close() error {
	c.lock.Lock()
	if !c.isClosed {
		c.isClosed = true
		c.cancel()
		c.buffer = buffer{}
		if c.refill != nil {
			c.refill.end()
		}
		c.failAll(ErrClosed)
		c.disconnect()
	}
	c.lock.Unlock()
	c.background.Wait()
	return nil
}

// disconnect closes idle connections.
func (c *Client) disconnect() {
	if c.current != nil {
		c.current.disconnect() // perhaps its server has other addresses now
	}
	for _, s := range c.servers {
		for _, one := range s.endpoints {
			one.disconnect()
		}
	}
}

func (c *Client) isPrefetching() bool { return c.options.Prefetch > 0 }
