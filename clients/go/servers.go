// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultServer is asked when New is given none.
const DefaultServer = "127.0.0.1:7609"

const (
	defaultPort = "7609"
	firstRest   = 100 * time.Millisecond
	longestRest = 10 * time.Second
	maxPath     = 107 // bytes of a local socket's
)

var serverPattern = regexp.MustCompile(
	`^(?:\[([0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]|([^\[\]:/\s]+))(?::(\d{1,5}))?$`)

// A rest is the pause after a failure, twice as long each time; an answer ends it.
type rest struct {
	pause time.Duration
	until time.Time
}

func (r *rest) begin() {
	r.pause *= 2
	if r.pause < firstRest {
		r.pause = firstRest
	}
	r.pause = shorter(r.pause, longestRest)
	spread := int(r.pause / 2 / time.Microsecond)
	r.until = time.Now().Add(r.pause*3/4 + time.Duration(random(spread))*time.Microsecond)
}

// A place is an address of a server, and what was learnt of it.
type place struct {
	network, address string
	rest             rest
	method           int // of methods
	limit            int // IDs that it gives at once
}

func newPlace(network, address string) *place {
	return &place{network: network, address: address, limit: maxBatch}
}

// A server is what was given: it stands for one place, or, a name, for those that it is looked up
// as.
type server struct {
	text       string
	host, port string
	isName     bool
	isTLS      bool
	places     []*place // of a name: as it was looked up last
	lookupRest rest
}

func newServer(text string) (*server, error) {
	s := &server{text: text}
	if path := strings.TrimPrefix(text, "unix:"); path != text {
		if len(path) < 2 || len(path) > maxPath || path[0] != '/' && path[0] != '@' {
			return nil, invalid(fmt.Sprintf(
				"server %q: not unix:/PATH or unix:@NAME, %d bytes at most", text, maxPath))
		}
		s.places = []*place{newPlace("unix", path)}
		return s, nil
	}
	address := strings.TrimPrefix(text, "tls:")
	s.isTLS = address != text
	found := serverPattern.FindStringSubmatch(address)
	if found == nil || found[1] != "" && !isAddress(found[1]) {
		return nil, invalid(fmt.Sprintf("server %q: not HOST, HOST:PORT, [IPV6]:PORT, one of these "+
			"after tls:, or unix:/PATH", text))
	}
	s.host, s.port = found[1]+found[2], found[3]
	if s.port == "" {
		s.port = defaultPort
	}
	if port, _ := strconv.Atoi(s.port); port < 1 || port > 65535 {
		return nil, invalid(fmt.Sprintf("server %q: port %s is not 1 to 65535", text, s.port))
	}
	s.isName = !isAddress(s.host)
	if !s.isName {
		s.places = []*place{newPlace("tcp", net.JoinHostPort(s.host, s.port))}
	}
	return s, nil
}

func isAddress(host string) bool {
	address, _, _ := strings.Cut(host, "%")
	return net.ParseIP(address) != nil
}

// tlsName is the name for SNI and for checking the certificate: without the trailing dot, which only
// the resolver needs (RFC 6066), and without the zone.
func (s *server) tlsName() string {
	name, _, _ := strings.Cut(s.host, "%")
	return strings.TrimSuffix(name, ".")
}

// restsUntil is zero if there is a place that does not rest.
func (s *server) restsUntil(now time.Time) time.Time {
	end := s.lookupRest.until
	for i, one := range s.places {
		if i == 0 || one.rest.until.Before(end) {
			end = one.rest.until
		}
	}
	if end.After(now) {
		return end
	}
	return time.Time{}
}

// placesAfter are where to ask on a new connection, in this order. why: the failure of the connection
// that there was, to linked. If that had ended, as with a server that started again, its place comes
// first; if no answer came, as from an address that is no more, last.
func (s *server) placesAfter(linked *place, why *failure) []*place {
	var first, places, last []*place
	for _, one := range s.places {
		switch {
		case one != linked:
			places = append(places, one)
		case why.isStale:
			first = []*place{one}
		case s.isName && why.kind == ErrTimeout:
			last = []*place{one}
		}
	}
	sort.SliceStable(places, func(i, j int) bool {
		return places[i].rest.until.Before(places[j].rest.until)
	})
	return append(append(first, places...), last...)
}

