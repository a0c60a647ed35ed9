// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"container/list"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../tests/vectors/" + name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A scripted client has a clock of its own, and a server that answers at once.
type scripted struct {
	*Client
	now      time.Time
	id       int64
	requests []int
}

func newScripted(prefetchMs, maxAgeMs, roundTripMs int) *scripted {
	ms := func(count int) time.Duration { return time.Duration(count) * time.Millisecond }
	options := Options{Prefetch: ms(prefetchMs), MaxAge: ms(maxAgeMs)}
	return &scripted{id: 1, requests: []int{}, Client: &Client{options: options, waiters: list.New(),
		buffer:  buffer{prefetch: options.Prefetch, maxAge: options.MaxAge},
		current: &endpoint{roundTrip: ms(roundTripMs)}}}
}

func (s *scripted) refillNow(isForBuffer bool) {
	count := s.demand(s.now)
	if isForBuffer {
		s.requests = append(s.requests, count)
	}
	s.handOut([]run{{first: s.id, count: count}}, s.now, s.now)
	s.id += int64(count)
}

func (s *scripted) take(isSingle bool, count int) {
	for ; count > 0; count-- {
		if _, ok := s.buffer.pop(s.now); !ok {
			w := &waiter{isSingle: isSingle, wanted: count, began: s.now, done: make(chan struct{})}
			w.place = s.waiters.PushBack(w)
			s.refillNow(isSingle)
			return
		}
	}
	if s.buffer.isLow() {
		s.refillNow(true)
	}
}

func TestPrefetchVectors(t *testing.T) {
	var file struct {
		Scripts []struct {
			Name        string
			PrefetchMs  int `json:"prefetch_ms"`
			MaxAgeMs    int `json:"max_age_ms"`
			RoundTripMs int `json:"round_trip_ms"`
			Steps       []struct {
				AtUs     int64 `json:"at_us"`
				NextID   int   `json:"next_id"`
				NextIDs  int   `json:"next_ids"`
				EveryUs  int64 `json:"every_us"`
				Times    int
				Requests []int
				Buffered int
			}
		}
		Rates []struct {
			PerSecond   int `json:"per_second"`
			RoundTripMs int `json:"round_trip_ms"`
			Least, Most int
		}
	}
	readVectors(t, "prefetch.json", &file)
	if len(file.Scripts) < 8 || len(file.Rates) < 4 {
		t.Fatal("vectors are missing")
	}
	begin := time.Unix(1000, 0)
	for _, script := range file.Scripts {
		s := newScripted(script.PrefetchMs, script.MaxAgeMs, script.RoundTripMs)
		for i, step := range script.Steps {
			s.requests = s.requests[:0]
			for n := 0; n < max(step.Times, 1); n++ {
				us := step.AtUs + int64(n)*step.EveryUs
				s.now = begin.Add(time.Duration(us) * time.Microsecond)
				for j := 0; j < step.NextID; j++ {
					s.take(true, 1)
				}
				if step.NextIDs > 0 {
					s.take(false, step.NextIDs)
				}
			}
			if !reflect.DeepEqual(s.requests, step.Requests) || s.buffer.left != step.Buffered {
				t.Errorf("%s, step %d: requests %v, %d buffered; not %v, %d", script.Name, i, s.requests,
					s.buffer.left, step.Requests, step.Buffered)
			}
		}
	}
	for _, rate := range file.Rates {
		s := newScripted(50, 1000, rate.RoundTripMs)
		for i := 0; i < rate.PerSecond; i++ {
			s.now = begin.Add(time.Second * time.Duration(i) / time.Duration(rate.PerSecond))
			s.take(true, 1)
		}
		if s.buffer.target < rate.Least || s.buffer.target > rate.Most {
			t.Errorf("at %d a second: a target of %d, not %d to %d", rate.PerSecond, s.buffer.target,
				rate.Least, rate.Most)
		}
	}
}

func TestBuffer(t *testing.T) {
	now := time.Unix(1000, 0)
	b := buffer{maxAge: time.Second}
	b.put([]run{{first: 11, count: 1}, {first: 20, count: 1}}, now.Add(time.Second))
	b.put([]run{{first: 30, count: 2}}, now.Add(2*time.Second))
	pop := func(after time.Duration, want int64) {
		t.Helper()
		if id, _ := b.pop(now.Add(after)); id != want {
			t.Fatalf("%d, not %d", id, want)
		}
	}
	pop(999*time.Millisecond, 11)
	pop(time.Second, 30)
	if b.discarded != 1 || b.left != 1 {
		t.Fatalf("%d discarded, %d left", b.discarded, b.left)
	}
	pop(2*time.Second, 0)
}

