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
	leastPatience = 50 * time.Millisecond // with an endpoint, unless a caller is in a hurry
	leastHurry    = 5 * time.Millisecond
)

// A refill gets IDs for all callers that wait, and for the buffer. There is one at a time.
//
// It tries the endpoints one after the other. If one fails, or does not answer soon, the next one is
// tried; the slow one can still answer, and the first answer wins. After a pass over all endpoints
// there is a pause, and then the next pass, until an answer comes or nobody waits.
//
// Each attempt has a goroutine, which makes the next attempt if its own fails. A timer's goroutine
// goes on in its place when it is slow. All fields are guarded by the client's lock.
type refill struct {
	client    *Client
	count     int       // IDs to request
	until     time.Time // when it ends if nobody waits
	queue     []*attempt
	attempts  map[*attempt]bool // under way
	isPausing bool
	done      chan struct{}
}

// An attempt is a request to an endpoint, or the resolution of a name.
type attempt struct {
	server    *server
	endpoint  *endpoint // nil: resolve the name
	conn      *connection
	context   context.Context // of a new connection, or a resolution
	cancel    context.CancelFunc
	began     time.Time
	askedAt   time.Time // of the request; zero: it began with it
	timer     *time.Timer
	slowAt    time.Time
	isSlow    bool
	addresses []string
}

// startRefill begins a refill unless one is under way. With isWaiting, the caller waits anyway: it makes
// the first attempt itself if there is a connection. The client is unlocked meanwhile.
func (c *Client) startRefill(now time.Time, isWaiting bool) {
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
	a := &attempt{server: c.current.server, endpoint: c.current}
	r.begin(a)
	if isWaiting {
		_ = a.conn.SetDeadline(a.slowAt)
		c.lock.Unlock()
		runs := a.conn.requestNow(c.options.Agent, r.count)
		c.lock.Lock()
		if runs != nil {
			r.finish(a, runs, nil)
			c.background.Done()
			return
		}
	}
	a.startTimer(r)
	go r.work(a)
}

// demand returns how many IDs to request. docs/reference/prefetch.md has the rule for the buffer. What
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

