package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/tool"
)

// MCPServer is an MCP server of the workers, as the API shows it.
type MCPServer struct {
	tool.ServerState
	Source      string                  `json:"source"`
	Login       *tool.ServerLogin       `json:"login,omitempty"`
	Declaration *tool.ServerDeclaration `json:"declaration,omitempty"`
	Problem     string                  `json:"problem,omitempty"`
	Version     int                     `json:"version,omitempty"`
	By          string                  `json:"by,omitempty"`
}

// MCPServers lists the MCP servers. Their tools have no parameters.
func (c *Client) MCPServers(ctx context.Context) ([]MCPServer, error) {
	out, err := call[struct {
		Servers []MCPServer `json:"servers"`
	}](ctx, c, http.MethodGet, c.url(nil, "mcp"), nil, "listing the MCP servers")
	return out.Servers, err
}

// MCPServer returns an MCP server.
func (c *Client) MCPServer(ctx context.Context, name string) (MCPServer, error) {
	return call[MCPServer](ctx, c, http.MethodGet, c.url(nil, "mcp", name), nil, "reading MCP server %q", name)
}

// SetMCPServer declares an MCP server, in JSON.
func (c *Client) SetMCPServer(ctx context.Context, name string, declaration json.RawMessage, change AgentChange) (MCPServer, error) {
	return call[MCPServer](ctx, c, http.MethodPut, c.url(change.query(), "mcp", name), declaration, "declaring MCP server %q", name)
}

// RemoveMCPServer removes an MCP server that was declared at run time.
func (c *Client) RemoveMCPServer(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(nil, "mcp", name), nil, "removing MCP server %q", name)
	return err
}

// MCPLogin is a link by which a browser logs in to an MCP server.
type MCPLogin struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// LoginMCPServer returns a link by which a person logs in to an MCP server. The API needs the name of a user only if there are
// no API keys.
func (c *Client) LoginMCPServer(ctx context.Context, name, user string) (MCPLogin, error) {
	return call[MCPLogin](ctx, c, http.MethodPost, c.url(nil, "mcp", name, "login"), map[string]string{"user": user}, "logging in to MCP server %q", name)
}

// MCPServerFor returns an MCP server with the login of a user.
func (c *Client) MCPServerFor(ctx context.Context, name, user string) (MCPServer, error) {
	return call[MCPServer](ctx, c, http.MethodGet, c.url(userQuery(user), "mcp", name), nil, "reading MCP server %q", name)
}

// LogoutMCPServer deletes a login to an MCP server.
func (c *Client) LogoutMCPServer(ctx context.Context, name, user string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(userQuery(user), "mcp", name, "login"), nil, "logging out of MCP server %q", name)
	return err
}

func userQuery(user string) url.Values {
	if user == "" {
		return nil
	}
	return url.Values{"user": {user}}
}

// RestartMCPServer asks the workers to connect to an MCP server again.
func (c *Client) RestartMCPServer(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, c.url(nil, "mcp", name, "restart"), nil, "restarting MCP server %q", name)
	return err
}
