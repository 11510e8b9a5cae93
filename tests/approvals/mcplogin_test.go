package approvals

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/mcp/mcplogin"
	"github.com/threadmill/threadmill/internal/mcp/oauthtest"
	"github.com/threadmill/threadmill/internal/mcp/sealed"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

// TestMCPLogin: people log in to an MCP server, and calls that lack a login wait for it.
func TestMCPLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"a call waits, and goes on by itself":            loginWaits,
		"a sub-agent's call waits":                       loginWaitsBelow,
		"tokens are refreshed once for all workers":      loginRefreshed,
		"a login that is revoked is asked for again":     loginRevoked,
		"a call that needs more scopes":                  loginStepsUp,
		"each person has an account":                     loginPerUser,
		"who may log in":                                 loginRoles,
		"declined":                                       loginDeclined,
		"denied at the authorization server":             loginDenied,
		"callbacks that do not belong to a login":        loginForged,
		"a client that was registered beforehand":        loginPreregistered,
		"a client metadata document":                     loginDocument,
		"a failure of the authorization server":          loginFails,
		"secrets stay secret":                            loginSecrets,
		"a declared server with a private address":       loginPrivate,
		"the process is killed while a person logs in":   loginKilled,
		"the authorization server has forgotten clients": loginForgottenClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func loginWaits(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	reaches(w.Harness, "notes", func(s map[string]any) bool { return s["status"] == string(tool.ServerNeedsLogin) })
	require.Equal(t, false, w.known("")["loggedIn"])
	w.offersTools("")
	require.Equal(t, true, w.known("")["loggedIn"])
	c := w.talk(t)
	require.Equal(t, "You are alice.", c.callsFor("ann", callWhoami).Content)

	status, _ := serverAPI(w.Harness, http.MethodDelete, "/v1/mcp/notes/login", nil)
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, 1, w.server.Counts().Revocations)
	status, _ = serverAPI(w.Harness, http.MethodDelete, "/v1/mcp/notes/login", nil)
	require.Equal(t, http.StatusNotFound, status)

	posted, q := c.waitsForLogin("ann", callWhoami)
	require.Empty(t, q.Questions[0].Login.User)
	require.Equal(t, w.public.URL+"/#/servers/notes/login", q.Questions[0].URL)
	other := w.talk(t)
	otherPosted, _ := other.waitsForLogin("ben", callWhoami)
	_, listed := serverAPI(w.Harness, http.MethodGet, "/v1/threads/"+c.id+"/approvals", nil)
	require.Contains(t, fmt.Sprint(listed), "/#/servers/notes/login")
	printed, code, problem := w.Starter("approvals", c.id)
	require.Zero(t, code, problem)
	require.Contains(t, printed, "/#/servers/notes/login")
	p := browser.New(t).Open(w.API.URL + "/#/approvals")
	p.Sees("tm-approvals", "needs somebody to log in")

	w.logsIn("")
	c.completes(posted)
	other.completes(otherPosted)
	require.Equal(t, "You are alice.", c.resultOf(q.ToolCallID).Content)
	require.Equal(t, 2, w.server.Counts().Authorizations)
	require.Equal(t, 1, w.server.Counts().Registrations, "the client is registered once")
	check.RequireSettled(t, c.Harness, c.id)
}

// loginWaitsBelow: the threads above a sub-agent wait for its login too, and go on by themselves.
func loginWaitsBelow(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	status, _ := serverAPI(w.Harness, http.MethodDelete, "/v1/mcp/notes/login", nil)
	require.Equal(t, http.StatusNoContent, status)
	c := w.talk(t)
	posted, q := c.waitsForLogin("ann", check.Asks("assistant", check.Asks("assistant", callWhoami)))
	require.Equal(t, "notes__whoami", q.ToolName)
	w.logsIn("")
	c.completes(posted)
	require.Contains(t, check.ResultIn(t, w.Harness, c.id, "call-agent").Content, "You are alice.")
	check.RequireSettled(t, c.Harness, c.id)
}

// callersPerWorker call a tool at once in each of two workers.
const callersPerWorker = 4

