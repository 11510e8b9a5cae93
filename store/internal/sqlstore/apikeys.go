package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/threadmill/threadmill/store"
)

const keyColumns = `id, namespace, name, roles, hash, previous_hash, previous_until, created_at, created_by, expires_at, rotated_at, revoked_at, revoked_by`

var (
	keyByID = both(`SELECT ` + keyColumns + ` FROM api_keys WHERE id = $1`)
	allKeys = both(`SELECT ` + keyColumns + ` FROM api_keys WHERE namespace = $1 ORDER BY (revoked_at IS NOT NULL), name_key, created_at LIMIT $2 + 0`)
	anyKey  = both(`SELECT 1 FROM api_keys LIMIT 1`)

	addKey = both(`INSERT INTO api_keys (id, namespace, name, name_key, roles, hash, created_at, created_by, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7, $8) ON CONFLICT DO NOTHING RETURNING ` + keyColumns)
	rotateKey = both(`UPDATE api_keys SET previous_hash = CASE WHEN CAST($1 AS timestamptz) IS NULL THEN '' ELSE hash END, previous_until = $1, hash = $2,
		rotated_at = clock_timestamp() WHERE namespace = $3 AND id = $4 AND revoked_at IS NULL RETURNING ` + keyColumns)
	revokeKey = both(`UPDATE api_keys SET revoked_by = CASE WHEN revoked_at IS NULL THEN $1 ELSE revoked_by END,
		revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE namespace = $2 AND id = $3 RETURNING ` + keyColumns)
)

// CreateAPIKey implements [store.APIKeys].
func (s *Store) CreateAPIKey(ctx context.Context, k store.APIKey) (store.APIKey, error) {
	return call(ctx, s, "create_api_key", func(ctx context.Context) (store.APIKey, error) {
		made, err := normalizeAPIKey(k)
		if err != nil {
			return made, err
		}
		key, _ := store.AgentKey(made.Namespace, made.Name)
		made, err = one(ctx, s, s.db.Writer, addKey, (*Store).scanKey, made.ID, made.Namespace, made.Name, key, made.Roles, made.Hash, made.CreatedBy, made.ExpiresAt)
		if errors.Is(err, store.ErrNotFound) {
			err = store.ErrExists
		}
		return made, err
	}, "creating API key %q of %q", k.Name, k.Namespace)
}

// APIKey implements [store.APIKeys].
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return call(ctx, s, "api_key", func(ctx context.Context) (store.APIKey, error) {
		return one(ctx, s, s.db.Reader, keyByID, (*Store).scanKey, id)
	}, "reading API key %q", id)
}

// APIKeys implements [store.APIKeys].
func (s *Store) APIKeys(ctx context.Context, namespace string) ([]store.APIKey, error) {
	return call(ctx, s, "api_keys", func(ctx context.Context) ([]store.APIKey, error) {
		return all(ctx, s, s.db.Reader, allKeys, (*Store).scanKey, namespace, store.MaxLimit)
	}, "API keys of %q", namespace)
}

// RotateAPIKey implements [store.APIKeys].
func (s *Store) RotateAPIKey(ctx context.Context, namespace, id, hash string, previousUntil time.Time) (store.APIKey, error) {
	return call(ctx, s, "rotate_api_key", func(ctx context.Context) (store.APIKey, error) {
		return one(ctx, s, s.db.Writer, rotateKey, (*Store).scanKey, previousUntil, hash, namespace, id)
	}, "rotating API key %q", id)
}

// RevokeAPIKey implements [store.APIKeys].
func (s *Store) RevokeAPIKey(ctx context.Context, namespace, id, by string) (store.APIKey, error) {
	return call(ctx, s, "revoke_api_key", func(ctx context.Context) (store.APIKey, error) {
		return one(ctx, s, s.db.Writer, revokeKey, (*Store).scanKey, by, namespace, id)
	}, "revoking API key %q", id)
}

// HasAPIKeys implements [store.APIKeys].
func (s *Store) HasAPIKeys(ctx context.Context) (bool, error) {
	return call(ctx, s, "has_api_keys", func(ctx context.Context) (bool, error) {
		return exists(ctx, s, s.db.Reader, anyKey)
	}, "looking for API keys")
}

func (s *Store) scanKey(row Row) (k store.APIKey, err error) {
	err = row.Scan(&k.ID, &k.Namespace, &k.Name, s.db.List(&k.Roles), &k.Hash, &k.PreviousHash, s.db.Time(&k.PreviousUntil), s.db.Time(&k.CreatedAt),
		&k.CreatedBy, s.db.Time(&k.ExpiresAt), s.db.Time(&k.RotatedAt), s.db.Time(&k.RevokedAt), &k.RevokedBy)
	return k, err
}

// normalizeAPIKey returns the key in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeAPIKey(k store.APIKey) (store.APIKey, error) {
	for _, word := range []struct{ field, text string }{
		{"id", k.ID}, {"namespace", k.Namespace}, {"name", k.Name}, {"hash", k.Hash},
	} {
		if err := checkWord(word.field, word.text); err != nil {
			return k, err
		}
	}
	if !store.Storable(k.CreatedBy) {
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

// truncated returns a time with the precision of the drivers.
func truncated(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
