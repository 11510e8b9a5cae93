package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/store"
)

const (
	extractionColumns = `id, thread_id, event_id, content, source_type, source_id, queued_at`
	entityColumns     = `id, root, name, type, descriptions, mentions, mentioned_at, created_at`
	mentionColumns    = `m.entity, m.name, m.thread_id, m.source_type, m.source_id, m.text, m.at`

	// addExtraction queues a text unless its id was queued before.
	addExtraction = `INSERT INTO entity_extractions (namespace, ` + extractionColumns + `, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
		ON CONFLICT DO NOTHING`

	endExtraction = `UPDATE entity_extractions SET ended = 1, thread_id = '', event_id = '', content = '', source_type = '', source_id = ''`

	selectMerge = `SELECT g.id, g.from_entity, f.name, g.into_entity, i.name, g.similarity, g.decided_by, g.at, g.undone_by, g.undone_at
		FROM entity_merges g CROSS JOIN entities f ON f.namespace = g.namespace AND f.id = g.from_entity
		CROSS JOIN entities i ON i.namespace = g.namespace AND i.id = g.into_entity WHERE g.namespace = ?1`

	// members selects the ids of a root ?2 and of all that was merged into it, group those of the root of ?2.
	members = `(SELECT id FROM entities WHERE namespace = ?1 AND root = ?2)`
	group   = `(SELECT id FROM entities WHERE namespace = ?1 AND root = (SELECT root FROM entities WHERE namespace = ?1 AND id = ?2))`
)

// entityReads are the queries for entities, entityWrites the statements that change them.
type entityReads struct {
	extractions, namespaces *sql.Stmt
	page, pageOf, named     *sql.Stmt
	groups, vectors         *sql.Stmt
	in, without             *sql.Stmt
	mentions, relations     *sql.Stmt
	merges, mergesOf        *sql.Stmt
}

type entityWrites struct {
	queue, end                           *sql.Stmt
	create, descriptions, describe       *sql.Stmt
	addVector, dropVectors               *sql.Stmt
	mention, count, countRoot            *sql.Stmt
	relate                               *sql.Stmt
	root, merge                          *sql.Stmt
	addMerge, endMerge                   *sql.Stmt
	into, move, out, moveOut, recount    *sql.Stmt
	removeMentions, removeFrom, removeTo *sql.Stmt
	removeMergesFrom, removeMergesInto   *sql.Stmt
	removeVectors                        *sql.Stmt
	remove                               *sql.Stmt
}

