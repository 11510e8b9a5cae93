package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Grant is an approval that covers more calls than its own.
type Grant struct {
	// ID is the call with whose approval it came.
	ID               string            `json:"id"`
	Scope            event.Scope       `json:"scope"`
	Agent            string            `json:"agent"`
	ToolName         string            `json:"toolName"`
	Digest           string            `json:"digest,omitempty"`
	Pattern          map[string]string `json:"pattern,omitempty"`
	Rest             string            `json:"rest,omitempty"`
	Definition       string            `json:"definition,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	Reason           string            `json:"reason,omitempty"`
	By               string            `json:"by"`
	GrantedAt        time.Time         `json:"grantedAt"`
	RevokedAt        *time.Time        `json:"revokedAt,omitempty"`
	RevokedBy        string            `json:"revokedBy,omitempty"`
}

type grantsAnswer struct {
	Grants []Grant `json:"grants"`
}

// Grants returns what is granted in a thread, the oldest first; those that were revoked only
// if asked for.
func (c *Client) Grants(ctx context.Context, threadID string, revoked bool) ([]Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	query := url.Values{}
	if revoked {
		query.Set("revoked", "true")
	}
	answer, err := readPage[grantsAnswer](ctx, c, threadID, "grants", query)
	if err != nil {
		return nil, fmt.Errorf("reading the grants of thread %q: %w", threadID, err)
	}
	return answer.Grants, nil
}

// Revoke takes an approval back, and returns what became of that.
func (c *Client) Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	u := c.base.JoinPath("v1", "threads", url.PathEscape(threadID), "grants", url.PathEscape(r.ToolCallID))
	resp, err := c.do(ctx, http.MethodDelete, u, url.Values{"by": {r.By}, "reason": {r.Reason}}, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Result != "" {
		return signals.DecideOutcome(status.Result), nil
	}
	if err != nil {
		return "", fmt.Errorf("revoking %q in thread %q: %w", r.ToolCallID, threadID, err)
	}
	defer resp.Body.Close()
	var out signals.DecideResult
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&out); err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", c.base, err)
	}
	return out.Result, nil
}
