// SPDX-License-Identifier: Apache-2.0

// Command run does what the conformance suite asks of a client, asked of clients/go: a command a
// line, an answer a line, both JSON.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"conformance/generated"

	"example.com/snowflake"
)

var background = context.Background()

var kinds = []struct {
	kind error
	name string
}{
	{snowflake.ErrUnavailable, "unavailable"},
	{snowflake.ErrClock, "clock"},
	{snowflake.ErrInvalidAgent, "invalid-agent"},
	{snowflake.ErrUnreachable, "unreachable"},
	{snowflake.ErrTimeout, "timeout"},
	{snowflake.ErrClosed, "closed"},
	{snowflake.ErrInvalidArgument, "invalid-argument"},
}

type command struct {
	Do         string   `json:"do"`
	Servers    []string `json:"servers"`
	Agent      string   `json:"agent"`
	TimeoutMs  *float64 `json:"timeout_ms"`
	AttemptMs  *float64 `json:"attempt_timeout_ms"`
	PrefetchMs *float64 `json:"prefetch_ms"`
	MaxAgeMs   *float64 `json:"max_age_ms"`
	TLS        *struct {
		CA          string `json:"ca"`
		Certificate string `json:"certificate"`
		Key         string `json:"key"`
	} `json:"tls"`
	Count     int     `json:"count"`
	PauseMs   float64 `json:"pause_ms"`
	Threads   int     `json:"threads"`
	File      string  `json:"file"`
	PerSecond float64 `json:"per_second"`
	Seconds   float64 `json:"seconds"`
	Server    string  `json:"server"`
}

type answer map[string]interface{}

func duration(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}

func microseconds(took time.Duration) float64 {
	return float64(took) / float64(time.Microsecond)
}

// described adds an error to an answer.
func (a answer) described(err error, took time.Duration) answer {
	var told *snowflake.Error
	if !errors.As(err, &told) {
		panic(err)
	}
	a["error"] = told.Kind.Error()
	for _, one := range kinds {
		if errors.Is(err, one.kind) {
			a["error"] = one.name
		}
	}
	attempts := [][]string{}
	for _, attempt := range told.Attempts {
		attempts = append(attempts, []string{attempt.Server, attempt.String()})
	}
	a["message"], a["attempts"] = err.Error(), attempts
	a["took_ms"] = microseconds(took) / 1000
	if told.RetryAfter > 0 {
		a["retry_after_ms"] = told.RetryAfter.Milliseconds()
	}
	return a
}