func (r *entityReads) queries() map[**sql.Stmt]string {
	const (
		roots  = `SELECT id FROM entities WHERE namespace = ?1 AND merged_into IS NULL`
		after  = ` AND total <= ?2 AND (total < ?2 OR id > ?3)`
		having = ` AND (?4 = '' OR EXISTS (SELECT 1 FROM entities a
			WHERE a.namespace = ?1 AND a.root = entities.id AND a.name LIKE ?4 ESCAPE '\'))`
		byMentions = ` ORDER BY total DESC, id LIMIT `
		related    = `SELECT r.from_entity, r.to_entity, r.type, r.reason, r.at FROM entity_relations r WHERE r.namespace = ?1`
	)
	return map[**sql.Stmt]string{
		&r.extractions: `SELECT ` + extractionColumns + ` FROM entity_extractions WHERE namespace = ? AND ended = 0
			ORDER BY queued_at, id LIMIT ? + 0`,
		&r.namespaces: `SELECT DISTINCT namespace FROM entity_extractions WHERE ended = 0 ORDER BY namespace`,

		&r.page:   roots + after + having + byMentions + `?5 + 0`,
		&r.pageOf: roots + after + having + ` AND type = ?6` + byMentions + `?5 + 0`,
		// The plus keeps SQLite from reading all roots in their order.
		&r.named: roots + ` AND id IN (SELECT root FROM entities WHERE namespace = ?1 AND name_key IN (SELECT value FROM json_each(?2)))
			ORDER BY +total DESC, +id LIMIT ?3 + 0`,

		&r.groups: `SELECT ` + entityColumns + ` FROM entities WHERE namespace = ?1 AND root IN (
				SELECT e.root FROM json_each(?2) given CROSS JOIN entities e ON e.namespace = ?1 AND e.id = given.value)
			ORDER BY root, created_at, id`,
		&r.vectors: `SELECT entity, vector FROM entity_vectors WHERE namespace = ?1 AND embedder = ?3 AND type = ?2 AND length(vector) = ?4`,
		// Each step goes to the next namespace.
		&r.in: `WITH RECURSIVE found (namespace) AS (SELECT min(namespace) FROM entities UNION ALL
				SELECT (SELECT min(namespace) FROM entities WHERE namespace > f.namespace) FROM found f WHERE f.namespace IS NOT NULL)
			SELECT namespace FROM found WHERE namespace IS NOT NULL`,
		&r.without: `SELECT id, name FROM entities e WHERE namespace = ?1 AND id > ?3 AND NOT EXISTS (
				SELECT 1 FROM entity_vectors v WHERE v.namespace = ?1 AND v.entity = e.id AND v.embedder = ?2)
			ORDER BY id LIMIT ?4 + 0`,

		// Of each entity, no more mentions are read than are wanted.
		&r.mentions: `SELECT ` + mentionColumns + ` FROM ` + group + ` e CROSS JOIN entity_mentions m ON m.key IN (
				SELECT key FROM entity_mentions WHERE namespace = ?1 AND entity = e.id AND at <= ?3
				AND (at < ?3 OR (source_type, source_id, entity, thread_id) > (?4, ?5, ?6, ?7)) ORDER BY at DESC, source_type, source_id, thread_id LIMIT ?8 + 0)
			ORDER BY m.at DESC, m.source_type, m.source_id, m.entity, m.thread_id LIMIT ?8 + 0`,
		&r.relations: `SELECT f.id, f.name, t.id, t.name, r.type, r.reason, r.at FROM (
				` + related + ` AND r.from_entity IN ` + group + ` UNION ALL ` + related + ` AND r.to_entity IN ` + group + `
			) r CROSS JOIN entities a ON a.namespace = ?1 AND a.id = r.from_entity CROSS JOIN entities b ON b.namespace = ?1 AND b.id = r.to_entity
			CROSS JOIN entities f ON f.namespace = ?1 AND f.id = a.root CROSS JOIN entities t ON t.namespace = ?1 AND t.id = b.root
			WHERE a.root <> b.root ORDER BY r.at DESC, r.from_entity, r.to_entity, r.type LIMIT ?3 + 0`,
		&r.merges: selectMerge + ` ORDER BY g.at DESC, g.id LIMIT ?2 + 0`,
		&r.mergesOf: selectMerge + ` AND g.id IN (SELECT id FROM entity_merges WHERE namespace = ?1 AND from_entity IN ` + group + `
			UNION ALL SELECT id FROM entity_merges WHERE namespace = ?1 AND into_entity IN ` + group + `)
			ORDER BY +g.at DESC, +g.id LIMIT ?3 + 0`,
	}
}

