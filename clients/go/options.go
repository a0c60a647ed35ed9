// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultServer is used if no servers are given to New or in the environment.
	DefaultServer = "127.0.0.1:7609"
	// NoPrefetch makes each call request its IDs from a server: Options{Prefetch: NoPrefetch}.
	NoPrefetch time.Duration = -1

	longest = time.Hour // of any option
)

var agentPattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z\-0-9]{0,255}$`)

// Options of a client. A field that is zero has its default value.
type Options struct {
	// Agent is the name under which servers count this program's IDs: a letter, then letters,
	// digits and "-", at most 256 characters. Default: the name of the executable file.
	Agent string
	// Timeout is the time limit of each call, across all servers and including DNS lookups. An
	// earlier deadline of the call's context takes precedence. Default: 3 s.
	Timeout time.Duration
	// AttemptTimeout is how long the client waits for a server before it also tries the next
	// one. Default: 8 round trips plus 50 ms, at most 250 ms, and 250 ms before the first
	// answer.
	AttemptTimeout time.Duration
	// Prefetch is how long the prefetched IDs should last at the current rate. Default: 50 ms.
	// NoPrefetch disables prefetching.
	Prefetch time.Duration
	// MaxAge is the age, measured from their request, at which prefetched IDs are discarded;
	// at least twice Prefetch. Default: 1 s.
	MaxAge time.Duration
	// TLS is the configuration for servers with "tls:". Default: the system trust store.
	TLS *tls.Config
	// OnFailure is called after each attempt that fails or is slow, before the next endpoint
	// is tried. It must return quickly and must not close the client.
	OnFailure func(Attempt)
}

// complete sets defaults. It returns the servers one by one, and takes options from URLs.
func (o *Options) complete(servers []string) (all []string, err error) {
	if len(servers) == 0 {
		servers = []string{os.Getenv("SNOWFLAKE_SERVERS")}
		if servers[0] == "" {
			servers[0] = DefaultServer
		}
	}
	for _, text := range servers {
		if text, err = o.readURL(text); err != nil {
			return nil, err
		}
		for _, one := range strings.Split(text, ",") {
			all = append(all, strings.TrimSpace(one))
		}
	}
	setDefault(&o.Agent, defaultAgent(os.Args[0]))
	setDefault(&o.Timeout, 3*time.Second)
	setDefault(&o.Prefetch, 50*time.Millisecond)
	setDefault(&o.MaxAge, time.Second)
	switch {
	case !agentPattern.MatchString(o.Agent):
		return nil, &Error{Kind: ErrInvalidAgent, Detail: fmt.Sprintf("%.40q: must be a letter, and then "+
			`letters, digits and "-", at most 256 in all`, o.Agent)}
	case o.Timeout < time.Millisecond || o.Timeout > longest:
		return nil, invalid("Timeout %v: must be 1ms to %v", o.Timeout, longest)
	case o.AttemptTimeout != 0 && o.AttemptTimeout < time.Millisecond || o.AttemptTimeout > longest:
		return nil, invalid("AttemptTimeout %v: must be 1ms to %v", o.AttemptTimeout, longest)
	case o.Prefetch < 0 && o.Prefetch != NoPrefetch || o.Prefetch > longest:
		return nil, invalid("Prefetch %v: must be above 0, to %v, or NoPrefetch", o.Prefetch,
			longest)
	case o.MaxAge < time.Millisecond || o.MaxAge < 2*o.Prefetch || o.MaxAge > longest:
		return nil, invalid("MaxAge %v: must be 1ms to %v, and at least twice Prefetch (%v)",
			o.MaxAge, longest, o.Prefetch)
	}
	return all, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// readURL reads snowflake://SERVER,...?agent=NAME&timeout_ms=N and so on; snowflakes:// is for TLS.
// It returns the servers, and any other text as it is. Options that are set already stay.
func (o *Options) readURL(text string) (string, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "snowflake" && scheme != "snowflakes" {
		return text, nil
	}
	servers, query, _ := strings.Cut(rest, "?")
	servers = strings.TrimSuffix(servers, "/")
	if scheme == "snowflakes" {
		servers = "tls:" + strings.ReplaceAll(servers, ",", ",tls:")
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return "", invalid("%q: %v", text, err)
	}
	durations := map[string]*time.Duration{"timeout_ms": &o.Timeout, "prefetch_ms": &o.Prefetch,
		"attempt_timeout_ms": &o.AttemptTimeout, "max_age_ms": &o.MaxAge}
	for name, values := range settings {
		ms, err := strconv.ParseInt(values[0], 10, 32)
		switch field := durations[name]; {
		case name == "agent":
			setDefault(&o.Agent, values[0])
		case field == nil || err != nil || ms < 0 || ms == 0 && name != "prefetch_ms":
			return "", invalid("%q: %s=%s is not an option of a client", text, name, values[0])
		case ms == 0:
			setDefault(field, NoPrefetch)
		default:
			setDefault(field, time.Duration(ms)*time.Millisecond)
		}
	}
	return servers, nil
}

// defaultAgent makes an agent from the path of a program.
func defaultAgent(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	name = regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(name, "-")
	if name = strings.Trim(name, "-0123456789"); name == "" {
		return "go"
	}
	return name[:min(len(name), 256)]
}