func TestWireVectors(t *testing.T) {
	var file map[string]any
	readVectors(t, "wire.json", &file)
	vector := func(name string) []byte {
		bytes, err := hex.DecodeString(file[name].(string))
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	getID := &methods[2]
	if call := appendCall(nil, getID, 0, "foo", 1); string(call) != string(vector("call_get_id_foo_seq0")) {
		t.Errorf("%x", call)
	}
	runs, err := readReply(vector("reply_get_id_1_seq0")[4:], getID, 0)
	if err != nil || !reflect.DeepEqual(runs, []run{{first: 1, count: 1}}) {
		t.Errorf("%v, %v", runs, err)
	}
	_, err = readReply(vector("reply_unknown_method_nope_seq1")[4:], &method{name: "nope"}, 1)
	if err == nil || err.state != unknownMethod {
		t.Error(err)
	}
}

// No prefix and no change of one byte of a reply makes readReply fail in another way than by an error.
func TestDamagedReplies(t *testing.T) {
	message := appendText([]byte("\x80\x01\x00\x02"), "get_id_runs")
	message = append(message, "\x00\x00\x00\x07\x0d\x00\x09\x0b\x0f\x00\x00\x00\x01\x00\x00\x00\x00\x03"+
		"\x00\x00\x00\x01\x02\x0f\x00\x00\x0c\x00\x00\x00\x01\x0a\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05"+
		"\x08\x00\x02\x00\x00\x00\x01\x00\x00"...)
	if runs, err := readReply(message, &methods[0], 7); err != nil || sum(runs) != 1 {
		t.Fatal(runs, err)
	}
	for i := range message {
		if runs, err := readReply(message[:i], &methods[0], 7); err == nil {
			t.Errorf("%d bytes: %v", i, runs)
		}
		for _, other := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			changed := append([]byte(nil), message...)
			changed[i] = other
			for _, one := range methods {
				_, _ = readReply(changed, &one, 7)
			}
		}
	}
}

func TestTLSName(t *testing.T) {
	for text, name := range map[string]string{"tls:ids.example.": "ids.example", "tls:a.b": "a.b",
		"tls:[fe80::7%eth0.100]": "fe80::7", "tls:127.0.0.1": "127.0.0.1"} {
		one, err := newServer(text, nil)
		if err != nil || one.tls.ServerName != name {
			t.Errorf("%s: %v, %v", text, one, err)
		}
	}
}

func TestDefaultAgent(t *testing.T) {
	for path, agent := range map[string]string{"/usr/bin/my_program.test": "my-program-test", "": "go",
		"/usr/bin/7z": "z", "/": "go", "./a.exe": "a", "/ü": "go", strings.Repeat("a", 300): strings.Repeat("a", 256)} {
		if made := defaultAgent(path); made != agent || !agentPattern.MatchString(made) {
			t.Errorf("%q for %q, not %q", made, path, agent)
		}
	}
}

// The numbers of math/rand would be the same in each process, until Go 1.20.
func TestProcessesBeginWithDifferentServers(t *testing.T) {
	const names = "abcdefghijklmnopqrstuvwxyz"
	if os.Getenv("SNOWFLAKE_ORDER") != "" {
		c, err := New(strings.Split(names, ""), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range c.servers {
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

// The failures of all servers give an error the kind that says most.
func TestKindOfAnError(t *testing.T) {
	for want, kinds := range map[error][]error{
		ErrUnavailable: {ErrClock, ErrUnavailable, ErrUnreachable, ErrTimeout},
		ErrClock:       {ErrUnreachable, ErrClock, ErrTimeout},
		ErrTimeout:     {ErrUnreachable, ErrTimeout},
		ErrUnreachable: {ErrUnreachable},
	} {
		var failures []*failure
		for i, kind := range kinds {
			failures = append(failures, newFailure(kind, "a", nil))
			failures[i].retryAfter = time.Duration(i) * time.Second
		}
		if found := newError(failures); found.Kind != want || len(found.Attempts) != len(kinds) ||
			found.RetryAfter != time.Duration(math.Min(float64(len(kinds)-1), 1))*time.Second {
			t.Errorf("%v, again after %v", found, found.RetryAfter)
		}
	}
}

// Endpoints that failed come last, the one that failed last at the end.
func TestOrderOfEndpoints(t *testing.T) {
	c, err := New([]string{"unix:/a", "name", "unix:/b", "unix:/c"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range c.servers {
		switch one.text {
		case "unix:/a":
			one.endpoints[0].readyAt = time.Unix(2, 0)
		case "unix:/b":
			one.endpoints[0].readyAt = time.Unix(1, 0)
		case "unix:/c":
			one.endpoints[0].isPending = true
		}
	}
	order := ""
	for e := c.nextEndpoint(); e != nil; e = c.nextEndpoint() {
		order += e.server.text + " "
		e.isPending = true
	}
	if order != "name unix:/b unix:/a " {
		t.Error(order)
	}
}

// An attempt of a refill that has ended does not keep the next refill from the endpoint.
func TestRefillAfterAnother(t *testing.T) {
	c, err := New([]string{"unix:/a"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	e, now := c.servers[0].endpoints[0], time.Now()
	first, second := c.newRefill(now), c.newRefill(now)
	c.refill = first
	old := first.begin(e)
	first.end()
	if e.isPending {
		t.Fatal("no attempt")
	}
	c.refill = second
	second.begin(e)
	first.finish(old, nil, newFailure(ErrTimeout, "no answer", nil))
	if !e.isPending {
		t.Error("the end of the old attempt is taken for that of the new one")
	}
}
