package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/signals"
)

// Grants returns what is granted in a thread, the oldest first; those that were revoked only
// if asked for.
func (c *Client) Grants(ctx context.Context, threadID string, revoked bool) ([]approval.Grant, error) {
	var out struct {
		Grants []approval.Grant `json:"grants"`
	}
	query := url.Values{}
	if revoked {
		query.Set("revoked", "true")
	}
	if err := c.exchange(ctx, http.MethodGet, c.threadURL(threadID, "grants"), query, nil, &out); err != nil {
		return nil, fmt.Errorf("reading the grants of thread %q: %w", threadID, err)
	}
	return out.Grants, nil
}

// Revoke takes an approval back, and returns the outcome.
func (c *Client) Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error) {
	var out signals.DecideResult
	u := c.threadURL(threadID, "grants", url.PathEscape(r.ToolCallID))
	err := c.exchange(ctx, http.MethodDelete, u, url.Values{"by": {r.By}, "reason": {r.Reason}}, nil, &out)
	var status *StatusError
	if errors.As(err, &status) && status.Result != "" {
		return signals.DecideOutcome(status.Result), nil
	}
	if err != nil {
		return "", fmt.Errorf("revoking %q in thread %q: %w", r.ToolCallID, threadID, err)
	}
	return out.Result, nil
}
