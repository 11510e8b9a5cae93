package oauthtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
)

const callback = "http://127.0.0.1:1/callback" // nobody listens

// handlerOf returns a client's side of the login: the SDK's, with a browser. It registers itself.
func handlerOf(t *testing.T, change func(*auth.AuthorizationCodeHandlerConfig)) *auth.AuthorizationCodeHandler {
	t.Helper()
	config := &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "test", RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code", "refresh_token"},
			TokenEndpointAuthMethod: oauthtest.MethodNone,
		}},
		RedirectURL: callback,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			page, err := new(oauthtest.Browser).VisitUntil(ctx, args.URL, callback)
			if err != nil {
				return nil, err
			}
			q := page.URL.Query()
			if q.Get("code") == "" {
				return nil, fmt.Errorf("no code: %s %s", q.Get("error"), page.Text)
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	}
	if change != nil {
		change(config)
	}
	h, err := auth.NewAuthorizationCodeHandler(config)
	require.NoError(t, err)
	return h
}

func connect(t *testing.T, s *oauthtest.Server, h auth.OAuthHandler) (*mcp.ClientSession, error) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL, OAuthHandler: h, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func call(t *testing.T, session *mcp.ClientSession, name string, args any) (string, error) {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	return res.Content[0].(*mcp.TextContent).Text, nil
}

// TestCorrectClient: the SDK's client logs in whatever the variant, and breaks no rule.
func TestCorrectClient(t *testing.T) {
	variants := map[string]func(*oauthtest.Config){
		"default":              func(*oauthtest.Config) {},
		"metadata at the path": func(c *oauthtest.Config) { c.ResourceMetadata = oauthtest.AtPath },
		"metadata at the root": func(c *oauthtest.Config) { c.ResourceMetadata = oauthtest.AtRoot },
		"issuer with a path":   func(c *oauthtest.Config) { c.IssuerPath = "/tenant" },
		"OpenID":               func(c *oauthtest.Config) { c.OpenID = true },
		"OpenID with a path":   func(c *oauthtest.Config) { c.OpenID, c.IssuerPath = true, "/tenant" },
		"no iss":               func(c *oauthtest.Config) { c.NoIss = true },
		"interactive":          func(c *oauthtest.Config) { c.Interactive = true },
		"registered before":    func(c *oauthtest.Config) { c.NoRegistration = true },
		"secret in the header": func(c *oauthtest.Config) { c.NoRegistration, c.AuthMethods = true, []string{oauthtest.MethodBasic} },
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t)
			s.Configure(change)
			var registered bool
			s.Configure(func(c *oauthtest.Config) { registered = c.NoRegistration })
			h := handlerOf(t, func(c *auth.AuthorizationCodeHandlerConfig) {
				if registered {
					id, secret := s.Register("", callback)
					c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: secret}}
				}
			})
			session, err := connect(t, s, h)
			require.NoError(t, err)
			text, err := call(t, session, oauthtest.ToolWhoami, nil)
			require.NoError(t, err)
			require.Equal(t, "You are alice.", text)
			require.Empty(t, s.Violations())
			require.Equal(t, 1, s.Counts().Authorizations)
		})
	}
}

// TestDocument: a client is described by its metadata document, which must be right. (The SDK's client first tries to
// authenticate with a header, which is a violation.)
func TestDocument(t *testing.T) {
	s := oauthtest.New(t)
	var doc string
	documents := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, doc)
	}))
	t.Cleanup(documents.Close)
	id := documents.URL + "/client.json"
	s.Configure(func(c *oauthtest.Config) { c.Documents = documents.Client() })
	const form = `{"client_id": %q, "client_name": "test", "redirect_uris": [%q], "token_endpoint_auth_method": %q}`
	l := newLogin(s)
	l.id = id
	for _, doc = range []string{
		"", fmt.Sprintf(form, id+"x", callback, "none"), fmt.Sprintf(form, id, callback+"/x", "none"), fmt.Sprintf(form, id, callback, "client_secret_post"),
	} {
		before := len(s.Violations())
		require.Equal(t, http.StatusBadRequest, l.authorize(t, func(url.Values) {}).Status)
		require.Len(t, s.Violations(), before+1, doc)
	}
	before := len(s.Violations())
	doc = fmt.Sprintf(form, id, callback, "none")
	_, tokens := l.exchange(t, func(url.Values) {})
	require.NotEmpty(t, tokens["access_token"])
	require.Len(t, s.Violations(), before)
}

