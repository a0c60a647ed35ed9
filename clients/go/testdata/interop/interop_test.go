// SPDX-License-Identifier: Apache-2.0

// Package interop holds the codec to the official Thrift library. The test program of clients/go runs
// it in a module of its own, with code that Thrift's compiler generates.
package interop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"example.com/snowflake"
	"interop/generated"
)

type handler struct {
	generated.SnowflakeExtended
	fails error
	lock  sync.Mutex
	agent string
	id    int64
}

func (h *handler) draw(agent string, count int32) (int64, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.agent = agent
	h.id += int64(count)
	return h.id - int64(count) + 1, h.fails
}

func (h *handler) GetIDRuns(_ context.Context, agent string, count int32) ([]*generated.IdRun, error) {
	first, err := h.draw(agent, count)
	if count == 1 || err != nil {
		return []*generated.IdRun{{First: first, Count: 1}}, err
	}
	return []*generated.IdRun{{First: first, Count: 1}, {First: first + 1, Count: count - 1}}, nil
}

func (h *handler) GetIds(_ context.Context, agent string, count int32) ([]int64, error) {
	first, err := h.draw(agent, count)
	var ids []int64
	for i := int64(0); i < int64(count); i++ {
		ids = append(ids, first+i)
	}
	return ids, err
}

func (h *handler) GetID(_ context.Context, agent string) (int64, error) { return h.draw(agent, 1) }

// open makes a client of a server of Thrift's, which lacks these calls.
func open(t *testing.T, h *handler, options snowflake.Options, lacks ...string) *snowflake.Client {
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
	options.Agent, options.Prefetch = "interop", snowflake.NoPrefetch
	options.Timeout, options.AttemptTimeout = 2*time.Minute, 2*time.Minute
	client, err := snowflake.New([]string{socket.Addr().String()}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestCalls(t *testing.T) {
	for _, lacks := range [][]string{nil, {"get_id_runs"}, {"get_id_runs", "get_ids"}} {
		h := &handler{}
		client := open(t, h, snowflake.Options{}, lacks...)
		id, err := client.NextID(context.Background())
		if id != 1 || err != nil {
			t.Errorf("without %v: %d, %v", lacks, id, err)
		}
		ids, err := client.NextIDs(context.Background(), 250)
		if len(ids) != 250 || err != nil || ids[0] != 2 || ids[249] != 251 {
			t.Errorf("without %v: %v, %v", lacks, ids, err)
		}
		h.lock.Lock()
		if h.agent != "interop" {
			t.Errorf("the agent is %q", h.agent)
		}
		h.lock.Unlock()
	}
}

func TestExceptions(t *testing.T) {
	for kind, fails := range map[error]error{
		snowflake.ErrClock:        &generated.InvalidSystemClock{Message: "behind"},
		snowflake.ErrInvalidAgent: &generated.InvalidUserAgentError{Message: "behind"},
		snowflake.ErrUnavailable:  &generated.WorkerIdUnavailable{Message: "behind", RetryAfterMs: 250},
		snowflake.ErrUnreachable:  &generated.InvalidCount{Message: "behind"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		client := open(t, &handler{fails: fails}, snowflake.Options{OnFailure: func(snowflake.Attempt) { cancel() }})
		_, err := client.NextID(ctx)
		cancel()
		var found *snowflake.Error
		if !errors.As(err, &found) || len(found.Attempts) != 1 || found.Attempts[0].Kind != kind ||
			found.Attempts[0].Reason != "the server refused: behind" ||
			(found.RetryAfter == 250*time.Millisecond) != (kind == snowflake.ErrUnavailable) {
			t.Errorf("%v for %v", err, fails)
		}
	}
}
