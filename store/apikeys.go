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

// APIKey is an API key as it is stored.
type APIKey struct {
	// ID is the public part of the key, by which it is found.
	ID        string
	Namespace string

	// Name is the principal's.
	Name  string
	Roles []string

	// Hash is that of the whole key. PreviousHash is that of the key before the last rotation,
	// which is valid until PreviousUntil.
	Hash          string
	PreviousHash  string
	PreviousUntil time.Time

	CreatedAt time.Time
	CreatedBy string

	// The zero time means never.
	ExpiresAt time.Time
	RotatedAt time.Time
	RevokedAt time.Time
	RevokedBy string
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
