// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"snowflake"
	"snowflake/internal/generated"
	"snowflake/snowflaketest"
)

func frame(message string) string {
	return "\x00\x00\x00" + string(rune(len(message))) + message
}

// Each is refused at once, and not at the deadline.
func TestWhatIsNoServer(t *testing.T) {
	// ID 5, in a run of one
	result := "\x0f\x00\x00\x0c\x00\x00\x00\x01\x0a\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05" +
		"\x08\x00\x02\x00\x00\x00\x01\x00\x00"
	reply := "\x80\x01\x00\x02\x00\x00\x00\x0bget_id_runs" + sequence
	right := listen(t, says(frame(reply+result)))
	if id := next(t, open(t, snowflake.Options{}, right)); id != 5 {
		t.Fatal(id)
	}
	for name, act := range map[string]func(net.Conn){
		"web server":        says("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"2 GB":              says("\x7f\xff\xff\xff"),
		"4 GB":              says("\xff\xff\xff\xff"),
		"nothing":           says("\x00\x00\x00\x00"),
		"half a message":    says(frame(reply + "\x0f")),
		"long list":         says(frame(reply + "\x0f\x00\x00\x0c\x7f\xff\xff\xff")),
		"not the first":     says(frame(reply[:len(reply)-1] + "!" + result)),
		"of another method": says(frame(strings.Replace(reply, "runs", "rums", 1) + result)),
		"unversioned":       says(frame("\x00\x00\x00\x0bget_id_runs\x02" + sequence + result)),
		"a call":            says(frame(strings.Replace(reply, "\x00\x02", "\x00\x01", 1) + result)),
		"hangs up":          func(conn net.Conn) {},
		"hangs up later":    func(conn net.Conn) { _, _ = conn.Read(make([]byte, 512)) },
	} {
		address := listen(t, act)
		client := open(t, snowflake.Options{}, address)
		_, err := client.NextID(background)
		check(t, err, snowflake.ErrUnreachable, address)
		_, err = client.NextIDs(background, 10)
		told := check(t, err, snowflake.ErrUnreachable, address)
		t.Logf("%s: %s", name, told.Attempts[0].Reason)
	}
}

func TestWrongIDs(t *testing.T) {
	for name, runs := range map[string][]*generated.IdRun{
		"none":          {},
		"too few":       {{First: 1, Count: 9}},
		"too many":      {{First: 1, Count: 11}},
		"empty run":     {{First: 1, Count: 10}, {First: 20, Count: 0}},
		"negative run":  {{First: 1, Count: 11}, {First: 20, Count: -1}},
		"0":             {{First: 0, Count: 10}},
		"negative":      {{First: -5, Count: 10}},
		"beyond":        {{First: 1<<63 - 9, Count: 10}},
		"not in order":  {{First: 10, Count: 5}, {First: 1, Count: 5}},
		"twice":         {{First: 10, Count: 5}, {First: 14, Count: 5}},
		"after the end": {{First: 1<<63 - 5, Count: 5}, {First: 1, Count: 5}},
	} {
		server := handler{runs: func(int32) []*generated.IdRun { return runs }}
		address := server.serve(t)
		_, err := open(t, snowflake.Options{}, address).NextIDs(background, 10)
		if !errors.Is(err, snowflake.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	last := handler{runs: func(int32) []*generated.IdRun {
		return []*generated.IdRun{{First: 1<<63 - 10, Count: 10}}
	}}
	if ids, err := open(t, snowflake.Options{}, last.serve(t)).NextIDs(background, 10); err != nil ||
		ids[9] != 1<<63-1 {
		t.Errorf("the last IDs that there are: %v, %v", ids, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, one := range []struct {
		fail  error
		lacks []string
		kind  error
		after time.Duration
	}{
		{fail: &generated.InvalidSystemClock{Message: "behind"}, kind: snowflake.ErrClock},
		{fail: &generated.InvalidUserAgentError{Message: "no"}, kind: snowflake.ErrInvalidAgent},
		{fail: &generated.WorkerIdUnavailable{Message: "a\nb", RetryAfterMs: 250},
			kind: snowflake.ErrUnavailable, after: 250 * time.Millisecond},
		{fail: &generated.WorkerIdUnavailable{RetryAfterMs: -1}, kind: snowflake.ErrUnavailable},
		{fail: &generated.WorkerIdUnavailable{RetryAfterMs: 1<<63 - 1}, kind: snowflake.ErrUnavailable},
		{fail: &generated.InvalidCount{Message: "1 is too many"}, kind: snowflake.ErrUnreachable},
		{fail: errors.New("out of cheese"), kind: snowflake.ErrUnreachable},
		{lacks: []string{"get_id_runs", "get_ids", "get_id"}, kind: snowflake.ErrUnreachable},
	} {
		server := handler{fail: func(int32) error { return one.fail }}
		address := server.serve(t, one.lacks...)
		_, err := open(t, snowflake.Options{}, address).NextID(background)
		if told := check(t, err, one.kind, address); told.RetryAfter != one.after {
			t.Errorf("%v: again after %v, not %v", err, told.RetryAfter, one.after)
		}
	}
}

// get_id has no typed exceptions: the name is in the message of Thrift's own.
func TestRefusalsOf2010(t *testing.T) {
	for message, kind := range map[string]error{
		"InvalidSystemClock: behind": snowflake.ErrClock,
		"InvalidUserAgentError: no":  snowflake.ErrInvalidAgent,
		"WorkerIdUnavailable: none":  snowflake.ErrUnavailable,
		"WorkerIdUnavailable":        snowflake.ErrUnavailable,
		"out of cheese":              snowflake.ErrUnreachable,
	} {
		address := listen(t, says(frame("\x80\x01\x00\x03\x00\x00\x00\x0bget_id_runs"+sequence+
			"\x0b\x00\x01\x00\x00\x00"+string(rune(len(message)))+message+
			"\x08\x00\x02\x00\x00\x00\x06\x00")))
		_, err := open(t, snowflake.Options{}, address).NextID(background)
		check(t, err, kind, address)
	}
}

func TestTheErrorThatTellsMost(t *testing.T) {
	refuser := func(err error) string {
		server := handler{fail: func(int32) error { return err }}
		return server.serve(t)
	}
	clock := refuser(&generated.InvalidSystemClock{Message: "behind"})
	soon := refuser(&generated.WorkerIdUnavailable{RetryAfterMs: 250})
	late := refuser(&generated.WorkerIdUnavailable{RetryAfterMs: 900})
	none := dead(t)
	silent := listen(t, hang)
	var options snowflake.Options

	_, err := open(t, options, clock, late, none, soon).NextID(background)
	if told := check(t, err, snowflake.ErrUnavailable, clock, late, none, soon); told.RetryAfter !=
		250*time.Millisecond {
		t.Errorf("again after %v", told.RetryAfter)
	}
	_, err = open(t, options, clock, none).NextID(background)
	check(t, err, snowflake.ErrClock, clock, none)
	_, err = open(t, options, none, "unix:/nowhere").NextID(background)
	check(t, err, snowflake.ErrUnreachable, none, "unix:/nowhere")
	options.Timeout = 300 * time.Millisecond
	_, err = open(t, options, silent).NextID(background)
	check(t, err, snowflake.ErrTimeout, silent)
}

func TestRefusedAgentIsNotTriedElsewhere(t *testing.T) {
	refuses := func(int32) error { return &generated.InvalidUserAgentError{Message: "no"} }
	one, other := handler{fail: refuses}, handler{fail: refuses}
	_, err := open(t, snowflake.Options{}, one.serve(t), other.serve(t)).NextID(background)
	if !errors.Is(err, snowflake.ErrInvalidAgent) || one.calls.Load()+other.calls.Load() != 1 {
		t.Errorf("%v, after %d and %d calls", err, one.calls.Load(), other.calls.Load())
	}
}

func TestOlderServers(t *testing.T) {
	for _, lacks := range [][]string{{"get_id_runs"}, {"get_id_runs", "get_ids"}} {
		var server handler
		client := open(t, snowflake.Options{}, server.serve(t, lacks...))
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
	server.fail = func(count int32) error {
		if count > 100 {
			return &generated.InvalidCount{Message: "100 at most"}
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
	for name, bad := range map[string]string{"dead": dead(t), "unknown": "nobody.invalid",
		"web server": listen(t, says("HTTP/1.1 400 Bad Request\r\n\r\n"))} {
		for i := 0; i < 4; i++ { // it begins with either
			client := open(t, snowflake.Options{}, bad, address)
			if id, err := client.NextID(background); err != nil || worker(t, id) != 0 {
				t.Errorf("%s: %d, %v", name, id, err)
			}
		}
	}
}

func TestOneThatFailedRests(t *testing.T) {
	asked := make(chan struct{}, 1000)
	bad := listen(t, func(conn net.Conn) {
		asked <- struct{}{}
	})
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, bad, snowflaketest.StartServer(t))
	for i := 0; i < 100; i++ {
		next(t, client)
	}
	if len(asked) > 1 {
		t.Errorf("it was asked %d times", len(asked))
	}
}

// A connection that ended since the last call says nothing of the server.
func TestBrokenConnectionIsMadeAgain(t *testing.T) {
	var server handler
	behind := server.serve(t)
	conns := make(chan net.Conn, 100)
	front := listen(t, func(conn net.Conn) {
		conns <- conn
		relay(conn, behind)
	})
	client := open(t, snowflake.Options{Prefetch: snowflake.NoPrefetch}, front)
	for i := 0; i < 3; i++ {
		next(t, client)
		conn := (<-conns).(*net.TCPConn)
		if i == 1 {
			_ = conn.SetLinger(0) // with a reset
		}
		conn.Close()
	}
	next(t, client)
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

func TestLateReplyIsNobodys(t *testing.T) {
	var server handler
	server.fail = func(count int32) error {
		if server.calls.Load() == 1 {
			<-time.After(300 * time.Millisecond)
		}
		return nil
	}
	client := open(t, snowflake.Options{}, server.serve(t))
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := client.NextID(ctx)
	if !errors.Is(err, snowflake.ErrTimeout) {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for i := 0; i < 1000; i++ {
		id := next(t, client)
		if seen[id] {
			t.Fatalf("%d comes twice", id)
		}
		seen[id] = true
	}
}
