package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// declared is a source whose servers change.
type declared struct {
	mu      sync.Mutex
	servers []mcp.Server
}

func (d *declared) set(servers ...mcp.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers = servers
}

func (d *declared) Servers(_ context.Context, namespace string) ([]mcp.Server, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if namespace != "default" {
		return nil, nil
	}
	return d.servers, nil
}

// TestSource: servers of a namespace come and go at run time, and belong to it alone.
func TestSource(t *testing.T) {
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return simple() }, nil))
	t.Cleanup(remote.Close)
	source, catalog := &declared{}, mcp.NewCatalog()
	m := run(t, mcp.Config{Source: source, SourcePrivate: true, Catalog: catalog, Servers: []mcp.Server{program("fixed", "simple")}})
	ready(t, m, "fixed")
	source.set(mcp.Server{Name: "mine", URL: remote.URL}, program("code", "simple"), mcp.Server{Name: "fixed", URL: remote.URL}, mcp.Server{Name: "Bad", URL: remote.URL})
	m.Refresh(t.Context(), "default")
	ready(t, m, "mine")
	require.Len(t, m.Tools(t.Context(), "default", []string{"mine__*", "fixed__greet"}), 2)
	require.Empty(t, m.Tools(t.Context(), "other", []string{"mine__*"}), "it belongs to another namespace")
	problems := map[string]string{}
	states, err := m.States(t.Context(), "default")
	require.NoError(t, err)
	for _, s := range states {
		if s.Namespace == "default" {
			problems[s.Name] = s.Error
		}
	}
	require.Equal(t, map[string]string{
		"mine": "", "Bad": `MCP server name "Bad": use 1 to 24 of a to z, 0 to 9 and -`,
		"code":  "programs are not permitted here: only servers with a url can be declared at run time",
		"fixed": `the name "fixed" belongs to a server for all namespaces: choose another`,
	}, problems)
	source.set()
	m.Refresh(t.Context(), "default")
	require.Empty(t, m.Tools(t.Context(), "default", []string{"mine__*"}))
	stored, err := catalog.Load(t.Context(), "default")
	require.NoError(t, err)
	require.Empty(t, stored)
}

// TestPrivateAddresses: a server that a namespace declares cannot reach into the network of the worker.
func TestPrivateAddresses(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inside.Close)
	source := &declared{}
	source.set(mcp.Server{Name: "inside", URL: inside.URL})
	m := run(t, mcp.Config{Source: source})
	s := reaches(t, m, "inside", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
	require.Contains(t, s.Error, "127.0.0.1 is an address of a private network")
	require.Zero(t, asked.Load())
}

// TestCatalog: other processes know the tools, and can ask for a restart.
func TestCatalog(t *testing.T) {
	catalog := mcp.NewCatalog()
	server := program("local", "simple")
	worker := run(t, mcp.Config{Servers: []mcp.Server{server}, Catalog: catalog, Worker: "w1"})
	api := run(t, mcp.Config{Servers: []mcp.Server{server}, Catalog: catalog, Local: func(mcp.Server) bool { return false }})
	first := reaches(t, api, "local", func(s mcp.State) bool { return s.Status == tool.ServerReady && s.Worker == "w1" })
	require.Equal(t, "local__greet", first.Tools[0].Name)
	out := tooltest.Run(t, find(t, api, "local__greet"), `{"name":"Ann"}`)
	require.ErrorContains(t, out.Err, "does not run in this worker")
	_, err := api.Prompts(t.Context(), "default", "local")
	require.ErrorIs(t, err, mcp.ErrNotLocal)
	require.ErrorIs(t, api.Restart(t.Context(), "default", "nobody"), mcp.ErrNoServer)
	require.NoError(t, api.Restart(t.Context(), "default", "local"))
	reaches(t, worker, "local", func(s mcp.State) bool { return s.Restarts == 1 && s.Status == tool.ServerReady })
}

