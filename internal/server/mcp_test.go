package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/tool"
)

// toolServers are the MCP servers of workers.
type toolServers struct {
	states    []tool.ServerState
	restarted []string
	refreshed int
}

func (s *toolServers) States(context.Context, string) ([]tool.ServerState, error) {
	return s.states, nil
}

func (s *toolServers) Restart(_ context.Context, _, name string) error {
	s.restarted = append(s.restarted, name)
	return nil
}

func (s *toolServers) Prompts(context.Context, string, string) ([]tool.ServerPrompt, error) {
	return []tool.ServerPrompt{{Name: "review"}}, nil
}

func (s *toolServers) Prompt(_ context.Context, _, _, name string, arguments map[string]string) (tool.ServerPromptText, error) {
	return tool.ServerPromptText{Messages: []tool.ServerPromptMessage{{Role: "user", Text: name + " " + arguments["file"]}}}, nil
}

func (s *toolServers) Resources(context.Context, string, string) ([]tool.ServerResource, error) {
	return nil, errors.New("the MCP server does not run in this process")
}

func (s *toolServers) ReadResource(_ context.Context, _, _, uri string) ([]tool.ServerContent, error) {
	return []tool.ServerContent{{URI: uri, Text: "the text"}}, nil
}

func (s *toolServers) Refresh(context.Context, string) { s.refreshed++ }

// toolSource is a source of tools that knows servers.
type toolSource struct {
	tool.Source
	server.ToolServers
	logins   server.ToolLogins
	declared *toolserver.Registry
}

func (s *toolSource) Logins() server.ToolLogins      { return s.logins }
func (s *toolSource) Declared() *toolserver.Registry { return s.declared }

func withServers(s *toolServers, permitted toolserver.Permission) func(*server.Config) {
	return func(c *server.Config) {
		c.ToolSource = &toolSource{ToolServers: s, declared: toolserver.NewRegistry(teststore.Of(c.Store), permitted, []string{"files"})}
	}
}

