// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"fmt"
	"time"
)

const (
	leastPatience   = 50 * time.Millisecond // with an endpoint, before the next one is tried
	longestPatience = 250 * time.Millisecond
	leastHurry      = 5 * time.Millisecond // the same if a call has little time left
	longestInline   = 50 * time.Millisecond
)

// A refill gets IDs for all calls that wait, and for the buffer. There is one at a time.
//
// It tries the endpoints one after the other. If one fails, or does not answer soon, the next one is
// tried; the slow one can still answer, and the first answer wins. While all fail, each is tried again
// after its backoff, until an answer comes or nobody waits.
//
// One goroutine begins the attempts, and each attempt has a goroutine. The client's lock guards all
// fields.
type refill struct {
	client   *Client
	count    int       // IDs to request
	until    time.Time // when it ends if nobody waits
	attempts map[*attempt]bool
	wake     chan struct{} // for run: something has changed
}

// An attempt is a request to an endpoint, or the resolution of a name.
type attempt struct {
	*endpoint
	conn           *connection
	context        context.Context // nil: the connection is an older one
	cancel         context.CancelFunc
	began, askedAt time.Time
	slowAt         time.Time
	isSlow         bool
	addresses      []string
	failed         *failure // in the goroutine of the caller
}

func (c *Client) newRefill(now time.Time) *refill {
	return &refill{client: c, until: now.Add(c.options.Timeout), attempts: map[*attempt]bool{},
		wake: make(chan struct{}, 1), count: c.demand(now)}
}

// startRefill begins a refill unless one is under way. If w waits for it and there is a connection, the
// first attempt begins here, in the goroutine of the caller, while the client is unlocked.
func (c *Client) startRefill(now time.Time, w *waiter) {
	if c.refill != nil || c.isClosed {
		return
	}
	r := c.newRefill(now)
	c.refill = r
	c.background.Add(1)
	if len(c.failures) > 0 && !now.Before(c.nextEndpoint().readyAt) {
		c.failures = nil
	}
	if c.current != nil && c.current.conn != nil {
		a := r.begin(c.current)
		if w != nil && r.tryHere(a, w.deadline) {
			c.background.Done()
			return
		}
		r.start(a)
	}
	go r.run()
}

// tryHere returns whether the attempt has got IDs. Here, the context cannot end the call.
func (r *refill) tryHere(a *attempt, deadline time.Time) bool {
	c, limit := r.client, longestInline
	for _, other := range []time.Time{a.slowAt, deadline} {
		limit = min(limit, other.Sub(a.began))
	}
	if limit <= 0 {
		return false // nothing would be sent, but the next request would wait for a reply
	}
	c.lock.Unlock()
	runs, failed := a.conn.request(c.options.Agent, r.count, limit)
	c.lock.Lock()
	if failed == nil {
		r.finish(a, runs, nil)
	} else if failed.Kind != ErrTimeout {
		a.failed = failed
	}
	return failed == nil
}

// demand returns how many IDs to request. docs/reference/prefetch.md has the rule for the buffer; what
// NextIDs requests does not belong to it.
func (c *Client) demand(now time.Time) int {
	many, singles := 0, 0
	for e := c.waiters.Front(); e != nil && many+singles < maxBatch; e = e.Next() {
		if w := e.Value.(*waiter); w.isSingle {
			singles++
		} else {
			many += w.wanted
		}
	}
	if c.isPrefetching() && (singles > 0 || many == 0) {
		roundTrip := time.Duration(0)
		if c.current != nil {
			roundTrip = c.current.roundTrip
		}
		singles = max(singles, c.buffer.wanted(roundTrip, now))
	}
	return min(many+singles, maxBatch)
}

// end cancels what is under way. Its attempts end some time later, and a new refill must not wait for
// them.
func (r *refill) end() {
	r.client.refill = nil
	r.notify()
	for a := range r.attempts {
		if a.conn != nil {
			a.conn.Close()
		}
		if a.cancel != nil {
			a.cancel()
			a.isPending = false
		}
	}
}

