package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/store"
)

const (
	extractionColumns = `id, thread_id, event_id, content, source_type, source_id, queued_at`
	mentionColumns    = `m.entity, m.name, m.thread_id, m.source_type, m.source_id, m.text, m.at`

	selectEntities = `SELECT id, root, name, type, descriptions, mentions, mentioned_at, created_at FROM entities WHERE namespace = $1 AND root `

	selectMerge = `SELECT g.id, g.from_entity, (SELECT name FROM entities WHERE namespace = $1 AND id = g.from_entity),
		g.into_entity, (SELECT name FROM entities WHERE namespace = $1 AND id = g.into_entity),
		g.similarity, g.decided_by, g.at, g.undone_by, g.undone_at FROM entity_merges g WHERE g.namespace = $1`
)

// While it has no statistics, PostgreSQL reads the whole namespace once for each of its rows, unless ids come as arrays and names from
// subqueries.
var (
	addExtraction = both(`INSERT INTO entity_extractions (namespace, ` + extractionColumns + `, ended) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, false)
		ON CONFLICT DO NOTHING`)
	queuedExtractions    = queued(`SELECT ` + extractionColumns + ` FROM entity_extractions WHERE namespace = $1 AND QUEUED ORDER BY queued_at, id LIMIT $2 + 0`)
	extractionNamespaces = queued(`SELECT DISTINCT namespace FROM entity_extractions WHERE QUEUED ORDER BY namespace`)

	entityRoots    = both(`SELECT id FROM entities WHERE namespace = $1 AND merged_into IS NULL AND total <= $2 AND (total < $2 OR id > $3)`)
	ofEntityType   = both(` AND type = $1`)
	withEntityName = &Query{
		SQLite:   ` AND EXISTS (SELECT 1 FROM entities a WHERE a.namespace = $1 AND a.root = entities.id AND a.name LIKE $2 ESCAPE '\')`,
		Postgres: ` AND id = ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND name ILIKE $2))`,
	}
	byMentions = both(` ORDER BY total DESC, id LIMIT $1 + 0`)

	entitiesNamed = &Query{
		// The plus keeps SQLite from reading all roots in their order.
		SQLite: `SELECT id FROM entities WHERE namespace = $1 AND merged_into IS NULL
			AND id IN (SELECT root FROM entities WHERE namespace = $1 AND name_key IN (SELECT value FROM json_each($2)))
			ORDER BY +total DESC, +id LIMIT $3 + 0`,
		Postgres: `SELECT id FROM entities WHERE namespace = $1
			AND id = ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND name_key = ANY($2::text[])))
			ORDER BY total DESC, id LIMIT $3`,
	}

	// entityGroups selects the roots of entities, and all that was merged into them.
	entityGroups = &Query{
		SQLite: selectEntities + `IN (SELECT e.root FROM json_each($2) given CROSS JOIN entities e ON e.namespace = $1 AND e.id = given.value)
			ORDER BY root, created_at, id`,
		Postgres: selectEntities + `= ANY(ARRAY(SELECT root FROM entities WHERE namespace = $1 AND id = ANY($2::text[]))) ORDER BY root, created_at, id`,
	}
	entityVectors = both(`SELECT entity, vector FROM entity_vectors WHERE namespace = $1 AND type = $2 AND embedder = $3 AND octet_length(vector) = $4`)

	// Each step goes to the next namespace.
	entityNamespaces = both(`WITH RECURSIVE found (namespace) AS (SELECT min(namespace) FROM entities UNION ALL
			SELECT (SELECT min(namespace) FROM entities WHERE namespace > found.namespace) FROM found WHERE found.namespace IS NOT NULL)
		SELECT namespace FROM found WHERE namespace IS NOT NULL`)
	entitiesWithout = both(`SELECT id, name FROM entities e WHERE namespace = $1 AND id > $3 AND NOT EXISTS (
			SELECT 1 FROM entity_vectors v WHERE v.namespace = $1 AND v.entity = e.id AND v.embedder = $2)
		ORDER BY id LIMIT $4 + 0`)

	// Of each entity, no more mentions are read than are wanted.
	entityMentions = &Query{
		SQLite: `SELECT ` + mentionColumns + ` FROM (` + group + `) e CROSS JOIN entity_mentions m ON m.key IN (
				SELECT key FROM entity_mentions WHERE namespace = $1 AND entity = e.id AND at <= $3
				AND (at < $3 OR (source_type, source_id, entity, thread_id) > ($4, $5, $6, $7)) ORDER BY at DESC, source_type, source_id, thread_id LIMIT $8 + 0)
			ORDER BY m.at DESC, m.source_type, m.source_id, m.entity, m.thread_id LIMIT $8 + 0`,
		Postgres: `SELECT ` + mentionColumns + ` FROM unnest(ARRAY(` + group + `)) AS e(id) CROSS JOIN LATERAL (
				SELECT * FROM entity_mentions WHERE namespace = $1 AND entity = e.id AND at <= $3
				AND (at < $3 OR (source_type, source_id, entity, thread_id) > ($4, $5, $6, $7)) ORDER BY at DESC, source_type, source_id, thread_id LIMIT $8
			) m ORDER BY m.at DESC, m.source_type, m.source_id, m.entity, m.thread_id LIMIT $8`,
	}
	entityRelations = amongIDs(`SELECT r.from_root, (SELECT name FROM entities WHERE namespace = $1 AND id = r.from_root),
			r.to_root, (SELECT name FROM entities WHERE namespace = $1 AND id = r.to_root), r.type, r.reason, r.at
		FROM (
			SELECT x.*, (SELECT root FROM entities WHERE namespace = $1 AND id = x.from_entity) AS from_root,
				(SELECT root FROM entities WHERE namespace = $1 AND id = x.to_entity) AS to_root
			FROM (
				SELECT * FROM entity_relations WHERE namespace = $1 AND from_entity AMONG{` + group + `}
				UNION ALL SELECT * FROM entity_relations WHERE namespace = $1 AND to_entity AMONG{` + group + `}
			) x
		) r WHERE r.from_root <> r.to_root ORDER BY r.at DESC, r.from_entity, r.to_entity, r.type LIMIT $3 + 0`)

	allMerges = both(selectMerge + ` ORDER BY g.at DESC, g.id LIMIT $2 + 0`)
	oneMerge  = both(selectMerge + ` AND g.id = $2`)
	mergesOf  = amongIDs(selectMerge + ` AND g.id AMONG{SELECT id FROM entity_merges WHERE namespace = $1 AND from_entity AMONG{` + group + `}
			UNION ALL SELECT id FROM entity_merges WHERE namespace = $1 AND into_entity AMONG{` + group + `}}
		ORDER BY SORTEDg.at DESC, SORTEDg.id LIMIT $3 + 0`)
)