// end cancels what is under way.
func (r *refill) end() {
	r.client.refill = nil
	close(r.done)
	for a := range r.attempts {
		if a.conn != nil {
			a.conn.Close()
		}
		if a.cancel != nil {
			a.cancel()
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
	for a = r.next(); a != nil; a = r.next() {
		r.begin(a)
		a.startTimer(r)
		c.lock.Unlock()
		r.try(a)
		c.lock.Lock()
	}
}

// next returns nil if there is nothing to do, or nothing that another goroutine of the refill does not
// see to. It can unlock the client meanwhile.
func (r *refill) next() *attempt {
	c := r.client
	for !r.isOver() {
		now := time.Now()
		wait := c.retryAt.Sub(now)
		switch {
		case len(r.queue) > 0:
			a := r.queue[0]
			r.queue = r.queue[1:]
			if a.endpoint == nil || !a.endpoint.isConnecting {
				return a
			}
		case c.waiters.Len() == 0 && now.After(r.until):
			c.buffer.target = 0 // until a call waits
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

// newPass returns attempts at all endpoints that none is under way for.
func (c *Client) newPass() (pass []*attempt) {
	order := append([]*server(nil), c.servers...)
	sort.SliceStable(order, func(i, j int) bool {
		return order[i].lastFailure().Before(order[j].lastFailure())
	})
	for _, s := range order {
		if s.isName && !s.isResolving {
			pass = append(pass, &attempt{server: s})
		} else {
			pass = append(pass, s.newAttempts()...)
		}
	}
	return pass
}

func (s *server) newAttempts() (found []*attempt) {
	for _, one := range s.inOrder() {
		if !one.isConnecting {
			found = append(found, &attempt{server: s, endpoint: one})
		}
	}
	return found
}

// begin takes the connection of the endpoint, or prepares for a new one.
func (r *refill) begin(a *attempt) {
	c, e := r.client, a.endpoint
	if e != nil && e.conn != nil {
		a.conn, e.conn = e.conn, nil
	} else {
		a.context, a.cancel = context.WithCancel(c.context)
	}
	a.setPending(true)
	r.attempts[a] = true
	a.began = time.Now()
	a.slowAt = a.began.Add(c.patience(e))
	for one := c.waiters.Front(); one != nil; one = one.Next() {
		a.hurry(a.began, one.Value.(*waiter).deadline)
	}
}

func (a *attempt) startTimer(r *refill) {
	a.timer = time.AfterFunc(time.Until(a.slowAt), func() { r.giveWay(a) })
}

// try makes an attempt, while the client is not locked.
func (r *refill) try(a *attempt) {
	c, limit := r.client, r.client.options.Timeout
	var runs []run
	var failed *failure
	if a.endpoint == nil {
		a.addresses, failed = resolve(a.context, a.server.host, limit)
	} else {
		if a.conn == nil {
			failed = r.connect(a)
		}
		if failed == nil {
			runs, failed = a.conn.request(c.options.Agent, r.count, limit)
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	r.finish(a, runs, failed)
}

func (r *refill) finish(a *attempt, runs []run, failed *failure) {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.cancel != nil {
		a.cancel()
	}
	delete(r.attempts, a)
	a.setPending(false)
	switch {
	case r.isOver():
		if a.conn != nil {
			a.conn.Close()
		}
	case failed != nil:
		r.fail(a, failed)
	case a.endpoint == nil:
		a.server.setAddresses(a.addresses...)
		a.server.failedAt = time.Time{}
		r.queue = append(a.server.newAttempts(), r.queue...)
	default:
		r.succeed(a, runs)
	}
}

// setPending keeps a new pass from what is under way. An attempt on an older connection does not: that
// can have ended without a sign, while the server is well.
func (a *attempt) setPending(isPending bool) {
	switch {
	case a.endpoint == nil:
		a.server.isResolving = isPending
	case a.cancel != nil:
		a.endpoint.isConnecting = isPending
	}
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

// patience returns how long an attempt has before the next one begins: a few round trips.
func (c *Client) patience(e *endpoint) time.Duration {
	if e == nil || e.roundTrip == 0 {
		return c.options.AttemptTimeout
	}
	return min(8*e.roundTrip+leastPatience, c.options.AttemptTimeout)
}

// hurry leaves half of the time until a deadline for other attempts.
func (a *attempt) hurry(now, deadline time.Time) {
	if soon := now.Add(max(deadline.Sub(now)/2, leastHurry)); soon.Before(a.slowAt) {
		a.slowAt = soon
		if a.timer == nil && a.conn != nil {
			_ = a.conn.SetDeadline(soon)
		} else if a.timer != nil && a.timer.Stop() {
			a.timer.Reset(soon.Sub(now))
		}
	}
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
	a.isSlow = true
	r.blame(a)
	if a.endpoint == nil {
		r.queue = append(a.server.newAttempts(), r.queue...)
	}
	c.report(a.slowFailure(time.Now()))
	c.lock.Unlock()
	r.work(nil)
}

func (r *refill) blame(a *attempt) {
	if a.endpoint == nil {
		a.server.failedAt = time.Now()
	} else {
		a.endpoint.failedAt = time.Now()
	}
}

func (a *attempt) slowFailure(now time.Time) *failure {
	what := "no answer"
	if a.endpoint == nil {
		what = "name not resolved"
	} else if a.conn == nil {
		what = "no connection"
	}
	return newFailure(ErrTimeout, fmt.Sprintf("%s for %v", what,
		now.Sub(a.began).Round(time.Millisecond)), context.DeadlineExceeded).of(a)
}

// of sets the server of a failure.
func (f *failure) of(a *attempt) *failure {
	f.Server, f.endpoint = a.server.text, a.endpoint
	if a.endpoint != nil && a.server.isName {
		f.Address = a.endpoint.address
	}
	return f
}

func (r *refill) fail(a *attempt, failed *failure) {
	c, e := r.client, a.endpoint
	if failed.Kind == ErrUnreachable || failed.Kind == ErrTimeout {
		a.conn = nil // it is closed
	} else if e != nil && e.conn == nil {
		e.conn = a.conn
	}
	if failed.isStale {
		r.queue = append([]*attempt{{server: a.server, endpoint: e}}, r.queue...)
		return
	}
	r.blame(a)
	c.note(failed.of(a))
	switch {
	case failed.Kind == ErrInvalidAgent: // all servers have the same rule
		r.end()
		c.failAll(ErrInvalidAgent)
	case e == nil:
		r.queue = append(a.server.newAttempts(), r.queue...)
	}
	if !a.isSlow {
		c.report(failed)
	}
}

// note keeps the last failure of each endpoint and name, for the errors of calls.
func (c *Client) note(failed *failure) {
	kept := c.failures[:0:0]
	for _, one := range c.failures {
		if one.Server != failed.Server || one.endpoint != failed.endpoint {
			kept = append(kept, one)
		}
	}
	c.failures = append(kept, failed)
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
	c, now, askedAt := r.client, time.Now(), a.began
	if !a.askedAt.IsZero() {
		askedAt = a.askedAt
	}
	r.end()
	for _, s := range c.servers {
		for _, one := range s.endpoints {
			one.disconnect() // others; its own is a.conn
		}
	}
	a.endpoint.conn, a.endpoint.failedAt, a.endpoint.roundTrip = a.conn, time.Time{}, now.Sub(askedAt)
	if c.current != nil && c.current != a.endpoint {
		c.current.disconnect() // perhaps its server's name has other addresses now
		c.stats.Failovers++
	}
	c.current, c.failures, c.pause, c.retryAt = a.endpoint, nil, 0, time.Time{}
	c.stats.Refills++
	c.handOut(runs, askedAt, now)
	if c.waiters.Len() > 0 {
		c.startRefill(now, false)
	}
}

// handOut gives IDs to those who wait, and then to the buffer. An ID is younger than maxAge, or it was
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
		for ; len(runs) > 0 && w.wanted > 0; w.wanted-- {
			var id int64
			id, runs = cut(runs)
			w.ids = append(w.ids, id)
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
