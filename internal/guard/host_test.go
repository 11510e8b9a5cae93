package guard_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/guard"
)

func TestHosts(t *testing.T) {
	always := []string{"localhost", "LOCALHOST:8080", "localhost.:8080", "app.localhost:3000", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]", "[::ffff:127.0.0.1]:80"}
	addresses := []string{"10.0.0.5:8080", "192.168.1.2", "[fd00::5]:8080", "0.0.0.0:8080"}
	names := []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "threadmill"}
	never := []string{"", ".", ":8080", "[::1", "a b", "evil.example:port", "localhost\x00", "localhost:8080:evil", "lоcalhost"}

	for name, c := range map[string]struct {
		hosts guard.Hosts
		local string
		yes   [][]string
		no    [][]string
	}{
		"loopback": {guard.Hosts{}, "127.0.0.1", [][]string{always}, [][]string{addresses, names, never}},
		"loopback of IPv6, authenticated": {
			guard.Hosts{Authenticated: true}, "::1", [][]string{always}, [][]string{addresses, names, never},
		},
		"loopback with names": {
			guard.Hosts{Allowed: []string{"Dev.Example", "*.Tunnel.example", "10.0.0.5"}},
			"127.0.0.1",
			[][]string{always, {"dev.example:8080", "a.tunnel.example", "a.b.tunnel.example.", "10.0.0.5:8080"}},
			[][]string{names, never, {"tunnel.example", "eviltunnel.example", "x.dev.example", "10.0.0.6"}},
		},
		"reachable":                {guard.Hosts{}, "10.0.0.5", [][]string{always, addresses}, [][]string{names, never}},
		"reachable, authenticated": {guard.Hosts{Authenticated: true}, "10.0.0.5", [][]string{always, addresses, names}, [][]string{never}},
		"reachable, authenticated, with names": {
			guard.Hosts{Authenticated: true, Allowed: []string{"threadmill"}},
			"10.0.0.5",
			[][]string{always, addresses, {"threadmill:80"}},
			[][]string{names[:5], never},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.hosts.Validate())
			check := func(host string) error {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Host = host
				local := &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8080}
				return c.hosts.Check(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local))))
			}
			for _, list := range c.yes {
				for _, host := range list {
					require.NoError(t, check(host), host)
				}
			}
			for _, list := range c.no {
				for _, host := range list {
					var refused *guard.HostError
					require.ErrorAs(t, check(host), &refused, host)
				}
			}
		})
	}
	t.Run("names of no network", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodGet, "http://anything/", nil)
		require.NoError(t, guard.Hosts{}.Check(r), "a call of the handler")
		socket := &net.UnixAddr{Name: "/run/threadmill.sock", Net: "unix"}
		require.NoError(t, guard.Hosts{}.Check(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(socket)))))
	})
	for _, name := range []string{"", "*", "a:80", "http://a", "a/b", "*.", "a.*", "a b", "[::1]"} {
		require.ErrorContains(t, guard.Hosts{Allowed: []string{name}}.Validate(), "is not a host name", name)
	}
	require.NoError(t, guard.Hosts{Allowed: []string{"a", "fd00::5", "10.0.0.5", "*.a.example"}}.Validate())
}
