package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/agent"
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

// Agents lists the agents, without their definitions.
func (c *Client) Agents(ctx context.Context) ([]agent.Summary, error) {
	var out struct {
		Agents []agent.Summary `json:"agents"`
	}
	if err := c.exchange(ctx, http.MethodGet, c.agentURL(), nil, nil, &out); err != nil {
		return nil, fmt.Errorf("listing the agents: %w", err)
	}
	return out.Agents, nil
}

// Agent returns an agent.
func (c *Client) Agent(ctx context.Context, name string) (agent.Detail, error) {
	var out agent.Detail
	if err := c.exchange(ctx, http.MethodGet, c.agentURL(name), nil, nil, &out); err != nil {
		return out, fmt.Errorf("reading agent %q: %w", name, err)
	}
	return out, nil
}

// SetAgent stores a definition in JSON.
func (c *Client) SetAgent(ctx context.Context, name string, definition json.RawMessage, change AgentChange) (agent.Detail, error) {
	var out agent.Detail
	if err := c.exchange(ctx, http.MethodPut, c.agentURL(name), change.query(), definition, &out); err != nil {
		return out, fmt.Errorf("storing agent %q: %w", name, err)
	}
	return out, nil
}

// DeleteAgent deletes a stored agent.
func (c *Client) DeleteAgent(ctx context.Context, name string, change AgentChange) error {
	if err := c.exchange(ctx, http.MethodDelete, c.agentURL(name), change.query(), nil, nil); err != nil {
		return fmt.Errorf("deleting agent %q: %w", name, err)
	}
	return nil
}

// AgentVersions returns the newest versions of a stored agent, newest first.
func (c *Client) AgentVersions(ctx context.Context, name string, limit int) ([]agent.Version, error) {
	var out struct {
		Versions []agent.Version `json:"versions"`
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if err := c.exchange(ctx, http.MethodGet, c.agentURL(name, "versions"), query, nil, &out); err != nil {
		return nil, fmt.Errorf("reading the versions of agent %q: %w", name, err)
	}
	return out.Versions, nil
}

func (c *Client) agentURL(below ...string) *url.URL {
	path := []string{"v1", "agents"}
	for _, part := range below {
		path = append(path, url.PathEscape(part))
	}
	return c.base.JoinPath(path...)
}
