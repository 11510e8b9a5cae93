// Package publicnet keeps connections to addresses that strangers name out of private networks.
package publicnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Error is the error of a connection to an address that is not public.
type Error struct {
	Address netip.Addr
	Who     string // must not use it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s is an address of a private network, which %s must not use", e.Address, e.Who)
}

// Control returns a function for [net.Dialer].ControlContext that fails for addresses that are not public. who, in the
// error, is what must not use them. It sees the address that a name was resolved to, so a name cannot change its address
// afterwards. A proxy would resolve names by itself: use none.
func Control(who string) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		if !public(ip.Unmap().WithZone("")) {
			return &Error{ip, who}
		}
		return nil
	}
}

var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers
	netip.MustParsePrefix("192.0.0.0/24"),    // protocols
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved
	netip.MustParsePrefix("64:ff9b::/96"),    // IPv4 behind NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),  // the same, local
	netip.MustParsePrefix("2002::/16"),       // IPv4 behind 6to4
	netip.MustParsePrefix("2001:0000::/32"),  // IPv4 behind Teredo
	netip.MustParsePrefix("100::/64"),        // discarded
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("fec0::/10"),       // site-local
	netip.MustParsePrefix("::/96"),           // IPv4-compatible
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
}

func public(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