func loginRefreshed(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	var second tool.Source
	worker := w.Beside(func(cfg *threadmill.Config) {
		require.NoError(t, w.connect(cfg))
		second = cfg.ToolSource
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	whoami := func(s tool.Source) (tool.Result, error) {
		for _, one := range s.Tools(w.Ctx(), w.TaskQueue, []string{"notes__whoami"}) {
			return one.Call(w.Ctx(), tool.Call{ID: "c1", Arguments: "{}", Namespace: w.TaskQueue, OnProgress: func(any) {}})
		}
		return tool.Result{}, fmt.Errorf("no tool")
	}
	for _, s := range []tool.Source{w.tools, second} {
		require.Eventually(t, func() bool { _, err := whoami(s); return err == nil }, testenv.Patience, testenv.Tick)
	}
	const rounds = 3
	for round := range rounds {
		before := w.server.Counts().Refreshes
		w.server.Expire()
		var calls sync.WaitGroup
		results := make(chan string, 2*callersPerWorker)
		for i := range 2 * callersPerWorker {
			calls.Go(func() {
				res, err := whoami([]tool.Source{w.tools, second}[i%2])
				results <- fmt.Sprint(res.Output, err)
			})
		}
		calls.Wait()
		close(results)
		for got := range results {
			require.Equal(t, "You are alice.<nil>", got)
		}
		require.Equal(t, before+1, w.server.Counts().Refreshes, "round %d", round)
	}
	require.Zero(t, w.server.Counts().Reuses)
}

func loginRevoked(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	c := w.talk(t)
	require.Equal(t, "You are alice.", c.callsFor("ann", callWhoami).Content)
	w.server.Revoke("alice")
	posted, q := c.waitsForLogin("ann", callWhoami)
	require.Equal(t, false, w.known("")["loggedIn"])
	w.logsIn("")
	c.completes(posted)
	require.Equal(t, "You are alice.", c.resultOf(q.ToolCallID).Content)
	require.Equal(t, true, w.known("")["loggedIn"])
}

func loginStepsUp(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	c := w.talk(t)
	posted, q := c.waitsForLogin("ann", callAddNote)
	require.Contains(t, q.Questions[0].Message, oauthtest.ScopeWrite)
	require.Equal(t, true, w.known("")["loggedIn"], "the login stays valid for other calls")
	require.Equal(t, w.known("")["id"], q.Questions[0].Login.Refused, "it does not answer the question")
	require.Equal(t, "You are alice.", w.talk(t).callsFor("ann", callWhoami).Content)
	w.logsIn("")
	c.completes(posted)
	require.Equal(t, "Stored for alice.", c.resultOf(q.ToolCallID).Content)
	require.Equal(t, []string{"hello"}, w.server.Notes("alice"))
	require.Equal(t, "You are alice.", c.callsFor("ann", callWhoami).Content)
	require.Equal(t, "Stored for alice.", c.callsFor("ann", callAddNote).Content)
	require.Equal(t, 2, w.server.Counts().Authorizations)
}

func loginPerUser(t *testing.T) {
	w := newLoginWorld(t, loginOptions{login: "per: user"})
	status, _ := serverAPI(w.Harness, http.MethodPost, "/v1/mcp/notes/login", map[string]any{})
	require.Equal(t, http.StatusUnprocessableEntity, status, "whose?")
	w.server.SetUser("ann-account")
	w.offersTools("ann")
	c := w.talk(t)
	require.Equal(t, "You are ann-account.", c.callsFor("ann", callWhoami).Content)

	d := w.talk(t)
	posted, q := d.waitsForLogin("ben", callWhoami)
	require.Equal(t, "ben", q.Questions[0].Login.User)
	require.Equal(t, false, w.known("ben")["loggedIn"])
	w.server.SetUser("ann-account")
	w.logsIn("ann") // does not help ben
	require.Equal(t, "You are ann-account.", c.callsFor("ann", callWhoami).Content)
	d.awaitInput(1)
	w.server.SetUser("ben-account")
	w.logsIn("ben")
	d.completes(posted)
	require.Equal(t, "You are ben-account.", d.resultOf(q.ToolCallID).Content)

	require.Equal(t, "You are ann-account.", d.callsFor("ann", callWhoami).Content, "in the same thread")
	require.Equal(t, "You are ben-account.", d.callsFor("ben", callWhoami).Content)
	w.server.Revoke("ann-account")
	require.Equal(t, "You are ben-account.", d.callsFor("ben", callWhoami).Content)
	_, q = c.waitsForLogin("ann", callWhoami)
	require.Equal(t, "ann", q.Questions[0].Login.User)
}

// loginRoles: a login of one's own needs the role post.
func loginRoles(t *testing.T) {
	tokens := map[string]auth.Token{}
	var keys []auth.Key
	for name, roles := range map[string]auth.Roles{"reader": {auth.RoleRead}, "poster": {auth.RoleRead, auth.RolePost}, "operator": {auth.RoleRead, auth.RoleOperate}} {
		_, tokens[name] = auth.NewToken()
		keys = append(keys, auth.Key{Name: name, Roles: roles, Hash: tokens[name].Hash()})
	}
	w := newLoginWorld(t, loginOptions{login: "per: user", keys: keys})
	for name, want := range map[string]int{"reader": http.StatusForbidden, "poster": http.StatusOK, "operator": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(w.Ctx(), http.MethodPost, w.API.URL+"/v1/mcp/notes/login", strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+tokens[name].Reveal())
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, name)
	}
}

func loginDeclined(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	c := w.talk(t)
	w.server.Revoke("alice")
	posted, q := c.waitsForLogin("ann", callWhoami)
	c.answersInput(signals.DecideAccepted, q, map[string]event.InputAnswer{q.Questions[0].ID: {Action: event.InputDecline}})
	c.completes(posted)
	got := c.resultOf(q.ToolCallID)
	require.True(t, got.IsError)
	require.Contains(t, got.Content, `answered with "decline"`)

	// Who says that she has logged in, and has not, is asked again.
	posted, q = c.waitsForLogin("ann", callWhoami)
	c.answersInput(signals.DecideAccepted, q, map[string]event.InputAnswer{q.Questions[0].ID: check.Accepted("")})
	q = c.awaitInput(2)
	w.logsIn("")
	c.completes(posted)
	require.Equal(t, "You are alice.", c.resultOf(q.ToolCallID).Content)
}

func loginDenied(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.server.Configure(func(c *oauthtest.Config) { c.Interactive = true })
	w.offersTools("")
	w.server.Revoke("alice")
	c := w.talk(t)
	posted, q := c.waitsForLogin("ann", callWhoami)
	page, err := (&oauthtest.Browser{Denies: true}).Visit(w.Ctx(), w.link(""))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, page.Status)
	require.Contains(t, page.Text, "refused at "+mustParse(t, w.server.Issuer()).Host)
	require.Equal(t, 1, w.server.Counts().Denials)
	require.Equal(t, q.ToolCallID, c.awaitInput(1).ToolCallID, "the question is still open")
	w.logsIn("")
	c.completes(posted)
}