// group are the ids of the root of $2 and of all that was merged into it.
const group = `SELECT id FROM entities WHERE namespace = $1 AND root = (SELECT root FROM entities WHERE namespace = $1 AND id = $2)`

// amongIDs writes into a text how a database looks up the rows whose ids another query finds. SORTED keeps SQLite from reading all
// rows in their order instead.
func amongIDs(text string) *Query {
	return variants(text, word{"AMONG{", "IN (", "= ANY(ARRAY("}, word{"}", ")", "))"}, word{"SORTED", "+", ""})
}

// queued writes into a text which extractions have not ended.
func queued(text string) *Query { return variants(text, isQueued) }

// isQueued is the condition of the index of queued extractions.
var isQueued = word{"QUEUED", "ended = 0", "NOT ended"}

// QueueExtraction implements [store.Entities].
func (s *Store) QueueExtraction(ctx context.Context, namespace string, x store.Extraction) error {
	return s.do(ctx, "queue_extraction", func(ctx context.Context) error {
		x, err := normalizeExtraction(namespace, x)
		if err != nil {
			return err
		}
		return Extract(ctx, s.db.Writer, namespace, []store.Extraction{x})
	}, "queueing the extraction %q of %q", x.ID, namespace)
}

// Extract queues texts, whether they were queued before or not.
func Extract(ctx context.Context, on Querier, namespace string, texts []store.Extraction) error {
	for _, x := range texts {
		_, err := on.Exec(ctx, addExtraction, namespace, x.ID, x.ThreadID, x.EventID, x.Content, x.SourceType, x.SourceID, x.QueuedAt)
		if err != nil {
			return fmt.Errorf("queueing the extraction %q: %w", x.ID, err)
		}
	}
	return nil
}