func TestMCPServers(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &toolServers{states: []tool.ServerState{{
		Name: "files", Transport: "stdio", Address: "npx", Status: tool.ServerReady, Since: since, Prompts: 1,
		Tools:    []tool.ServerTool{{Name: "files__read", OwnName: "read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object"}`), Digest: "d", FirstSeen: since}},
		Problems: []tool.ServerProblem{{Subject: "write", Reason: "its schema is no schema"}},
	}}}
	w := newWorld(t, withServers(s, toolserver.Permission{Servers: true}))
	declare := object{"url": "https://mcp.example.com/mcp?x=1", "headersEnv": object{"Authorization": "MCP_HUB"}, "timeout": "30s"}
	got := w.call("PUT", "/v1/mcp/hub?by=ann", declare)
	require.Equal(t, http.StatusCreated, got.status, got.text)
	require.Equal(t, "declared", got.body["source"])
	require.Equal(t, "unknown", got.body["status"])
	require.Equal(t, declare, got.body["declaration"])
	require.Equal(t, "ann", got.body["by"])
	require.Equal(t, 1, s.refreshed)
	require.Equal(t, http.StatusOK, w.call("PUT", "/v1/mcp/hub?by=bob", declare).status)
	require.Equal(t, "ann", w.call("GET", "/v1/mcp/hub", nil).body["by"], "the same again changes nothing")

	list := w.call("GET", "/v1/mcp", nil)
	require.Equal(t, http.StatusOK, list.status, list.text)
	require.Equal(t, object{"servers": true, "commands": false, "privateAddresses": false}, list.body["permissions"])
	servers := list.body["servers"].([]any)
	require.Len(t, servers, 2)
	files := servers[0].(object)
	require.Equal(t, "configured", files["source"])
	require.Equal(t, []any{object{"name": "files__read", "description": "Reads.", "hints": object{}}}, files["tools"], "without parameters")
	require.Equal(t, []any{object{"subject": "write", "reason": "its schema is no schema"}}, files["problems"])
	one := w.call("GET", "/v1/mcp/files", nil)
	require.Equal(t, object{"type": "object"}, one.body["tools"].([]any)[0].(object)["parameters"])

	require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/mcp/files/restart", nil).status)
	require.Equal(t, []string{"files"}, s.restarted)

	require.Equal(t, object{"prompts": []any{object{"name": "review"}}}, w.call("GET", "/v1/mcp/files/prompts", nil).body)
	require.Equal(t, object{"messages": []any{object{"role": "user", "text": "review a.go"}}},
		w.call("POST", "/v1/mcp/files/prompts/review", object{"arguments": object{"file": "a.go"}}).body)
	require.Equal(t, object{"contents": []any{object{"uri": "file:///a", "text": "the text"}}}, w.call("GET", "/v1/mcp/files/resource?uri=file:///a", nil).body)
	elsewhere := w.call("GET", "/v1/mcp/files/resources", nil)
	elsewhere.problem(t, http.StatusServiceUnavailable)
	require.Contains(t, elsewhere.text, "does not run in this process")

	declare["timeout"] = "1m"
	w.call("PUT", "/v1/mcp/hub?ifVersion=3", declare).problem(t, http.StatusConflict)
	require.Equal(t, http.StatusOK, w.call("PUT", "/v1/mcp/hub?ifVersion=1", declare).status)
	w.call("DELETE", "/v1/mcp/hub?ifVersion=1", nil).problem(t, http.StatusConflict)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/mcp/hub", nil).status)
	require.Len(t, w.call("GET", "/v1/mcp", nil).body["servers"], 1)
	for _, c := range []struct{ method, path string }{{"GET", "hub"}, {"DELETE", "hub"}, {"POST", "hub/restart"}, {"DELETE", "files"}, {"GET", "hub/prompts"}, {"GET", "hub/resource?uri=x"}} {
		w.call(c.method, "/v1/mcp/"+c.path, nil).problem(t, http.StatusNotFound)
	}
}

// TestMCPDeclarations: what may not be declared, and why. No answer repeats what may be a secret.
func TestMCPDeclarations(t *testing.T) {
	all := toolserver.Permission{Servers: true, Commands: true, PrivateAddresses: true}
	url := "https://mcp.example.com/mcp"
	for name, c := range map[string]struct {
		permitted toolserver.Permission
		server    string
		body      object
		status    int
		says      string
	}{
		"nothing permitted": {toolserver.Permission{}, "hub", object{"url": url}, 409, "mcpApi.servers"},
		"no commands":       {toolserver.Permission{Servers: true}, "hub", object{"command": []string{"sh"}}, 409, "mcpApi.commands"},
		"commands":          {all, "hub", object{"command": []string{"sh"}, "envFrom": object{"TOKEN": "MCP_TOKEN"}}, 201, ""},
		"configured":        {all, "files", object{"url": url}, 422, "configured server"},
		"bad name":          {all, "my_hub", object{"url": url}, 422, "small letters"},
		"neither":           {all, "hub", object{}, 422, "url"},
		"both":              {all, "hub", object{"url": url, "command": []string{"sh"}}, 422, "exclude"},
		"bad url":           {all, "hub", object{"url": "file:///etc/passwd"}, 422, "web address"},
		"password in url":   {all, "hub", object{"url": "https://me:hunter2@mcp.example.com"}, 422, "headersEnv"},
		"any variable":      {all, "hub", object{"url": url, "headersEnv": object{"X": "OPENAI_API_KEY"}}, 422, "begins with MCP_"},
		"secret itself":     {all, "hub", object{"url": url, "headersEnv": object{"X": "Bearer hunter2"}}, 422, "begins with MCP_"},
		"its own header":    {all, "hub", object{"url": url, "headersEnv": object{"host": "MCP_X"}}, 422, "the protocol sets"},
		"unknown field":     {all, "hub", object{"url": url, "headers": object{"X": "hunter2"}}, 422, "headers"},
		"timeout":           {all, "hub", object{"url": url, "timeout": "13h"}, 422, "at most 12h"},
		"pattern":           {all, "hub", object{"url": url, "tools": []string{"["}}, 422, "pattern"},
		"control":           {all, "hub", object{"url": url, "description": "a\x1b[31m"}, 422, "control"},
		"fields of command": {all, "hub", object{"url": url, "dir": "/"}, 422, "command"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withServers(&toolServers{}, c.permitted))
			got := w.call("PUT", "/v1/mcp/"+c.server, c.body)
			require.Equal(t, c.status, got.status, got.text)
			require.Contains(t, got.text, c.says)
			require.NotContains(t, got.text, "hunter2")
		})
	}
	t.Run("too many", func(t *testing.T) {
		w := newWorld(t, withServers(&toolServers{}, all))
		for i := range toolserver.MaxDeclared {
			require.Equal(t, http.StatusCreated, w.call("PUT", "/v1/mcp/s"+strings.Repeat("x", i%20)+string(rune('a'+i/20)), object{"url": url}).status)
		}
		w.call("PUT", "/v1/mcp/one-more", object{"url": url}).problem(t, http.StatusUnprocessableEntity)
	})
	t.Run("not permitted any more", func(t *testing.T) {
		w := newWorld(t, withServers(&toolServers{}, all), func(c *server.Config) {
			source := c.ToolSource.(*toolSource)
			_, _, err := source.declared.Put(t.Context(), "default", "hub", tool.ServerDeclaration{Command: []string{"sh"}}, "ann", 0)
			require.NoError(t, err)
			source.declared = toolserver.NewRegistry(teststore.Of(c.Store), toolserver.Permission{Servers: true}, nil)
		})
		require.Contains(t, w.call("GET", "/v1/mcp/hub", nil).body["problem"], "mcpApi.commands")
	})
}
