package providers

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/chats"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestMCPClients uses the MCP server with the clients of npm, over HTTP and over stdio with "starter
// mcp": tests/npm/mcp.mjs has the scenarios.
func TestMCPClients(t *testing.T) {
	t.Parallel()
	starter := proc.BuildStarter(t)
	for _, client := range []string{"sdk", "client"} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(client+" "+transport, func(t *testing.T) {
				t.Parallel()
				var scripts proc.Scripts
				defer scripts.Stop()
				worlds := chats.Worlds{T: t}
				for _, scenario := range []string{"ask", "approval", "input", "sub-agent input", "running", "cut"} {
					if transport == "stdio" && scenario == "cut" {
						continue
					}
					t.Run(scenario, func(t *testing.T) {
						scripts.Run(t, "mcp.mjs", client, transport, worlds.For(scenario).API.URL, scenario, starter)
					})
				}
			})
		}
	}
}

// mcpPassed are the scenarios of the conformance suite that need no tools of its own.
var mcpPassed = []string{
	"server-initialize", "logging-set-level", "ping", "tools-list", "server-sse-multiple-streams", "resources-list", "prompts-list", "dns-rebinding-protection",
}

// TestMCPConformance runs the server suite of @modelcontextprotocol/conformance.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	w := chats.New(t, "conformance")
	failures, err := filepath.Abs("../npm/mcp-expected-failures.yml")
	require.NoError(t, err)
	out := string(proc.Output(t, testenv.Node(t, mcpConformance,
		"server", "--url", w.API.URL+"/mcp", "--suite", "all", "--expected-failures", failures, "--output-dir", t.TempDir())))
	for _, name := range mcpPassed {
		require.Regexp(t, `✓ `+regexp.QuoteMeta(name)+`: [1-9]`, out)
	}
}

// mcpConnect connects to an MCP server.
func mcpConnect(t *testing.T, transport mcp.Transport, version string) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func mcpCall(ctx context.Context, session *mcp.ClientSession, name string, args map[string]any) (map[string]any, error) {
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return nil, err
	}
	if got.IsError {
		return map[string]any{"error": got.Content[0].(*mcp.TextContent).Text}, nil
	}
	return got.StructuredContent.(map[string]any), nil
}

// TestMCPKilled kills the server in the middle of calls. Over HTTP, the turn is picked up by thread and
// event; "starter mcp" survives the server, and its call too.
func TestMCPKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a devserver")
	}
	starter := proc.BuildStarter(t)
	provider := llmtest.NewServer(llmtest.Config{T: t})
	t.Cleanup(provider.Close)
	d := proc.New(t, proc.Options{Binary: proc.Build(t), Env: []string{"OPENAI_API_KEY=test", "OPENAI_BASE_URL=" + provider.URL}})
	d.Start()
	overHTTP := mcpConnect(t, &mcp.StreamableClientTransport{Endpoint: d.URL + "/mcp"}, "2025-11-25")
	cmd := exec.Command(starter, "mcp", "--api", d.URL)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	overStdio := mcpConnect(t, &mcp.CommandTransport{Command: cmd}, "")

	type result struct {
		out map[string]any
		err error
	}
	ask := func(session *mcp.ClientSession, thread string) result {
		out, err := mcpCall(t.Context(), session, "ask_agent", map[string]any{"thread": thread, "message": "count 100 every 50ms", "requestId": "request-" + thread})
		return result{out, err}
	}
	done := map[*mcp.ClientSession]chan result{overHTTP: make(chan result, 1), overStdio: make(chan result, 1)}
	for session, thread := range map[*mcp.ClientSession]string{overHTTP: "http", overStdio: "stdio"} {
		_, err := mcpCall(t.Context(), session, "open_thread", map[string]any{"thread": thread})
		require.NoError(t, err)
		go func() { done[session] <- ask(session, thread) }()
		require.Eventually(t, func() bool { return len(d.Messages(thread)) > 0 }, testenv.Patience, testenv.Tick)
	}
	d.Kill()
	cut := <-done[overHTTP]
	require.Error(t, cut.err, "the connection has gone")
	d.Start()

	again := mcpConnect(t, &mcp.StreamableClientTransport{Endpoint: d.URL + "/mcp"}, "2026-07-28")
	// completes waits for a turn that a slow machine has not finished within one wait.
	completes := func(session *mcp.ClientSession, thread string, out map[string]any) map[string]any {
		for out == nil || out["status"] == "running" {
			var err error
			out, err = mcpCall(t.Context(), session, "wait_for_turn", map[string]any{"thread": thread, "event": "request-" + thread})
			require.NoError(t, err)
		}
		require.Equal(t, "completed", out["status"], out)
		return out
	}
	stayed := <-done[overStdio]
	require.NoError(t, stayed.err)
	if stayed.out["error"] != nil {
		// The message was stored, and the kill came before the response to the post. The client does as it
		// is told, which posts nothing again.
		require.Contains(t, stayed.out["error"], "call again when it runs")
		stayed = ask(overStdio, "stdio")
		require.NoError(t, stayed.err)
	}
	completes(overStdio, "stdio", stayed.out)
	posts := slices.DeleteFunc(d.Messages("stdio"), func(m event.Message) bool { return m.Role != event.RoleUser })
	require.Len(t, posts, 1)
	out := completes(again, "http", nil)
	require.Contains(t, out["text"], "98 99 100")
	require.Equal(t, http.StatusOK, d.Try(t.Context(), http.MethodGet, "/v1/threads/http", nil, nil))
}
