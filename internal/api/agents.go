package api

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/store"
)

// AgentChange is the author and the condition of a change. IfVersion is the expected newest
// version: 0 if none is stored, negative for any.
type AgentChange struct {
	By        string
	IfVersion int
}

func (c AgentChange) query() url.Values {
	out := url.Values{"by": {c.By}}
	if c.IfVersion >= 0 {
		out.Set("ifVersion", strconv.Itoa(c.IfVersion))
	}
	return out
}

// AllAgents is a limit of [Client.Agents] that no server reaches.
const AllAgents = math.MaxInt

// Agents lists the agents, without their definitions, at most limit.
func (c *Client) Agents(ctx context.Context, limit int) ([]agent.Summary, error) {
	return listed(url.Values{}, limit, store.MaxAgents, func(query url.Values) ([]agent.Summary, string, error) {
		page, err := call[struct {
			Agents []agent.Summary `json:"agents"`
			Next   string          `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "agents"), nil, "listing the agents")
		return page.Agents, page.Next, err
	})
}

// Agent returns an agent.
func (c *Client) Agent(ctx context.Context, name string) (agent.Detail, error) {
	return call[agent.Detail](ctx, c, http.MethodGet, c.url(nil, "agents", name), nil, "reading agent %q", name)
}

// SetAgent stores a definition in JSON.
func (c *Client) SetAgent(ctx context.Context, name string, definition json.RawMessage, change AgentChange) (agent.Detail, error) {
	return call[agent.Detail](ctx, c, http.MethodPut, c.url(change.query(), "agents", name), definition, "storing agent %q", name)
}

// DeleteAgent deletes a stored agent.
func (c *Client) DeleteAgent(ctx context.Context, name string, change AgentChange) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(change.query(), "agents", name), nil, "deleting agent %q", name)
	return err
}

// AgentVersions returns the newest versions of a stored agent, newest first.
func (c *Client) AgentVersions(ctx context.Context, name string, limit int) ([]agent.Version, error) {
	u := c.url(url.Values{"limit": {strconv.Itoa(limit)}}, "agents", name, "versions")
	out, err := call[struct {
		Versions []agent.Version `json:"versions"`
	}](ctx, c, http.MethodGet, u, nil, "reading the versions of agent %q", name)
	return out.Versions, err
}
