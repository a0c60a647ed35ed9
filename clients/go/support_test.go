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

	"github.com/apache/thrift/lib/go/thrift"

	"snowflake"
	"snowflake/internal/generated"
)

const patience = 2 * time.Minute // what has not come by then never comes; nothing is judged by it

var background = context.Background()

// open makes a client that is closed with the test. Unless told otherwise, no call ends by its
// deadline.
func open(t testing.TB, options snowflake.Options, servers ...string) *snowflake.Client {
	t.Helper()
	if options.Agent == "" {
		options.Agent = "test"
	}
	if options.Timeout == 0 {
		options.Timeout = patience
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

func worker(t testing.TB, id int64) int64 {
	t.Helper()
	parts, err := snowflake.Decode(id)
	if err != nil {
		t.Fatal(err)
	}
	return parts.Worker
}

// check sees that an error is of the kind, one line, and names each server and why.
func check(t testing.TB, err error, kind error, servers ...string) *snowflake.Error {
	t.Helper()
	var told *snowflake.Error
	if !errors.As(err, &told) || !errors.Is(err, kind) {
		t.Fatalf("%v, not %v", err, kind)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Fatalf("not one line: %q", err.Error())
	}
	tried := map[string]bool{}
	for _, attempt := range told.Attempts {
		tried[attempt.Server] = true
		if attempt.Reason == "" || !strings.Contains(err.Error(), attempt.Server+": "+attempt.Reason) {
			t.Fatalf("%v does not say of %s: %q", err, attempt.Server, attempt.Reason)
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
	return told
}

// listen has act done with each connection, and returns the address.
func listen(t testing.TB, act func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
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
	}()
	return listener.Addr().String()
}

// dead is a port that is taken, where nobody listens.
func dead(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	listener.Close()
	return conn.LocalAddr().String() // as an end of a connection
}

func hang(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
}

// says reads a call and answers with the text, in which the call's sequence ID stands for sequence.
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
	sequenceAt = 4 + 4 + 4 + len("get_id_runs") // behind the length, the version and the name
)

// A handler is a server of Thrift's own, that answers as it is told. It counts calls.
type handler struct {
	generated.SnowflakeExtended
	calls atomic.Int64
	id    atomic.Int64
	fail  func(count int32) error
	runs  func(count int32) []*generated.IdRun
}

func (h *handler) GetIDRuns(_ context.Context, _ string, count int32) ([]*generated.IdRun, error) {
	h.calls.Add(1)
	if h.fail != nil {
		if err := h.fail(count); err != nil {
			return nil, err
		}
	}
	if h.runs != nil {
		return h.runs(count), nil
	}
	end := h.id.Add(int64(count))
	return []*generated.IdRun{{First: end - int64(count) + 1, Count: count}}, nil
}

func (h *handler) GetIds(_ context.Context, _ string, count int32) ([]int64, error) {
	h.calls.Add(1)
	ids := make([]int64, count)
	for i := range ids {
		ids[i] = h.id.Add(1)
	}
	return ids, nil
}

func (h *handler) GetID(context.Context, string) (int64, error) {
	h.calls.Add(1)
	if h.fail != nil {
		return 0, h.fail(1)
	}
	return h.id.Add(1), nil
}

// serve starts it with all but the calls that it lacks.
func (h *handler) serve(t testing.TB, lacks ...string) string {
	t.Helper()
	processor := generated.NewSnowflakeExtendedProcessor(h)
	for _, call := range lacks {
		delete(processor.ProcessorMap(), call)
	}
	socket, err := thrift.NewTServerSocket("127.0.0.1:0")
	if err == nil {
		err = socket.Listen()
	}
	if err != nil {
		t.Fatal(err)
	}
	configuration := &thrift.TConfiguration{}
	server := thrift.NewTSimpleServer4(processor, socket,
		thrift.NewTFramedTransportFactoryConf(thrift.NewTTransportFactory(), configuration),
		thrift.NewTBinaryProtocolFactoryConf(configuration))
	server.SetLogger(func(string) {})
	go func() { _ = server.Serve() }()
	t.Cleanup(func() { socket.Close() })
	return socket.Addr().String()
}
