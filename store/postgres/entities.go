package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/threadmill/threadmill/store"
)

const (
	// addExtractions queues texts whose ids were not queued before. Whoever adds the same ones at once does so in the same order.
	addExtractions = `INSERT INTO entity_extractions (namespace, id, ended, thread_id, event_id, content, source_type, source_id, queued_at)
		SELECT $1, x.id, false, x.thread_id, x.event_id, x.content, x.source_type, x.source_id, x.queued_at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
			AS x(id, thread_id, event_id, content, source_type, source_id, queued_at)
		ORDER BY x.id COLLATE "C" ON CONFLICT DO NOTHING`
	queuedExtractions = `SELECT id, thread_id, event_id, content, source_type, source_id, queued_at FROM entity_extractions
		WHERE namespace = $1 AND NOT ended ORDER BY queued_at, id LIMIT $2`
	extractionNamespaces = `SELECT DISTINCT namespace FROM entity_extractions WHERE NOT ended ORDER BY namespace`

	entityRoots    = `SELECT id FROM entities WHERE namespace = $1 AND merged_into IS NULL`
	entitiesAfter  = entityRoots + ` AND total <= $2 AND (total < $2 OR id > $3)`
	entitiesOfType = ` AND type = $%d`
	entitiesHaving = ` AND id = ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND name ILIKE $%d))`
	byMentions     = ` ORDER BY total DESC, id LIMIT $%d`

	// While it has no statistics, the planner reads the whole namespace once for each of its rows, unless ids come as arrays and
	// names from subqueries: TestEntityPlans.
	entitiesNamed = `SELECT id FROM entities WHERE namespace = $1
		AND id = ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND name_key = ANY($2::text[])))
		ORDER BY total DESC, id LIMIT $3`

	// entityGroups selects the roots of entities, and all that was merged into them.
	entityGroups = `SELECT id, root, name, type, descriptions, mentions, mentioned_at, created_at FROM entities
		WHERE namespace = $1 AND root = ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND id = ANY($2::text[])))
		ORDER BY root, created_at, id`
	entityVectors = `SELECT entity, vector FROM entity_vectors WHERE namespace = $1 AND type = $2 AND embedder = $3
		AND octet_length(vector) = $4`

	// Each step goes to the next namespace.
	entityNamespaces = `WITH RECURSIVE found (namespace) AS (
			(SELECT namespace FROM entities ORDER BY namespace LIMIT 1) UNION ALL
			SELECT (SELECT namespace FROM entities WHERE namespace > f.namespace ORDER BY namespace LIMIT 1) FROM found f WHERE f.namespace IS NOT NULL
		) SELECT namespace FROM found WHERE namespace IS NOT NULL ORDER BY namespace`
	entitiesWithout = `SELECT id, name FROM entities e WHERE namespace = $1 AND id > $3 AND NOT EXISTS (
			SELECT FROM entity_vectors v WHERE v.namespace = $1 AND v.entity = e.id AND v.embedder = $2)
		ORDER BY id LIMIT $4`

	// groupOf are the ids of the root of $2 and of all that was merged into it.
	groupOf = `ARRAY(SELECT id FROM entities WHERE namespace = $1 AND root = (SELECT root FROM entities WHERE namespace = $1 AND id = $2))`

	// Of each entity, no more mentions are read than are wanted.
	entityMentions = `SELECT m.entity, m.name, m.thread_id, m.source_type, m.source_id, m.text, m.at FROM unnest(` + groupOf + `) AS e(id) CROSS JOIN LATERAL (
			SELECT * FROM entity_mentions WHERE namespace = $1 AND entity = e.id AND at <= $3
			AND (at < $3 OR (source_type, source_id, entity, thread_id) > ($4, $5, $6, $7)) ORDER BY at DESC, source_type, source_id, thread_id LIMIT $8
		) m ORDER BY m.at DESC, m.source_type, m.source_id, m.entity, m.thread_id LIMIT $8`
	entityRelations = `SELECT r.from_root, (SELECT name FROM entities WHERE namespace = $1 AND id = r.from_root),
			r.to_root, (SELECT name FROM entities WHERE namespace = $1 AND id = r.to_root), r.type, r.reason, r.at
		FROM (
			SELECT *, (SELECT root FROM entities WHERE namespace = $1 AND id = x.from_entity) AS from_root,
				(SELECT root FROM entities WHERE namespace = $1 AND id = x.to_entity) AS to_root
			FROM (
				SELECT * FROM entity_relations WHERE namespace = $1 AND from_entity = ANY(` + groupOf + `)
				UNION ALL SELECT * FROM entity_relations WHERE namespace = $1 AND to_entity = ANY(` + groupOf + `)
			) x
		) r WHERE r.from_root <> r.to_root ORDER BY r.at DESC, r.from_entity, r.to_entity, r.type LIMIT $3`

	selectMerge = `SELECT g.id, g.from_entity, (SELECT name FROM entities WHERE namespace = $1 AND id = g.from_entity),
			g.into_entity, (SELECT name FROM entities WHERE namespace = $1 AND id = g.into_entity),
			g.similarity, g.decided_by, g.at, g.undone_by, g.undone_at FROM entity_merges g WHERE g.namespace = $1`
	allMerges = selectMerge + ` ORDER BY g.at DESC, g.id LIMIT $2`
	mergesOf  = selectMerge + ` AND g.id = ANY(ARRAY(SELECT id FROM entity_merges WHERE namespace = $1 AND from_entity = ANY(` + groupOf + `)
			UNION ALL SELECT id FROM entity_merges WHERE namespace = $1 AND into_entity = ANY(` + groupOf + `)))
		ORDER BY g.at DESC, g.id LIMIT $3`
)

