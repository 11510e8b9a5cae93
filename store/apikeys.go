package store

import (
	"context"
	"errors"
	"time"
)

// ErrExists means that the id of an API key, or its name in the namespace, already exists.
var ErrExists = errors.New("already exists")

// APIKeys stores the API keys that are created at run time: their hashes, never their secrets.
// Package auth defines the permissions of a key.
type APIKeys interface {
	// CreateAPIKey stores a new key. It fails with [ErrExists] if a key with this id exists, or one
	// with this name in the namespace that is not revoked; names are case-insensitive. It ignores
	// PreviousHash, RotatedAt and RevokedAt, and sets CreatedAt.
	CreateAPIKey(ctx context.Context, k APIKey) (APIKey, error)

	// APIKey returns the key with an id in any namespace, even if it is revoked, or [ErrNotFound].
	APIKey(ctx context.Context, id string) (APIKey, error)

	// APIKeys returns the keys of a namespace by name, revoked keys last; at most [MaxLimit].
	APIKeys(ctx context.Context, namespace string) ([]APIKey, error)

	// RotateAPIKey sets a new hash for a key. The previous hash remains valid until previousUntil;
	// the zero time invalidates it immediately. If the key is revoked or in another namespace, it
	// returns [ErrNotFound].
	RotateAPIKey(ctx context.Context, namespace, id, hash string, previousUntil time.Time) (APIKey, error)

	// RevokeAPIKey revokes a key for good. It does not change a key that is already revoked. If
	// the key is in another namespace, it returns [ErrNotFound].
	RevokeAPIKey(ctx context.Context, namespace, id, by string) (APIKey, error)

	// HasAPIKeys reports whether a key has ever been created, in any namespace.
	HasAPIKeys(ctx context.Context) (bool, error)
}

// APIKey is an API key as it is stored. Its JSON form leaves out the hashes.
type APIKey struct {
	// The public part of the key. A configured key has none.
	ID string `json:"id,omitempty"`

	// The name of the principal: sender and by of the requests that carry the key.
	Name string `json:"name"`

	// The only namespace in which the key is valid. Left out: any.
	Namespace string `json:"namespace,omitempty"`

	// What requests with the key may do.
	Roles []string `json:"roles" nullable:"false" enum:"read,post,approve,operate,send-as,admin"`

	// Hash is that of the whole key. PreviousHash is that of the key before the last rotation,
	// which is valid until PreviousUntil.
	Hash         string `json:"-"`
	PreviousHash string `json:"-"`

	// When the key was created.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// Who created it.
	CreatedBy string `json:"createdBy,omitempty"`

	// Left out: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`

	// When its secret was replaced last.
	RotatedAt time.Time `json:"rotatedAt,omitzero"`

	// Until when the key before the last rotation is valid.
	PreviousUntil time.Time `json:"previousUntil,omitzero"`

	// When it was revoked.
	RevokedAt time.Time `json:"revokedAt,omitzero"`

	// Who revoked it.
	RevokedBy string `json:"revokedBy,omitempty"`
}
