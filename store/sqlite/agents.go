package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/store"
)

const selectAgent = `SELECT name, version, definition, change, changed_by, changed_at, seq FROM agent_versions`

// agentReads are the queries for agents, agentWrites the statements of a save.
type agentReads struct {
	newest, all, versions, changes *sql.Stmt
}

type agentWrites struct {
	newest, last, notNewest, add *sql.Stmt
}

// agentChange is the newest change of the agents of the namespace ?1.
const agentChange = `(SELECT coalesce(max(seq), 0) FROM agent_versions WHERE namespace = ?1)`

const newestAgent = selectAgent + ` WHERE namespace = ? AND name_key = ? AND newest`

func (r *agentReads) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&r.newest:   newestAgent,
		&r.all:      selectAgent + ` WHERE namespace = ? AND newest AND change <> ? AND name_key > ? ORDER BY name_key LIMIT ? + 0`,
		&r.versions: selectAgent + ` WHERE namespace = ? AND name_key = ? AND version < ? ORDER BY version DESC LIMIT ? + 0`,
		&r.changes: `SELECT seq, change, name, version, changed_by, changed_at FROM agent_versions
			WHERE namespace = ? AND seq > ? ORDER BY seq LIMIT ? + 0`,
	}
}

func (w *agentWrites) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&w.newest:    newestAgent,
		&w.last:      `SELECT seq, changed_at FROM agent_versions WHERE namespace = ? ORDER BY seq DESC LIMIT 1`,
		&w.notNewest: `UPDATE agent_versions SET newest = 0 WHERE namespace = ? AND name_key = ? AND newest`,
		&w.add: `INSERT INTO agent_versions (namespace, name_key, version, newest, seq, name, change, definition, changed_by, changed_at)
			VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?)`,
	}
}

// SaveAgent implements [store.Agents].
func (s *Store) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	saved, err := store.NormalizeAgent(namespace, v)
	if err == nil {
		saved, err = s.saveAgent(ctx, namespace, saved, after)
	}
	if err != nil {
		return store.AgentVersion{}, fmt.Errorf("sqlite: saving agent %q of %q: %w", v.Name, namespace, classify(err))
	}
	return saved, nil
}

func (s *Store) saveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return v, err
	}
	if v, err = s.writeAgents.save(ctx, tx, namespace, v, after); err != nil {
		return v, errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return v, fmt.Errorf("commit: %w", err)
	}
	return v, nil
}

func (w *agentWrites) save(ctx context.Context, tx *sql.Tx, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	key, _ := store.AgentKey(namespace, v.Name)
	var before *store.AgentVersion
	newest, err := scanAgent(tx.StmtContext(ctx, w.newest).QueryRowContext(ctx, namespace, key))
	switch {
	case err == nil:
		before = &newest
	case !errors.Is(err, sql.ErrNoRows):
		return v, fmt.Errorf("reading the newest version: %w", err)
	}
	if v, err = store.NextAgent(v, before, after); err != nil {
		return v, err
	}
	var seq, at int64
	err = tx.StmtContext(ctx, w.last).QueryRowContext(ctx, namespace).Scan(&seq, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return v, fmt.Errorf("reading the last change: %w", err)
	}
	v.Seq, v.At = seq+1, moment(max(time.Now().UnixMicro(), at))
	if _, err := tx.StmtContext(ctx, w.notNewest).ExecContext(ctx, namespace, key); err != nil {
		return v, err
	}
	_, err = tx.StmtContext(ctx, w.add).ExecContext(ctx, namespace, key, v.Version, v.Seq, v.Name,
		string(v.Change), text(v.Definition), v.By, v.At.UnixMicro())
	return v, err
}

// Agent implements [store.Agents].
func (s *Store) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	v, err := store.AgentVersion{}, store.ErrNotFound
	if key, ok := store.AgentKey(namespace, name); ok {
		v, err = scanAgent(s.readAgents.newest.QueryRowContext(ctx, namespace, key))
	}
	if err != nil {
		return store.AgentVersion{}, fmt.Errorf("sqlite: agent %q of %q: %w", name, namespace, classify(notFound(err)))
	}
	return v, nil
}

// Agents implements [store.Agents].
func (s *Store) Agents(ctx context.Context, namespace, after string, limit int) ([]store.AgentVersion, error) {
	key, ok := store.AgentKey(namespace, after)
	if !ok {
		return nil, nil
	}
	found, err := collect(ctx, s.readAgents.all, scanAgent, namespace, string(store.AgentDeleted), key, store.AgentLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("sqlite: agents of %q: %w", namespace, classify(err))
	}
	return found, nil
}

// AgentVersions implements [store.Agents].
func (s *Store) AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]store.AgentVersion, error) {
	key, ok := store.AgentKey(namespace, name)
	if !ok {
		return nil, nil
	}
	before, limit = store.AgentVersionBounds(before, limit)
	found, err := collect(ctx, s.readAgents.versions, scanAgent, namespace, key, before, limit)
	if err != nil {
		return nil, fmt.Errorf("sqlite: versions of agent %q of %q: %w", name, namespace, classify(err))
	}
	return found, nil
}

// AgentChanges implements [store.Agents].
func (s *Store) AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]store.AgentChange, error) {
	changes, err := collect(ctx, s.readAgents.changes, scanChange, namespace, after, store.AgentChangeLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("sqlite: changes of the agents of %q: %w", namespace, classify(err))
	}
	return changes, nil
}

func scanAgent(row scanner) (store.AgentVersion, error) {
	var (
		v  store.AgentVersion
		at int64
	)
	err := row.Scan(&v.Name, &v.Version, (*[]byte)(&v.Definition), &v.Change, &v.By, &at, &v.Seq)
	v.At, v.Deleted = moment(at), v.Change == store.AgentDeleted
	return v, err
}

func scanChange(row scanner) (store.AgentChange, error) {
	var (
		c  store.AgentChange
		at int64
	)
	err := row.Scan(&c.Seq, &c.Type, &c.Name, &c.Version, &c.By, &at)
	c.At = moment(at)
	return c, err
}
