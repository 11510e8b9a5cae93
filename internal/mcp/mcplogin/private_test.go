package mcplogin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool/mcp"
)

// hub is a hostile server at a public address, which a namespace has declared. It names private addresses.
type hub struct {
	server mcp.Server
	client *http.Client // as the manager makes it

	// resource, authority, register and token are the addresses that it names.
	resource, authority, register, token string
}

const hubURL = "https://hub.example"

// Servers implements [mcp.Source].
func (h *hub) Servers(context.Context, string) ([]mcp.Server, error) {
	return []mcp.Server{h.server}, nil
}

// Find implements [mcplogin.Servers].
func (h *hub) Find(context.Context, string, string) (mcp.Server, *http.Client, error) {
	return h.server, &http.Client{Transport: h}, nil
}

// RoundTrip implements [http.RoundTripper]: the client itself makes the requests to all other hosts.
func (h *hub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != "hub.example" {
		return h.client.Transport.RoundTrip(req)
	}
	rec := httptest.NewRecorder()
	reply := func(status int, v any) {
		rec.Header().Set("Content-Type", "application/json")
		rec.WriteHeader(status)
		_ = json.NewEncoder(rec).Encode(v) // never fails
	}
	switch req.URL.Path {
	case "/mcp":
		rec.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", h.resource))
		reply(http.StatusUnauthorized, nil)
	case "/resource":
		reply(http.StatusOK, map[string]any{"resource": hubURL + "/mcp", "authorization_servers": []string{h.authority}})
	case "/.well-known/oauth-authorization-server":
		reply(http.StatusOK, map[string]any{
			"issuer": hubURL, "authorization_endpoint": hubURL + "/authorize", "token_endpoint": h.token, "registration_endpoint": h.register,
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		})
	case "/register":
		reply(http.StatusCreated, map[string]any{"client_id": "c1", "token_endpoint_auth_method": "none"})
	default:
		reply(http.StatusNotFound, nil)
	}
	return rec.Result(), nil
}

// TestPrivateAddresses: a declared server cannot make the API call addresses that are not public.
func TestPrivateAddresses(t *testing.T) {
	var called atomic.Int64
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(inner.Close)
	for name, names := range map[string]func(*hub){
		"the metadata":             func(h *hub) { h.resource = inner.URL },
		"the authorization server": func(h *hub) { h.authority = inner.URL },
		"the registration":         func(h *hub) { h.register = inner.URL },
		"the tokens":               func(h *hub) { h.token = inner.URL },
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{
				server:   mcp.Server{Name: "hub", URL: hubURL + "/mcp", Login: &mcp.Login{}},
				resource: hubURL + "/resource", authority: hubURL, register: hubURL + "/register", token: hubURL + "/token",
			}
			names(h)
			db, err := sqlite.Open(t.Context(), sqlite.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			public := httptest.NewUnstartedServer(nil)
			logins, err := mcplogin.New(mcplogin.Config{Documents: db, Keys: newKeys(t, "a"), PublicURL: "http://" + public.Listener.Addr().String()})
			require.NoError(t, err)
			m, err := mcp.New(mcp.Config{Source: h, Logins: logins})
			require.NoError(t, err)
			_, h.client, err = m.Find(t.Context(), space, "hub")
			require.NoError(t, err)
			public.Config.Handler = logins.Pages(h, func(context.Context, toolserver.LoggedIn) { t.Error("nobody logs in") })
			public.Start()
			t.Cleanup(public.Close)

			link, _, err := logins.Link(space, "hub", "", "alice")
			require.NoError(t, err)
			var b oauthtest.Browser
			page, err := b.VisitUntil(t.Context(), link, hubURL)
			require.NoError(t, err)
			if page.Status == 0 { // all that is left is the code
				q := page.URL.Query()
				page, err = b.Visit(t.Context(), public.URL+mcplogin.PathCallback+"?code=c&state="+q.Get("state"))
				require.NoError(t, err)
			}
			require.Equal(t, http.StatusBadRequest, page.Status, page.Text)
			require.Contains(t, page.Text, "private network")
			require.Zero(t, called.Load())
		})
	}
}