// loginForged: a browser that has not begun a login cannot end it, and no login ends twice.
func loginForged(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	refused := func(b *oauthtest.Browser, address, text string) {
		t.Helper()
		page, err := b.Visit(w.Ctx(), address)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, page.Status, page.Text)
		require.Contains(t, page.Text, text)
		require.Equal(t, false, w.known("")["loggedIn"])
	}
	callback := w.public.URL + mcplogin.PathCallback
	begins := func() (*oauthtest.Browser, *url.URL) {
		b := &oauthtest.Browser{}
		page, err := b.VisitUntil(w.Ctx(), w.link(""), callback)
		require.NoError(t, err)
		require.NotEmpty(t, page.URL.Query().Get("code"), page.Text)
		return b, page.URL
	}
	with := func(u *url.URL, name, value string) string {
		q := u.Query()
		q.Set(name, value)
		changed := *u
		changed.RawQuery = q.Encode()
		return changed.String()
	}
	const another = "another browser"
	first, back := begins()
	second, _ := begins()
	refused(&oauthtest.Browser{}, back.String(), another)
	refused(second, back.String(), another)
	refused(first, with(back, "state", "other"), another)
	refused(first, callback, another)
	refused(first, with(back, "iss", "https://other.example"), "not one of the authorization server")
	b, back := begins()
	refused(b, with(back, "code", ""), "no code")

	link := w.link("")
	at := len(link) - 8
	forged := link[:at] + string('A'+(link[at]-'A'+1)%26) + link[at+1:]
	refused(&oauthtest.Browser{}, forged, "not valid")
	refused(&oauthtest.Browser{}, w.public.URL+mcplogin.PathStart+"x", "not valid")
	keys, err := sealed.Parse(secretsKey)
	require.NoError(t, err)
	old, err := keys.Seal("mcp_login_link", mcplogin.Asked{Namespace: w.TaskQueue, Server: "notes", Expires: time.Now().Add(-time.Second)})
	require.NoError(t, err)
	refused(&oauthtest.Browser{}, w.public.URL+mcplogin.PathStart+old, "has expired")
	w.server.Configure(func(c *oauthtest.Config) { c.WrongIss = true })
	refused(&oauthtest.Browser{}, w.link(""), "not one of the authorization server")
	w.server.Configure(func(c *oauthtest.Config) { c.WrongIss = false })
	require.Zero(t, w.server.Counts().Exchanges)

	b, back = begins()
	page, err := b.Visit(w.Ctx(), back.String())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, page.Status, page.Text)
	page, err = b.Visit(w.Ctx(), back.String())
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, page.Status, "again")
	require.Equal(t, 1, w.server.Counts().Exchanges)
	reaches(w.Harness, "notes", isReady)
	require.Equal(t, "You are alice.", w.talk(t).callsFor("ann", callWhoami).Content)
}

