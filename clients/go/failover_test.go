// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/snowflake"
)

// A server that can stop to answer.
type holdable struct {
	handler
	holds atomic.Bool
	asked chan struct{} // gets a value for each call that is held
	ended chan struct{}
}

func newHoldable(t *testing.T) *holdable {
	h := &holdable{asked: make(chan struct{}, 1000), ended: make(chan struct{})}
	h.fail = func(int) *exception {
		if h.holds.Load() {
			h.asked <- struct{}{}
			<-h.ended
		}
		return nil
	}
	t.Cleanup(func() { close(h.ended) })
	return h
}

// Calls have an hour, so a server that hangs cannot take a share of it.
func TestOneOfTwoServersHangs(t *testing.T) {
	for _, prefetch := range []time.Duration{0, snowflake.NoPrefetch} {
		for i := 0; i < 4; i++ { // it begins with either
			var good handler
			good.id.Store(1 << 40)
			bad := newHoldable(t)
			client := open(t, snowflake.Options{Timeout: time.Hour, AttemptTimeout: 250 * time.Millisecond,
				Prefetch: prefetch}, bad.serve(t), good.serve(t))
			bad.holds.Store(i%2 == 0)
			for j := 0; j < 100; j++ {
				next(t, client)
			}
			bad.holds.Store(true)
			for id := int64(0); id < 1<<40; {
				id = next(t, client)
			}
		}
	}
}

// While a refill waits for a server that hangs, a call with a sooner deadline goes to the next server.
func TestShortContextsFailOver(t *testing.T) {
	var good handler
	good.id.Store(1 << 40)
	bad := newHoldable(t)
	addresses := []string{bad.serve(t), good.serve(t)}
	options := snowflake.Options{Timeout: time.Hour, AttemptTimeout: time.Hour, Prefetch: 10 * time.Second,
		MaxAge: time.Hour}
	client := open(t, options, addresses...)
	for next(t, client) > 1<<40 { // until it uses the one that is bad soon
		client = open(t, options, addresses...)
	}
	for i := 0; i < 1000; i++ {
		next(t, client)
	}
	bad.holds.Store(true)
	for id := int64(0); id < 1<<40; {
		ctx, cancel := context.WithTimeout(background, 4*time.Second)
		var err error
		if id, err = client.NextID(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

// A call that makes its request itself ends when its context is cancelled.
func TestCancelOnAConnection(t *testing.T) {
	server := newHoldable(t)
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch, Timeout: time.Hour,
		AttemptTimeout: time.Hour}, server.serve(t))
	next(t, client)
	server.holds.Store(true)
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-server.asked
		cancel()
	}()
	if err := takeOne(ctx, client); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A connection can be dead without a sign, as behind a NAT that has forgotten it.
func TestADeadConnectionIsReplaced(t *testing.T) {
	var server handler
	address := server.serve(t)
	var isOld, isSilent atomic.Bool
	front := listen(t, func(conn net.Conn) {
		if isOld.CompareAndSwap(false, true) {
			behind, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer behind.Close()
			go hangAfter(conn, behind, &isSilent)
			hangAfter(behind, conn, &isSilent)
		} else {
			relay(conn, address)
		}
	})
	client := open(t, snowflake.Options{Timeout: time.Hour, AttemptTimeout: 100 * time.Millisecond,
		Prefetch: snowflake.NoPrefetch}, front)
	next(t, client)
	isSilent.Store(true)
	next(t, client)
}

// hangAfter copies until it is silent.
func hangAfter(to, from net.Conn, isSilent *atomic.Bool) {
	bytes := make([]byte, 4096)
	for {
		n, err := from.Read(bytes)
		if err != nil {
			return
		}
		if !isSilent.Load() {
			_, _ = to.Write(bytes[:n])
		}
	}
}

// A pass over the servers is followed by a pause of 7.5 ms or more, and pauses grow to 188 ms or more.
func TestRetriesArePaced(t *testing.T) {
	var connections atomic.Int64
	bad := listen(t, func(net.Conn) { connections.Add(1) })
	client := open(t, snowflake.Options{}, bad)
	var crowd sync.WaitGroup
	began := time.Now()
	for i := 0; i < 8; i++ {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for j := 0; j < 40; j++ {
				ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
				if _, err := client.NextID(ctx); err == nil {
					t.Error("it has an ID")
				}
				cancel()
			}
		}()
	}
	crowd.Wait()
	most := int64(8 + time.Since(began)/(180*time.Millisecond))
	if count := connections.Load(); count < 1 || count > most {
		t.Errorf("%d connections, not 1 to %d", count, most)
	}
}

