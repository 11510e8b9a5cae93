package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/tool"
)

// MCPServerDetail is an MCP server with all that is known about it.
type MCPServerDetail struct {
	tool.ServerState
	Source      string                  `json:"source" enum:"configured,declared" doc:"configured: the operator declares it, for all namespaces. declared: it was declared at run time"`
	Login       *tool.ServerLogin       `json:"login,omitempty" doc:"The login, if people log in to the server"`
	Declaration *tool.ServerDeclaration `json:"declaration,omitempty" doc:"With source declared: how it is declared"`
	Problem     string                  `json:"problem,omitempty" doc:"With source declared: why workers do not use the declaration"`
	Version     int                     `json:"version,omitempty" doc:"With source declared: the version of the declaration"`
	By          string                  `json:"by,omitempty" doc:"With source declared: who declared it"`
	At          time.Time               `json:"at,omitzero" doc:"With source declared: when"`
}

// MCPServers lists the MCP servers. Their tools have no parameters. Without an API key, user is the person
// whose logins are shown.
func (c *Client) MCPServers(ctx context.Context, user string) ([]MCPServerDetail, error) {
	out, err := call[struct {
		Servers []MCPServerDetail `json:"servers"`
	}](ctx, c, http.MethodGet, c.url(loginOf(user), "mcp"), nil, "listing the MCP servers")
	return out.Servers, err
}

// MCPServer returns an MCP server. user is that of [Client.MCPServers].
func (c *Client) MCPServer(ctx context.Context, name, user string) (MCPServerDetail, error) {
	return call[MCPServerDetail](ctx, c, http.MethodGet, c.url(loginOf(user), "mcp", name), nil, "reading MCP server %q", name)
}

func loginOf(user string) url.Values {
	if user == "" {
		return nil
	}
	return url.Values{"user": {user}}
}

// MCPLoginLink is a link by which a browser logs in to an MCP server.
type MCPLoginLink struct {
	URL       string    `json:"url" doc:"The address to open in a browser"`
	ExpiresAt time.Time `json:"expiresAt" doc:"Until when it can be opened"`
}

// LoginMCPServer returns a link by which a person logs in to an MCP server. An empty user is that of the API
// key.
func (c *Client) LoginMCPServer(ctx context.Context, name, user string) (MCPLoginLink, error) {
	in := struct {
		User string `json:"user,omitempty"`
	}{user}
	return call[MCPLoginLink](ctx, c, http.MethodPost, c.url(nil, "mcp", name, "login"), in, "logging in to MCP server %q", name)
}

// LogoutMCPServer deletes a login to an MCP server. An empty user is that of the API key.
func (c *Client) LogoutMCPServer(ctx context.Context, name, user string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(loginOf(user), "mcp", name, "login"), nil, "logging out of MCP server %q", name)
	return err
}

// SetMCPServer declares an MCP server, in JSON.
func (c *Client) SetMCPServer(ctx context.Context, name string, declaration json.RawMessage, change AgentChange) (MCPServerDetail, error) {
	return call[MCPServerDetail](ctx, c, http.MethodPut, c.url(change.query(), "mcp", name), declaration, "declaring MCP server %q", name)
}

// RemoveMCPServer removes an MCP server that was declared at run time.
func (c *Client) RemoveMCPServer(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(nil, "mcp", name), nil, "removing MCP server %q", name)
	return err
}

// RestartMCPServer asks the workers to connect to an MCP server again.
func (c *Client) RestartMCPServer(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, c.url(nil, "mcp", name, "restart"), nil, "restarting MCP server %q", name)
	return err
}
