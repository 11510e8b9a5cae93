package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	selectAgent = `SELECT name, version, definition, change, changed_by, changed_at, seq FROM agent_versions`

	newestAgent   = selectAgent + ` WHERE namespace = $1 AND name_key = $2 AND newest`
	allAgents     = selectAgent + ` WHERE namespace = $1 AND newest AND change <> $2 AND name_key > $3 ORDER BY name_key LIMIT $4`
	agentVersions = selectAgent + ` WHERE namespace = $1 AND name_key = $2 AND version < $3 ORDER BY version DESC LIMIT $4`

	agentChanges = `SELECT seq, change, name, version, changed_by, changed_at FROM agent_versions
		WHERE namespace = $1 AND seq > $2 ORDER BY seq LIMIT $3`

	// lockAgents serializes the changes of a namespace, so that they commit in the order of seq.
	// Later statements see what was committed before the lock was acquired.
	lockAgents = `SELECT pg_advisory_xact_lock(hashtextextended('threadmill agents ' || coalesce(current_schema(), '') || ' ' || $1, 0))`

	notNewest = `UPDATE agent_versions SET newest = false WHERE namespace = $1 AND name_key = $2 AND newest`

	addAgent = `INSERT INTO agent_versions (namespace, name_key, version, newest, seq, name, change, definition, changed_by, changed_at)
		SELECT $1, $2, $3, true, coalesce(max(seq), 0) + 1, $4, $5, $6::text::json, $7, greatest(clock_timestamp(), max(changed_at))
		FROM (SELECT seq, changed_at FROM agent_versions WHERE namespace = $1 ORDER BY seq DESC LIMIT 1) AS last
		RETURNING seq, changed_at`
)

// SaveAgent implements [store.Agents].
func (s *Store) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	saved, err := store.NormalizeAgent(namespace, v)
	if err == nil {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			saved, err = saveAgent(ctx, tx, namespace, saved, after)
			return err
		})
	}
	if err != nil {
		return store.AgentVersion{}, fmt.Errorf("postgres: saving agent %q of %q: %w", v.Name, namespace, classify(err))
	}
	return saved, nil
}

func saveAgent(ctx context.Context, tx pgx.Tx, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	if _, err := tx.Exec(ctx, lockAgents, namespace); err != nil {
		return v, err
	}
	key, _ := store.AgentKey(namespace, v.Name)
	newest, err := agents(ctx, tx, newestAgent, namespace, key)
	if err != nil {
		return v, err
	}
	var before *store.AgentVersion
	if len(newest) > 0 {
		before = &newest[0]
	}
	if v, err = store.NextAgent(v, before, after); err != nil {
		return v, err
	}
	if _, err := tx.Exec(ctx, notNewest, namespace, key); err != nil {
		return v, err
	}
	row := tx.QueryRow(ctx, addAgent, namespace, key, v.Version, v.Name, string(v.Change), jsonOrNull(v.Definition), v.By)
	err = row.Scan(&v.Seq, &v.At)
	v.At = v.At.UTC()
	return v, err
}

// Agent implements [store.Agents].
func (s *Store) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	found, err := s.agentsOf(ctx, namespace, name, newestAgent)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.AgentVersion{}, fmt.Errorf("postgres: agent %q of %q: %w", name, namespace, classify(err))
	}
	return found[0], nil
}

// Agents implements [store.Agents].
func (s *Store) Agents(ctx context.Context, namespace, after string, limit int) ([]store.AgentVersion, error) {
	key, ok := store.AgentKey(namespace, after)
	if !ok {
		return nil, nil
	}
	found, err := agents(ctx, s.pool, allAgents, namespace, string(store.AgentDeleted), key, store.AgentLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("postgres: agents of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// AgentVersions implements [store.Agents].
func (s *Store) AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]store.AgentVersion, error) {
	before, limit = store.AgentVersionBounds(before, limit)
	found, err := s.agentsOf(ctx, namespace, name, agentVersions, before, limit)
	if err != nil {
		return nil, fmt.Errorf("postgres: versions of agent %q of %q: %w", name, namespace, classify(err))
	}
	return found, nil
}

// AgentChanges implements [store.Agents].
func (s *Store) AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]store.AgentChange, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, agentChanges, namespace, after, store.AgentChangeLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("postgres: changes of the agents of %q: %w", namespace, classify(err))
	}
	changes, err := pgx.CollectRows(rows, scanChange)
	if err != nil {
		return nil, fmt.Errorf("postgres: changes of the agents of %q: %w", namespace, classify(err))
	}
	return changes, nil
}

// agentsOf runs a query whose first arguments are the namespace and the name's key. An impossible
// name finds nothing.
func (s *Store) agentsOf(ctx context.Context, namespace, name, query string, args ...any) ([]store.AgentVersion, error) {
	key, ok := store.AgentKey(namespace, name)
	if !ok {
		return nil, nil
	}
	return agents(ctx, s.pool, query, append([]any{namespace, key}, args...)...)
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func agents(ctx context.Context, from querier, query string, args ...any) ([]store.AgentVersion, error) {
	rows, err := from.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanAgent)
}

func scanAgent(row pgx.CollectableRow) (store.AgentVersion, error) {
	var v store.AgentVersion
	err := row.Scan(&v.Name, &v.Version, (*[]byte)(&v.Definition), (*string)(&v.Change), &v.By, &v.At, &v.Seq)
	v.At, v.Deleted = v.At.UTC(), v.Change == store.AgentDeleted
	return v, err
}

func scanChange(row pgx.CollectableRow) (store.AgentChange, error) {
	var c store.AgentChange
	err := row.Scan(&c.Seq, (*string)(&c.Type), &c.Name, &c.Version, &c.By, &c.At)
	c.At = c.At.UTC()
	return c, err
}
