package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/auth"
)

// Keys lists the API keys; revoked ones only on request.
func (c *Client) Keys(ctx context.Context, revoked bool) ([]auth.APIKey, error) {
	var out struct {
		Keys []auth.APIKey `json:"keys"`
	}
	query := url.Values{}
	if revoked {
		query.Set("revoked", "true")
	}
	if err := c.exchange(ctx, http.MethodGet, c.base.JoinPath("v1", "keys"), query, nil, &out); err != nil {
		return nil, fmt.Errorf("listing the API keys: %w", err)
	}
	return out.Keys, nil
}

// CreateKey creates an API key.
func (c *Client) CreateKey(ctx context.Context, name string, roles []string, expires *time.Time) (auth.NewAPIKey, error) {
	var out auth.NewAPIKey
	body, err := json.Marshal(struct {
		Name      string     `json:"name"`
		Roles     []string   `json:"roles"`
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	}{name, roles, expires})
	if err != nil {
		return out, err
	}
	if err := c.exchange(ctx, http.MethodPost, c.base.JoinPath("v1", "keys"), nil, body, &out); err != nil {
		return out, fmt.Errorf("creating API key %q: %w", name, err)
	}
	return out, nil
}

// RotateKey gives a key a new secret. The previous one remains valid for overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (auth.NewAPIKey, error) {
	var out auth.NewAPIKey
	body, err := json.Marshal(map[string]string{"overlap": overlap.String()})
	if err != nil {
		return out, err
	}
	if err := c.exchange(ctx, http.MethodPost, c.base.JoinPath("v1", "keys", url.PathEscape(id), "rotate"), nil, body, &out); err != nil {
		return out, fmt.Errorf("rotating API key %q: %w", id, err)
	}
	return out, nil
}

// RevokeKey revokes a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	if err := c.exchange(ctx, http.MethodDelete, c.base.JoinPath("v1", "keys", url.PathEscape(id)), nil, nil, nil); err != nil {
		return fmt.Errorf("revoking API key %q: %w", id, err)
	}
	return nil
}
