package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/signals"
)

// Grants returns the grants in a thread, oldest first; revoked ones only on request.
func (c *Client) Grants(ctx context.Context, threadID string, revoked bool) ([]approval.Grant, error) {
	out, err := call[struct {
		Grants []approval.Grant `json:"grants"`
	}](ctx, c, http.MethodGet, c.url(withRevoked(revoked), "threads", threadID, "grants"), nil, "reading the grants of thread %q", threadID)
	return out.Grants, err
}

// withRevoked is the query that adds what is revoked.
func withRevoked(revoked bool) url.Values {
	if !revoked {
		return nil
	}
	return url.Values{"revoked": {"true"}}
}

// Revoke revokes an approval, and returns the outcome.
func (c *Client) Revoke(ctx context.Context, threadID string, r signals.Revoke) (signals.DecideOutcome, error) {
	u := c.url(url.Values{"by": {r.By}, "reason": {r.Reason}}, "threads", threadID, "grants", r.ToolCallID)
	out, err := call[signals.DecideResult](ctx, c, http.MethodDelete, u, nil, "revoking %q in thread %q", r.ToolCallID, threadID)
	var status *StatusError
	if errors.As(err, &status) && status.Result != "" {
		return signals.DecideOutcome(status.Result), nil
	}
	return out.Result, err
}