// TestDownServer: the tools of a server that is down are still offered, and calls say what is wrong.
func TestDownServer(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return simple() }, nil)
	var status atomic.Int32
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := int(status.Load()); s != 0 {
			http.Error(w, "\x1b[2Jno", s)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL, Headers: map[string]mcp.Secret{"Authorization": "Bearer very-secret"}}}})
	ready(t, m, "remote")
	greet := find(t, m, "remote__greet")
	for _, tt := range []struct {
		code int
		want string
	}{
		{http.StatusInternalServerError, `the server did not answer correctly: sending "tools/call": Internal Server Error. The call may have taken effect.`},
		{http.StatusServiceUnavailable, `the server did not answer correctly: sending "tools/call": Service Unavailable. The call may have taken effect.`},
		{http.StatusUnauthorized, "it needs a login: the server rejects requests without one (401). The tool was not called."},
	} {
		code, want := tt.code, tt.want
		status.Store(int32(code))
		out := tooltest.Run(t, greet, `{"name":"Ann"}`)
		require.ErrorContains(t, out.Err, `remote__greet of the MCP server "remote": `)
		require.ErrorContains(t, out.Err, want)
		require.NotContains(t, out.Err.Error(), "\x1b")
		if code == http.StatusUnauthorized {
			s := reaches(t, m, "remote", func(s mcp.State) bool { return s.Status == tool.ServerNeedsLogin })
			require.Len(t, s.Tools, 1)
			require.Len(t, m.Tools(t.Context(), "default", []string{"remote__*"}), 1)
			out := tooltest.Run(t, greet, `{"name":"Ann"}`)
			require.ErrorContains(t, out.Err, "cannot be reached now (needs_login)")
		}
		status.Store(0)
	}
	require.NoError(t, m.Restart(t.Context(), "default", "remote"))
	ready(t, m, "remote")
	require.NoError(t, tooltest.Run(t, greet, `{"name":"Ann"}`).Err)
}

// TestForgottenSession: a server over HTTP that was restarted does not know the session. The call did not
// reach it, and is made again.
func TestForgottenSession(t *testing.T) {
	var handler atomic.Pointer[sdk.StreamableHTTPHandler]
	renew := func() {
		handler.Store(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return simple() }, nil))
	}
	renew()
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.Load().ServeHTTP(w, r) }))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL}}})
	ready(t, m, "remote")
	renew()
	out := tooltest.Run(t, find(t, m, "remote__greet"), `{"name":"Ann"}`)
	require.NoError(t, out.Err)
	require.Equal(t, "Hello, Ann", out.Result.Output)
}

// TestCallAfterRestart: a call that begins after a restart was asked for is made on the new connection.
func TestCallAfterRestart(t *testing.T) {
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return simple() }, nil))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL}}})
	ready(t, m, "remote")
	greet := find(t, m, "remote__greet")
	for range 50 {
		require.NoError(t, m.Restart(t.Context(), "default", "remote"))
		out := tooltest.Run(t, greet, `{"name":"Ann"}`)
		require.NoError(t, out.Err)
		require.Equal(t, "Hello, Ann", out.Result.Output)
	}
}

// TestCallDuringRestart: a restart waits for a call that runs.
func TestCallDuringRestart(t *testing.T) {
	began, end := make(chan struct{}, 1), make(chan struct{})
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		s := simple()
		sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(context.Context, *sdk.CallToolRequest, greeting) (*sdk.CallToolResult, any, error) {
			began <- struct{}{}
			<-end
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Done"}}}, nil, nil
		})
		return s
	}, nil))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL}}})
	ready(t, m, "remote")
	wait := find(t, m, "remote__wait")
	out := make(chan tooltest.Outcome, 1)
	go func() { out <- tooltest.Run(t, wait, `{"name":"Ann"}`) }()
	<-began
	require.NoError(t, m.Restart(t.Context(), "default", "remote"))
	require.Never(t, func() bool { return len(out) > 0 }, 200*time.Millisecond, 10*time.Millisecond)
	close(end)
	done := <-out
	require.NoError(t, done.Err)
	require.Equal(t, "Done", done.Result.Output)
	reaches(t, m, "remote", func(s mcp.State) bool { return s.Status == tool.ServerReady && s.Restarts == 1 })
}

