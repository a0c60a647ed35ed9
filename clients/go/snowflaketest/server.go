// SPDX-License-Identifier: Apache-2.0

package snowflaketest

import (
	"bufio"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
)

var listening = regexp.MustCompile(` event=listening address=(\S+)`)

// StartServer starts a server that stops at the end of the test. It returns the server's address
// once it is ready, after about 20 ms. It runs snowflaked from $PATH with the given additional
// options. If they contain "--listen", the server listens only there, and the first such address
// is returned.
func StartServer(t testing.TB, options ...string) (address string) {
	t.Helper()
	given := append([]string{"--state-directory", t.TempDir(), "--worker-id", "0"}, options...)
	if !strings.Contains(" "+strings.Join(options, " "), " --listen") {
		given = append(given, "--listen", "127.0.0.1:0")
	}
	command := exec.Command("snowflaked", given...)
	log, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatalf("no server: %v", err)
	}
	lines := bufio.NewReader(log)
	late := time.AfterFunc(startLimit, func() { _ = command.Process.Kill() })
	address, said := untilReady(lines)
	late.Stop()
	read := make(chan struct{})
	go func() { // what it writes later too, so that it never waits for who does
		defer close(read)
		_, _ = io.Copy(io.Discard, lines)
	}()
	t.Cleanup(func() { stop(command, read) })
	if address == "" {
		t.Fatalf("the server did not start: %s", said)
	}
	return address
}

// untilReady returns no address if there comes none; said is what came.
func untilReady(lines *bufio.Reader) (address, said string) {
	for {
		line, err := lines.ReadString('\n')
		said += line
		if found := listening.FindStringSubmatch(line); found != nil && address == "" {
			address = found[1]
		}
		if strings.Contains(line, " event=ready ") {
			return address, said
		}
		if err != nil {
			return "", said
		}
	}
}

func stop(command *exec.Cmd, read <-chan struct{}) {
	_ = command.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopLimit, func() { _ = command.Process.Kill() })
	defer late.Stop()
	<-read
	_ = command.Wait()
}