func (w *entityWrites) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&w.queue: addExtraction,
		&w.end:   endExtraction + ` WHERE namespace = ? AND id = ? AND ended = 0`,

		&w.create: `INSERT INTO entities (namespace, id, root, name, name_key, type, descriptions, mentions, total, created_at, embedder)
			VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, '') ON CONFLICT DO NOTHING`,
		&w.addVector: `INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
			SELECT namespace, id, ?3, type, ?4 FROM entities WHERE namespace = ?1 AND id = ?2 ON CONFLICT DO NOTHING`,
		&w.dropVectors:  `DELETE FROM entity_vectors WHERE namespace = ?1 AND embedder <> ?2`,
		&w.descriptions: `SELECT descriptions FROM entities WHERE namespace = ? AND id = ?`,
		&w.describe:     `UPDATE entities SET descriptions = ?3 WHERE namespace = ?1 AND id = ?2`,

		&w.mention: `INSERT INTO entity_mentions (namespace, entity, name, thread_id, source_type, source_id, text, at)
			SELECT namespace, id, ?3, ?4, ?5, ?6, ?7, ?8 FROM entities WHERE namespace = ?1 AND id = ?2 ON CONFLICT DO NOTHING`,
		&w.count: `UPDATE entities SET mentions = mentions + 1, mentioned_at = max(coalesce(mentioned_at, ?3), ?3)
			WHERE namespace = ?1 AND id = ?2`,
		&w.countRoot: `UPDATE entities SET total = total + 1
			WHERE namespace = ?1 AND id = (SELECT root FROM entities WHERE namespace = ?1 AND id = ?2)`,
		&w.relate: `INSERT INTO entity_relations (namespace, from_entity, to_entity, type, reason, at)
			SELECT ?1, f.id, t.id, ?4, ?5, ?6 FROM entities f CROSS JOIN entities t
			WHERE f.namespace = ?1 AND f.id = ?2 AND t.namespace = ?1 AND t.id = ?3 AND f.id <> t.id ON CONFLICT DO NOTHING`,

		&w.root:  `SELECT root FROM entities WHERE namespace = ? AND id = ?`,
		&w.merge: selectMerge + ` AND g.id = ?2`,
		&w.addMerge: `INSERT INTO entity_merges (namespace, id, from_entity, into_entity, similarity, decided_by, at, undone_by)
			VALUES (?, ?, ?, ?, ?, ?, ?, '')`,
		&w.endMerge: `UPDATE entity_merges SET undone_by = ?3, undone_at = ?4 WHERE namespace = ?1 AND id = ?2`,
		&w.into:     `UPDATE entities SET merged_into = ?3 WHERE namespace = ?1 AND id = ?2`,
		&w.move:     `UPDATE entities SET root = ?3 WHERE namespace = ?1 AND root = ?2`,
		&w.out:      `UPDATE entities SET merged_into = NULL WHERE namespace = ?1 AND id = ?2`,
		&w.moveOut: `UPDATE entities SET root = ?2 WHERE namespace = ?1 AND id IN (
				WITH RECURSIVE merged (id) AS (VALUES (?2) UNION ALL
					SELECT e.id FROM merged m CROSS JOIN entities e ON e.namespace = ?1 AND e.merged_into = m.id)
				SELECT id FROM merged)`,
		&w.recount: `UPDATE entities SET total = (SELECT sum(mentions) FROM entities WHERE namespace = ?1 AND root = ?2)
			WHERE namespace = ?1 AND id = ?2`,

		&w.removeMentions:   `DELETE FROM entity_mentions WHERE namespace = ?1 AND entity IN ` + members,
		&w.removeFrom:       `DELETE FROM entity_relations WHERE namespace = ?1 AND from_entity IN ` + members,
		&w.removeTo:         `DELETE FROM entity_relations WHERE namespace = ?1 AND to_entity IN ` + members,
		&w.removeMergesFrom: `DELETE FROM entity_merges WHERE namespace = ?1 AND from_entity IN ` + members,
		&w.removeMergesInto: `DELETE FROM entity_merges WHERE namespace = ?1 AND into_entity IN ` + members,
		&w.removeVectors:    `DELETE FROM entity_vectors WHERE namespace = ?1 AND entity IN ` + members,
		&w.remove:           `DELETE FROM entities WHERE namespace = ?1 AND root = ?2`,
	}
}

// QueueExtraction implements [store.Entities].
func (s *Store) QueueExtraction(ctx context.Context, namespace string, x store.Extraction) error {
	x, err := store.NormalizeExtraction(namespace, x)
	if err == nil {
		_, err = s.writeEntities.queue.ExecContext(ctx, extractionValues(namespace, x)...)
	}
	return entityError("queueing the extraction", namespace, x.ID, err)
}

// Extractions implements [store.Entities].
func (s *Store) Extractions(ctx context.Context, namespace string, limit int) ([]store.Extraction, error) {
	found, err := collect(ctx, s.readEntities.extractions, scanExtraction, namespace, store.ExtractionLimit(limit))
	if err != nil {
		return nil, entityError("reading extractions", namespace, "*", err)
	}
	return found, nil
}

