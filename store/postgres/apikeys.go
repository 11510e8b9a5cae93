package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	keyColumns = `id, namespace, name, roles, hash, previous_hash, previous_until, created_at, created_by, expires_at, rotated_at, revoked_at, revoked_by`

	keyByID = `SELECT ` + keyColumns + ` FROM api_keys WHERE id = $1`
	allKeys = `SELECT ` + keyColumns + ` FROM api_keys WHERE namespace = $1
		ORDER BY (revoked_at IS NOT NULL), name_key, created_at LIMIT $2`
	anyKey = `SELECT EXISTS (SELECT 1 FROM api_keys)`

	addKey = `INSERT INTO api_keys (id, namespace, name, name_key, roles, hash, created_at, created_by, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7, $8) ON CONFLICT DO NOTHING RETURNING ` + keyColumns
	rotateKey = `UPDATE api_keys SET previous_hash = CASE WHEN $1::timestamptz IS NULL THEN '' ELSE hash END, previous_until = $1,
		hash = $2, rotated_at = clock_timestamp() WHERE namespace = $3 AND id = $4 AND revoked_at IS NULL RETURNING ` + keyColumns
	revokeKey = `UPDATE api_keys SET revoked_by = CASE WHEN revoked_at IS NULL THEN $1 ELSE revoked_by END,
		revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE namespace = $2 AND id = $3 RETURNING ` + keyColumns
)

// CreateAPIKey implements [store.APIKeys].
func (s *Store) CreateAPIKey(ctx context.Context, k store.APIKey) (store.APIKey, error) {
	made, err := store.NormalizeAPIKey(k)
	if err == nil {
		key, _ := store.AgentKey(made.Namespace, made.Name)
		made, err = s.keyRow(ctx, addKey, made.ID, made.Namespace, made.Name, key, made.Roles, made.Hash, made.CreatedBy, instant(made.ExpiresAt))
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrExists
		}
	}
	if err != nil {
		return store.APIKey{}, fmt.Errorf("postgres: creating API key %q of %q: %w", k.Name, k.Namespace, classify(err))
	}
	return made, nil
}

// APIKey implements [store.APIKeys].
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return s.keyOf(ctx, "reading", id, keyByID, id)
}

// APIKeys implements [store.APIKeys].
func (s *Store) APIKeys(ctx context.Context, namespace string) ([]store.APIKey, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, allKeys, namespace, store.MaxLimit)
	if err != nil {
		return nil, fmt.Errorf("postgres: API keys of %q: %w", namespace, classify(err))
	}
	found, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, fmt.Errorf("postgres: API keys of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// RotateAPIKey implements [store.APIKeys].
func (s *Store) RotateAPIKey(ctx context.Context, namespace, id, hash string, previousUntil time.Time) (store.APIKey, error) {
	return s.keyOf(ctx, "rotating", id, rotateKey, instant(previousUntil), hash, namespace, id)
}

// RevokeAPIKey implements [store.APIKeys].
func (s *Store) RevokeAPIKey(ctx context.Context, namespace, id, by string) (store.APIKey, error) {
	return s.keyOf(ctx, "revoking", id, revokeKey, by, namespace, id)
}

// HasAPIKeys implements [store.APIKeys].
func (s *Store) HasAPIKeys(ctx context.Context) (found bool, err error) {
	if err := s.pool.QueryRow(ctx, anyKey).Scan(&found); err != nil {
		return false, fmt.Errorf("postgres: looking for API keys: %w", classify(err))
	}
	return found, nil
}

func (s *Store) keyOf(ctx context.Context, doing, id, query string, args ...any) (store.APIKey, error) {
	k, err := store.APIKey{}, pgx.ErrNoRows
	if store.Storable(id) {
		k, err = s.keyRow(ctx, query, args...)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.APIKey{}, fmt.Errorf("postgres: %s API key %q: %w", doing, id, classify(err))
	}
	return k, nil
}

func (s *Store) keyRow(ctx context.Context, query string, args ...any) (store.APIKey, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return store.APIKey{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanKey)
}

func scanKey(row pgx.CollectableRow) (store.APIKey, error) {
	var (
		k                                   store.APIKey
		previous, expires, rotated, revoked *time.Time
	)
	err := row.Scan(&k.ID, &k.Namespace, &k.Name, &k.Roles, &k.Hash, &k.PreviousHash, &previous, &k.CreatedAt, &k.CreatedBy,
		&expires, &rotated, &revoked, &k.RevokedBy)
	k.CreatedAt = k.CreatedAt.UTC()
	for to, from := range map[*time.Time]*time.Time{
		&k.PreviousUntil: previous, &k.ExpiresAt: expires, &k.RotatedAt: rotated, &k.RevokedAt: revoked,
	} {
		if from != nil {
			*to = from.UTC()
		}
	}
	return k, err
}

// instant returns a column's value for a time: NULL for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
