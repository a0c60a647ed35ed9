// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/snowflake"
)

// An event that has not come by then never comes. No test judges anything by it.
const hangGuard = 2 * time.Minute

var background = context.Background()

// open makes a client that is closed with the test. By default no call ends by its deadline, and no
// attempt is slow.
func open(t testing.TB, options snowflake.Options, servers ...string) *snowflake.Client {
	t.Helper()
	if options.Timeout == 0 {
		options.Timeout = hangGuard
	}
	if options.AttemptTimeout == 0 {
		options.AttemptTimeout = hangGuard
	}
	client, err := snowflake.New(servers, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func next(t testing.TB, client snowflake.Generator) int64 {
	t.Helper()
	id, err := client.NextID(background)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// failing returns the attempts of a call that is cancelled after so many failures.
func failing(t testing.TB, options snowflake.Options, failures int, call func(context.Context,
	*snowflake.Client) error, servers ...string) *snowflake.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, hangGuard)
	defer cancel()
	var count atomic.Int64
	options.OnFailure = func(snowflake.Attempt) {
		if count.Add(1) == int64(failures) {
			cancel()
		}
	}
	client := open(t, options, servers...)
	return check(t, call(ctx, client), context.Canceled, servers...)
}

// failed returns the first failure of a server.
func failed(t testing.TB, server string) snowflake.Attempt {
	t.Helper()
	return failing(t, snowflake.Options{}, 1, takeOne, server).Attempts[0]
}

func takeOne(ctx context.Context, client *snowflake.Client) error {
	_, err := client.NextID(ctx)
	return err
}

func takeTen(ctx context.Context, client *snowflake.Client) error {
	_, err := client.NextIDs(ctx, 10)
	return err
}

func worker(t testing.TB, id int64) int64 {
	t.Helper()
	parts, err := snowflake.Decode(id)
	if err != nil {
		t.Fatal(err)
	}
	return parts.Worker
}

// check checks that an error has the kind, is one line, and names these servers and why they failed.
func check(t testing.TB, err error, kind error, servers ...string) *snowflake.Error {
	t.Helper()
	var found *snowflake.Error
	if !errors.As(err, &found) || found.Kind != kind || !errors.Is(err, kind) {
		t.Fatalf("%v, not %v", err, kind)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Fatalf("not one line: %q", err.Error())
	}
	tried := map[string]bool{}
	for _, attempt := range found.Attempts {
		tried[attempt.Server] = true
		if attempt.Reason == "" || !strings.Contains(err.Error(), attempt.String()) {
			t.Fatalf("%v does not contain %q", err, attempt)
		}
	}
	for _, server := range servers {
		if !tried[server] {
			t.Fatalf("%v: %s was not tried", err, server)
		}
	}
	if len(tried) != len(servers) {
		t.Fatalf("%v: not %d servers", err, len(servers))
	}
	return found
}

// listen calls act with each connection, and returns the address.
func listen(t testing.TB, act func(net.Conn)) string {
	t.Helper()
	address, start := dead(t)
	start(act)
	return address
}

// dead returns an address to which nothing can connect until start is called, which is as listen.
func dead(t testing.TB) (address string, start func(act func(net.Conn))) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { file.Close() })
	return "127.0.0.1:" + strconv.Itoa(bound.(*syscall.SockaddrInet4).Port), func(act func(net.Conn)) {
		err := syscall.Listen(fd, 128)
		listener, otherErr := net.FileListener(file)
		if err != nil || otherErr != nil {
			t.Error(err, otherErr)
			return
		}
		file.Close()
		t.Cleanup(func() { listener.Close() })
		go serve(listener, act)
	}
}

func deadAddress(t testing.TB) string {
	address, _ := dead(t)
	return address
}

func serve(listener net.Listener, act func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			act(conn)
		}()
	}
}

