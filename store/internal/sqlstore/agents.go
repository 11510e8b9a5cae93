package sqlstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/threadmill/threadmill/store"
)

const selectAgent = `SELECT name, version, definition, change, changed_by, changed_at, seq FROM agent_versions`

var (
	newestAgent   = both(selectAgent + ` WHERE namespace = $1 AND name_key = $2 AND newest`)
	allAgents     = both(selectAgent + ` WHERE namespace = $1 AND newest AND change <> $2 AND name_key > $3 ORDER BY name_key LIMIT $4 + 0`)
	agentVersions = both(selectAgent + ` WHERE namespace = $1 AND name_key = $2 AND version < $3 ORDER BY version DESC LIMIT $4 + 0`)
	agentChanges  = both(`SELECT seq, change, name, version, changed_by, changed_at FROM agent_versions WHERE namespace = $1 AND seq > $2 ORDER BY seq LIMIT $3 + 0`)

	notNewest = both(`UPDATE agent_versions SET newest = false WHERE namespace = $1 AND name_key = $2 AND newest`)
	addAgent  = both(`INSERT INTO agent_versions (namespace, name_key, version, newest, seq, name, change, definition, changed_by, changed_at)
		SELECT $1, $2, $3, true, coalesce(max(seq), 0) + 1, $4, $5, $6, $7, greatest(clock_timestamp(), max(changed_at))
		FROM (SELECT seq, changed_at FROM agent_versions WHERE namespace = $1 ORDER BY seq DESC LIMIT 1) AS last
		RETURNING name, version, definition, change, changed_by, changed_at, seq`)
)

// SaveAgent implements [store.Agents].
func (s *Store) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	return call(ctx, s, "save_agent", func(ctx context.Context) (saved store.AgentVersion, err error) {
		given, err := normalizeAgent(namespace, v)
		if err == nil {
			err = s.db.Transaction(ctx, "agents "+namespace, func(tx Querier) error {
				saved, err = s.saveAgent(ctx, tx, namespace, given, after)
				return err
			})
		}
		return saved, err
	}, "saving agent %q of %q", v.Name, namespace)
}

func (s *Store) saveAgent(ctx context.Context, tx Querier, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	key, _ := store.AgentKey(namespace, v.Name)
	var before *store.AgentVersion
	newest, err := one(ctx, s, tx, newestAgent, (*Store).scanAgent, namespace, key)
	if err == nil {
		before = &newest
	} else if !errors.Is(err, store.ErrNotFound) {
		return v, err
	}
	if v, err = nextAgent(v, before, after); err != nil {
		return v, err
	}
	if _, err := tx.Exec(ctx, notNewest, namespace, key); err != nil {
		return v, err
	}
	return one(ctx, s, tx, addAgent, (*Store).scanAgent, namespace, key, v.Version, v.Name, string(v.Change), TextOrNull(v.Definition), v.By)
}

// Agent implements [store.Agents].
func (s *Store) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	return call(ctx, s, "agent", func(ctx context.Context) (store.AgentVersion, error) {
		key, ok := store.AgentKey(namespace, name)
		if !ok {
			return store.AgentVersion{}, store.ErrNotFound
		}
		return one(ctx, s, s.db.Reader, newestAgent, (*Store).scanAgent, namespace, key)
	}, "agent %q of %q", name, namespace)
}

// Agents implements [store.Agents].
func (s *Store) Agents(ctx context.Context, namespace, after string, limit int) ([]store.AgentVersion, error) {
	return call(ctx, s, "agents", func(ctx context.Context) ([]store.AgentVersion, error) {
		key, ok := store.AgentKey(namespace, after)
		if !ok {
			return nil, nil
		}
		return all(ctx, s, s.db.Reader, allAgents, (*Store).scanAgent, namespace, string(store.AgentDeleted), key, store.AgentLimit(limit))
	}, "agents of %q", namespace)
}