// lookUp leaves the places that are known from before if it fails, and as long as look-ups rest.
func (s *server) lookUp(ctx context.Context) *failure {
	began := time.Now()
	if len(s.places) > 0 && began.Before(s.lookupRest.until) {
		return nil
	}
	ctx, cancel := share(ctx, len(s.places) == 0)
	defer cancel()
	found, err := net.DefaultResolver.LookupIPAddr(ctx, s.host)
	if err != nil {
		if ctx.Err() != nil {
			took := time.Since(began).Milliseconds()
			return failed(ErrTimeout, fmt.Sprintf("its name is not looked up within %d ms", took), "")
		}
		reason := err.Error()
		var lookup *net.DNSError
		if errors.As(err, &lookup) {
			reason = lookup.Err
		}
		return failed(ErrUnreachable, "its name is not known: "+reason, "")
	}
	s.lookupRest = rest{}
	known := map[string]*place{}
	for _, one := range s.places {
		known[one.address] = one
	}
	s.places = nil
	for _, one := range found {
		address := net.JoinHostPort(one.String(), s.port)
		if known[address] == nil {
			known[address] = newPlace("tcp", address)
		}
		s.places = append(s.places, known[address])
	}
	shuffle(s.places)
	return nil
}

// servers are those of a client. Used by one goroutine at a time, who has the turn; overdue by any.
type servers struct {
	all     []*server
	agent   string
	tls     *tls.Config
	timeout time.Duration // of a call
	connect func(context.Context, *place, *tls.Config) (*connection, *failure)
	current int // who answered last

	connection *connection // that there is, and to what
	server     *server
	place      *place
	areSilent  bool      // the last fetch had no answer in time
	askedAt    time.Time // when the last fetch sent its last call
	isHurried  bool      // the fetch under way; that a server does not answer it says nothing of that

	lock     sync.Mutex
	asking   *server
	failures failures // of the fetch that is, or was last
}

func newServers(texts []string, agent string, config *tls.Config) (*servers, error) {
	if config == nil {
		config = &tls.Config{}
	}
	s := &servers{agent: agent, tls: config, connect: connect}
	seen := map[string]bool{}
	for _, text := range texts {
		if seen[text] {
			continue
		}
		seen[text] = true
		one, err := newServer(text)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, one)
	}
	// those of a server that dies do not all turn to the same one
	shuffle(s.all)
	return s, nil
}