// Extractions implements [store.Entities].
func (s *Store) Extractions(ctx context.Context, namespace string, limit int) ([]store.Extraction, error) {
	return call(ctx, s, "extractions", func(ctx context.Context) ([]store.Extraction, error) {
		return all(ctx, s, s.db.Reader, queuedExtractions, (*Store).scanExtraction, namespace, extractionLimit(limit))
	}, "reading extractions of %q", namespace)
}

// ExtractionNamespaces implements [store.Entities].
func (s *Store) ExtractionNamespaces(ctx context.Context) ([]string, error) {
	return call(ctx, s, "extraction_namespaces", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, extractionNamespaces, scanned[string])
	}, "reading namespaces of extractions")
}

// Entity implements [store.Entities].
func (s *Store) Entity(ctx context.Context, namespace, id string) (store.Entity, error) {
	return call(ctx, s, "entity", func(ctx context.Context) (store.Entity, error) {
		rows, err := all(ctx, s, s.db.Reader, entityGroups, (*Store).scanEntity, namespace, []string{id})
		if err == nil && len(rows) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Entity{}, err
		}
		return gatherEntities(rows)[rows[0].Root], nil
	}, "reading the entity %q of %q", id, namespace)
}

// Entities implements [store.Entities].
func (s *Store) Entities(ctx context.Context, namespace string, page store.EntityPage) ([]store.Entity, error) {
	page = entityPageDefaults(page)
	var q selection
	q.add(entityRoots, namespace, page.AfterMentions, page.AfterID)
	if page.Type != "" {
		q.add(ofEntityType, page.Type)
	}
	if page.Search != "" {
		q.add(withEntityName, namespace, pattern(page.Search))
	}
	q.add(byMentions, page.Limit)
	return s.roots(ctx, "entities", namespace, q.query(true), q.args...)
}

// EntitiesNamed implements [store.Entities].
func (s *Store) EntitiesNamed(ctx context.Context, namespace string, names []string) ([]store.Entity, error) {
	return s.roots(ctx, "entities_named", namespace, entitiesNamed, namespace, entityKeys(names...), store.MaxEntityPage)
}

// roots is a method that returns the roots whose ids a query finds.
func (s *Store) roots(ctx context.Context, name, namespace string, query *Query, args ...any) ([]store.Entity, error) {
	return call(ctx, s, name, func(ctx context.Context) (found []store.Entity, err error) {
		err = s.db.Snapshot(ctx, func(tx Querier) error {
			ids, err := all(ctx, s, tx, query, scanned[string], args...)
			if err != nil {
				return err
			}
			rows, err := all(ctx, s, tx, entityGroups, (*Store).scanEntity, namespace, ids)
			roots := gatherEntities(rows)
			for _, id := range ids {
				found = append(found, roots[id])
			}
			return err
		})
		return found, err
	}, "reading entities of %q", namespace)
}

// SimilarEntities implements [store.Entities]. It compares all vectors of the type and the embedder.
func (s *Store) SimilarEntities(ctx context.Context, namespace, typ, embedder string, vector []float32, limit int) ([]store.SimilarEntity, error) {
	nearest, ok := newNearest(vector, limit)
	if !ok {
		return nil, ctx.Err()
	}
	return call(ctx, s, "similar_entities", func(ctx context.Context) (found []store.SimilarEntity, err error) {
		err = s.db.Snapshot(ctx, func(tx Querier) error {
			err := Each(ctx, tx, entityVectors, func(row Row) error {
				var id string
				var vector []byte
				err := row.Scan(&id, s.db.Bytes(&vector))
				nearest.Add(id, vector)
				return err
			}, namespace, entityType(typ), embedder, nearest.Bytes())
			if err != nil {
				return err
			}
			rows, err := all(ctx, s, tx, entityGroups, (*Store).scanEntity, namespace, nearest.IDs())
			found = nearest.Entities(rows)
			return err
		})
		return found, err
	}, "comparing entities of %q", namespace)
}

