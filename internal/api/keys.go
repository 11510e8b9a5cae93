package api

import (
	"context"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/auth"
)

// Keys lists the API keys; revoked ones only on request.
func (c *Client) Keys(ctx context.Context, revoked bool) ([]auth.APIKey, error) {
	out, err := call[struct {
		Keys []auth.APIKey `json:"keys"`
	}](ctx, c, http.MethodGet, c.url(withRevoked(revoked), "keys"), nil, "listing the API keys")
	return out.Keys, err
}

// CreateKey creates an API key.
func (c *Client) CreateKey(ctx context.Context, name string, roles []string, expires *time.Time) (auth.NewAPIKey, error) {
	body := struct {
		Name      string     `json:"name"`
		Roles     []string   `json:"roles"`
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	}{name, roles, expires}
	return call[auth.NewAPIKey](ctx, c, http.MethodPost, c.url(nil, "keys"), body, "creating API key %q", name)
}

// RotateKey gives a key a new secret. The previous one remains valid for overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (auth.NewAPIKey, error) {
	body := map[string]string{"overlap": overlap.String()}
	return call[auth.NewAPIKey](ctx, c, http.MethodPost, c.url(nil, "keys", id, "rotate"), body, "rotating API key %q", id)
}

// RevokeKey revokes a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(nil, "keys", id), nil, "revoking API key %q", id)
	return err
}