func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// says reads a call and answers with the text, in which the call's sequence ID replaces sequence.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		call := make([]byte, 512)
		_, _ = conn.Read(call)
		number := string(call[sequenceAt:][:len(sequence)])
		_, _ = io.WriteString(conn, strings.ReplaceAll(text, sequence, number))
		hang(conn)
	}
}

const (
	sequence   = "SEQ#"
	sequenceAt = 4 + 4 + 4 + len("get_id_runs") // after the length, the version and the name
)

// Parts of messages, in hex as Thrift's binary protocol has them.

func number32(number int) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(number)))
}

func number64(number int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(number)))
}

func text(text string) string { return number32(len(text)) + text }

func frame(message string) string { return text(message) }

// An exception is an answer of a server: field 1 to 4 of a reply, or a number of a
// TApplicationException.
type exception struct {
	field, number int
	message       string
	retryAfterMs  int64
}

var (
	behind      = &exception{field: 1, message: "behind"}
	unwelcome   = &exception{field: 2, message: "no"}
	unavailable = &exception{field: 3, message: "none", retryAfterMs: 250}
	tooMany     = &exception{field: 4, message: "100 at most"}
	unknown     = &exception{number: 1, message: "Invalid method name"}
)

func (e *exception) body() string {
	fields := "\x0b\x00\x01" + text(e.message)
	if e.field == 0 {
		return fields + "\x08\x00\x02" + number32(e.number) + "\x00"
	}
	if e.retryAfterMs != 0 {
		fields += "\x0a\x00\x02" + number64(e.retryAfterMs)
	}
	return "\x0c\x00" + string(rune(e.field)) + fields + "\x00\x00"
}

type idRun struct {
	first int64
	count int
}

// A handler is a server that answers as it is told. It counts calls and connections.
type handler struct {
	lacks       []string // methods
	fail        func(count int) *exception
	runs        func(count int) []idRun
	calls       atomic.Int64
	connections atomic.Int64
	id          atomic.Int64
}

func (h *handler) serve(t testing.TB) string {
	t.Helper()
	return listen(t, h.answerAll)
}

func (h *handler) answerAll(conn net.Conn) {
	h.connections.Add(1)
	calls := bufio.NewReader(conn)
	for {
		header := make([]byte, 4)
		if _, err := io.ReadFull(calls, header); err != nil {
			return
		}
		call := make([]byte, binary.BigEndian.Uint32(header))
		if _, err := io.ReadFull(calls, call); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(call[4:])
		name, number := string(call[8:8+length]), string(call[8+length:12+length])
		count := 1
		if name != "get_id" { // the last argument
			count = int(binary.BigEndian.Uint32(call[len(call)-5:]))
		}
		kind, body := h.answer(name, count)
		_, _ = io.WriteString(conn, frame("\x80\x01\x00"+kind+text(name)+number+body))
	}
}

func (h *handler) answer(name string, count int) (kind, body string) {
	h.calls.Add(1)
	refused := (*exception)(nil)
	if h.fail != nil {
		refused = h.fail(count)
	}
	for _, one := range h.lacks {
		if one == name {
			refused = unknown
		}
	}
	if refused != nil && refused.field == 0 {
		return "\x03", refused.body()
	} else if refused != nil {
		return "\x02", refused.body()
	}
	last := h.id.Add(int64(count))
	first := last - int64(count) + 1
	switch name {
	case "get_id":
		return "\x02", "\x0a\x00\x00" + number64(first) + "\x00"
	case "get_ids":
		ids := ""
		for id := first; id <= last; id++ {
			ids += number64(id)
		}
		return "\x02", "\x0f\x00\x00\x0a" + number32(count) + ids + "\x00"
	}
	runs, list := []idRun{{first, count}}, ""
	if h.runs != nil {
		runs = h.runs(count)
	}
	for _, one := range runs {
		list += "\x0a\x00\x01" + number64(one.first) + "\x08\x00\x02" + number32(one.count) + "\x00"
	}
	return "\x02", "\x0f\x00\x00\x0c" + number32(len(runs)) + list + "\x00"
}
