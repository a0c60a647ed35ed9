// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/snowflake"
	"example.com/snowflake/snowflaketest"
)

const reply = "\x80\x01\x00\x02\x00\x00\x00\x0bget_id_runs" + sequence

// Each is found out at once, and not at the deadline.
func TestNotASnowflakeServer(t *testing.T) {
	// ID 5, in a run of one, with fields that are not known
	list := "\x0f\x00\x00\x0c\x00\x00\x00\x01"
	element := "\x0a\x00\x01" + number64(5) + "\x08\x00\x02" + number32(1)
	result := list + element + "\x00\x00"
	nested := strings.Repeat("\x0c\x00\x09", 30)
	right := listen(t, says(frame(reply+"\x0d\x00\x09\x0b\x0f\x00\x00\x00\x01"+text("a")+"\x02\x00\x00\x00\x02\x00\x01"+
		list+"\x0c\x00\x07\x04\x00\x03"+number64(0)+"\x00"+element+"\x06\x00\x08\x00\x00\x00\x0b\x00\x06"+text("b")+"\x00")))
	if id := next(t, open(t, snowflake.Options{}, right)); id != 5 {
		t.Fatal(id)
	}
	for name, act := range map[string]func(net.Conn){
		"web server":        says("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"2 GB":              says("\x7f\xff\xff\xff"),
		"4 GB":              says("\xff\xff\xff\xff"),
		"nothing":           says("\x00\x00\x00\x00"),
		"half a message":    says(frame(reply + "\x0f")),
		"no result":         says(frame(reply + "\x00")),
		"long list":         says(frame(reply + "\x0f\x00\x00\x0c\x7f\xff\xff\xff")),
		"long name":         says(frame("\x80\x01\x00\x02\x7f\xff\xff\xff" + reply[8:] + result)),
		"long skipped list": says(frame(reply + "\x0f\x00\x09\x0f\x7f\xff\xff\xff" + result)),
		"list of nothing":   says(frame(reply + "\x0f\x00\x09\x01\x7f\xff\xff\xff" + result)),
		"deep":              says(frame(reply + nested + strings.Repeat("\x00", 30) + result)),
		"unknown type":      says(frame(reply + "\x07\x00\x09" + result)),
		"list of i32":       says(frame(reply + "\x0f\x00\x00\x08\x00\x00\x00\x01" + number32(5) + "\x00")),
		"twice":             says(frame(reply + list + element + "\x00" + list + element + "\x00")),
		"bytes after it":    says(frame(reply + result + "\x00")),
		"wrong sequence ID": says(frame(reply[:len(reply)-1] + "!" + result)),
		"wrong method":      says(frame(strings.Replace(reply, "runs", "rums", 1) + result)),
		"unversioned":       says(frame("\x00\x00\x00\x0bget_id_runs\x02" + sequence + result)),
		"a call":            says(frame(strings.Replace(reply, "\x00\x02", "\x00\x01", 1) + result)),
		"hangs up":          func(conn net.Conn) {},
		"hangs up later":    func(conn net.Conn) { _, _ = conn.Read(make([]byte, 512)) },
	} {
		address := listen(t, act)
		for _, take := range []func(context.Context, *snowflake.Client) error{takeOne, takeTen} {
			attempt := failing(t, snowflake.Options{}, 1, take, address).Attempts[0]
			if attempt.Kind != snowflake.ErrUnreachable {
				t.Errorf("%s: %v", name, attempt)
			}
			t.Logf("%s: %s", name, attempt.Reason)
		}
	}
}

func TestWrongIDs(t *testing.T) {
	for name, runs := range map[string][]idRun{
		"none":          {},
		"too few":       {{1, 9}},
		"too many":      {{1, 11}},
		"empty run":     {{1, 10}, {20, 0}},
		"negative run":  {{1, 11}, {20, -1}},
		"0":             {{0, 10}},
		"negative":      {{-5, 10}},
		"beyond":        {{1<<63 - 9, 10}},
		"not in order":  {{10, 5}, {1, 5}},
		"twice":         {{10, 5}, {14, 5}},
		"after the end": {{1<<63 - 5, 5}, {1, 5}},
	} {
		granted := runs
		server := handler{runs: func(int) []idRun { return granted }}
		address := server.serve(t)
		err := failing(t, snowflake.Options{}, 1, takeTen, address)
		if err.Attempts[0].Kind != snowflake.ErrUnreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
	last := handler{runs: func(int) []idRun { return []idRun{{1<<63 - 10, 10}} }}
	ids, err := open(t, snowflake.Options{}, last.serve(t)).NextIDs(background, 10)
	if err != nil || ids[9] != 1<<63-1 {
		t.Errorf("the greatest IDs: %v, %v", ids, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, one := range []struct {
		refused *exception
		kind    error
		after   time.Duration
	}{
		{behind, snowflake.ErrClock, 0},
		{unavailable, snowflake.ErrUnavailable, 250 * time.Millisecond},
		{&exception{field: 3, message: "a\nb"}, snowflake.ErrUnavailable, 0},
		{&exception{field: 3, retryAfterMs: -1}, snowflake.ErrUnavailable, 0},
		{&exception{field: 3, retryAfterMs: 1<<63 - 1}, snowflake.ErrUnavailable, 0},
		{tooMany, snowflake.ErrUnreachable, 0},
		{unknown, snowflake.ErrUnreachable, 0},
		{&exception{number: 6, message: "out of cheese"}, snowflake.ErrUnreachable, 0},
		// get_id has no typed exceptions
		{&exception{number: 6, message: "InvalidSystemClock: behind"}, snowflake.ErrClock, 0},
		{&exception{number: 6, message: "WorkerIdUnavailable: none"}, snowflake.ErrUnavailable, 0},
		{&exception{number: 6, message: "WorkerIdUnavailable"}, snowflake.ErrUnavailable, 0},
		{&exception{number: 7, message: "WorkerIdUnavailable: none"}, snowflake.ErrUnreachable, 0},
	} {
		refused := one.refused
		server := handler{fail: func(int) *exception { return refused }}
		err := failing(t, snowflake.Options{}, 1, takeOne, server.serve(t))
		if err.Attempts[0].Kind != one.kind || err.RetryAfter != one.after {
			t.Errorf("%v, not %v; again after %v, not %v", err, one.kind, err.RetryAfter, one.after)
		}
	}
}

func TestARefusedAgentIsNotTriedElsewhere(t *testing.T) {
	for _, refused := range []*exception{unwelcome, {number: 6, message: "InvalidUserAgentError: no"}} {
		refuses := func(int) *exception { return refused }
		one, other := handler{fail: refuses}, handler{fail: refuses}
		_, err := open(t, snowflake.Options{}, one.serve(t), other.serve(t)).NextID(background)
		if !errors.Is(err, snowflake.ErrInvalidAgent) || one.calls.Load()+other.calls.Load() != 1 {
			t.Errorf("%v, after %d and %d calls", err, one.calls.Load(), other.calls.Load())
		}
	}
}

func TestOlderServers(t *testing.T) {
	for _, lacks := range [][]string{{"get_id_runs"}, {"get_id_runs", "get_ids"}} {
		server := handler{lacks: lacks}
		client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, server.serve(t))
		ids, err := client.NextIDs(background, 250)
		if err != nil || len(ids) != 250 || ids[0] != 1 || ids[249] != 250 {
			t.Errorf("without %v: %d IDs, %v", lacks, len(ids), err)
		}
		if id := next(t, client); id != 251 {
			t.Errorf("then %d", id)
		}
	}
}

func TestSmallBatches(t *testing.T) {
	var server handler
	server.fail = func(count int) *exception {
		if count > 100 {
			return tooMany
		}
		return nil
	}
	client := open(t, snowflake.Options{}, server.serve(t))
	if ids, err := client.NextIDs(background, 1000); err != nil || len(ids) != 1000 {
		t.Fatalf("%d IDs, %v", len(ids), err)
	}
	if calls := server.calls.Load(); calls > 25 {
		t.Errorf("%d calls", calls)
	}
}

func TestAnotherServerServes(t *testing.T) {
	address := snowflaketest.StartServer(t)
	for name, bad := range map[string]string{"dead": deadAddress(t), "unknown": "nobody.invalid",
		"web server": listen(t, says("HTTP/1.1 400 Bad Request\r\n\r\n"))} {
		for i := 0; i < 4; i++ { // it begins with either
			client := open(t, snowflake.Options{}, bad, address)
			if id, err := client.NextID(background); err != nil || worker(t, id) != 0 {
				t.Errorf("%s: %d, %v", name, id, err)
			}
		}
	}
}

func TestAFailedServerIsNotTriedAgain(t *testing.T) {
	var asked atomic.Int64
	bad := listen(t, func(net.Conn) { asked.Add(1) })
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, bad, snowflaketest.StartServer(t))
	for i := 0; i < 100; i++ {
		next(t, client)
	}
	if asked.Load() > 1 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// A connection that ended since the last call says nothing about the server.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	var server handler
	address := server.serve(t)
	conns := make(chan net.Conn, 100)
	front := listen(t, func(conn net.Conn) {
		conns <- conn
		relay(conn, address)
	})
	failures := make(chan snowflake.Attempt, 100)
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch,
		OnFailure: func(attempt snowflake.Attempt) { failures <- attempt }}, front)
	for i := 0; i < 3; i++ {
		next(t, client)
		conn := (<-conns).(*net.TCPConn)
		if i == 1 {
			_ = conn.SetLinger(0) // with a reset
		}
		conn.Close()
	}
	next(t, client)
	if len(failures) > 0 {
		t.Error(<-failures)
	}
}

func relay(conn net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, conn)
	}()
	_, _ = io.Copy(conn, server)
}

func TestALateReplyIsDiscarded(t *testing.T) {
	var server handler
	isOver := make(chan struct{})
	ctx, cancel := context.WithCancel(background)
	server.fail = func(int) *exception {
		if server.calls.Load() == 1 {
			cancel()
			<-isOver
		}
		return nil
	}
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, server.serve(t))
	if err := takeOne(ctx, client); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(isOver)
	for i := int64(2); i < 1000; i++ {
		if id := next(t, client); id != i {
			t.Fatalf("%d, not %d", id, i)
		}
	}
}