// TestRedirect: headers, which are secret, stay with the declared host.
func TestRedirect(t *testing.T) {
	var stolen atomic.Value
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen.Store(r.Header.Get("X-Key")) }))
	t.Cleanup(thief.Close)
	remote := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL + "/?key=in-the-address", Headers: map[string]mcp.Secret{"X-Key": "very-secret"}}}})
	s := reaches(t, m, "remote", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
	require.Contains(t, s.Error, "the server redirects to another host")
	require.Nil(t, stolen.Load())
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "in-the-address")
}

// TestLargeBody: what a server sends over HTTP is bounded, also without a stream.
func TestLargeBody(t *testing.T) {
	large := strings.Repeat(" ", 1<<20)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 50 {
			if _, err := w.Write([]byte(large)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "remote", URL: remote.URL}}})
	s := reaches(t, m, "remote", func(s mcp.State) bool { return s.Status == tool.ServerFailed })
	require.Contains(t, s.Error, "the server sent a message of more than 10 MiB")
}

// TestHints: the hints of trusted servers count, and a hint that changes is a change of the definition.
func TestHints(t *testing.T) {
	yes, no := true, false
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "hints"}, nil)
		for name, a := range map[string]*sdk.ToolAnnotations{
			"none": nil, "read": {ReadOnlyHint: true}, "add": {DestructiveHint: &no}, "put": {DestructiveHint: &yes, IdempotentHint: true},
		} {
			s.AddTool(&sdk.Tool{Name: name, Description: "Is.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: a}, nil)
		}
		return s
	}, nil)
	remote := httptest.NewServer(handler)
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "trusted", URL: remote.URL, Trusted: true}, {Name: "not", URL: remote.URL}}})
	ready(t, m, "trusted")
	ready(t, m, "not")
	digests := map[string]bool{}
	for name, want := range map[string][2]bool{"none": {true, false}, "read": {false, true}, "add": {false, false}, "put": {true, true}} {
		d := find(t, m, "trusted__"+name).Definition()
		require.Equal(t, want, [2]bool{d.NeedsApproval, d.Idempotent}, name)
		digests[strings.ReplaceAll(d.Description, name, "")] = true
		d = find(t, m, "not__"+name).Definition()
		require.True(t, d.NeedsApproval)
		require.False(t, d.Idempotent)
		require.Equal(t, "Is.", d.Description)
		require.Equal(t, "runs "+name+" of the MCP server not, which is not trusted", d.ApprovalReason)
	}
	require.Len(t, digests, 4, "approvers are asked again when a hint changes")
}