// ExtractionNamespaces implements [store.Entities].
func (s *Store) ExtractionNamespaces(ctx context.Context) ([]string, error) {
	found, err := collect(ctx, s.readEntities.namespaces, scanText)
	if err != nil {
		return nil, entityError("reading namespaces of extractions", "*", "*", err)
	}
	return found, nil
}

// Entity implements [store.Entities].
func (s *Store) Entity(ctx context.Context, namespace, id string) (store.Entity, error) {
	rows, err := collect(ctx, s.readEntities.groups, scanEntity, namespace, list([]string{id}))
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Entity{}, entityError("reading the entity", namespace, id, err)
	}
	return store.GatherEntities(rows)[rows[0].Root], nil
}

// Entities implements [store.Entities].
func (s *Store) Entities(ctx context.Context, namespace string, page store.EntityPage) ([]store.Entity, error) {
	page = page.WithDefaults()
	pattern := ""
	switch {
	case !store.Storable(page.Search):
		return nil, nil
	case page.Search != "":
		pattern = store.Pattern(page.Search)
	}
	stmt, args := s.readEntities.page, []any{namespace, page.AfterMentions, page.AfterID, pattern, page.Limit}
	if page.Type != "" {
		stmt, args = s.readEntities.pageOf, append(args, page.Type)
	}
	return s.roots(ctx, namespace, stmt, args...)
}

// EntitiesNamed implements [store.Entities].
func (s *Store) EntitiesNamed(ctx context.Context, namespace string, names []string) ([]store.Entity, error) {
	return s.roots(ctx, namespace, s.readEntities.named, namespace, list(store.EntityKeys(names...)), store.MaxEntityPage)
}

