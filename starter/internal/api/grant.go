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

// Grants returns the grants in a thread, oldest first; revoked ones only on request.
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

// Revoke revokes an approval, and returns the outcome.
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