// TestListsAreRedacted: what a server says of its tools goes to models, stores and people. Names remain.
func TestListsAreRedacted(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "by ann@mail.example", Version: "1"}, nil)
		s.AddTool(&sdk.Tool{Name: "mail", Title: "To ann@mail.example", Description: "Asks ann@mail.example.", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"to":{"type":"string","description":"as ann@mail.example","enum":["ann@mail.example","bo"]}}}`)}, nil)
		s.AddTool(&sdk.Tool{Name: "named", InputSchema: json.RawMessage(`{"type":"object","properties":{"ann@mail.example":{}}}`)}, nil)
		s.AddPrompt(&sdk.Prompt{Name: "ask", Description: "Asks ann@mail.example."}, nil)
		s.AddResource(&sdk.Resource{URI: "file:///a", Name: "a", Description: "Of ann@mail.example."}, nil)
		return s
	}, nil)
	remote := httptest.NewServer(handler)
	t.Cleanup(remote.Close)
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Emails()}})
	require.NoError(t, err)
	m := run(t, mcp.Config{Redact: r, Servers: []mcp.Server{{Name: "x", URL: remote.URL, Trusted: true}}})
	s := ready(t, m, "x")
	prompts, err := m.Prompts(t.Context(), "default", "x")
	require.NoError(t, err)
	resources, err := m.Resources(t.Context(), "default", "x")
	require.NoError(t, err)
	raw, err := json.Marshal([]any{s, prompts, resources, find(t, m, "x__mail").Definition()})
	require.NoError(t, err)
	require.NotContains(t, string(raw), "ann@mail")
	require.Equal(t, []mcp.Problem{{Subject: "named", Reason: "the tool is left out: its inputSchema has a name with text that is redacted: [email]"}}, s.Problems)
	require.JSONEq(t, `{"type":"object","properties":{"to":{"type":"string","description":"as [email]","enum":["[email]","bo"]}}}`, string(s.Tools[1].Parameters))
}

// TestQuestionsOfPrograms: a program of the old protocol gets the stored answers when its call is made
// again, also if addresses differ.
func TestQuestionsOfPrograms(t *testing.T) {
	m, dir := hostile(t, "asks")
	ready(t, m, "raw")
	do := find(t, m, "raw__do")
	call := func(input *tool.Input) (tool.Result, *tool.InputRequired) {
		t.Helper()
		res, err := do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`, Input: input})
		need, asks := errors.AsType[*tool.InputRequired](err)
		if !asks {
			require.NoError(t, err)
		}
		return res, need
	}
	_, first := call(nil)
	require.Equal(t, `Which colour?\u202e`, first.Questions[0].Message)
	require.NoError(t, tool.CheckQuestion(first.Questions[0]))
	red := event.InputAnswer{Action: event.InputAccept, Content: json.RawMessage(`{"colour":"red"}`)}
	require.NoError(t, m.Restart(t.Context(), "default", "raw"), "a week later")
	reaches(t, m, "raw", func(s mcp.State) bool { return s.Restarts == 1 && s.Status == tool.ServerReady })
	_, second := call(&tool.Input{State: first.State, Answers: map[string]event.InputAnswer{"1": red}})
	require.Equal(t, event.InputURL, second.Questions[0].Kind)
	require.True(t, strings.HasPrefix(second.Questions[0].URL, "https://pay.example/"))
	res, none := call(&tool.Input{State: second.State, Answers: map[string]event.InputAnswer{"1": {Action: event.InputAccept}}})
	require.Nil(t, none)
	require.Equal(t, `{"action":"accept","content":{"colour":"red"}} {"action":"accept"}`, res.Output)
	require.Equal(t, 3, strings.Count(string(appears(t, filepath.Join(dir, "began"))), "\n"))

	res, none = call(&tool.Input{State: first.State, Answers: map[string]event.InputAnswer{"1": {Action: event.InputDecline}}})
	require.Nil(t, none)
	require.Equal(t, `first: {"action":"decline"}`, res.Output)
	require.ErrorContains(t, func() error {
		_, err := do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`, Input: &tool.Input{State: "x"}})
		return err
	}(), "cannot be read")
}

// TestQuestionsAtOnce: calls that ask at the same time are told to ask one after the other, and then run
// alone.
func TestQuestionsAtOnce(t *testing.T) {
	m, _ := hostile(t, "asks")
	ready(t, m, "raw")
	do := find(t, m, "raw__do")
	ask := func(n int) (asked, together int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range n {
			wg.Go(func() {
				_, err := do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`})
				mu.Lock()
				defer mu.Unlock()
				if _, is := errors.AsType[*tool.InputRequired](err); is {
					asked++
				} else if err != nil && strings.Contains(err.Error(), "several calls asked for a person's input at once") {
					together++
				} else {
					t.Errorf("unexpected: %v", err)
				}
			})
		}
		wg.Wait()
		return asked, together
	}
	asked, together := ask(4)
	require.Equal(t, 4, asked+together)
	asked, _ = ask(4)
	require.Equal(t, 4, asked)
}

func TestAddressFirst(t *testing.T) {
	m, dir := hostile(t, "url")
	ready(t, m, "raw")
	do := find(t, m, "raw__do")
	_, err := do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`})
	need, asks := errors.AsType[*tool.InputRequired](err)
	require.True(t, asks, "%v", err)
	require.Equal(t, event.InputQuestion{ID: "1", Kind: event.InputURL, Message: "Log in", URL: "https://login.example/x"}, need.Questions[0])
	answer := func(action event.InputAction) *tool.Input {
		return &tool.Input{State: need.State, Answers: map[string]event.InputAnswer{"1": {Action: action}}}
	}
	res, err := do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`, Input: answer(event.InputCancel)})
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.Contains(t, res.Output, `the person answered with "cancel"`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "visited"), nil, 0o600))
	res, err = do.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`, Input: answer(event.InputAccept)})
	require.NoError(t, err)
	require.Equal(t, "visited", res.Output)
}