func (r *refill) isOver() bool { return r.client.refill != r }

func (r *refill) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it is to wake already
	}
}

// run begins attempts until the refill is over.
func (r *refill) run() {
	c := r.client
	defer c.background.Done()
	c.lock.Lock()
	defer c.lock.Unlock()
	for !r.isOver() {
		wait := time.Until(r.advance())
		if wait <= 0 {
			continue
		}
		c.lock.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.wake:
		}
		timer.Stop()
		c.lock.Lock()
	}
}

// advance takes the next step, unless there is an attempt that is not slow. It returns when to call it
// again. It can unlock the client meanwhile.
func (r *refill) advance() time.Time {
	c, now := r.client, time.Now()
	for a := range r.attempts {
		if !a.isSlow && now.Before(a.slowAt) {
			return a.slowAt
		} else if !a.isSlow {
			r.giveWay(a, now)
			return now
		}
	}
	switch e := c.nextEndpoint(); {
	case e != nil && !now.Before(e.readyAt):
		r.start(r.begin(e))
	case c.waiters.Len() == 0 && now.After(r.until):
		c.buffer.target = 0 // no refill until a call waits
		r.end()
	case e != nil:
		return e.readyAt
	default:
		return now.Add(c.options.Timeout) // an attempt ends before
	}
	return now
}

// nextEndpoint returns the one that can be tried first. Those that have not failed since their last
// answer come first.
func (c *Client) nextEndpoint() (best *endpoint) {
	for _, s := range c.servers {
		for _, one := range s.candidates() {
			if !one.isPending && (best == nil || one.readyAt.Before(best.readyAt)) {
				best = one
			}
		}
	}
	return best
}

// begin takes the connection of the endpoint, if there is one. Meanwhile, another attempt can try the
// endpoint: a connection may have ended without a sign, while the server is well.
func (r *refill) begin(e *endpoint) *attempt {
	c, now := r.client, time.Now()
	a := &attempt{endpoint: e, conn: e.conn, began: now, askedAt: now}
	if e.conn = nil; a.conn == nil {
		a.context, a.cancel = context.WithCancel(c.context)
		e.isPending = true
	}
	patience := c.options.AttemptTimeout
	if patience == 0 && e.roundTrip > 0 {
		patience = min(8*e.roundTrip+leastPatience, longestPatience)
	} else if patience == 0 {
		patience = longestPatience
	}
	a.slowAt = now.Add(patience)
	r.attempts[a] = true
	for one := c.waiters.Front(); one != nil; one = one.Next() {
		a.leaveHalf(now, one.Value.(*waiter).deadline)
	}
	return a
}

// leaveHalf leaves half of the time until a deadline for other attempts. It returns whether this changes
// anything.
func (a *attempt) leaveHalf(now, deadline time.Time) bool {
	soon := now.Add(max(deadline.Sub(now)/2, leastHurry))
	if !soon.Before(a.slowAt) {
		return false
	}
	a.slowAt = soon
	return true
}

func (r *refill) start(a *attempt) {
	r.client.background.Add(1)
	go r.try(a)
}