// roots returns the roots whose ids a query finds.
func (s *Store) roots(ctx context.Context, namespace string, query *sql.Stmt, args ...any) ([]store.Entity, error) {
	var all []store.Entity
	err := s.reading(ctx, func(tx *sql.Tx) error {
		ids, err := collect(ctx, tx.StmtContext(ctx, query), scanText, args...)
		if err != nil {
			return err
		}
		rows, err := s.groups(ctx, tx, namespace, ids)
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

// groups returns the roots of entities, with everything that was merged into them.
func (s *Store) groups(ctx context.Context, tx *sql.Tx, namespace string, ids []string) ([]store.EntityRow, error) {
	return collect(ctx, tx.StmtContext(ctx, s.readEntities.groups), scanEntity, namespace, list(ids))
}

// SimilarEntities implements [store.Entities]. It compares all vectors of the type and the embedder.
func (s *Store) SimilarEntities(
	ctx context.Context, namespace, typ, embedder string, vector []float32, limit int,
) (found []store.SimilarEntity, err error) {
	nearest, ok := store.NewNearest(vector, limit)
	if !ok {
		return nil, ctx.Err()
	}
	err = s.reading(ctx, func(tx *sql.Tx) error {
		args := []any{namespace, store.EntityType(typ), embedder, nearest.Bytes()}
		if err := compare(ctx, tx.StmtContext(ctx, s.readEntities.vectors), nearest, args...); err != nil {
			return err
		}
		rows, err := s.groups(ctx, tx, namespace, nearest.IDs())
		found = nearest.Entities(rows)
		return err
	})
	if err != nil {
		return nil, entityError("comparing entities", namespace, "*", err)
	}
	return found, nil
}

func compare(ctx context.Context, vectors *sql.Stmt, nearest *store.Nearest, args ...any) error {
	rows, err := vectors.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var vector sql.RawBytes
		if err := rows.Scan(&id, &vector); err != nil {
			return err
		}
		nearest.Add(id, vector)
	}
	return rows.Err()
}

// EntityNamespaces implements [store.Entities].
func (s *Store) EntityNamespaces(ctx context.Context) ([]string, error) {
	found, err := collect(ctx, s.readEntities.in, scanText)
	if err != nil {
		return nil, entityError("reading namespaces of entities", "*", "*", err)
	}
	return found, nil
}

// EntitiesWithout implements [store.Entities].
func (s *Store) EntitiesWithout(ctx context.Context, namespace, embedder, after string, limit int) ([]store.EntityVector, error) {
	found, err := collect(ctx, s.readEntities.without, scanName, namespace, embedder, after, store.EntityLimit(limit))
	if err != nil {
		return nil, entityError("reading entities without vectors of "+embedder, namespace, "*", err)
	}
	return found, nil
}

// Mentions implements [store.Entities].
func (s *Store) Mentions(ctx context.Context, namespace, id string, page store.MentionPage) ([]store.Mention, error) {
	page = page.WithDefaults()
	found, err := collect(ctx, s.readEntities.mentions, scanMention, namespace, id, page.BeforeAt.UnixMicro(),
		page.BeforeSourceType, page.BeforeSourceID, page.BeforeEntity, page.BeforeThread, page.Limit)
	if err != nil {
		return nil, entityError("reading mentions of", namespace, id, err)
	}
	return found, nil
}

// Relations implements [store.Entities].
func (s *Store) Relations(ctx context.Context, namespace, id string) ([]store.Relation, error) {
	found, err := collect(ctx, s.readEntities.relations, scanRelation, namespace, id, store.MaxEntityPage)
	if err != nil {
		return nil, entityError("reading relations of", namespace, id, err)
	}
	return found, nil
}

// Merges implements [store.Entities].
func (s *Store) Merges(ctx context.Context, namespace, id string) ([]store.EntityMerge, error) {
	stmt, args := s.readEntities.merges, []any{namespace}
	if id != "" {
		stmt, args = s.readEntities.mergesOf, append(args, id)
	}
	found, err := collect(ctx, stmt, scanMerge, append(args, store.MaxEntityPage)...)
	if err != nil {
		return nil, entityError("reading merges of", namespace, id, err)
	}
	return found, nil
}

func entityError(doing, namespace, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s %q of %q: %w", doing, id, namespace, classify(err))
}

func extractionValues(namespace string, x store.Extraction) []any {
	return []any{namespace, x.ID, x.ThreadID, x.EventID, x.Content, x.SourceType, x.SourceID, x.QueuedAt.UnixMicro()}
}

func scanExtraction(row scanner) (x store.Extraction, err error) {
	var queued int64
	err = row.Scan(&x.ID, &x.ThreadID, &x.EventID, &x.Content, &x.SourceType, &x.SourceID, &queued)
	x.QueuedAt = moment(queued)
	return x, err
}

func scanEntity(row scanner) (e store.EntityRow, err error) {
	var (
		descriptions []byte
		created      int64
		mentioned    sql.NullInt64
	)
	err = row.Scan(&e.ID, &e.Root, &e.Name, &e.Type, &descriptions, &e.Mentions, &mentioned, &created)
	if err != nil {
		return e, err
	}
	e.CreatedAt = moment(created)
	if mentioned.Valid {
		e.MentionedAt = moment(mentioned.Int64)
	}
	return e, json.Unmarshal(descriptions, &e.Descriptions)
}

func scanName(row scanner) (v store.EntityVector, err error) {
	err = row.Scan(&v.ID, &v.Name)
	return v, err
}

func scanMention(row scanner) (m store.Mention, err error) {
	var at int64
	err = row.Scan(&m.EntityID, &m.Name, &m.ThreadID, &m.SourceType, &m.SourceID, &m.Text, &at)
	m.At = moment(at)
	return m, err
}

func scanRelation(row scanner) (r store.Relation, err error) {
	var at int64
	err = row.Scan(&r.From, &r.FromName, &r.To, &r.ToName, &r.Type, &r.Reason, &at)
	r.At = moment(at)
	return r, err
}

func scanMerge(row scanner) (m store.EntityMerge, err error) {
	var at int64
	var undone sql.NullInt64
	err = row.Scan(&m.ID, &m.From, &m.FromName, &m.Into, &m.IntoName, &m.Similarity, &m.By, &at, &m.UndoneBy, &undone)
	m.At = moment(at)
	if undone.Valid {
		m.UndoneAt = moment(undone.Int64)
	}
	return m, err
}

func scanText(row scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}