func TestACallWaitsForARestart(t *testing.T) {
	address, start := dead(t)
	var server handler
	var once sync.Once
	failures := make(chan struct{})
	client := open(t, snowflake.Options{OnFailure: func(snowflake.Attempt) {
		once.Do(func() { close(failures) })
	}}, address)
	go func() {
		<-failures
		start(server.answerAll)
	}()
	next(t, client)
}

func TestAllServersAreDown(t *testing.T) {
	servers := []string{deadAddress(t), deadAddress(t), "unix:/nowhere"}
	var err error
	for timeout := 100 * time.Millisecond; timeout < hangGuard; timeout *= 2 { // until all were tried
		_, err = open(t, snowflake.Options{Timeout: timeout}, servers...).NextID(background)
		if !errors.Is(err, snowflake.ErrTimeout) {
			break
		}
	}
	var operation *net.OpError
	var isNet net.Error
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, os.ErrNotExist) ||
		!errors.As(err, &operation) || errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v has no causes", err)
	}
	found := check(t, err, snowflake.ErrUnreachable, servers...)
	if !errors.As(err, &isNet) || isNet.Timeout() || !found.Temporary() {
		t.Errorf("%v is not that for package net", err)
	}
}

func TestCallsShareARefill(t *testing.T) {
	const calls = 8
	server := newHoldable(t)
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, server.serve(t))
	first := make(chan struct{})
	server.fail = func(int) *exception {
		if server.calls.Load() == 1 {
			<-first
		}
		return nil
	}
	ids := make(chan int64, calls)
	for i := 0; i < calls; i++ {
		go func() { ids <- next(t, client) }()
	}
	for client.Stats().Waiting < calls {
		runtime.Gosched()
	}
	close(first)
	seen := map[int64]bool{}
	for i := 0; i < calls; i++ {
		seen[<-ids] = true
	}
	if len(seen) != calls || server.calls.Load() != 2 {
		t.Errorf("%d IDs by %d requests", len(seen), server.calls.Load())
	}
}

// A refill goes on when its caller has given up, so that the next call has its IDs.
func TestARefillOutlivesItsCall(t *testing.T) {
	server := newHoldable(t)
	client := open(t, snowflake.Options{MaxAge: time.Hour}, server.serve(t))
	server.holds.Store(true)
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-server.asked
		cancel()
	}()
	if _, err := client.NextID(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	server.holds.Store(false)
	server.ended <- struct{}{}
	if id := next(t, client); id != 1 || server.calls.Load() != 1 {
		t.Errorf("ID %d, by %d requests", id, server.calls.Load())
	}
}

func TestStatsAndFailures(t *testing.T) {
	var good handler
	bad, address := deadAddress(t), good.serve(t)
	var failures sync.Map
	client := open(t, snowflake.Options{OnFailure: func(attempt snowflake.Attempt) {
		failures.Store(attempt.String(), attempt)
	}}, bad, address)
	for i := 0; i < 10; i++ {
		next(t, client)
	}
	stats := client.Stats()
	if stats.Server != address || stats.Taken != 10 || stats.Refills == 0 || stats.Waiting != 0 {
		t.Errorf("%+v", stats)
	}
	failures.Range(func(key, _ any) bool {
		if key != bad+": connection refused" {
			t.Error(key)
		}
		return true
	})
}

func TestListsOfServers(t *testing.T) {
	var one handler
	address := one.serve(t)
	next(t, open(t, snowflake.Options{}, deadAddress(t)+", "+address))
	next(t, open(t, snowflake.Options{}, "snowflake://"+deadAddress(t)+","+address+"/?agent=a&prefetch_ms=0"))
	t.Setenv("SNOWFLAKE_SERVERS", "snowflake://"+address)
	next(t, open(t, snowflake.Options{}))
}
