package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/tool"
)

// toolServers are the MCP servers of workers.
type toolServers struct {
	server.ToolServers
	restarted []string
}

func (s *toolServers) States(context.Context, string) ([]tool.ServerState, error) {
	return []tool.ServerState{{
		Name: "files", Transport: "stdio", Address: "npx", Status: tool.ServerReady, ServerName: "Filesystem", ServerVersion: "1.2",
		Tools:    []tool.ServerTool{{Name: "files__read", Description: "Reads\na file.", Hints: tool.ServerHints{ReadOnly: true}}},
		Problems: []tool.ServerProblem{{Subject: "write", Reason: "its schema is no schema"}},
		Log:      "starting\nno \x1b[31mroot\n",
	}}, nil
}

func (s *toolServers) Restart(_ context.Context, _, name string) error {
	s.restarted = append(s.restarted, name)
	return nil
}

func (s *toolServers) Refresh(context.Context, string) {}

// toolSource is a source of tools that knows servers.
type toolSource struct {
	tool.Source
	server.ToolServers
	logins   server.ToolLogins
	declared *toolserver.Registry
}

func (s toolSource) Logins() server.ToolLogins      { return s.logins }
func (s toolSource) Declared() *toolserver.Registry { return s.declared }

// serverCommandsOf runs commands on servers.
func serverCommandsOf(t *testing.T, servers server.ToolServers, logins server.ToolLogins) (run func(args ...string) (code int, out, errs string)) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, live.Close()) })
	handler, err := server.New(server.Config{
		Threads: struct{ server.Threads }{}, Backend: backend.Backend{
			Store: db, Stream: live, Library: library.New(library.Config{Store: db}),
			ToolSource: toolSource{ToolServers: servers, logins: logins, declared: toolserver.NewRegistry(db, toolserver.Permission{Servers: true}, []string{"files"})},
		},
	})
	require.NoError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	w := newWorld(t)
	return func(args ...string) (code int, out, errs string) {
		return w.run("", append([]string{"--api", srv.URL, "servers"}, args...)...)
	}
}

func TestServerCommands(t *testing.T) {
	servers := &toolServers{}
	run := serverCommandsOf(t, servers, nil)
	ok := func(args ...string) string {
		code, out, errs := run(args...)
		require.Equal(t, exitOK, code, errs)
		return out
	}
	require.Equal(t, "hub declared, version 1\n", ok("add", "hub", "--url", "https://mcp.example.com/mcp", "--header-env", "Authorization=MCP_HUB"))
	require.Equal(t, "SERVER  STATUS   TOOLS  SOURCE      ADDRESS  PROBLEM\n"+
		"files   ready    1      configured  npx      write: its schema is no schema\n"+
		"hub     unknown  0      declared    -        -\n", ok("list"))
	shown := ok("show", "files")
	require.Contains(t, shown, "status    ready")
	require.Contains(t, shown, "rejected  write: its schema is no schema")
	require.Contains(t, shown, "its last output\n  starting\n  no \\u001b[31mroot\n")
	require.Contains(t, shown, "files__read  reads   Reads a file.")
	require.Contains(t, ok("show", "hub", "--json"), `"Authorization": "MCP_HUB"`)
	require.Equal(t, "files restarts within seconds\n", ok("restart", "files"))
	require.Equal(t, []string{"files"}, servers.restarted)
	require.Equal(t, "hub removed\n", ok("remove", "hub"))

	code, _, errs := run("show", "file")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "did you mean files?")
	code, _, errs = run("add", "hub", "--url", "https://mcp.example.com/mcp", "--header-env", "hunter2")
	require.Equal(t, exitUsage, code)
	require.NotContains(t, errs, "hunter2")
	code, _, errs = run("add", "hub", "--command", "sh")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "mcpApi.commands")
}

// toolLogins are the logins to the servers: somebody logs in after the third look at a link.
type toolLogins struct {
	server.ToolLogins
	login  tool.ServerLogin
	looks  int
	linked []string
}

func (l *toolLogins) Login(_ context.Context, _, name, user string) (tool.ServerLogin, error) {
	if name != "files" {
		return tool.ServerLogin{}, toolserver.ErrNoLogin
	}
	if l.looks++; len(l.linked) > 0 && l.looks > 3 {
		l.login.LoggedIn, l.login.By, l.login.At = true, "ann\x1b[31m", askedAt
	}
	l.login.User = user
	return l.login, nil
}

func (l *toolLogins) LoginLink(_ context.Context, _, _, user, by string) (string, time.Time, error) {
	l.linked = append(l.linked, user+" "+by)
	l.looks = 0
	return "https://threadmill.example/oauth/login/x", time.Now().Add(time.Hour), nil
}

func (l *toolLogins) Logout(context.Context, string, string, string) error {
	if !l.login.LoggedIn {
		return toolserver.ErrNotLoggedIn
	}
	l.login.LoggedIn, l.linked = false, nil
	return nil
}

func (l *toolLogins) LoginPages(func(context.Context, toolserver.LoggedIn)) http.Handler {
	return http.NotFoundHandler()
}

func TestServerLogin(t *testing.T) {
	t.Setenv("USER", "ann")
	logins := &toolLogins{login: tool.ServerLogin{Per: tool.LoginPerUser}}
	run := serverCommandsOf(t, &toolServers{}, logins)
	ok := func(args ...string) (out, errs string) {
		code, out, errs := run(args...)
		require.Equal(t, exitOK, code, errs)
		return out, errs
	}
	out, _ := ok("list")
	require.Contains(t, out, "nobody  write: its schema")
	out, _ = ok("show", "files")
	require.Contains(t, out, "login     of ann: not logged in, run starter servers login\n")
	out, errs := ok("login", "files", "--no-wait")
	require.Equal(t, "https://threadmill.example/oauth/login/x\n", out)
	require.Contains(t, errs, "open this address in a browser until ")
	out, _ = ok("login", "files", "--json")
	require.Contains(t, out, `"url": "https://threadmill.example/oauth/login/x"`)
	out, _ = ok("login", "files")
	require.Equal(t, "https://threadmill.example/oauth/login/x\nann\\u001b[31m logged in to files\n", out)
	require.Equal(t, []string{"ann ann", "ann ann", "ann ann"}, logins.linked)
	out, _ = ok("show", "files")
	require.Contains(t, out, "login     of ann: logged in by ann\\u001b[31m, 2026-01-02 ")
	out, _ = ok("logout", "files")
	require.Equal(t, "logged out of files\n", out)

	for args, want := range map[string]string{
		"logout files": "there is no login\n",
		"login hub":    "there is no MCP server",
		"login file":   "did you mean files?",
	} {
		code, _, errs := run(strings.Fields(args)...)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs, want, args)
	}
	code, _, errs := run("add", "hub", "--url", "https://mcp.example.com/mcp", "--scope", "read")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "belong to --login")
	ok("add", "hub", "--url", "https://mcp.example.com/mcp", "--login", "user", "--scope", "read", "--client-id", "c", "--client-secret-env", "MCP_SECRET")
	out, _ = ok("show", "hub", "--json")
	require.Contains(t, out, `"clientSecretEnv": "MCP_SECRET"`)
	require.Contains(t, out, `"per": "user"`)
}
