package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/agent"
)

// Agent is an agent as the API returns it.
type Agent struct {
	Name        string     `json:"name"`
	Model       string     `json:"model,omitempty"`
	Description string     `json:"description,omitempty"`
	Source      string     `json:"source"`
	Version     int        `json:"version,omitempty"`
	By          string     `json:"by,omitempty"`
	At          *time.Time `json:"at,omitempty"`

	// Default, of a list: threads that name no agents have this one.
	Default bool `json:"default,omitempty"`

	// Problem says why a stored definition cannot be used.
	Problem string `json:"problem,omitempty"`

	// Definition is nil in a list, and of one that cannot be read. Warnings are about it.
	Definition *agent.Agent `json:"definition,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
}

// AgentVersion is one version of a stored agent.
type AgentVersion struct {
	Name       string       `json:"name"`
	Version    int          `json:"version"`
	Deleted    bool         `json:"deleted,omitempty"`
	By         string       `json:"by,omitempty"`
	At         time.Time    `json:"at"`
	Seq        int64        `json:"seq"`
	Definition *agent.Agent `json:"definition,omitempty"`
	Problem    string       `json:"problem,omitempty"`
}

// AgentChange says who changes an agent. IfVersion is the version that is changed, 0 if none
// is stored, negative if it may be any.
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
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var out struct {
		Agents []Agent `json:"agents"`
	}
	if err := c.exchange(ctx, http.MethodGet, c.agentURL(), nil, nil, &out); err != nil {
		return nil, fmt.Errorf("listing the agents: %w", err)
	}
	return out.Agents, nil
}

// Agent returns an agent.
func (c *Client) Agent(ctx context.Context, name string) (Agent, error) {
	var out Agent
	if err := c.exchange(ctx, http.MethodGet, c.agentURL(name), nil, nil, &out); err != nil {
		return out, fmt.Errorf("reading agent %q: %w", name, err)
	}
	return out, nil
}

// SetAgent stores a definition, which is JSON.
func (c *Client) SetAgent(ctx context.Context, name string, definition json.RawMessage, change AgentChange) (Agent, error) {
	var out Agent
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

// AgentVersions returns the newest versions of a stored agent, the newest first.
func (c *Client) AgentVersions(ctx context.Context, name string, limit int) ([]AgentVersion, error) {
	var out struct {
		Versions []AgentVersion `json:"versions"`
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

// exchange sends JSON, if in is any, and reads what is answered into out, unless that is
// nil.
func (c *Client) exchange(ctx context.Context, method string, u *url.URL, query url.Values, in json.RawMessage, out any) error {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var body io.Reader
	header := http.Header{}
	if in != nil {
		body = bytes.NewReader(in)
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(ctx, method, u, query, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return problem(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", c.base, err)
	}
	return nil
}
