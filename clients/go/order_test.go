// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sort"
	"strings"
	"testing"
	"time"
)

func TestTLSName(t *testing.T) {
	for text, name := range map[string]string{"tls:ids.example.": "ids.example", "tls:a.b": "a.b",
		"tls:[fe80::7%eth0.100]": "fe80::7", "tls:127.0.0.1": "127.0.0.1"} {
		one, err := newServer(text)
		if err != nil || one.tlsName() != name {
			t.Errorf("%s: %v, %v", text, one, err)
		}
	}
}

// inOrder makes servers that are asked as they are given, from the first on.
func inOrder(t *testing.T, texts ...string) *servers {
	t.Helper()
	s, err := newServers(texts, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{}
	for i, text := range texts {
		if _, ok := place[text]; !ok {
			place[text] = i
		}
	}
	sort.Slice(s.all, func(i, j int) bool { return place[s.all[i].text] < place[s.all[j].text] })
	return s
}

func TestClientsDoNotGoOnWithTheSameOne(t *testing.T) {
	orders := map[string]bool{}
	for i := 0; i < 300; i++ {
		s, err := newServers([]string{"a", "b", "c"}, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		orders[s.all[0].text+s.all[1].text+s.all[2].text] = true
	}
	if len(orders) != 6 {
		t.Fatal(orders)
	}
}

// As those of math/rand do, unless they are seeded.
func TestProcessesDoNotGoOnWithTheSameOne(t *testing.T) {
	const names = "abcdefghijklmnopqrstuvwxyz"
	if os.Getenv("SNOWFLAKE_ORDER") != "" {
		s, err := newServers(strings.Split(names, ""), "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range s.all {
			fmt.Print(one.text)
		}
		fmt.Println(" is the order")
		return
	}
	orders := map[string]bool{}
	for i := 0; i < 3; i++ {
		command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		command.Env = append(os.Environ(), "SNOWFLAKE_ORDER=1")
		said, err := command.Output()
		order, _, found := strings.Cut(string(said), " is the order")
		if err != nil || !found || len(order) != len(names) {
			t.Fatalf("%v: %s", err, said)
		}
		orders[order] = true
	}
	if len(orders) != 3 {
		t.Fatal(orders)
	}
}

func TestSequenceIDsBeginAnywhere(t *testing.T) {
	first := map[uint32]bool{}
	for i := 0; i < 4; i++ {
		here, there := net.Pipe()
		calls := newClient(newFrames(here))
		go func() {
			defer here.Close()
			calls.GetID(context.Background(), "test") // nobody answers
		}()
		const head = 4 + 4 + 4 + len("get_id") // of the frame, the version and the name
		message := make([]byte, head+4)
		if _, err := io.ReadFull(there, message); err != nil {
			t.Fatal(err)
		}
		first[binary.BigEndian.Uint32(message[head:])] = true
		there.Close()
	}
	if len(first) != 4 || first[1] {
		t.Fatal(first)
	}
}

// What is known stays if a look-up fails, and is all there is while look-ups rest.
func TestANameThatWasKnownBefore(t *testing.T) {
	s := inOrder(t, "nobody.invalid:1")
	one := s.all[0]
	listener, err := net.Listen("tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	one.places = []*place{newPlace("tcp", address)}
	for _, reasons := range []int{2, 1} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		_, err = s.fetch(ctx, 1)
		cancel()
		if one.lookupRest.until.IsZero() {
			t.Fatal("look-ups do not rest")
		}
		one.lookupRest.until = time.Now().Add(time.Hour)
		var told *Error
		if !errors.As(err, &told) || len(told.Attempts) != reasons ||
			!strings.HasPrefix(told.Attempts[reasons-1].Reason, "127.0.0.1") {
			t.Fatal(err)
		}
	}
	if len(one.places) != 1 {
		t.Fatal(one.places)
	}
}

// Deadlines are hours apart, so that the speed of the machine makes no difference.
func TestServersAndTheirAddressesShareTheTime(t *testing.T) {
	for want, count := range map[string]int{"[2h0m0s 2h0m0s 4h0m0s 8h0m0s]": 3, "[4h0m0s 8h0m0s]": 1} {
		s := inOrder(t, "unix:/a", "unix:/b")
		for i := 1; i < count; i++ {
			s.all[0].places = append(s.all[0].places, newPlace("unix", "/a"))
		}
		var left []time.Duration
		s.connect = func(ctx context.Context, _ *place, _ *tls.Config) (*connection, *failure) {
			deadline, _ := ctx.Deadline()
			left = append(left, time.Until(deadline).Round(time.Hour))
			return nil, failed(ErrTimeout, "no answer", "")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Hour)
		_, err := s.fetch(ctx, 1)
		cancel()
		if err == nil || fmt.Sprint(left) != want {
			t.Errorf("%v: %v, not %s", err, left, want)
		}
	}
}

func TestAServerDoesNotRestForACallInAHurry(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	for timeout, rests := range map[time.Duration]bool{time.Hour: false, time.Millisecond: true} {
		s := inOrder(t, hanging.Addr().String())
		s.timeout = timeout
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err := s.fetch(ctx, 1)
		cancel()
		s.disconnect()
		if !errors.Is(err, ErrTimeout) || s.all[0].places[0].rest.until.IsZero() == rests {
			t.Errorf("%v: %v, rests until %v", timeout, err, s.all[0].places[0].rest.until)
		}
	}
}

func TestThoseThatRestComeLast(t *testing.T) {
	s := inOrder(t, "unix:/a", "unix:/b", "name", "unix:/c", "unix:/d", "unix:/a")
	s.current = 1
	check := func(want string) {
		t.Helper()
		got := ""
		for _, one := range s.order() {
			got += one.text[len(one.text)-1:]
		}
		if got != want {
			t.Fatalf("%s, not %s", got, want)
		}
	}
	check("becda")
	now := time.Now()
	s.all[1].places[0].rest.until = now.Add(time.Hour)
	s.all[3].places[0].rest.until = now.Add(time.Minute)
	s.all[4].places[0].rest.until = now.Add(-time.Second) // is over
	check("edacb")
	s.all[2].lookupRest.until = now.Add(2 * time.Hour)
	check("dacbe")
}

func TestWhoFailedRests(t *testing.T) {
	s, err := newServers([]string{"unix:/nowhere", "nobody.invalid"}, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	now := time.Now()
	if _, err := s.fetch(ctx, 1); err == nil {
		t.Fatal("there are IDs")
	}
	for _, one := range s.all {
		if until := one.restsUntil(now); !until.After(now) {
			t.Errorf("%s rests until %v", one.text, until)
		}
	}
}

func TestPausesGrow(t *testing.T) {
	var r rest
	least := firstRest * 3 / 4
	for i := 0; i < 10; i++ {
		before := time.Now()
		r.begin()
		after := time.Now()
		if r.until.Sub(before) < least || r.until.Sub(after) > longestRest*5/4 {
			t.Fatalf("pause %d is %v, not %v or more", i, r.until.Sub(before), least)
		}
		if least *= 2; least > longestRest*3/4 {
			least = longestRest * 3 / 4
		}
	}
}