func loginPreregistered(t *testing.T) {
	w := newLoginWorld(t, loginOptions{registered: true})
	w.offersTools("")
	w.server.Expire()
	require.Equal(t, "You are alice.", w.talk(t).callsFor("ann", callWhoami).Content)
	require.Equal(t, 1, w.server.Counts().Refreshes)
}

func loginDocument(t *testing.T) {
	w := newLoginWorld(t, loginOptions{secure: true})
	w.server.Configure(func(c *oauthtest.Config) { c.Documents, c.NoRegistration = w.public.Client(), true })
	w.offersTools("")
	require.Equal(t, "You are alice.", w.talk(t).callsFor("ann", callWhoami).Content)
	require.Zero(t, w.server.Counts().Registrations)
	w.server.Expire()
	require.Equal(t, "You are alice.", w.talk(t).callsFor("ann", callWhoami).Content)
	require.Equal(t, 1, w.server.Counts().Refreshes)
}

// loginFails: an authorization server that does not answer costs nobody the login.
func loginFails(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.server.FailTokens(1, http.StatusServiceUnavailable)
	page, err := oauthtest.Visit(w.Ctx(), nil, w.link(""))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, page.Status, page.Text)
	require.Contains(t, page.Text, "503")
	w.offersTools("")
	before := w.server.Counts().Authorizations
	w.server.FailTokens(1, http.StatusServiceUnavailable)
	w.server.Expire()
	c := w.talk(t)
	_ = c.callsFor("ann", callWhoami) // it may fail, or be made again
	require.Equal(t, "You are alice.", c.callsFor("ann", callWhoami).Content)
	require.Equal(t, before, w.server.Counts().Authorizations)
}

func loginForgottenClient(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	w.server.ForgetClients()
	w.server.Expire()
	c := w.talk(t)
	posted, _ := c.waitsForLogin("ann", callWhoami)
	w.logsIn("")
	c.completes(posted)
	require.Equal(t, 2, w.server.Counts().Registrations)
}

// loginSecrets: nothing that the authorization server keeps secret is stored or shown in clear.
func loginSecrets(t *testing.T) {
	w := newLoginWorld(t, loginOptions{})
	w.offersTools("")
	c := w.talk(t)
	c.callsFor("ann", callWhoami)
	w.server.Expire()
	c.callsFor("ann", callWhoami)
	posted, _ := c.waitsForLogin("ann", callAddNote)
	link := w.link("")
	shown := w.shows(c.id)
	_, err := oauthtest.Visit(w.Ctx(), nil, link)
	require.NoError(t, err)
	c.completes(posted)
	require.Equal(t, []string{"hello"}, w.server.Notes("alice"))
	secrets := append(w.server.Secrets(), strings.TrimPrefix(link, w.public.URL+mcplogin.PathStart), secretsKey)
	require.Greater(t, len(secrets), 6)
	for place, text := range map[string]string{"the API": shown + w.shows(c.id), "the store": w.stored(), "the log": w.logs.String(), "the history": w.history(c.id)} {
		require.NotEmpty(t, text)
		for _, secret := range secrets {
			require.NotContains(t, text, secret, "in %s", place)
		}
	}
	require.Contains(t, w.stored(), "mcp_login", "the file is the store's")
}

