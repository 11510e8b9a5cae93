package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mcpRun is a run of "starter mcp" with a client of its stdin and stdout.
type mcpRun struct {
	*mcp.ClientSession
	input  io.Closer
	stderr *bytes.Buffer
	ended  chan int
}

func runMCP(t *testing.T, args ...string) *mcpRun {
	t.Helper()
	requests, in := io.Pipe()
	out, responses := io.Pipe()
	r := &mcpRun{input: in, stderr: &bytes.Buffer{}, ended: make(chan int, 1)}
	go func() {
		r.ended <- Run(context.Background(), append([]string{"mcp"}, args...), requests, responses, r.stderr)
		_ = responses.Close()
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	require.NoError(t, err)
	r.ClientSession = session
	return r
}

// text returns what a tool says.
func (r *mcpRun) text(t *testing.T, tool string, args map[string]any) (text string, isError bool) {
	t.Helper()
	got, err := r.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(t, err)
	return got.Content[0].(*mcp.TextContent).Text, got.IsError
}

func (r *mcpRun) tools(t *testing.T) (names []string) {
	t.Helper()
	list, err := r.ListTools(t.Context(), nil)
	require.NoError(t, err)
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// TestMCPWithoutServer: the command starts without the server, says so in each call, and works once it
// runs.
func TestMCPWithoutServer(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())

	r := runMCP(t, "--api", "http://"+address)
	require.Len(t, r.tools(t), 10, "the roles are not known")
	for _, tool := range []string{"list_agents", "ask_agent", "wait_for_turn"} {
		text, isError := r.text(t, tool, map[string]map[string]any{
			"list_agents": nil, "ask_agent": {"message": "x"}, "wait_for_turn": {"thread": "t1", "event": "e1"},
		}[tool])
		require.True(t, isError)
		require.Contains(t, text, "the Threadmill server cannot be reached")
	}

	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"agents":[{"name":"bot"}]}`)
	})
	mux.HandleFunc("GET /v1/server", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"roles":["read"]}`)
	})
	api := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = api.Close() })
	go func() { _ = api.Serve(listener) }()
	text, isError := r.text(t, "list_agents", nil)
	require.False(t, isError, text)
	require.Contains(t, text, "bot")
	require.Equal(t, []string{"list_agents", "list_approvals", "list_threads", "read_thread", "wait_for_turn"}, r.tools(t), "as the key may use them")

	require.NoError(t, r.Close())
	require.Equal(t, exitOK, <-r.ended, "the command ends with its input")
	require.Empty(t, r.stderr.String())
}

// TestMCPEndsInACall: the end of the input ends a call that waits.
func TestMCPEndsInACall(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	waiting := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		assert.NoError(t, http.NewResponseController(w).Flush())
		close(waiting)
		<-r.Context().Done()
	}))
	t.Cleanup(api.Close)
	r := runMCP(t, "--api", api.URL)
	go func() {
		_, _ = r.CallTool(context.Background(), &mcp.CallToolParams{Name: "wait_for_turn", Arguments: map[string]any{"thread": "t1", "event": "e1"}})
	}()
	<-waiting
	require.NoError(t, r.input.Close())
	require.Equal(t, exitOK, <-r.ended)
}

func TestMCPUsage(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, args := range map[string][]string{
		"an address":  {"mcp", "--api", "localhost"},
		"an argument": {"mcp", "x"},
		"a key file":  {"mcp", "--api-key-file", "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, exitUsage, Run(t.Context(), args, strings.NewReader(""), &out, &errs))
			require.Empty(t, out.String())
			require.NotEmpty(t, errs.String())
		})
	}
}
