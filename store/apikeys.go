package store

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ErrExists marks an API key whose id, or whose name in its namespace, is taken.
var ErrExists = errors.New("already exists")

// APIKeys keeps the API keys that are created at run time: their hashes, never their secrets.
// Package auth says what a key allows.
type APIKeys interface {
	// CreateAPIKey stores a new key. It fails with [ErrExists] if there is a key of that id, or
	// one of that name in the namespace that is not revoked; upper and lower case do not make
	// names differ. Of k, PreviousHash, RotatedAt and RevokedAt do not count; CreatedAt is set.
	CreateAPIKey(ctx context.Context, k APIKey) (APIKey, error)

	// APIKey returns a key by its id, in whatever namespace and also if it is revoked; or
	// [ErrNotFound].
	APIKey(ctx context.Context, id string) (APIKey, error)

	// APIKeys lists the keys of a namespace by name, those that are revoked last; at most
	// [MaxLimit].
	APIKeys(ctx context.Context, namespace string) ([]APIKey, error)

	// RotateAPIKey gives a key that is not revoked a new hash. The one before remains valid
	// until previousUntil; the zero time ends it at once. A key that is revoked, or in another
	// namespace, is [ErrNotFound].
	RotateAPIKey(ctx context.Context, namespace, id, hash string, previousUntil time.Time) (APIKey, error)

	// RevokeAPIKey revokes a key for good. One that is revoked already stays as it is. A key in
	// another namespace is [ErrNotFound].
	RevokeAPIKey(ctx context.Context, namespace, id, by string) (APIKey, error)

	// HasAPIKeys reports whether a key has ever been created, in any namespace.
	HasAPIKeys(ctx context.Context) (bool, error)
}

// APIKey is an API key as it is stored. Its JSON form leaves out the hashes.
type APIKey struct {
	ID        string   `json:"id,omitempty" doc:"The public part of the key. A configured key has none"`
	Name      string   `json:"name" doc:"The name of the principal: sender and by of the requests that carry the key"`
	Namespace string   `json:"namespace,omitempty" doc:"The only namespace in which the key is valid. Left out: any"`
	Roles     []string `json:"roles" nullable:"false" enum:"read,post,approve,operate,admin"`

	// Hash is that of the whole key. PreviousHash is that of the key before the last rotation,
	// which is valid until PreviousUntil.
	Hash         string `json:"-"`
	PreviousHash string `json:"-"`

	CreatedAt     time.Time `json:"createdAt,omitzero"`
	CreatedBy     string    `json:"createdBy,omitempty"`
	ExpiresAt     time.Time `json:"expiresAt,omitzero" doc:"Left out: never"`
	RotatedAt     time.Time `json:"rotatedAt,omitzero"`
	PreviousUntil time.Time `json:"previousUntil,omitzero" doc:"Until when the key before the last rotation is valid"`
	RevokedAt     time.Time `json:"revokedAt,omitzero"`
	RevokedBy     string    `json:"revokedBy,omitempty"`
}

// CheckAPIKey returns the key in the form in which every driver stores it, or an error, which
// is [ErrInvalid].
func CheckAPIKey(k APIKey) (APIKey, error) {
	for _, word := range []struct{ field, text string }{
		{"id", k.ID}, {"namespace", k.Namespace}, {"name", k.Name}, {"hash", k.Hash},
	} {
		if err := checkWord(word.field, word.text); err != nil {
			return k, err
		}
	}
	if !Storable(k.CreatedBy) {
		return k, invalid("createdBy: must be UTF-8 without NUL characters")
	}
	if len(k.Roles) == 0 || slices.ContainsFunc(k.Roles, func(role string) bool { return checkWord("roles", role) != nil }) {
		return k, invalid("roles: at least one is required, and none may be empty")
	}
	k.Roles = slices.Clone(k.Roles)
	k.ExpiresAt = truncated(k.ExpiresAt)
	k.PreviousHash, k.PreviousUntil = "", time.Time{}
	k.RotatedAt, k.RevokedAt, k.RevokedBy = time.Time{}, time.Time{}, ""
	return k, nil
}

// truncated is a time as precise as drivers keep it.
func truncated(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