// AgentVersions implements [store.Agents].
func (s *Store) AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]store.AgentVersion, error) {
	return call(ctx, s, "agent_versions", func(ctx context.Context) ([]store.AgentVersion, error) {
		key, ok := store.AgentKey(namespace, name)
		if !ok {
			return nil, nil
		}
		before, limit := agentVersionBounds(before, limit)
		return all(ctx, s, s.db.Reader, agentVersions, (*Store).scanAgent, namespace, key, before, limit)
	}, "versions of agent %q of %q", name, namespace)
}

// AgentChanges implements [store.Agents].
func (s *Store) AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]store.AgentChange, error) {
	return call(ctx, s, "agent_changes", func(ctx context.Context) ([]store.AgentChange, error) {
		return all(ctx, s, s.db.Reader, agentChanges, (*Store).scanAgentChange, namespace, after, agentChangeLimit(limit))
	}, "changes of the agents of %q", namespace)
}

func (s *Store) scanAgent(row Row) (v store.AgentVersion, err error) {
	err = row.Scan(&v.Name, &v.Version, (*[]byte)(&v.Definition), (*string)(&v.Change), &v.By, s.db.Time(&v.At), &v.Seq)
	v.Deleted = v.Change == store.AgentDeleted
	return v, err
}

func (s *Store) scanAgentChange(row Row) (c store.AgentChange, err error) {
	err = row.Scan(&c.Seq, (*string)(&c.Type), &c.Name, &c.Version, &c.By, s.db.Time(&c.At))
	return c, err
}

// normalizeAgent returns the version in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeAgent(namespace string, v store.AgentVersion) (store.AgentVersion, error) {
	if err := checkWord("namespace", namespace); err != nil {
		return v, err
	}
	if err := checkWord("name", v.Name); err != nil {
		return v, err
	}
	switch {
	case !store.Storable(v.By):
		return v, invalid("by: must be UTF-8 without NUL characters")
	case v.Deleted && len(v.Definition) > 0:
		return v, invalid("definition: of what is deleted there is none")
	case v.Deleted:
		v.Definition = nil
		return v, nil
	case len(v.Definition) > store.MaxAgentDefinition:
		return v, invalid("definition: is %d bytes, at most %d are kept", len(v.Definition), store.MaxAgentDefinition)
	case !json.Valid(v.Definition):
		return v, invalid("definition: is not JSON")
	}
	v.Definition = validUTF8(v.Definition)
	return v, nil
}

// nextAgent returns the version that [store.Agents].SaveAgent appends after the newest one, which is nil
// if there is none. The driver sets Seq and At.
func nextAgent(v store.AgentVersion, newest *store.AgentVersion, after int) (store.AgentVersion, error) {
	there := newest != nil && !newest.Deleted
	before := 0
	if newest != nil {
		before = newest.Version
	}
	switch {
	case v.Deleted && !there:
		return v, store.ErrNotFound
	case after >= 0 && after != before:
		return v, &store.ConflictError{Name: v.Name, After: after, Newest: before}
	case v.Deleted:
		v.Name, v.Change = newest.Name, store.AgentDeleted
	case there:
		v.Change = store.AgentUpdated
	default:
		v.Change = store.AgentCreated
	}
	v.Version = before + 1
	return v, nil
}

// agentVersionBounds applies the defaults and limits of [store.Agents].AgentVersions.
func agentVersionBounds(before, limit int) (int, int) {
	if before <= 0 || before > maxVersion {
		before = maxVersion
	}
	if limit <= 0 {
		limit = store.DefaultAgentVersions
	}
	return before, min(limit, store.MaxAgentVersions)
}

// maxVersion is the maximum value of a driver's column.
const maxVersion = 1<<31 - 1

// agentChangeLimit applies the default and the maximum of [store.Agents].AgentChanges.
func agentChangeLimit(limit int) int {
	if limit <= 0 || limit > store.MaxLimit {
		return store.MaxLimit
	}
	return limit
}
