package cli

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/toolserver"
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

func TestServerCommands(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	live := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, live.Close()) })
	servers := &toolServers{}
	handler, err := server.New(server.Config{
		Threads: struct{ server.Threads }{}, Store: db, Stream: live, ToolServers: servers,
		Declared: toolserver.NewRegistry(db, toolserver.Permission{Servers: true}, []string{"files"}),
	})
	require.NoError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	w := newWorld(t)
	run := func(args ...string) (code int, out, errs string) {
		return w.run("", append([]string{"--api", srv.URL, "servers"}, args...)...)
	}
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