// TestSteps: a client adds a scope when a tool needs it. What is revoked or expired, or denied, is rejected, and is
// no violation.
func TestSteps(t *testing.T) {
	s := oauthtest.New(t)
	session, err := connect(t, s, handlerOf(t, nil))
	require.NoError(t, err)
	text, err := call(t, session, oauthtest.ToolAddNote, oauthtest.Note{Text: "hello"})
	require.NoError(t, err)
	require.Equal(t, "Stored for alice.", text)
	require.Equal(t, []string{"hello"}, s.Notes("alice"))
	_, err = call(t, session, oauthtest.ToolWhoami, nil)
	require.NoError(t, err, "the first scope is kept")
	require.Equal(t, 2, s.Counts().Authorizations)

	for name, end := range map[string]func(){"expired": s.Expire, "revoked": func() { s.Revoke("alice") }} {
		before := s.Counts().Authorizations
		end()
		_, err = call(t, session, oauthtest.ToolWhoami, nil)
		require.NoError(t, err, name)
		require.Equal(t, before+1, s.Counts().Authorizations, name)
	}
	s.Deny()
	s.Expire()
	_, err = call(t, session, oauthtest.ToolWhoami, nil)
	require.ErrorContains(t, err, "access_denied")
	require.Empty(t, s.Violations())
	require.Equal(t, 1, s.Counts().Denials)
}

// login is a login by hand, whose requests can be changed.
type login struct {
	s        *oauthtest.Server
	id       string
	verifier string
}

