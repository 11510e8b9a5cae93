package mcplogin_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

const space = "default"

func newKeys(t *testing.T, letter string) sealed.Keys {
	t.Helper()
	keys, err := sealed.Parse(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, sealed.KeySize))))
	require.NoError(t, err)
	return keys
}

// rig is a protected server, and the processes that use it.
type rig struct {
	*testing.T
	oauth  *oauthtest.Server
	store  teststore.Store
	public *httptest.Server
	logins *mcplogin.Logins
	worker *mcp.Manager
	done   []toolserver.LoggedIn
}

func newRig(t *testing.T, per tool.LoginPer, changes ...func(*oauthtest.Config)) *rig {
	t.Helper()
	r := &rig{T: t, oauth: oauthtest.New(t)}
	for _, change := range changes {
		r.oauth.Configure(change)
	}
	var err error
	r.store, err = sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.store.Close() })
	mux := http.NewServeMux()
	r.public = httptest.NewServer(mux)
	t.Cleanup(r.public.Close)
	r.logins, r.worker = r.process(per)
	mux.Handle("/", r.logins.Pages(r.worker, func(_ context.Context, l toolserver.LoggedIn) { r.done = append(r.done, l) }))
	return r
}

func (r *rig) server(per tool.LoginPer) mcp.Server {
	return mcp.Server{Name: "notes", URL: r.oauth.URL, Trusted: true, Login: &mcp.Login{Per: per}}
}