// outcome is of so many calls, one after the other, until one fails.
func outcome(call func() ([]int64, error), count int, pause time.Duration) answer {
	ids := []string{}
	result := answer{}
	for i := 0; i < count; i++ {
		if i > 0 && pause > 0 {
			time.Sleep(pause)
		}
		began := time.Now()
		found, err := call()
		if err != nil {
			result.described(err, time.Since(began))
			break
		}
		for _, id := range found {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	result["ids"] = ids
	return result
}

type runner struct {
	client *snowflake.Client
}

func (r *runner) one() ([]int64, error) {
	id, err := r.client.NextID(background)
	return []int64{id}, err
}

func (r *runner) open(told command) (answer, error) {
	r.close()
	began := time.Now()
	options := snowflake.Options{Agent: told.Agent}
	if told.TimeoutMs != nil {
		options.Timeout = duration(*told.TimeoutMs)
	}
	if told.AttemptMs != nil {
		options.AttemptTimeout = duration(*told.AttemptMs)
	}
	if told.MaxAgeMs != nil {
		options.MaxAge = duration(*told.MaxAgeMs)
	}
	if told.PrefetchMs != nil {
		options.Prefetch = duration(*told.PrefetchMs)
		if options.Prefetch == 0 {
			options.Prefetch = snowflake.NoPrefetch
		}
	}
	if told.TLS != nil {
		options.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		authority, err := os.ReadFile(told.TLS.CA)
		if err != nil {
			return nil, err
		}
		options.TLS.RootCAs.AppendCertsFromPEM(authority)
		if told.TLS.Certificate != "" {
			own, err := tls.LoadX509KeyPair(told.TLS.Certificate, told.TLS.Key)
			if err != nil {
				return nil, err
			}
			options.TLS.Certificates = []tls.Certificate{own}
		}
	}
	client, err := snowflake.New(told.Servers, options)
	if err != nil {
		return answer{}.described(err, time.Since(began)), nil
	}
	r.client = client
	return answer{"ok": true}, nil
}

func (r *runner) close() answer {
	if r.client != nil {
		r.client.Close()
	}
	return answer{"ok": true}
}

// storm has many goroutines take so many IDs altogether; who fails takes again.
func (r *runner) storm(told command) (answer, error) {
	var lock sync.Mutex
	left, failed := told.Count, 0
	var all []int64
	claim := func() bool {
		lock.Lock()
		defer lock.Unlock()
		left--
		return left >= 0
	}
	var crowd sync.WaitGroup
	for i := 0; i < told.Threads; i++ {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			var ids []int64
			mine := 0
			for claim() {
				for {
					id, err := r.client.NextID(background)
					if err == nil {
						ids = append(ids, id)
						break
					}
					mine++
				}
			}
			lock.Lock()
			defer lock.Unlock()
			all = append(all, ids...)
			failed += mine
		}()
	}
	crowd.Wait()
	file, err := os.Create(told.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewWriter(file)
	for _, id := range all {
		fmt.Fprintln(lines, id)
	}
	return answer{"taken": len(all), "failed": failed}, lines.Flush()
}

func (r *runner) pace(told command) answer {
	count, failed, began := int(told.PerSecond*told.Seconds), 0, time.Now()
	took := make([]time.Duration, count)
	for i := range took {
		due := time.Duration(float64(i) / told.PerSecond * float64(time.Second))
		time.Sleep(due - time.Since(began))
		start := time.Now()
		if _, err := r.client.NextID(background); err != nil {
			failed++
		}
		took[i] = time.Since(start)
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	return answer{"taken": count - failed, "failed": failed,
		"p50_us": microseconds(took[count/2]), "p99_us": microseconds(took[count*99/100]),
		"longest_us": microseconds(took[count-1])}
}

func speed(call func() error, seconds float64) (answer, error) {
	done, began := 0, time.Now()
	for time.Since(began).Seconds() < seconds {
		for i := 0; i < 100; i++ {
			if err := call(); err != nil {
				return nil, err
			}
		}
		done += 100
	}
	return answer{"per_second": float64(done) / time.Since(began).Seconds()}, nil
}

// plain is what Thrift generates, and nothing else.
func (r *runner) plain(told command) (answer, error) {
	configuration := &thrift.TConfiguration{}
	socket := thrift.NewTSocketConf(told.Server, configuration)
	transport := thrift.NewTFramedTransportConf(socket, configuration)
	if err := transport.Open(); err != nil {
		return nil, err
	}
	defer transport.Close()
	client := generated.NewSnowflakeExtendedClientFactory(transport,
		thrift.NewTBinaryProtocolFactoryConf(configuration))
	return speed(func() error {
		_, err := client.GetID(background, "plain")
		return err
	}, told.Seconds)
}

func (r *runner) nextThenClose(commands *bufio.Scanner) answer {
	answers := make(chan answer)
	go func() { answers <- outcome(r.one, 1, 0) }()
	commands.Scan()
	r.close()
	return <-answers
}

func (r *runner) do(told command, commands *bufio.Scanner) (answer, error) {
	switch told.Do {
	case "hello":
		return answer{"language": "Go", "package": "snowflake " + snowflake.Version,
			"lacks": answer{"at-once": "a call retries until its deadline"}}, nil
	case "open":
		return r.open(told)
	case "next":
		return outcome(r.one, told.Count, duration(told.PauseMs)), nil
	case "next_ids":
		return outcome(func() ([]int64, error) {
			return r.client.NextIDs(background, told.Count)
		}, 1, 0), nil
	case "storm":
		return r.storm(told)
	case "pace":
		return r.pace(told), nil
	case "speed":
		return speed(func() error {
			_, err := r.client.NextID(background)
			return err
		}, told.Seconds)
	case "plain":
		return r.plain(told)
	case "next_then_close":
		return r.nextThenClose(commands), nil
	case "close":
		return r.close(), nil
	case "fork":
		return answer{"unsupported": "a Go program cannot fork"}, nil
	}
	return answer{"unsupported": "no " + told.Do}, nil
}

func main() {
	var r runner
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for commands.Scan() {
		var told command
		err := json.Unmarshal(commands.Bytes(), &told)
		var result answer
		if err == nil {
			result, err = r.do(told, commands)
		}
		if err == nil {
			err = answers.Encode(result)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", told.Do, err)
			os.Exit(1)
		}
	}
}