// try makes an attempt, while the client is not locked.
func (r *refill) try(a *attempt) {
	c, limit := r.client, r.client.options.Timeout
	defer c.background.Done()
	var runs []run
	failed := a.failed
	if a.isName() {
		a.addresses, failed = resolve(a.context, a.address, limit)
	} else if a.conn == nil {
		failed = r.connect(a)
	}
	if a.conn != nil && failed == nil {
		runs, failed = a.conn.request(c.options.Agent, r.count, limit)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	r.finish(a, runs, failed)
}

// connect sets a.conn, under the lock, so that end closes it.
func (r *refill) connect(a *attempt) *failure {
	conn, failed := connect(a.context, a.endpoint, r.client.options.Timeout)
	r.client.lock.Lock()
	defer r.client.lock.Unlock()
	a.askedAt = time.Now()
	if a.conn = conn; conn != nil && r.isOver() {
		conn.Close()
	}
	return failed
}

// giveWay lets the next attempt begin while this one is under way.
func (r *refill) giveWay(a *attempt, now time.Time) {
	a.isSlow = true
	a.postpone(now)
	r.client.report(a.late(now))
}

// late returns the failure that an attempt has so far.
func (a *attempt) late(now time.Time) *failure {
	what := "no answer"
	if a.isName() {
		what = "name not resolved"
	} else if a.conn == nil {
		what = "no connection"
	}
	took := now.Sub(a.began).Round(time.Millisecond)
	return newFailure(ErrTimeout, fmt.Sprintf("%s for %v", what, took), context.DeadlineExceeded).of(a.endpoint)
}

// finish ends an attempt, which failed if it has no result.
func (r *refill) finish(a *attempt, runs []run, failed *failure) {
	defer r.notify()
	if a.cancel != nil && !r.isOver() {
		a.cancel()
		a.isPending = false
	}
	delete(r.attempts, a)
	switch {
	case r.isOver():
		if a.conn != nil {
			a.conn.Close()
		}
	case failed != nil:
		r.fail(a, failed.of(a.endpoint))
	case a.isName():
		a.server.setAddresses(a.addresses)
		a.postpone(time.Now())
	default:
		r.succeed(a, runs)
	}
}

func (r *refill) fail(a *attempt, failed *failure) {
	c := r.client
	if failed.state >= answered && a.endpoint.conn == nil {
		a.endpoint.conn = a.conn
	} else if a.conn != nil {
		a.conn.Close()
	}
	if failed.state == stale { // it says nothing about the server
		return
	}
	if !a.isSlow {
		a.postpone(time.Now())
	}
	kept := c.failures[:0:0]
	for _, one := range c.failures {
		if one.endpoint != a.endpoint {
			kept = append(kept, one)
		}
	}
	c.failures = append(kept, failed)
	if failed.Kind == ErrInvalidAgent { // all servers have the same rule
		r.end()
		c.failAll(ErrInvalidAgent)
	}
	if !a.isSlow {
		c.report(failed)
	}
}

// report calls the hook, and unlocks the client meanwhile.
func (c *Client) report(failed *failure) {
	c.stats.Failures++
	if hook := c.options.OnFailure; hook != nil {
		c.lock.Unlock()
		defer c.lock.Lock()
		hook(failed.Attempt)
	}
}

func (r *refill) succeed(a *attempt, runs []run) {
	c, now := r.client, time.Now()
	r.end()
	c.disconnect() // other endpoints; its own connection is a.conn
	sample := now.Sub(a.askedAt)
	if a.roundTrip > 0 {
		sample = (3*a.roundTrip + sample) / 4
	}
	a.endpoint.conn, a.roundTrip = a.conn, sample
	a.server.endBackoff(a.endpoint)
	if c.current != nil && c.current != a.endpoint {
		c.stats.Failovers++
	}
	c.current, c.failures = a.endpoint, nil
	c.stats.Refills++
	c.handOut(runs, a.askedAt, now)
	if c.waiters.Len() > 0 {
		c.startRefill(now, nil)
	}
}

// handOut gives IDs to those who wait, and then to the buffer. An ID is younger than MaxAge, or it was
// requested during the call.
func (c *Client) handOut(runs []run, askedAt, now time.Time) {
	expires := askedAt
	if c.isPrefetching() {
		expires = askedAt.Add(c.options.MaxAge)
	}
	for e := c.waiters.Front(); e != nil && len(runs) > 0; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.began.After(askedAt) && !now.Before(expires) {
			continue
		}
		if w.isSingle {
			c.buffer.taken++
		}
		for len(runs) > 0 && w.wanted > 0 {
			w.ids = append(w.ids, runs[0].next())
			w.wanted--
			if runs[0].count == 0 {
				runs = runs[1:]
			}
		}
		if w.wanted == 0 {
			c.stats.Taken += uint64(len(w.ids))
			c.release(w, nil)
		}
	}
	if now.Before(expires) {
		c.buffer.put(runs, expires)
	}
}