// process returns what a worker has.
func (r *rig) process(per tool.LoginPer) (*mcplogin.Logins, *mcp.Manager) {
	r.Helper()
	logins, err := mcplogin.New(mcplogin.Config{Documents: r.store, Keys: newKeys(r.T, "a"), PublicURL: r.public.URL})
	require.NoError(r, err)
	m, err := mcp.New(mcp.Config{
		Servers: []mcp.Server{r.server(per)},
		Logins:  logins, Catalog: toolserver.NewCatalog(r.store),
	})
	require.NoError(r, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	r.Cleanup(func() {
		stop()
		require.NoError(r, <-ended)
	})
	return logins, m
}

// login logs in like a person.
func (r *rig) login(user string) oauthtest.Page {
	r.Helper()
	link, _, err := r.logins.Link(space, "notes", user, "alice")
	require.NoError(r, err)
	var b oauthtest.Browser
	page, err := b.Visit(r.Context(), link)
	require.NoError(r, err)
	return page
}

// tool waits until the server has listed a tool.
func (r *rig) tool(m *mcp.Manager, name string) tool.Tool {
	r.Helper()
	var found []tool.Tool
	require.Eventually(r, func() bool {
		found = m.Tools(r.Context(), space, []string{"notes__" + name})
		return len(found) == 1
	}, testenv.Patience, testenv.Tick)
	return found[0]
}

func (r *rig) call(m *mcp.Manager, name, user, arguments string, in *tool.Input) (tool.Result, error) {
	r.Helper()
	return r.tool(m, name).Call(r.Context(), tool.Call{
		ID: "call", Namespace: space, Arguments: arguments, User: user, Input: in, OnProgress: func(any) {},
		Exec: event.NewExecutionContext(r.Context(), "trace"),
	})
}

// asks requires that a call asks for a login, and returns the input with which it is made again.
func (r *rig) asks(err error, user string) *tool.Input {
	r.Helper()
	var need *tool.InputRequired
	require.ErrorAs(r, err, &need)
	require.Len(r, need.Questions, 1)
	q := need.Questions[0]
	require.Equal(r, "notes", q.Login.Server)
	require.Equal(r, user, q.Login.User)
	require.Equal(r, r.public.URL+"/#/servers/notes/login", q.URL)
	return &tool.Input{State: need.State, Answers: map[string]event.InputAnswer{q.ID: {Action: event.InputAccept}}}
}

// TestLogin: a person logs in once for a namespace; the login is renewed, lost, and extended.
func TestLogin(t *testing.T) {
	r := newRig(t, tool.LoginPerNamespace)
	r.oauth.SetUser("alice")
	require.Eventually(t, func() bool {
		states, err := r.worker.States(t.Context(), space)
		return err == nil && states[0].Status == tool.ServerNeedsLogin
	}, testenv.Patience, testenv.Tick)
	page := r.login("")
	require.Equal(t, http.StatusOK, page.Status, page.URL.String()+page.HTML)
	require.Equal(t, []toolserver.LoggedIn{{Namespace: space, Server: "notes", By: "alice"}}, r.done)
	require.NoError(t, r.worker.Restart(t.Context(), space, "notes"))

	got, err := r.call(r.worker, oauthtest.ToolWhoami, "", "{}", nil)
	require.NoError(t, err)
	require.Contains(t, got.Output, "alice")

	// Two workers renew the token once.
	_, other := r.process(tool.LoginPerNamespace)
	_, err = r.call(other, oauthtest.ToolWhoami, "", "{}", nil)
	require.NoError(t, err)
	r.oauth.Expire()
	var calls sync.WaitGroup
	for _, m := range []*mcp.Manager{r.worker, other, r.worker, other} {
		calls.Go(func() {
			_, err := r.call(m, oauthtest.ToolWhoami, "", "{}", nil)
			require.NoError(t, err)
		})
	}
	calls.Wait()
	require.Equal(t, 1, r.oauth.Counts().Refreshes)

	// A call that needs more asks for it, and loses nothing.
	_, err = r.call(r.worker, oauthtest.ToolAddNote, "", `{"text":"hello"}`, nil)
	in := r.asks(err, "")
	present, err2 := r.logins.Status(t.Context(), space, r.server(""), "")
	require.NoError(t, err2)
	need, ok := errors.AsType[*tool.InputRequired](err)
	require.True(t, ok)
	require.Equal(t, present.ID, need.Questions[0].Login.Refused)
	require.Equal(t, http.StatusOK, r.login("").Status)
	got, err = r.call(r.worker, oauthtest.ToolAddNote, "", `{"text":"hello"}`, in)
	require.NoError(t, err)
	require.False(t, got.IsError, got.Output)
	require.Equal(t, []string{"hello"}, r.oauth.Notes("alice"))
	require.Equal(t, 1, r.oauth.Counts().Registrations)

	// A login that was revoked asks again, and tells when nobody has logged in.
	r.oauth.Revoke("alice")
	_, err = r.call(r.worker, oauthtest.ToolWhoami, "", "{}", nil)
	in = r.asks(err, "")
	_, err = r.call(r.worker, oauthtest.ToolWhoami, "", "{}", in)
	in = r.asks(err, "")
	known, err := r.logins.Status(t.Context(), space, r.server(""), "")
	require.NoError(t, err)
	require.False(t, known.LoggedIn)
	require.Contains(t, known.Lost, "invalid_grant")
	r.login("")
	got, err = r.call(r.worker, oauthtest.ToolWhoami, "", "{}", in)
	require.NoError(t, err)
	require.Contains(t, got.Output, "alice")

	_, c, err := r.worker.Find(t.Context(), space, "notes")
	require.NoError(t, err)
	require.NoError(t, r.logins.Forget(t.Context(), c, space, r.server(""), ""))
	require.Equal(t, 1, r.oauth.Counts().Revocations)
	require.ErrorIs(t, r.logins.Forget(t.Context(), c, space, r.server(""), ""), toolserver.ErrNotLoggedIn)
	require.Empty(t, r.oauth.Violations())
}

// TestLoginPerUser: each person uses her own account.
func TestLoginPerUser(t *testing.T) {
	r := newRig(t, tool.LoginPerUser)
	for _, user := range []string{"alice", "bob"} {
		r.oauth.SetUser(user + "@example.com")
		require.Equal(t, http.StatusOK, r.login(user).Status)
	}
	for _, user := range []string{"bob", "alice", "bob"} {
		got, err := r.call(r.worker, oauthtest.ToolWhoami, user, "{}", nil)
		require.NoError(t, err)
		require.Contains(t, got.Output, user+"@example.com")
	}
	_, err := r.call(r.worker, oauthtest.ToolWhoami, "carol", "{}", nil)
	r.asks(err, "carol")
	_, err = r.call(r.worker, oauthtest.ToolWhoami, "", "{}", nil)
	require.ErrorContains(t, err, "does not answer a person's message")
	require.Empty(t, r.oauth.Violations())
}

// TestShortTokens: tokens that live for less than the time in which they are renewed are renewed once for each request.
func TestShortTokens(t *testing.T) {
	r := newRig(t, tool.LoginPerUser)
	r.oauth.Configure(func(c *oauthtest.Config) { c.Lifetime = 25 * time.Second })
	require.Equal(t, http.StatusOK, r.login("alice").Status)
	handler := r.logins.Handler(space, r.server(tool.LoginPerUser), "alice", http.DefaultClient)
	source, err := handler.TokenSource(t.Context())
	require.NoError(t, err)
	before := r.oauth.Counts().Refreshes
	token, err := source.Token()
	require.NoError(t, err)
	require.NotEmpty(t, token.AccessToken)
	// The worker may renew it for its own connection at the same time.
	require.Positive(t, r.oauth.Counts().Refreshes-before)
	require.Empty(t, r.oauth.Violations())
}

// TestMovedServer: tokens are not sent to a server of the same name at another address.
func TestMovedServer(t *testing.T) {
	r := newRig(t, tool.LoginPerUser)
	require.Equal(t, http.StatusOK, r.login("alice").Status)
	moved := r.server(tool.LoginPerUser)
	id, err := r.logins.Current(t.Context(), space, moved, "alice")
	require.NoError(t, err)
	require.NotEmpty(t, id)
	moved.URL += "2"
	id, err = r.logins.Current(t.Context(), space, moved, "alice")
	require.NoError(t, err)
	require.Empty(t, id)
	user, err := r.logins.AnyUser(t.Context(), space, moved)
	require.NoError(t, err)
	require.Empty(t, user)
	source, err := r.logins.Handler(space, moved, "alice", http.DefaultClient).TokenSource(t.Context())
	require.NoError(t, err)
	_, err = source.Token()
	var lost *mcp.LoginError
	require.ErrorAs(t, err, &lost)
	require.Contains(t, lost.Reason, "another address")
}

// TestLoginServers: people log in to servers of each kind, and their logins are renewed.
func TestLoginServers(t *testing.T) {
	for name, change := range map[string]func(*oauthtest.Config){
		"metadata of the resource at its path":     func(c *oauthtest.Config) { c.ResourceMetadata = oauthtest.AtPath },
		"metadata of the resource at the root":     func(c *oauthtest.Config) { c.ResourceMetadata = oauthtest.AtRoot },
		"an issuer with a path":                    func(c *oauthtest.Config) { c.IssuerPath = "/tenant" },
		"OpenID Connect only":                      func(c *oauthtest.Config) { c.OpenID = true },
		"no issuer in responses":                   func(c *oauthtest.Config) { c.NoIss = true },
		"a client's secret in the header":          func(c *oauthtest.Config) { c.AuthMethods = []string{oauthtest.MethodBasic} },
		"a client's secret in the form":            func(c *oauthtest.Config) { c.AuthMethods = []string{oauthtest.MethodPost} },
		"public clients":                           func(c *oauthtest.Config) { c.AuthMethods = []string{oauthtest.MethodNone} },
		"refresh tokens for those who ask for one": func(c *oauthtest.Config) { c.OfflineAccess = true },
		"refresh tokens that stay":                 func(c *oauthtest.Config) { c.KeepRefresh = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tool.LoginPerNamespace, change)
			r.oauth.SetUser("alice")
			page := r.login("")
			require.Equal(t, http.StatusOK, page.Status, page.HTML)
			require.NoError(t, r.worker.Restart(t.Context(), space, "notes"))
			for range 3 {
				got, err := r.call(r.worker, oauthtest.ToolWhoami, "", "{}", nil)
				require.NoError(t, err)
				require.Contains(t, got.Output, "alice")
				r.oauth.Expire()
			}
			require.Equal(t, 2, r.oauth.Counts().Refreshes)
			require.Empty(t, r.oauth.Violations())
		})
	}
}