// QueueExtraction implements [store.Entities].
func (s *Store) QueueExtraction(ctx context.Context, namespace string, x store.Extraction) error {
	x, err := store.NormalizeExtraction(namespace, x)
	if err == nil {
		_, err = s.pool.Exec(ctx, addExtractions, extractionArgs(namespace, x)...)
	}
	return entityError("queueing the extraction", namespace, x.ID, err)
}

// extractionArgs are the arguments of addExtractions.
func extractionArgs(namespace string, texts ...store.Extraction) []any {
	var ids, threads, events, contents, types, sources []string
	var times []time.Time
	for _, x := range texts {
		ids, threads, events, contents = append(ids, x.ID), append(threads, x.ThreadID), append(events, x.EventID), append(contents, x.Content)
		types, sources, times = append(types, x.SourceType), append(sources, x.SourceID), append(times, x.QueuedAt)
	}
	return []any{namespace, ids, threads, events, contents, types, sources, times}
}

// Extractions implements [store.Entities].
func (s *Store) Extractions(ctx context.Context, namespace string, limit int) ([]store.Extraction, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, scanExtraction, queuedExtractions, namespace, store.ExtractionLimit(limit))
	return found, entityError("reading extractions", namespace, "*", err)
}

// ExtractionNamespaces implements [store.Entities].
func (s *Store) ExtractionNamespaces(ctx context.Context) ([]string, error) {
	found, err := collectRows(ctx, s.pool, pgx.RowTo[string], extractionNamespaces)
	return found, entityError("reading namespaces of extractions", "*", "*", err)
}

// Entity implements [store.Entities].
func (s *Store) Entity(ctx context.Context, namespace, id string) (store.Entity, error) {
	err := store.ErrNotFound
	var rows []store.EntityRow
	if store.Storable(namespace) && store.Storable(id) {
		rows, err = collectRows(ctx, s.pool, scanEntity, entityGroups, namespace, []string{id})
		if err == nil && len(rows) == 0 {
			err = store.ErrNotFound
		}
	}
	if err != nil {
		return store.Entity{}, entityError("reading the entity", namespace, id, err)
	}
	return store.GatherEntities(rows)[rows[0].Root], nil
}

// Entities implements [store.Entities].
func (s *Store) Entities(ctx context.Context, namespace string, page store.EntityPage) ([]store.Entity, error) {
	page = page.WithDefaults()
	if !store.Storable(namespace) || !store.Storable(page.AfterID) || !store.Storable(page.Search) {
		return nil, nil
	}
	query, args := entitiesAfter, []any{namespace, page.AfterMentions, page.AfterID}
	if page.Type != "" {
		args = append(args, page.Type)
		query += fmt.Sprintf(entitiesOfType, len(args))
	}
	if page.Search != "" {
		args = append(args, store.Pattern(page.Search))
		query += fmt.Sprintf(entitiesHaving, len(args))
	}
	args = append(args, page.Limit)
	return s.roots(ctx, namespace, query+fmt.Sprintf(byMentions, len(args)), args...)
}

// EntitiesNamed implements [store.Entities].
func (s *Store) EntitiesNamed(ctx context.Context, namespace string, names []string) ([]store.Entity, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	return s.roots(ctx, namespace, entitiesNamed, namespace, store.EntityKeys(names...), store.MaxEntityPage)
}

// roots returns the roots whose ids a query finds.
func (s *Store) roots(ctx context.Context, namespace, query string, args ...any) ([]store.Entity, error) {
	var all []store.Entity
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		ids, err := collectRows(ctx, tx, pgx.RowTo[string], query, args...)
		if err != nil {
			return err
		}
		rows, err := collectRows(ctx, tx, scanEntity, entityGroups, namespace, ids)
		roots := store.GatherEntities(rows)
		for _, id := range ids {
			all = append(all, roots[id])
		}
		return err
	})
	if err != nil {
		return nil, entityError("reading entities", namespace, "*", err)
	}
	return all, nil
}

// SimilarEntities implements [store.Entities]. It compares all vectors of the type and the embedder.
func (s *Store) SimilarEntities(
	ctx context.Context, namespace, typ, embedder string, vector []float32, limit int,
) (found []store.SimilarEntity, err error) {
	nearest, ok := store.NewNearest(vector, limit)
	if !ok || !store.Storable(namespace) || !store.Storable(embedder) {
		return nil, ctx.Err()
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		if err := compare(ctx, tx, nearest, namespace, store.EntityType(typ), embedder); err != nil {
			return err
		}
		rows, err := collectRows(ctx, tx, scanEntity, entityGroups, namespace, nearest.IDs())
		found = nearest.Entities(rows)
		return err
	})
	if err != nil {
		return nil, entityError("comparing entities", namespace, "*", err)
	}
	return found, nil
}

