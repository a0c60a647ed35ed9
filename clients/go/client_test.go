// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/snowflake"
	"example.com/snowflake/snowflaketest"
)

func TestIDsIncrease(t *testing.T) {
	address := snowflaketest.StartServer(t)
	for name, prefetch := range map[string]time.Duration{"prefetch": 0, "none": snowflake.NoPrefetch} {
		t.Run(name, func(t *testing.T) {
			client := open(t, snowflake.Options{Prefetch: prefetch}, address)
			last := int64(0)
			check := func(id int64) {
				if id <= last {
					t.Fatalf("%d after %d", id, last)
				}
				last = id
			}
			for i := 0; i < 9; i++ {
				for j := 0; j < 50; j++ {
					check(next(t, client))
				}
				ids, err := client.NextIDs(background, 1+i*1500)
				if err != nil || len(ids) != 1+i*1500 {
					t.Fatalf("%d IDs, %v", len(ids), err)
				}
				for _, id := range ids {
					check(id)
				}
			}
		})
	}
}

func TestManyGoroutines(t *testing.T) {
	client := open(t, snowflake.Options{}, snowflaketest.StartServer(t))
	const goroutines, each = 8, 2000
	taken := make([][]int64, goroutines)
	var crowd sync.WaitGroup
	for i := range taken {
		crowd.Add(1)
		go func(i int) {
			defer crowd.Done()
			for j := 0; j < each; j++ {
				id, err := client.NextID(background)
				if err != nil {
					t.Error(err)
					return
				}
				taken[i] = append(taken[i], id)
			}
		}(i)
	}
	crowd.Wait()
	seen := map[int64]bool{}
	for _, ids := range taken {
		for i, id := range ids {
			if seen[id] || i > 0 && id <= ids[i-1] {
				t.Fatalf("%d comes twice, or after a greater one", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != goroutines*each {
		t.Fatalf("%d IDs", len(seen))
	}
}

func TestPrefetchSavesCalls(t *testing.T) {
	var server, other handler
	client := open(t, snowflake.Options{}, server.serve(t))
	for i := 0; i < 10000; i++ {
		next(t, client)
	}
	if calls := server.calls.Load(); calls > 5000 {
		t.Errorf("%d calls for 10000 IDs", calls)
	}
	without := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, other.serve(t))
	for i := 0; i < 10; i++ {
		next(t, without)
	}
	if calls := other.calls.Load(); calls != 10 {
		t.Errorf("without prefetch %d calls for 10 IDs", calls)
	}
}

// While the buffer has IDs, nobody waits for a server that does not answer.
func TestRefillInTheBackground(t *testing.T) {
	var server handler
	var isHeld atomic.Bool
	asked, held := make(chan struct{}, 10), make(chan struct{})
	server.fail = func(int) *exception {
		if isHeld.Load() {
			asked <- struct{}{}
			<-held
		}
		return nil
	}
	client := open(t, snowflake.Options{Prefetch: 10 * time.Second, MaxAge: hangGuard}, server.serve(t))
	defer close(held)
	for i := 0; i < 100; i++ {
		next(t, client)
	}
	isHeld.Store(true)
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		next(t, client)
		select {
		case <-asked:
			next(t, client)
			return
		case <-ticks.C:
		}
	}
}

func TestArguments(t *testing.T) {
	long := strings.Repeat("a", 256)
	const ms = time.Millisecond
	for name, one := range map[string]struct {
		options snowflake.Options
		kind    error
	}{
		"digit first":   {snowflake.Options{Agent: "9a"}, snowflake.ErrInvalidAgent},
		"newline":       {snowflake.Options{Agent: "a\n"}, snowflake.ErrInvalidAgent},
		"long agent":    {snowflake.Options{Agent: long + "a"}, snowflake.ErrInvalidAgent},
		"longest agent": {snowflake.Options{Agent: long}, nil},
		"default agent": {snowflake.Options{}, nil},
		"timeout":       {snowflake.Options{Timeout: -1}, snowflake.ErrInvalidArgument},
		"short timeout": {snowflake.Options{Timeout: 1000}, snowflake.ErrInvalidArgument},
		"attempt":       {snowflake.Options{AttemptTimeout: -1}, snowflake.ErrInvalidArgument},
		"prefetch":      {snowflake.Options{Prefetch: -2}, snowflake.ErrInvalidArgument},
		"age":           {snowflake.Options{MaxAge: 99 * ms}, snowflake.ErrInvalidArgument},
		"least age":     {snowflake.Options{MaxAge: 100 * ms}, nil},
	} {
		client, err := snowflake.New(nil, one.options)
		if one.kind == nil && err == nil {
			client.Close()
		} else if !errors.Is(err, one.kind) {
			t.Errorf("%s: %v, not %v", name, err, one.kind)
		}
	}
	for _, server := range []string{"", "a:0", "a:65536", "::1", "[abc]", "[fe80::1%]", "a,,b",
		"[fe80::1%0123456789abcdef]", "[fe80::1%a/b]", "unix:a", "unix:/" + long, "http://a",
		"snowflake://", "snowflake://a?timeout_ms=0", "snowflake://a?color=red", "snowflake://a?x=%"} {
		_, err := snowflake.New([]string{server}, snowflake.Options{})
		if !errors.Is(err, snowflake.ErrInvalidArgument) {
			t.Errorf("%s: %v", server, err)
		}
	}
	client := open(t, snowflake.Options{}, "a, b.c:1", "[::1]", "[fe80::1%lo]:2", "[fe80::1%br-lan]",
		"[fe80::1%eth0.100]:2", "[fe80::1%a_b]", "tls:a.:3", "tls:a:3", "tls:[::1]", "unix:/a", "unix:@a",
		"snowflakes://a,b/?agent=x")
	for _, count := range []int{0, -1} {
		_, err := client.NextIDs(background, count)
		check(t, err, snowflake.ErrInvalidArgument)
	}
}

func TestContext(t *testing.T) {
	client, address, stop := waiting(t)
	defer stop()
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := client.NextID(ctx)
	check(t, err, snowflake.ErrTimeout, address)
	var inNet net.Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) ||
		!errors.As(err, &inNet) || !inNet.Timeout() {
		t.Errorf("for other packages, %v is not a timeout", err)
	}
	_, err = client.NextIDs(ctx, 3)
	check(t, err, snowflake.ErrTimeout, address)

	_, err = open(t, snowflake.Options{Timeout: 50 * time.Millisecond}, address).NextID(background)
	var found *snowflake.Error
	if !errors.As(err, &found) || found.Kind != snowflake.ErrTimeout || found.Detail != "50ms" {
		t.Errorf("the error is %v after a timeout of 50ms", err)
	}
}

// waiting returns a client with a call that waits for a server. stop cancels the call.
func waiting(t *testing.T) (client *snowflake.Client, address string, stop func()) {
	asked, ended := make(chan struct{}, 100), make(chan error)
	address = listen(t, func(conn net.Conn) {
		asked <- struct{}{}
		hang(conn)
	})
	client = open(t, snowflake.Options{}, address)
	ctx, cancel := context.WithCancel(background)
	go func() {
		_, err := client.NextID(ctx)
		ended <- err
	}()
	<-asked
	return client, address, func() {
		cancel()
		err := <-ended
		check(t, err, context.Canceled, address)
		if errors.Is(err, snowflake.ErrTimeout) {
			t.Error("it was cancelled")
		}
	}
}

func TestClose(t *testing.T) {
	asked := make(chan struct{}, 100)
	address := listen(t, func(conn net.Conn) {
		asked <- struct{}{}
		hang(conn)
	})
	client := open(t, snowflake.Options{Timeout: time.Hour}, address)
	const calls = 5
	ended := make(chan error, calls)
	for i := 0; i < calls; i++ {
		go func(i int) {
			var err error
			if i%2 == 0 {
				_, err = client.NextID(background)
			} else {
				_, err = client.NextIDs(background, 10)
			}
			ended <- err
		}(i)
	}
	<-asked
	var closers sync.WaitGroup
	for i := 0; i < 3; i++ {
		closers.Add(1)
		go func() {
			defer closers.Done()
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	late := time.AfterFunc(hangGuard, func() { panic("Close waits for the server") })
	closers.Wait()
	for i := 0; i < calls; i++ {
		check(t, <-ended, snowflake.ErrClosed)
	}
	late.Stop()
	_, err := client.NextID(background)
	check(t, err, snowflake.ErrClosed)
}

func TestCloseDiscardsTheBuffer(t *testing.T) {
	var server handler
	client := open(t, snowflake.Options{}, server.serve(t))
	for i := 0; i < 1000; i++ {
		next(t, client)
	}
	client.Close()
	_, err := client.NextID(background)
	check(t, err, snowflake.ErrClosed)
	_, err = client.NextIDs(background, 1)
	check(t, err, snowflake.ErrClosed)
}

// Goroutines end a little after what they did is seen, so that there is a time to wait for it.
func waitForGoroutines(t *testing.T, most int) {
	t.Helper()
	for began := time.Now(); runtime.NumGoroutine() > most; runtime.Gosched() {
		if time.Since(began) > hangGuard {
			stacks := make([]byte, 1<<16)
			t.Fatalf("more than %d goroutines:\n%s", most, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestNoGoroutines(t *testing.T) {
	address := snowflaketest.StartServer(t)
	before := runtime.NumGoroutine()
	client := open(t, snowflake.Options{}, address)
	for i := 0; i < 2000; i++ {
		next(t, client)
	}
	waitForGoroutines(t, before) // it is idle
	for i := 0; i < 2000; i++ {
		next(t, client)
	}
	client.Close()
	if now := runtime.NumGoroutine(); now > before {
		waitForGoroutines(t, before)
	}
}

func BenchmarkNextID(b *testing.B) {
	client := open(b, snowflake.Options{}, snowflaketest.StartServer(b))
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		next(b, client)
	}
}

func BenchmarkNextIDWithoutPrefetch(b *testing.B) {
	client := open(b, snowflake.Options{Prefetch: snowflake.NoPrefetch}, snowflaketest.StartServer(b))
	for i := 0; i < b.N; i++ {
		next(b, client)
	}
}