// fetch gets IDs, at least one and count at most. Each server is asked once at most: the one that
// answered last and those after it, then those that rest, which rest longest first. ctx has a
// deadline.
func (s *servers) fetch(ctx context.Context, count int) ([]run, error) {
	if ctx.Err() != nil { // while it waited for the turn
		return nil, s.overdue(ctx)
	}
	deadline, _ := ctx.Deadline()
	s.isHurried = time.Until(deadline) < s.timeout/2
	order := s.order()
	s.lock.Lock()
	s.failures = nil
	s.lock.Unlock()
	defer s.setAsking(nil)
	for i, one := range order {
		s.setAsking(one)
		found, why := s.ask(ctx, one, count, i == len(order)-1)
		if found != nil {
			s.areSilent = false
			return found, nil
		}
		if why != nil && why.kind == ErrInvalidAgent { // it is as wrong elsewhere
			return nil, s.failures.as(ErrInvalidAgent)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() == context.Canceled {
		return nil, s.failures.as(context.Canceled)
	}
	if len(s.failures) == 0 {
		s.note(order[0], failed(ErrTimeout, "no time was left to ask it", ""))
	}
	// the dialer may be a little ahead of ctx
	err := s.failures.asError(!time.Now().Before(deadline))
	s.areSilent = errors.Is(err, ErrTimeout)
	return nil, err
}

// isForOthers is whether who has the turn, and waited for it since began, is to let those who wait go
// first, once. While no server answers, the time that is left may not do, for this one nor for those
// who came next; and then a server that is far away would never be found to be back.
func (s *servers) isForOthers(ctx context.Context, began time.Time) bool {
	deadline, _ := ctx.Deadline()
	return s.areSilent && time.Since(began) > time.Until(deadline)
}

func (s *servers) order() []*server {
	now := time.Now()
	order := append(append([]*server(nil), s.all[s.current:]...), s.all[:s.current]...)
	until := make(map[*server]time.Time, len(order))
	for _, one := range order {
		until[one] = one.restsUntil(now)
	}
	sort.SliceStable(order, func(i, j int) bool {
		return until[order[i]].Before(until[order[j]])
	})
	return order
}

// ask returns nil if the server failed, and how it did last. The server may take half of the time that
// is left, the last one all of it; and so may each of its places of that.
func (s *servers) ask(ctx context.Context, one *server, count int, isLast bool) ([]run, *failure) {
	ctx, cancel := share(ctx, isLast)
	defer cancel()
	linked := s.linked(one)
	var why *failure
	if linked != nil {
		isOnly := len(one.places) == 1 && !one.isName // a name may have moved
		var found []run
		found, why = s.askPlace(ctx, one, linked, count, isOnly)
		if found != nil || why.kind == ErrInvalidAgent {
			return found, why
		}
	}
	if one.isName && ctx.Err() == nil {
		if why := one.lookUp(ctx); why != nil {
			if s.blames(ctx, why) {
				one.lookupRest.begin()
			}
			s.note(one, why)
		}
	}
	places := one.placesAfter(linked, why)
	for i, to := range places {
		if ctx.Err() != nil {
			break
		}
		var found []run
		found, why = s.askPlace(ctx, one, to, count, i == len(places)-1)
		if found != nil || why.kind == ErrInvalidAgent {
			return found, why
		}
	}
	return nil, why
}

// linked is the place of the server that there is a connection to, or nil.
func (s *servers) linked(one *server) *place {
	if s.connection == nil || s.server != one || s.connection.isClosed {
		return nil
	}
	return s.place
}

func (s *servers) askPlace(ctx context.Context, one *server, to *place, count int,
	isLast bool) ([]run, *failure) {
	within, cancel := share(ctx, isLast)
	defer cancel()
	found, why := s.call(within, one, to, count)
	if why == nil {
		to.rest = rest{}
		for i := range s.all {
			if s.all[i] == one {
				s.current = i
			}
		}
		return found, nil
	}
	if why.isStale { // that says nothing of the place
		return nil, why
	}
	if one.isName {
		why.reason = strings.TrimSuffix(to.address, ":"+one.port) + ": " + why.reason
	}
	if s.blames(ctx, why) {
		to.rest.begin()
	}
	s.note(one, why)
	return nil, why
}

// blames is false if the failure is not the server's: the caller had called it off or had little
// time, or the agent is wrong.
func (s *servers) blames(ctx context.Context, why *failure) bool {
	return ctx.Err() != context.Canceled && why.kind != ErrInvalidAgent &&
		!(why.kind == ErrTimeout && s.isHurried)
}

func (s *servers) call(ctx context.Context, one *server, to *place, count int) ([]run, *failure) {
	if s.connection == nil || s.connection.isClosed || s.place != to {
		s.disconnect()
		made, why := s.connect(ctx, to, s.configOf(one))
		if why != nil {
			return nil, why
		}
		s.connection, s.server, s.place = made, one, to
	}
	s.askedAt = time.Now()
	return s.connection.fetch(ctx, s.agent, count, to)
}

// configOf is nil for a server without TLS.
func (s *servers) configOf(one *server) *tls.Config {
	if !one.isTLS {
		return nil
	}
	config := s.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = one.tlsName()
	}
	return config
}

func (s *servers) disconnect() {
	if s.connection != nil {
		s.connection.close()
		s.connection = nil
	}
}

func (s *servers) setAsking(one *server) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asking = one
}

func (s *servers) note(one *server, why *failure) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.failures = append(s.failures, struct {
		server *server
		*failure
	}{one, why})
}

// overdue is for a call that ended before its turn.
func (s *servers) overdue(ctx context.Context) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	met := append(failures(nil), s.failures...)
	if s.asking != nil {
		met = append(met, struct {
			server *server
			*failure
		}{s.asking, failed(ErrTimeout, "no answer yet", "")})
	}
	if ctx.Err() == context.Canceled {
		return met.as(context.Canceled)
	}
	return met.as(ErrTimeout)
}

// share is how long it may take: half of the time that is left, unless it is the last.
func share(ctx context.Context, isLast bool) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	if isLast {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}
