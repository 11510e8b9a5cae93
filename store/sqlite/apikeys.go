package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/store"
)

const keyColumns = `id, namespace, name, roles, hash, previous_hash, previous_until, created_at, created_by, expires_at, rotated_at, revoked_at, revoked_by`

// keyReads are the queries for API keys, keyWrites the statements that change them.
type keyReads struct {
	one, all, any *sql.Stmt
}

type keyWrites struct {
	add, rotate, revoke *sql.Stmt
}

func (r *keyReads) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&r.one: `SELECT ` + keyColumns + ` FROM api_keys WHERE id = ?`,
		&r.all: `SELECT ` + keyColumns + ` FROM api_keys WHERE namespace = ?
			ORDER BY revoked_at IS NOT NULL, name_key, created_at LIMIT ? + 0`,
		&r.any: `SELECT EXISTS (SELECT 1 FROM api_keys)`,
	}
}

func (w *keyWrites) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&w.add: `INSERT INTO api_keys (id, namespace, name, name_key, roles, hash, created_at, created_by, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING ` + keyColumns,
		&w.rotate: `UPDATE api_keys SET previous_hash = iif(?1 IS NULL, '', hash), previous_until = ?1, hash = ?2, rotated_at = ?3
			WHERE namespace = ?4 AND id = ?5 AND revoked_at IS NULL RETURNING ` + keyColumns,
		&w.revoke: `UPDATE api_keys SET revoked_by = iif(revoked_at IS NULL, ?1, revoked_by), revoked_at = coalesce(revoked_at, ?2)
			WHERE namespace = ?3 AND id = ?4 RETURNING ` + keyColumns,
	}
}

// CreateAPIKey implements [store.APIKeys].
func (s *Store) CreateAPIKey(ctx context.Context, k store.APIKey) (store.APIKey, error) {
	made, err := store.NormalizeAPIKey(k)
	if err == nil {
		key, _ := store.AgentKey(made.Namespace, made.Name)
		made, err = scanKey(s.writeKeys.add.QueryRowContext(ctx, made.ID, made.Namespace, made.Name, key, list(made.Roles),
			made.Hash, time.Now().UnixMicro(), made.CreatedBy, instant(made.ExpiresAt)))
		if errors.Is(err, sql.ErrNoRows) {
			err = store.ErrExists
		}
	}
	if err != nil {
		return store.APIKey{}, fmt.Errorf("sqlite: creating API key %q of %q: %w", k.Name, k.Namespace, classify(err))
	}
	return made, nil
}

// APIKey implements [store.APIKeys].
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return s.keyOf(ctx, "reading", id, s.readKeys.one, id)
}

// APIKeys implements [store.APIKeys].
func (s *Store) APIKeys(ctx context.Context, namespace string) ([]store.APIKey, error) {
	found, err := collect(ctx, s.readKeys.all, scanKey, namespace, store.MaxLimit)
	if err != nil {
		return nil, fmt.Errorf("sqlite: API keys of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// RotateAPIKey implements [store.APIKeys].
func (s *Store) RotateAPIKey(ctx context.Context, namespace, id, hash string, previousUntil time.Time) (store.APIKey, error) {
	return s.keyOf(ctx, "rotating", id, s.writeKeys.rotate, instant(previousUntil), hash, time.Now().UnixMicro(), namespace, id)
}

// RevokeAPIKey implements [store.APIKeys].
func (s *Store) RevokeAPIKey(ctx context.Context, namespace, id, by string) (store.APIKey, error) {
	return s.keyOf(ctx, "revoking", id, s.writeKeys.revoke, by, time.Now().UnixMicro(), namespace, id)
}

// HasAPIKeys implements [store.APIKeys].
func (s *Store) HasAPIKeys(ctx context.Context) (found bool, err error) {
	if err := s.readKeys.any.QueryRowContext(ctx).Scan(&found); err != nil {
		return false, fmt.Errorf("sqlite: looking for API keys: %w", classify(err))
	}
	return found, nil
}

func (s *Store) keyOf(ctx context.Context, doing, id string, stmt *sql.Stmt, args ...any) (store.APIKey, error) {
	k, err := store.APIKey{}, store.ErrNotFound
	if store.Storable(id) {
		k, err = scanKey(stmt.QueryRowContext(ctx, args...))
	}
	if err != nil {
		return store.APIKey{}, fmt.Errorf("sqlite: %s API key %q: %w", doing, id, classify(notFound(err)))
	}
	return k, nil
}

func scanKey(row scanner) (store.APIKey, error) {
	var (
		k                                   store.APIKey
		roles                               []byte
		created                             int64
		previous, expires, rotated, revoked sql.NullInt64
	)
	err := row.Scan(&k.ID, &k.Namespace, &k.Name, &roles, &k.Hash, &k.PreviousHash, &previous, &created, &k.CreatedBy,
		&expires, &rotated, &revoked, &k.RevokedBy)
	if err != nil {
		return store.APIKey{}, err
	}
	k.PreviousUntil, k.CreatedAt, k.ExpiresAt = instantOf(previous), moment(created), instantOf(expires)
	k.RotatedAt, k.RevokedAt = instantOf(rotated), instantOf(revoked)
	return k, json.Unmarshal(roles, &k.Roles)
}

// instant returns a column's value for a time: NULL for the zero time.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func instantOf(column sql.NullInt64) time.Time {
	if !column.Valid {
		return time.Time{}
	}
	return moment(column.Int64)
}