// shows returns what the API tells of a thread and the server.
func (w *loginWorld) shows(thread string) string {
	w.T.Helper()
	var all strings.Builder
	for _, path := range []string{"/v1/mcp", "/v1/mcp/notes", "/v1/approvals", "/v1/threads/" + thread + "/approvals", "/v1/threads/" + thread + "/events?limit=1000", "/v1/threads/" + thread + "/messages?limit=200"} {
		status, out := serverAPI(w.Harness, http.MethodGet, path, nil)
		require.Equal(w.T, http.StatusOK, status, path)
		fmt.Fprint(&all, out)
	}
	return all.String()
}

// stored returns the files of the store.
func (w *loginWorld) stored() string {
	w.T.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "threadmill.db*"))
	require.NoError(w.T, err)
	var all bytes.Buffer
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(w.T, err)
		all.Write(raw)
	}
	return all.String()
}

// history returns the history of a thread, in the bytes of which all texts are readable.
func (w *loginWorld) history(thread string) string {
	w.T.Helper()
	events, err := check.RunHistory(w.Ctx(), w.Temporal, signals.WorkflowID(w.TaskQueue, thread), "")
	require.NoError(w.T, err)
	var all bytes.Buffer
	for _, e := range events {
		raw, err := proto.Marshal(e)
		require.NoError(w.T, err)
		all.Write(raw)
	}
	require.Contains(w.T, all.String(), "notes__whoami")
	return all.String()
}

// loginPrivate: the address of a declared server, and those that its metadata names, are public.
func loginPrivate(t *testing.T) {
	w := newLoginWorld(t, loginOptions{more: "mcpApi: {servers: true}\n"})
	asked := atomic.Int64{}
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	t.Cleanup(inner.Close)
	status, out := serverAPI(w.Harness, http.MethodPut, "/v1/mcp/inner?by=ann", map[string]any{"url": inner.URL + "/mcp", "login": map[string]any{}})
	require.Equal(t, http.StatusCreated, status, out)
	status, out = serverAPI(w.Harness, http.MethodPost, "/v1/mcp/inner/login", map[string]any{})
	require.Equal(t, http.StatusOK, status, out)
	page, err := oauthtest.Visit(w.Ctx(), nil, out["url"].(string))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, page.Status)
	require.Contains(t, page.Text, "private network")
	require.Zero(t, asked.Load())
}

// loginKilled kills the worker and the API while a person logs in, and while a call waits.
func loginKilled(t *testing.T) {
	server := oauthtest.New(t)
	d := proc.New(t, proc.Options{Binary: proc.Build(t), Config: fmt.Sprintf(
		"agents: [{name: assistant, model: demo/demo, tools: [notes__*], approvals: {notes__*: never}}]\nmcp:\n  notes: {url: %q, trusted: true, login: {}}\n", server.URL)})
	d.Start()
	link := func() string {
		var out struct{ URL string }
		require.Equal(t, http.StatusOK, d.Try(t.Context(), http.MethodPost, "/v1/mcp/notes/login", map[string]any{}, &out))
		return out.URL
	}
	killedWhile := func() {
		b := &oauthtest.Browser{}
		back, err := b.VisitUntil(t.Context(), link(), d.URL+mcplogin.PathCallback)
		require.NoError(t, err)
		d.Kill()
		d.Start()
		page, err := b.Visit(t.Context(), back.URL.String())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, page.Status, page.Text)
	}
	ready := func() bool {
		var s struct{ Status tool.ServerStatus }
		d.Try(t.Context(), http.MethodGet, "/v1/mcp/notes", nil, &s)
		return s.Status == tool.ServerReady
	}
	killedWhile()
	require.Eventually(t, ready, testenv.Patience, testenv.Tick)
	d.Open("t1", callWhoami)
	d.AwaitTurns("t1", 1)
	server.Revoke("alice")
	d.Say("t1", callWhoami)
	require.Eventually(t, func() bool {
		var out struct{ Inputs []event.InputRequest }
		d.Try(t.Context(), http.MethodGet, "/v1/threads/t1/approvals", nil, &out)
		return len(out.Inputs) == 1
	}, testenv.Patience, testenv.Tick)
	killedWhile()
	d.AwaitTurns("t1", 2)
	texts := ""
	for _, m := range d.Messages("t1") {
		texts += m.Content + "\n"
	}
	require.Equal(t, 4, strings.Count(texts, "You are alice."), "two results and two replies: %s", texts)
	require.Empty(t, server.Violations())
	require.Equal(t, 1, server.Counts().Registrations, "the client outlives the process")
}