func compare(ctx context.Context, tx pgx.Tx, nearest *store.Nearest, namespace, typ, embedder string) error {
	rows, err := tx.Query(ctx, entityVectors, namespace, typ, embedder, nearest.Bytes())
	if err != nil {
		return err
	}
	var id string
	var vector pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&id, &vector}, func() error {
		nearest.Add(id, vector)
		return nil
	})
	return err
}

// EntityNamespaces implements [store.Entities].
func (s *Store) EntityNamespaces(ctx context.Context) ([]string, error) {
	found, err := collectRows(ctx, s.pool, pgx.RowTo[string], entityNamespaces)
	return found, entityError("reading namespaces of entities", "*", "*", err)
}

// EntitiesWithout implements [store.Entities].
func (s *Store) EntitiesWithout(ctx context.Context, namespace, embedder, after string, limit int) ([]store.EntityVector, error) {
	if !store.Storable(namespace) || !store.Storable(embedder) || !store.Storable(after) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, scanName, entitiesWithout, namespace, embedder, after, store.EntityLimit(limit))
	return found, entityError("reading entities without vectors of "+embedder, namespace, "*", err)
}

// Mentions implements [store.Entities].
func (s *Store) Mentions(ctx context.Context, namespace, id string, page store.MentionPage) ([]store.Mention, error) {
	page = page.WithDefaults()
	words := []string{namespace, id, page.BeforeSourceType, page.BeforeSourceID, page.BeforeEntity, page.BeforeThread}
	if len(storable(words)) < len(words) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, scanMention, entityMentions, namespace, id, page.BeforeAt,
		page.BeforeSourceType, page.BeforeSourceID, page.BeforeEntity, page.BeforeThread, page.Limit)
	return found, entityError("reading mentions of", namespace, id, err)
}

// Relations implements [store.Entities].
func (s *Store) Relations(ctx context.Context, namespace, id string) ([]store.Relation, error) {
	if !store.Storable(namespace) || !store.Storable(id) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, scanRelation, entityRelations, namespace, id, store.MaxEntityPage)
	return found, entityError("reading relations of", namespace, id, err)
}

// Merges implements [store.Entities].
func (s *Store) Merges(ctx context.Context, namespace, id string) ([]store.EntityMerge, error) {
	if !store.Storable(namespace) || !store.Storable(id) {
		return nil, nil
	}
	query, args := allMerges, []any{namespace}
	if id != "" {
		query, args = mergesOf, append(args, id)
	}
	found, err := collectRows(ctx, s.pool, scanMerge, query, append(args, store.MaxEntityPage)...)
	return found, entityError("reading merges of", namespace, id, err)
}

func entityError(doing, namespace, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s %q of %q: %w", doing, id, namespace, classify(err))
}

func scanExtraction(row pgx.CollectableRow) (x store.Extraction, err error) {
	err = row.Scan(&x.ID, &x.ThreadID, &x.EventID, &x.Content, &x.SourceType, &x.SourceID, &x.QueuedAt)
	x.QueuedAt = x.QueuedAt.UTC()
	return x, err
}

func scanEntity(row pgx.CollectableRow) (e store.EntityRow, err error) {
	var descriptions []byte
	var mentioned *time.Time
	err = row.Scan(&e.ID, &e.Root, &e.Name, &e.Type, &descriptions, &e.Mentions, &mentioned, &e.CreatedAt)
	if err != nil {
		return e, err
	}
	e.CreatedAt, e.MentionedAt = e.CreatedAt.UTC(), utc(mentioned)
	return e, json.Unmarshal(descriptions, &e.Descriptions)
}

func scanName(row pgx.CollectableRow) (v store.EntityVector, err error) {
	err = row.Scan(&v.ID, &v.Name)
	return v, err
}

func scanMention(row pgx.CollectableRow) (m store.Mention, err error) {
	err = row.Scan(&m.EntityID, &m.Name, &m.ThreadID, &m.SourceType, &m.SourceID, &m.Text, &m.At)
	m.At = m.At.UTC()
	return m, err
}

func scanRelation(row pgx.CollectableRow) (r store.Relation, err error) {
	err = row.Scan(&r.From, &r.FromName, &r.To, &r.ToName, &r.Type, &r.Reason, &r.At)
	r.At = r.At.UTC()
	return r, err
}

func scanMerge(row pgx.CollectableRow) (m store.EntityMerge, err error) {
	var undone *time.Time
	err = row.Scan(&m.ID, &m.From, &m.FromName, &m.Into, &m.IntoName, &m.Similarity, &m.By, &m.At, &m.UndoneBy, &undone)
	m.At, m.UndoneAt = m.At.UTC(), utc(undone)
	return m, err
}

// utc returns the time of a column, zero of NULL.
func utc(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}
