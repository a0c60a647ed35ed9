// SPDX-License-Identifier: Apache-2.0

package snowflaketest_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"example.com/snowflake"
	"example.com/snowflake/snowflaketest"
)

var background = context.Background()

func TestFake(t *testing.T) {
	fake := snowflaketest.New()
	first, err := fake.NextID(background)
	if err != nil || first != snowflaketest.FirstID {
		t.Fatalf("%d, %v", first, err)
	}
	ids, err := fake.NextIDs(background, 3)
	if err != nil || len(ids) != 3 || ids[0] != first+1 || ids[2] != first+3 {
		t.Fatalf("%v, %v", ids, err)
	}
	parts, err := snowflake.Decode(first)
	if err != nil || parts.Datacenter != 1 || parts.Worker != 2 || parts.Sequence != 0 ||
		parts.Time.Format("2006-01-02 15:04:05") != "2023-11-14 22:13:20" {
		t.Fatalf("%v, %v", parts, err)
	}
	if id, err := snowflaketest.NewAt(7).NextID(background); err != nil || id != 7 {
		t.Fatalf("%d, %v", id, err)
	}
	fake.Step = 1 << 12
	if ids, err := fake.NextIDs(background, 3); err != nil || ids[2] != ids[0]+2<<12 {
		t.Fatalf("%v, %v", ids, err)
	}
}

func TestFakeFails(t *testing.T) {
	fake := snowflaketest.New()
	fake.FailNext(&snowflake.Error{Kind: snowflake.ErrUnavailable})
	fake.FailNext(&snowflake.Error{Kind: snowflake.ErrTimeout})
	if _, err := fake.NextID(background); !errors.Is(err, snowflake.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := fake.NextIDs(background, 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if id, err := fake.NextID(background); err != nil || id != snowflaketest.FirstID {
		t.Fatalf("%d, %v", id, err)
	}
	if _, err := fake.NextIDs(background, 0); !errors.Is(err, snowflake.ErrInvalidArgument) {
		t.Fatal(err)
	}
	fake.Close()
	if _, err := fake.NextID(background); !errors.Is(err, snowflake.ErrClosed) {
		t.Fatal(err)
	}
}

func TestServer(t *testing.T) {
	address := ""
	t.Run("while it lasts", func(t *testing.T) {
		address = snowflaketest.StartServer(t, "--worker-id", "9")
		client, err := snowflake.New([]string{address}, snowflake.Options{Agent: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		id, err := client.NextID(background)
		parts, _ := snowflake.Decode(id)
		if err != nil || parts.Worker != 9 {
			t.Fatalf("%v, %v", parts, err)
		}
	})
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Fatal("the server runs after its test")
	}
}
