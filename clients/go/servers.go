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
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort = "7609"
	maxPath     = 107 // bytes of the path of a local socket
)

var serverPattern = regexp.MustCompile(
	`^(?:\[([0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]|([^\[\]:/\s]+))(?::(\d{1,5}))?$`)

// An endpoint is one address of a server. The client's lock guards what changes.
type endpoint struct {
	server           *server
	network, address string
	conn             *connection   // idle; can be nil
	failedAt         time.Time     // zero: it has not failed since its last answer
	roundTrip        time.Duration // 0: not known
	isConnecting     bool          // an attempt with a new connection is under way
}

// A server is what the client was given. A name has the endpoints that it was last resolved to.
type server struct {
	text, host, port string
	isName           bool
	tls              *tls.Config // nil: no TLS
	endpoints        []*endpoint
	failedAt         time.Time // of the last resolution
	isResolving      bool
}

func newServer(text string, config *tls.Config) (*server, error) {
	s := &server{text: text}
	if path := strings.TrimPrefix(text, "unix:"); path != text {
		if len(path) < 2 || len(path) > maxPath || path[0] != '/' && path[0] != '@' {
			return nil, invalid(fmt.Sprintf("server %q: must be unix:/PATH or unix:@NAME, of at most %d bytes",
				text, maxPath))
		}
		s.endpoints = []*endpoint{{server: s, network: "unix", address: path}}
		return s, nil
	}
	address := strings.TrimPrefix(text, "tls:")
	found := serverPattern.FindStringSubmatch(address)
	if found == nil || found[1] != "" && !isAddress(found[1]) {
		return nil, invalid(fmt.Sprintf("server %q: must be HOST, HOST:PORT or [IPV6]:PORT, one of them "+
			"after tls:, or unix:/PATH", text))
	}
	s.host, s.port = found[1]+found[2], found[3]
	if s.port == "" {
		s.port = defaultPort
	}
	if port, _ := strconv.Atoi(s.port); port < 1 || port > 65535 {
		return nil, invalid(fmt.Sprintf("server %q: port %s is not 1 to 65535", text, s.port))
	}
	if address != text {
		if s.tls = config.Clone(); s.tls == nil {
			s.tls = &tls.Config{}
		}
		if s.tls.ServerName == "" {
			s.tls.ServerName = s.tlsName()
		}
	}
	if s.isName = !isAddress(s.host); !s.isName {
		s.setAddresses(s.host)
	}
	return s, nil
}

func isAddress(host string) bool {
	address, _, _ := strings.Cut(host, "%")
	return net.ParseIP(address) != nil
}

// tlsName returns the name for SNI and the certificate: without the final dot, which is for resolvers
// only (RFC 6066), and without the zone.
func (s *server) tlsName() string {
	name, _, _ := strings.Cut(s.host, "%")
	return strings.TrimSuffix(name, ".")
}

// setAddresses keeps endpoints that are known already.
func (s *server) setAddresses(hosts ...string) {
	known := s.endpoints
	s.endpoints = nil
	for _, host := range hosts {
		added := &endpoint{server: s, network: "tcp", address: net.JoinHostPort(host, s.port)}
		for i, one := range known {
			if one != nil && one.address == added.address {
				added, known[i] = one, nil
			}
		}
		s.endpoints = append(s.endpoints, added)
	}
	for _, one := range known {
		if one != nil {
			one.disconnect()
		}
	}
	shuffle(s.endpoints)
}

func (e *endpoint) disconnect() {
	if e.conn != nil {
		e.conn.Close()
		e.conn = nil
	}
}

// inOrder returns the endpoints: those that failed longest ago come first, and before them those that
// have not failed since their last answer.
func (s *server) inOrder() []*endpoint {
	order := append([]*endpoint(nil), s.endpoints...)
	sort.SliceStable(order, func(i, j int) bool { return order[i].failedAt.Before(order[j].failedAt) })
	return order
}

// lastFailure returns when its best endpoint failed, or its resolution.
func (s *server) lastFailure() time.Time {
	if len(s.endpoints) == 0 {
		return s.failedAt
	}
	return s.inOrder()[0].failedAt
}

// resolve ends early if ctx is cancelled.
func resolve(ctx context.Context, host string, limit time.Duration) ([]string, *failure) {
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
	var addresses []string
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
