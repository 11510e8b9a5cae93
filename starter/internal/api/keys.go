package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Key is an API key as the API returns it, without its secret.
type Key struct {
	ID            string     `json:"id,omitempty"`
	Name          string     `json:"name"`
	Namespace     string     `json:"namespace,omitempty"`
	Roles         []string   `json:"roles"`
	Source        string     `json:"source"`
	CreatedAt     *time.Time `json:"createdAt,omitempty"`
	CreatedBy     string     `json:"createdBy,omitempty"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty"`
	RotatedAt     *time.Time `json:"rotatedAt,omitempty"`
	PreviousUntil *time.Time `json:"previousUntil,omitempty"`
	RevokedAt     *time.Time `json:"revokedAt,omitempty"`
	RevokedBy     string     `json:"revokedBy,omitempty"`
}

// NewKey is a key with its secret.
type NewKey struct {
	Key   Key    `json:"key"`
	Token string `json:"token"`
}

// Keys lists the API keys, those that are revoked only if asked for.
func (c *Client) Keys(ctx context.Context, revoked bool) ([]Key, error) {
	var out struct {
		Keys []Key `json:"keys"`
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
func (c *Client) CreateKey(ctx context.Context, name string, roles []string, expires *time.Time) (NewKey, error) {
	var out NewKey
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

// RotateKey gives a key a new secret. The one before is valid for overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (NewKey, error) {
	var out NewKey
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
