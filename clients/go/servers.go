// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort = "7609"
	maxPath     = 107 // bytes of the path of a local socket

	shortestBackoff = 10 * time.Millisecond
	longestBackoff  = 250 * time.Millisecond
)

var serverPattern = regexp.MustCompile(
	`^(?:\[([0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]|([^\[\]:/\s]+))(?::(\d{1,5}))?$`)

// An endpoint is an address of a server, or its name, which is resolved to such endpoints. The client's
// lock guards what changes.
type endpoint struct {
	server           *server
	network, address string        // no network: a name
	conn             *connection   // idle; can be nil
	backoff          time.Duration // doubles with each failure
	readyAt          time.Time     // when it can be tried; zero: it has not failed since its last answer
	roundTrip        time.Duration // 0: not known
	isPending        bool          // an attempt is under way, not on an older connection
}

func (e *endpoint) isName() bool { return e.network == "" }

func (e *endpoint) disconnect() {
	if e.conn != nil {
		e.conn.Close()
		e.conn = nil
	}
}

// A server is what the client was given.
type server struct {
	text, port string
	tls        *tls.Config // nil: no TLS
	name       *endpoint   // nil: the server was given by its address
	endpoints  []*endpoint // of a name, those that it was last resolved to
}

func newServer(text string, config *tls.Config) (*server, error) {
	s := &server{text: text}
	if path := strings.TrimPrefix(text, "unix:"); path != text {
		if len(path) < 2 || len(path) > maxPath || path[0] != '/' && path[0] != '@' {
			return nil, invalid("server %q: must be unix:/PATH or unix:@NAME, at most %d bytes", text, maxPath)
		}
		s.endpoints = []*endpoint{{server: s, network: "unix", address: path}}
		return s, nil
	}
	address := strings.TrimPrefix(text, "tls:")
	found := serverPattern.FindStringSubmatch(address)
	if found == nil || found[1] != "" && !isAddress(found[1]) {
		return nil, invalid("server %q: must be HOST, HOST:PORT or [IPV6]:PORT, one of them after tls:, "+
			"or unix:/PATH", text)
	}
	host := found[1] + found[2]
	if s.port = found[3]; s.port == "" {
		s.port = defaultPort
	}
	if port, _ := strconv.Atoi(s.port); port < 1 || port > 65535 {
		return nil, invalid("server %q: port %s is not 1 to 65535", text, s.port)
	}
	if address != text {
		if s.tls = config.Clone(); s.tls == nil {
			s.tls = &tls.Config{}
		}
		if s.tls.ServerName == "" { // without the zone, and the final dot, which is for resolvers (RFC 6066)
			name, _, _ := strings.Cut(host, "%")
			s.tls.ServerName = strings.TrimSuffix(name, ".")
		}
	}
	if isAddress(host) {
		s.setAddresses([]string{host})
	} else {
		s.name = &endpoint{server: s, address: host}
	}
	return s, nil
}

func isAddress(host string) bool {
	address, _, _ := strings.Cut(host, "%")
	return net.ParseIP(address) != nil
}

// setAddresses keeps endpoints that are known already.
func (s *server) setAddresses(hosts []string) {
	known := map[string]*endpoint{}
	for _, one := range s.endpoints {
		known[one.address] = one
	}
	s.endpoints = nil
	for _, host := range hosts {
		address := net.JoinHostPort(host, s.port)
		one := known[address]
		if one == nil {
			one = &endpoint{server: s, network: "tcp", address: address}
		}
		delete(known, address)
		s.endpoints = append(s.endpoints, one)
	}
	for _, one := range known {
		one.disconnect()
	}
	shuffle(s.endpoints)
}

// candidates returns the name, which is resolved before each new connection, and the addresses.
func (s *server) candidates() []*endpoint {
	if s.name == nil {
		return s.endpoints
	}
	return append([]*endpoint{s.name}, s.endpoints...)
}

// postpone begins a backoff.
func (e *endpoint) postpone(now time.Time) {
	e.backoff = min(max(2*e.backoff, shortestBackoff), longestBackoff)
	e.readyAt = now.Add(e.backoff*3/4 + time.Duration(random(int(e.backoff/2))))
}

// endBackoff is for an endpoint that has answered, and its name.
func (s *server) endBackoff(e *endpoint) {
	for _, one := range []*endpoint{e, s.name} {
		if one != nil {
			one.backoff, one.readyAt = 0, time.Time{}
		}
	}
}

// resolve ends early if ctx is cancelled.
func resolve(ctx context.Context, host string, limit time.Duration) (addresses []string, failed *failure) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	var lookup *net.DNSError
	switch {
	case ctx.Err() != nil:
		return nil, newFailure(ErrTimeout, fmt.Sprintf("name not resolved within %v", limit), err)
	case errors.As(err, &lookup):
		return nil, newFailure(ErrUnreachable, "cannot resolve the name: "+lookup.Err, err)
	case err != nil:
		return nil, newFailure(ErrUnreachable, "cannot resolve the name: "+err.Error(), err)
	}
	for _, one := range found {
		addresses = append(addresses, one.String())
	}
	return addresses, nil
}

// random returns 0 to below - 1. Go seeds math/rand only from 1.20 on.
func random(below int) int {
	var bytes [4]byte
	_, _ = rand.Read(bytes[:])
	return int(binary.BigEndian.Uint32(bytes[:]) % uint32(below))
}

func shuffle[T any](list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := random(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