// EntityNamespaces implements [store.Entities].
func (s *Store) EntityNamespaces(ctx context.Context) ([]string, error) {
	return call(ctx, s, "entity_namespaces", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, entityNamespaces, scanned[string])
	}, "reading namespaces of entities")
}

// EntitiesWithout implements [store.Entities].
func (s *Store) EntitiesWithout(ctx context.Context, namespace, embedder, after string, limit int) ([]store.EntityVector, error) {
	return call(ctx, s, "entities_without", func(ctx context.Context) ([]store.EntityVector, error) {
		return all(ctx, s, s.db.Reader, entitiesWithout, (*Store).scanName, namespace, embedder, after, entityLimit(limit))
	}, "reading entities of %q without vectors of %q", namespace, embedder)
}

// Mentions implements [store.Entities].
func (s *Store) Mentions(ctx context.Context, namespace, id string, page store.MentionPage) ([]store.Mention, error) {
	return call(ctx, s, "mentions", func(ctx context.Context) ([]store.Mention, error) {
		page := mentionPageDefaults(page)
		return all(ctx, s, s.db.Reader, entityMentions, (*Store).scanMention, namespace, id, page.BeforeAt,
			page.BeforeSourceType, page.BeforeSourceID, page.BeforeEntity, page.BeforeThread, page.Limit)
	}, "reading mentions of %q of %q", id, namespace)
}

// Relations implements [store.Entities].
func (s *Store) Relations(ctx context.Context, namespace, id string) ([]store.Relation, error) {
	return call(ctx, s, "relations", func(ctx context.Context) ([]store.Relation, error) {
		return all(ctx, s, s.db.Reader, entityRelations, (*Store).scanRelation, namespace, id, store.MaxEntityPage)
	}, "reading relations of %q of %q", id, namespace)
}

// Merges implements [store.Entities].
func (s *Store) Merges(ctx context.Context, namespace, id string) ([]store.EntityMerge, error) {
	return call(ctx, s, "merges", func(ctx context.Context) ([]store.EntityMerge, error) {
		query, args := allMerges, []any{namespace}
		if id != "" {
			query, args = mergesOf, append(args, id)
		}
		return all(ctx, s, s.db.Reader, query, (*Store).scanMerge, append(args, store.MaxEntityPage)...)
	}, "reading merges of %q of %q", id, namespace)
}

func (s *Store) scanExtraction(row Row) (x store.Extraction, err error) {
	err = row.Scan(&x.ID, &x.ThreadID, &x.EventID, &x.Content, &x.SourceType, &x.SourceID, s.db.Time(&x.QueuedAt))
	return x, err
}

func (s *Store) scanEntity(row Row) (e entityRow, err error) {
	var descriptions []byte
	err = row.Scan(&e.ID, &e.Root, &e.Name, &e.Type, &descriptions, &e.Mentions, s.db.Time(&e.MentionedAt), s.db.Time(&e.CreatedAt))
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(descriptions, &e.Descriptions)
}

func (s *Store) scanName(row Row) (v store.EntityVector, err error) {
	err = row.Scan(&v.ID, &v.Name)
	return v, err
}

func (s *Store) scanMention(row Row) (m store.Mention, err error) {
	err = row.Scan(&m.EntityID, &m.Name, &m.ThreadID, &m.SourceType, &m.SourceID, &m.Text, s.db.Time(&m.At))
	return m, err
}

func (s *Store) scanRelation(row Row) (r store.Relation, err error) {
	err = row.Scan(&r.From, &r.FromName, &r.To, &r.ToName, &r.Type, &r.Reason, s.db.Time(&r.At))
	return r, err
}

func (s *Store) scanMerge(row Row) (m store.EntityMerge, err error) {
	err = row.Scan(&m.ID, &m.From, &m.FromName, &m.Into, &m.IntoName, &m.Similarity, &m.By, s.db.Time(&m.At), &m.UndoneBy, s.db.Time(&m.UndoneAt))
	return m, err
}