func newLogin(s *oauthtest.Server) *login {
	id, _ := s.Register(oauthtest.MethodNone, callback)
	return &login{s, id, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"} // of RFC 7636
}

// authorize returns where the browser ends.
func (l *login) authorize(t *testing.T, change func(url.Values)) oauthtest.Page {
	t.Helper()
	q := url.Values{
		"response_type": {"code"}, "client_id": {l.id}, "redirect_uri": {callback}, "state": {"s1"}, "resource": {l.s.Resource()},
		"scope": {"read"}, "code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	change(q)
	page, err := new(oauthtest.Browser).VisitUntil(t.Context(), l.s.Issuer()+"/authorize?"+q.Encode(), callback)
	require.NoError(t, err)
	return page
}

func (l *login) code(t *testing.T) string {
	t.Helper()
	q := l.authorize(t, func(url.Values) {}).URL.Query()
	require.Equal(t, "s1", q.Get("state"))
	require.Equal(t, l.s.Issuer(), q.Get("iss"))
	return q.Get("code")
}

// post sends a form to the authorization server.
func (l *login) post(t *testing.T, path string, form url.Values) (int, map[string]string) {
	t.Helper()
	res, err := http.PostForm(l.s.Issuer()+path, form)
	require.NoError(t, err)
	defer res.Body.Close()
	var raw map[string]any
	_ = json.NewDecoder(res.Body).Decode(&raw) // not every answer is JSON
	out := map[string]string{}
	for name, value := range raw {
		out[name] = fmt.Sprint(value)
	}
	return res.StatusCode, out
}

func (l *login) exchange(t *testing.T, change func(url.Values)) (int, map[string]string) {
	t.Helper()
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {l.code(t)}, "redirect_uri": {callback}, "client_id": {l.id},
		"code_verifier": {l.verifier}, "resource": {l.s.Resource()},
	}
	change(form)
	return l.post(t, "/token", form)
}

func (l *login) refresh(t *testing.T, token string) (int, map[string]string) {
	t.Helper()
	return l.post(t, "/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {l.id}, "resource": {l.s.Resource()}})
}

func set(name string, values ...string) func(url.Values) {
	return func(q url.Values) { q[name] = values }
}

// TestWrongAuthorizations: authorization requests that break a rule are rejected and recorded.
func TestWrongAuthorizations(t *testing.T) {
	s := oauthtest.New(t)
	for name, tt := range map[string]struct {
		change func(url.Values)
		want   string // the error that the client gets; "": the person sees it
	}{
		"no PKCE":            {set("code_challenge"), "invalid_request"},
		"plain":              {set("code_challenge_method", "plain"), "invalid_request"},
		"a short challenge":  {set("code_challenge", "abc"), "invalid_request"},
		"no resource":        {set("resource"), "invalid_target"},
		"another resource":   {set("resource", "https://other.example/mcp"), "invalid_target"},
		"two resources":      {set("resource", s.Resource(), s.Resource()), "invalid_request"},
		"no state":           {set("state"), "invalid_request"},
		"an unknown scope":   {set("scope", "admin"), "invalid_scope"},
		"implicit":           {set("response_type", "token"), "unsupported_response_type"},
		"an unknown client":  {set("client_id", "other"), ""},
		"a longer redirect":  {set("redirect_uri", callback+"/x"), ""},
		"a shorter redirect": {set("redirect_uri", strings.TrimSuffix(callback, "k")), ""},
		"no redirect":        {set("redirect_uri"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(s.Violations())
			page := newLogin(s).authorize(t, tt.change)
			require.Len(t, s.Violations(), before+1)
			require.Equal(t, tt.want, page.URL.Query().Get("error"))
			if tt.want == "" {
				require.Equal(t, http.StatusBadRequest, page.Status)
			}
			require.Empty(t, page.URL.Query().Get("code"))
		})
	}
	require.Zero(t, s.Counts().Authorizations)
}

// TestWrongExchanges: token requests that break a rule are rejected and recorded.
func TestWrongExchanges(t *testing.T) {
	s := oauthtest.New(t)
	id, secret := s.Register(oauthtest.MethodPost, callback)
	for name, tt := range map[string]struct {
		change func(url.Values)
		want   string
	}{
		"no verifier":      {set("code_verifier"), "invalid_grant"},
		"another verifier": {set("code_verifier", strings.Repeat("a", 43)), "invalid_grant"},
		"no resource":      {set("resource"), "invalid_target"},
		"another redirect": {set("redirect_uri", callback+"/x"), "invalid_grant"},
		"another code":     {set("code", "code-1"), "invalid_grant"},
		"another client":   {func(q url.Values) { q.Set("client_id", id); q.Set("client_secret", secret) }, "invalid_grant"},
		"no secret":        {set("client_id", id), "invalid_client"},
		"a secret":         {set("client_secret", "x"), "invalid_client"},
		"another grant":    {set("grant_type", "password"), "unauthorized_client"},
		"two codes":        {set("code", "a", "b"), "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(s.Violations())
			status, answer := newLogin(s).exchange(t, tt.change)
			require.GreaterOrEqual(t, status, 400)
			require.Equal(t, tt.want, answer["error"])
			require.Len(t, s.Violations(), before+1)
		})
	}
	require.Zero(t, s.Counts().Exchanges)
}

// TestReuse: using a code or a refresh token twice revokes all that came from it.
func TestReuse(t *testing.T) {
	s := oauthtest.New(t)
	l := newLogin(s)
	code := l.code(t)
	_, first := l.exchange(t, set("code", code))
	require.NotEmpty(t, first["refresh_token"])
	_, again := l.exchange(t, set("code", code))
	require.Equal(t, "invalid_grant", again["error"])
	require.Len(t, s.Violations(), 1)
	_, after := l.refresh(t, first["refresh_token"])
	require.Equal(t, "invalid_grant", after["error"])
	require.Len(t, s.Violations(), 1, "the client could not know")

	_, first = l.exchange(t, func(url.Values) {})
	_, second := l.refresh(t, first["refresh_token"])
	require.NotEmpty(t, second["refresh_token"])
	_, again = l.refresh(t, first["refresh_token"])
	require.Equal(t, "invalid_grant", again["error"])
	require.Equal(t, 1, s.Counts().Reuses)
	_, after = l.refresh(t, second["refresh_token"])
	require.Equal(t, "invalid_grant", after["error"], "the whole family is revoked")
	require.Equal(t, 1, s.Counts().Refreshes)
}

// TestControls: failures, forgotten clients, revocation.
func TestControls(t *testing.T) {
	s := oauthtest.New(t)
	l := newLogin(s)
	s.FailTokens(1, http.StatusServiceUnavailable)
	status, _ := l.exchange(t, func(url.Values) {})
	require.Equal(t, http.StatusServiceUnavailable, status)
	_, tokens := l.exchange(t, func(url.Values) {})
	require.NotEmpty(t, tokens["refresh_token"])
	status, _ = l.post(t, "/revoke", url.Values{"token": {tokens["refresh_token"]}, "client_id": {l.id}})
	require.Equal(t, http.StatusOK, status)
	_, answer := l.refresh(t, tokens["refresh_token"])
	require.Equal(t, "invalid_grant", answer["error"])
	require.Equal(t, 1, s.Counts().Revocations)
	s.ForgetClients()
	_, answer = l.refresh(t, tokens["refresh_token"])
	require.Equal(t, "invalid_client", answer["error"])
	require.Equal(t, http.StatusBadRequest, l.authorize(t, func(url.Values) {}).Status)
	require.Empty(t, s.Violations())
	for _, token := range []string{tokens["access_token"], tokens["refresh_token"]} {
		require.Contains(t, s.Secrets(), token)
	}
}

// TestWrongTokens: tokens in the wrong places are recorded.
func TestWrongTokens(t *testing.T) {
	s := oauthtest.New(t)
	_, tokens := newLogin(s).exchange(t, func(url.Values) {})
	request := func(address, token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	res := request(s.URL, "")
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	require.NotContains(t, res.Header.Get("WWW-Authenticate"), "error")
	require.Empty(t, s.Violations())
	for i, wrong := range []func(){
		func() { request(s.URL+"?access_token="+tokens["access_token"], "") },
		func() { request(s.URL, "other") },
		func() { request(s.URL, tokens["refresh_token"]) },
		func() { request(s.Issuer()+"/.well-known/oauth-authorization-server", tokens["access_token"]) },
	} {
		wrong()
		require.Len(t, s.Violations(), i+1)
	}
}

// TestBrowser: cookies that are SameSite=Strict do not return from another host; others do.
func TestBrowser(t *testing.T) {
	var away string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			http.SetCookie(w, &http.Cookie{Name: "lax", Value: "1", SameSite: http.SameSiteLaxMode, HttpOnly: true})       //nolint:gosec // plain HTTP
			http.SetCookie(w, &http.Cookie{Name: "strict", Value: "1", SameSite: http.SameSiteStrictMode, HttpOnly: true}) //nolint:gosec // plain HTTP
			fmt.Fprintf(w, `<title>x</title><p>Log in &amp; go on:</p><a class="b" href="%s/away">Continue</a>`, away)
			return
		}
		fmt.Fprintf(w, "<p>Got %s</p>", r.Header.Get("Cookie"))
	}))
	t.Cleanup(site.Close)
	other := httptest.NewServer(http.RedirectHandler(site.URL+"/back", http.StatusFound))
	t.Cleanup(other.Close)
	away = other.URL
	page, err := oauthtest.Visit(t.Context(), nil, site.URL+"/start")
	require.NoError(t, err)
	require.Equal(t, "Got lax=1", page.Text)
	page, err = new(oauthtest.Browser).VisitUntil(t.Context(), site.URL+"/start", site.URL+"/back")
	require.NoError(t, err)
	require.Equal(t, site.URL+"/back", page.URL.String())
	require.Zero(t, page.Status)
}
