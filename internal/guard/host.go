package guard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Hosts decides which names requests may call a listener by. A web page can point its own name at
// any address (DNS rebinding). Browsers then treat the listener as a part of that site, but still
// send the name as the Host of each request.
//
// The names localhost and *.localhost and loopback addresses are always accepted, on any port.
// Other IP addresses are accepted if the request arrives at an address that is not loopback: no
// page can rebind an address.
type Hosts struct {
	// Allowed are further names: host names or IP addresses without a port. A name that begins with
	// "*." stands for all of its subdomains.
	Allowed []string

	// Authenticated means that the listener authenticates requests. It then accepts any name at
	// addresses that are not loopback, as long as Allowed is empty.
	Authenticated bool
}

// HostError rejects a request for its Host.
type HostError struct{ Host string }

func (e *HostError) Error() string {
	return fmt.Sprintf("host %.128q is not served here: use localhost or the address of the listener, "+
		"or allow the name with --allowed-hosts, THREADMILL_ALLOWED_HOSTS or http.allowedHosts", e.Host)
}

// Check returns a [*HostError] if the request's Host is not accepted. A request that did not
// arrive over TCP is accepted.
func (h Hosts) Check(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return nil
	}
	name, ok := hostname(r.Host)
	if !ok {
		return &HostError{r.Host}
	}
	addr, err := netip.ParseAddr(name)
	isAddr := err == nil
	switch {
	case name == "localhost", strings.HasSuffix(name, ".localhost"), isAddr && addr.Unmap().IsLoopback(), h.allows(name):
		return nil
	case !local.IP.IsLoopback() && (isAddr || h.Authenticated && len(h.Allowed) == 0):
		return nil
	}
	return &HostError{r.Host}
}

func (h Hosts) allows(name string) bool {
	return slices.ContainsFunc(h.Allowed, func(allowed string) bool {
		if domain, ok := strings.CutPrefix(strings.ToLower(allowed), "*"); ok {
			return strings.HasSuffix(name, domain) && len(name) > len(domain)
		}
		return strings.EqualFold(name, allowed)
	})
}

// Validate checks the allowed names. Its error names the invalid one.
func (h Hosts) Validate() error {
	for _, name := range h.Allowed {
		if _, err := netip.ParseAddr(name); err != nil && !allowable.MatchString(name) {
			return fmt.Errorf("%q is not a host name without a port, such as threadmill.example or *.example", name)
		}
	}
	return nil
}

var allowable = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// hostname returns the lower-case name in a Host header, without port, brackets and trailing dot.
// It reports false if there is none.
func hostname(host string) (string, bool) {
	name := strings.ToLower(host)
	if h, port, err := net.SplitHostPort(name); err == nil {
		if strings.ContainsFunc(port, func(r rune) bool { return r < '0' || r > '9' }) {
			return "", false
		}
		name = h
	} else if inner, ok := strings.CutPrefix(name, "["); ok {
		if name, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", false
		}
	}
	name = strings.TrimSuffix(name, ".")
	if _, err := netip.ParseAddr(name); err != nil && strings.Contains(name, ":") {
		return "", false
	}
	return name, name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}
