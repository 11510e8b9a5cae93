package mcp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// TestMain runs a server instead of the tests if the environment names one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2]))
	}
	os.Exit(m.Run())
}

// program declares a server that runs in a process of its own.
func program(name, server string) mcp.Server {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return mcp.Server{Name: name, Command: []string{self, "serve", server}, Trusted: true}
}

// run starts a manager until the end of the test.
func run(t *testing.T, cfg mcp.Config) *mcp.Manager {
	t.Helper()
	m, err := mcp.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return m
}

func state(t *testing.T, m *mcp.Manager, name string) mcp.State {
	t.Helper()
	states, err := m.States(t.Context(), "default")
	require.NoError(t, err)
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no server %q", name)
	return mcp.State{}
}

// reaches waits until a server has a state.
func reaches(t *testing.T, m *mcp.Manager, name string, is func(mcp.State) bool) mcp.State {
	t.Helper()
	var last mcp.State
	require.Eventually(t, func() bool {
		last = state(t, m, name)
		return is(last)
	}, testenv.Patience, 5*time.Millisecond, "%+v", &last)
	return last
}

func ready(t *testing.T, m *mcp.Manager, name string) mcp.State {
	t.Helper()
	return reaches(t, m, name, func(s mcp.State) bool { return s.Status == tool.ServerReady })
}

func find(t *testing.T, m *mcp.Manager, name string) tool.Tool {
	t.Helper()
	tools := m.Tools(t.Context(), "default", []string{name})
	require.Len(t, tools, 1, name)
	return tools[0]
}

type greeting struct {
	Name string `json:"name"`
}

// simple is a server with one tool.
func simple() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "simple", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "Greets."}, func(_ context.Context, _ *sdk.CallToolRequest, in greeting) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hello, " + in.Name}}}, nil, nil
	})
	return s
}

func serve(name string) int {
	switch name {
	case "simple", "booking":
		server := simple()
		if name == "booking" {
			server = booking()
		}
		if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			return 1
		}
	case "worker":
		forks := program("raw", "forks")
		m, err := mcp.New(mcp.Config{Servers: []mcp.Server{forks}})
		if err != nil {
			return 1
		}
		_ = m.Run(context.Background())
	case "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		rawServer(name).serve(os.Stdin)
	}
	return 0
}

func hashOf(own string) string {
	sum := sha256.Sum256([]byte(own))
	return hex.EncodeToString(sum[:])[:8]
}

// TestTransports: tools of servers of both generations can be called over both transports.
func TestTransports(t *testing.T) {
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return simple() }, nil))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{program("local", "simple"), {Name: "remote", URL: remote.URL}}})
	for _, name := range []string{"local", "remote"} {
		t.Run(name, func(t *testing.T) {
			s := ready(t, m, name)
			require.Equal(t, "simple", s.ServerName)
			require.Empty(t, s.Problems)
			out := tooltest.Run(t, find(t, m, name+"__greet"), `{"name":"Ann"}`)
			require.NoError(t, out.Err)
			require.Equal(t, tool.Result{Output: "Hello, Ann"}, out.Result)
			t.Log(s.ProtocolVersion)
		})
	}
}
