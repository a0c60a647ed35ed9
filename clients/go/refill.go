// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"fmt"
	"sort"
	"time"
)

const (
	shortestPause = 10 * time.Millisecond // between two passes over all endpoints, at first
	longestPause  = 250 * time.Millisecond

	leastPatience   = 50 * time.Millisecond // with an endpoint, before the next one is tried
	longestPatience = 250 * time.Millisecond
	leastHurry      = 5 * time.Millisecond // the same if a call has little time left
	longestInline   = 50 * time.Millisecond
)

// A refill gets IDs for all calls that wait, and for the buffer. There is one at a time.
//
// It tries the endpoints one after the other. If one fails, or does not answer soon, the next one is
// tried; the slow one can still answer, and the first answer wins. After a pass over all endpoints
// there is a pause, and then the next pass, until an answer comes or nobody waits.
//
// Each attempt has a goroutine, which makes the next attempt if its own fails. If it is slow, the
// goroutine of its timer makes the next one. The client's lock guards all fields.
type refill struct {
	client    *Client
	count     int         // IDs to request
	until     time.Time   // when it ends if nobody waits
	queue     []*endpoint // to be tried in this pass
	attempts  map[*attempt]bool
	isPausing bool
	done      chan struct{}
}

// An attempt is a request to an endpoint, or the resolution of a name.
type attempt struct {
	*endpoint
	conn           *connection
	context        context.Context // nil: the connection is an older one
	cancel         context.CancelFunc
	began, askedAt time.Time
	slowAt         time.Time
	timer          *time.Timer // nil in the goroutine of a caller, which is there for longestInline
	isSlow         bool
	addresses      []string
	failed         *failure // in the goroutine of the caller
}

// startRefill begins a refill unless one is under way. If w waits for it and there is a connection, the
// first attempt begins here, in the goroutine of the caller, while the client is unlocked.
func (c *Client) startRefill(now time.Time, w *waiter) {
	if c.refill != nil || c.isClosed {
		return
	}
	r := &refill{client: c, until: now.Add(c.options.Timeout), attempts: map[*attempt]bool{},
		done: make(chan struct{}), count: c.demand(now)}
	c.refill = r
	c.background.Add(1)
	if now.After(c.retryAt) {
		c.failures = nil
	}
	if c.current == nil || c.current.conn == nil {
		go r.work(nil)
		return
	}
	a := r.begin(c.current)
	if w != nil {
		deadline := now.Add(longestInline) // here, the context cannot end the call
		for _, other := range []time.Time{a.slowAt, w.deadline} {
			if other.Before(deadline) {
				deadline = other
			}
		}
		c.lock.Unlock()
		runs, failed := a.conn.request(c.options.Agent, r.count, time.Until(deadline))
		c.lock.Lock()
		if failed == nil {
			r.finish(a, runs, nil)
			c.background.Done()
			return
		} else if failed.Kind != ErrTimeout {
			a.failed = failed
		}
	}
	r.startTimer(a)
	go r.work(a)
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
	close(r.done)
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

// work makes attempts, one after the other. The first one has begun, if there is one.
func (r *refill) work(a *attempt) {
	c := r.client
	defer c.background.Done()
	if a != nil {
		r.try(a)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	for e := r.next(); e != nil; e = r.next() {
		a = r.begin(e)
		r.startTimer(a)
		c.lock.Unlock()
		r.try(a)
		c.lock.Lock()
	}
}

// next returns nil if there is nothing to do, or other goroutines of the refill see to it. It can unlock
// the client meanwhile.
func (r *refill) next() *endpoint {
	c := r.client
	for !r.isOver() {
		now := time.Now()
		switch wait := c.retryAt.Sub(now); {
		case len(r.queue) > 0:
			e := r.queue[0]
			r.queue = r.queue[1:]
			if !e.isPending {
				return e
			}
		case c.waiters.Len() == 0 && now.After(r.until):
			c.buffer.target = 0 // no refill until a call waits
			r.end()
		case r.isPausing:
			return nil
		case wait > 0:
			r.isPausing = true
			c.lock.Unlock()
			pause := time.NewTimer(wait)
			select {
			case <-pause.C:
			case <-r.done:
			}
			pause.Stop()
			c.lock.Lock()
			r.isPausing = false
		default:
			c.pause = min(max(2*c.pause, shortestPause), longestPause)
			c.retryAt = now.Add(c.pause*3/4 + time.Duration(random(int(c.pause/2))))
			if r.queue = c.newPass(); len(r.queue) == 0 {
				return nil
			}
		}
	}
	return nil
}

// newPass returns the endpoints to try. Names are resolved in each pass.
func (c *Client) newPass() (pass []*endpoint) {
	order := append([]*server(nil), c.servers...)
	sort.SliceStable(order, func(i, j int) bool {
		return order[i].lastFailure().Before(order[j].lastFailure())
	})
	for _, s := range order {
		if s.name != nil && !s.name.isPending {
			pass = append(pass, s.name)
		} else {
			pass = append(pass, s.inOrder()...)
		}
	}
	return pass
}

// begin takes the connection of the endpoint, if there is one. Such an attempt does not keep a new pass
// from the endpoint: a connection may have ended without a sign, while the server is well.
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

func (r *refill) startTimer(a *attempt) {
	a.timer = time.AfterFunc(time.Until(a.slowAt), func() { r.giveWay(a) })
}

// leaveHalf leaves half of the time until a deadline for other attempts.
func (a *attempt) leaveHalf(now, deadline time.Time) {
	if soon := now.Add(max(deadline.Sub(now)/2, leastHurry)); soon.Before(a.slowAt) {
		a.slowAt = soon
		if a.timer != nil && a.timer.Stop() {
			a.timer.Reset(soon.Sub(now))
		}
	}
}

// try makes an attempt, while the client is not locked.
func (r *refill) try(a *attempt) {
	c, limit := r.client, r.client.options.Timeout
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

// giveWay goes on with the next attempt while this one is under way. It has a goroutine of its own.
func (r *refill) giveWay(a *attempt) {
	c := r.client
	c.lock.Lock()
	if r.isOver() || !r.attempts[a] {
		c.lock.Unlock()
		return
	}
	c.background.Add(1)
	a.isSlow, a.failedAt = true, time.Now()
	if a.isName() {
		r.queue = append(a.server.inOrder(), r.queue...) // those that were known before
	}
	c.report(a.late(a.failedAt))
	c.lock.Unlock()
	r.work(nil)
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
	if a.timer != nil {
		a.timer.Stop()
	}
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
		a.failedAt = time.Time{}
		r.queue = append(a.server.inOrder(), r.queue...)
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
		r.queue = append([]*endpoint{a.endpoint}, r.queue...)
		return
	}
	a.failedAt = time.Now()
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
	} else if a.isName() && !a.isSlow {
		r.queue = append(a.server.inOrder(), r.queue...)
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
	a.endpoint.conn, a.failedAt, a.roundTrip = a.conn, time.Time{}, sample
	if c.current != nil && c.current != a.endpoint {
		c.stats.Failovers++
	}
	c.current, c.failures, c.pause, c.retryAt = a.endpoint, nil, 0, time.Time{}
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
