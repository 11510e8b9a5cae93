package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	// lockEntities makes the changes of a namespace's entities wait for each other: a merge moves all that was merged before.
	lockEntities = `SELECT pg_advisory_xact_lock(hashtextextended('threadmill entities ' || coalesce(current_schema(), '') || ' ' || $1, 0))`

	endedExtraction = `UPDATE entity_extractions SET ended = true, thread_id = '', event_id = '', content = '', source_type = '', source_id = ''`
	endExtraction   = endedExtraction + ` WHERE namespace = $1 AND id = $2 AND NOT ended`

	// addEntities adds entities, and the vectors of those that it has added.
	addEntities = `WITH added AS (
			INSERT INTO entities (namespace, id, root, name, name_key, type, descriptions, mentions, total, created_at, embedder)
			SELECT $1, e.id, e.id, e.name, e.name_key, e.type, e.descriptions::json, 0, 0, $2, ''
			FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS e(id, name, name_key, type, descriptions)
			ON CONFLICT DO NOTHING RETURNING id, type
		)
		INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
		SELECT $1, a.id, v.embedder, a.type, v.vector FROM added a
		JOIN unnest($3::text[], $8::text[], $9::bytea[]) AS v(id, embedder, vector) ON v.id = a.id AND v.embedder <> ''`
	addEntityVectors = `INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
		SELECT $1, e.id, $2, e.type, v.vector FROM unnest($3::text[], $4::bytea[]) AS v(id, vector)
		JOIN entities e ON e.namespace = $1 AND e.id = v.id ON CONFLICT DO NOTHING`
	dropEntityVectors  = `DELETE FROM entity_vectors WHERE namespace = $1 AND embedder <> $2`
	entityDescriptions = `SELECT descriptions FROM entities WHERE namespace = $1 AND id = $2`
	describeEntity     = `UPDATE entities SET descriptions = $3::text::json WHERE namespace = $1 AND id = $2`

	// addMentions returns the roots of the entities whose mentions it has counted.
	addMentions = `WITH added AS (
			INSERT INTO entity_mentions (namespace, entity, name, thread_id, source_type, source_id, text, at)
			SELECT $1, e.id, m.name, m.thread_id, m.source_type, m.source_id, m.text, m.at
			FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
				AS m(entity, name, thread_id, source_type, source_id, text, at)
			JOIN entities e ON e.namespace = $1 AND e.id = m.entity
			ON CONFLICT DO NOTHING RETURNING entity, at
		), counted AS (SELECT entity, count(*) AS n, max(at) AS at FROM added GROUP BY entity)
		UPDATE entities e SET mentions = e.mentions + c.n, mentioned_at = greatest(e.mentioned_at, c.at)
		FROM counted c WHERE e.namespace = $1 AND e.id = c.entity RETURNING e.root`
	countRoots = `UPDATE entities r SET total = (SELECT sum(mentions) FROM entities WHERE namespace = $1 AND root = r.id)
		WHERE r.namespace = $1 AND r.id = ANY($2::text[])`

	addRelations = `INSERT INTO entity_relations (namespace, from_entity, to_entity, type, reason, at)
		SELECT $1, f.id, t.id, r.type, r.reason, r.at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) AS r(from_entity, to_entity, type, reason, at)
		JOIN entities f ON f.namespace = $1 AND f.id = r.from_entity JOIN entities t ON t.namespace = $1 AND t.id = r.to_entity
		WHERE f.id <> t.id ON CONFLICT DO NOTHING`

	oneMerge   = selectMerge + ` AND g.id = $2`
	entityRoot = `SELECT root FROM entities WHERE namespace = $1 AND id = $2`
	addMerge   = `INSERT INTO entity_merges (namespace, id, from_entity, into_entity, similarity, decided_by, at, undone_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')`
	mergeEntity = `UPDATE entities SET merged_into = CASE WHEN id = $2 THEN $3 ELSE merged_into END, root = $3
		WHERE namespace = $1 AND root = $2`
	undoMerge   = `UPDATE entity_merges SET undone_by = $3, undone_at = $4 WHERE namespace = $1 AND id = $2`
	splitEntity = `WITH RECURSIVE merged AS (
			SELECT $2::text COLLATE "C" AS id
			UNION ALL SELECT e.id FROM merged JOIN entities e ON e.namespace = $1 AND e.merged_into = merged.id
		)
		UPDATE entities SET merged_into = CASE WHEN id = $2 THEN NULL ELSE merged_into END, root = $2
		WHERE namespace = $1 AND id = ANY(ARRAY(SELECT id FROM merged))`

	// membersOf are the ids of the root $2 and of all that was merged into it.
	membersOf = `ANY(ARRAY(SELECT id FROM entities WHERE namespace = $1 AND root = $2))`
)

// deleteEntity are the statements that delete a root.
var deleteEntity = []string{
	`DELETE FROM entity_mentions WHERE namespace = $1 AND entity = ` + membersOf,
	`DELETE FROM entity_relations WHERE namespace = $1 AND from_entity = ` + membersOf,
	`DELETE FROM entity_relations WHERE namespace = $1 AND to_entity = ` + membersOf,
	`DELETE FROM entity_merges WHERE namespace = $1 AND from_entity = ` + membersOf,
	`DELETE FROM entity_merges WHERE namespace = $1 AND into_entity = ` + membersOf,
	`DELETE FROM entity_vectors WHERE namespace = $1 AND entity = ` + membersOf,
	`DELETE FROM entities WHERE namespace = $1 AND root = $2`,
}

// EndExtraction implements [store.Entities].
func (s *Store) EndExtraction(ctx context.Context, namespace, id string, found store.EntitiesFound) (ended bool, err error) {
	found, err = store.NormalizeFound(found)
	if err == nil && store.Storable(namespace) && store.Storable(id) {
		err = s.resolving(ctx, namespace, func(r resolving) error {
			changed, err := r.Exec(ctx, endExtraction, namespace, id)
			if ended = changed.RowsAffected() > 0; err != nil || !ended {
				return err
			}
			return r.add(ctx, found)
		})
	}
	return ended && err == nil, entityError("ending the extraction", namespace, id, err)
}

// MergeEntities implements [store.Entities].
func (s *Store) MergeEntities(ctx context.Context, namespace string, m store.EntityMerge) (store.EntityMerge, error) {
	given, err := store.NormalizeMerge(namespace, m)
	var done store.EntityMerge
	if err == nil {
		err = s.resolving(ctx, namespace, func(r resolving) error {
			done, err = store.MergeRoots(ctx, r, given)
			return err
		})
	}
	if err != nil {
		return store.EntityMerge{}, entityError("merging the entity", namespace, m.From, err)
	}
	return done, nil
}

// UndoMerge implements [store.Entities].
func (s *Store) UndoMerge(ctx context.Context, namespace, mergeID, by string) (undone store.EntityMerge, err error) {
	err = store.ErrNotFound
	if store.Storable(namespace) && store.Storable(mergeID) {
		err = s.resolving(ctx, namespace, func(r resolving) error {
			undone, err = r.undo(ctx, mergeID, store.EntityName(by))
			return err
		})
	}
	if err != nil {
		return store.EntityMerge{}, entityError("undoing the merge", namespace, mergeID, err)
	}
	return undone, nil
}

// DeleteEntity implements [store.Entities].
func (s *Store) DeleteEntity(ctx context.Context, namespace, id string) error {
	err := store.ErrNotFound
	if store.Storable(namespace) && store.Storable(id) {
		err = s.resolving(ctx, namespace, func(r resolving) error {
			if err := store.RequireRoot(ctx, r, id); err != nil {
				return err
			}
			return r.deleteRoot(ctx, id)
		})
	}
	return entityError("deleting the entity", namespace, id, err)
}

func (r resolving) deleteRoot(ctx context.Context, id string) error {
	for _, query := range deleteEntity {
		if _, err := r.Exec(ctx, query, r.namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// AddEntityVectors implements [store.Entities].
func (s *Store) AddEntityVectors(ctx context.Context, namespace, embedder string, vectors []store.EntityVector) error {
	vectors, err := store.NormalizeEntityVectors(namespace, embedder, vectors)
	if err == nil {
		var ids []string
		var raw [][]byte
		for _, v := range vectors {
			ids, raw = append(ids, v.ID), append(raw, store.VectorBytes(v.Vector))
		}
		err = s.resolving(ctx, namespace, func(r resolving) error {
			_, err := r.Exec(ctx, addEntityVectors, namespace, embedder, ids, raw)
			return err
		})
	}
	return entityError("adding vectors of "+embedder+" to entities", namespace, "*", err)
}

// DropEntityVectors implements [store.Entities].
func (s *Store) DropEntityVectors(ctx context.Context, namespace, exceptOf string) error {
	if !store.Storable(namespace) || !store.Storable(exceptOf) {
		return nil
	}
	err := s.resolving(ctx, namespace, func(r resolving) error {
		_, err := r.Exec(ctx, dropEntityVectors, namespace, exceptOf)
		return err
	})
	return entityError("deleting vectors of entities but those of "+exceptOf, namespace, "*", err)
}

// resolving is one transaction that changes the entities of a namespace, alone.
type resolving struct {
	pgx.Tx
	namespace string
	now       time.Time
}

func (s *Store) resolving(ctx context.Context, namespace string, run func(resolving) error) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockEntities, namespace); err != nil {
			return err
		}
		return run(resolving{Tx: tx, namespace: namespace, now: time.Now()})
	})
}

// add adds what was found in a text.
func (r resolving) add(ctx context.Context, found store.EntitiesFound) error {
	if err := r.addNew(ctx, found.New); err != nil {
		return err
	}
	for id, text := range found.Described {
		if err := r.describe(ctx, id, text); err != nil {
			return err
		}
	}
	if err := r.addMentions(ctx, found.Mentions); err != nil {
		return err
	}
	if err := r.addRelations(ctx, found.Relations); err != nil {
		return err
	}
	for _, m := range found.Merges {
		if err := store.MergeFound(ctx, r, m); err != nil {
			return err
		}
	}
	return nil
}

func (r resolving) addNew(ctx context.Context, entities []store.NewEntity) error {
	if len(entities) == 0 {
		return nil
	}
	var ids, names, types, descriptions, embedders []string
	var vectors [][]byte
	for _, e := range entities {
		known, _ := store.Describe([]store.EntityDescription{}, e.Description, r.now)
		raw, err := json.Marshal(known)
		if err != nil {
			return err
		}
		ids, names, types = append(ids, e.ID), append(names, e.Name), append(types, e.Type)
		descriptions, embedders, vectors = append(descriptions, string(raw)), append(embedders, e.Embedder), append(vectors, store.VectorBytes(e.Vector))
	}
	_, err := r.Exec(ctx, addEntities, r.namespace, r.now, ids, names, store.EntityKeys(names...), types, descriptions, embedders, vectors)
	return err
}

func (r resolving) describe(ctx context.Context, id, text string) error {
	var raw []byte
	err := r.QueryRow(ctx, entityDescriptions, r.namespace, id).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	var known []store.EntityDescription
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		return err
	}
	known, changed := store.Describe(known, text, r.now)
	if !changed {
		return nil
	}
	if raw, err = json.Marshal(known); err == nil {
		_, err = r.Exec(ctx, describeEntity, r.namespace, id, string(raw))
	}
	return err
}

func (r resolving) addMentions(ctx context.Context, mentions []store.Mention) error {
	var entities, names, threads, types, sources, texts []string
	var times []time.Time
	for _, m := range mentions {
		entities, names, threads = append(entities, m.EntityID), append(names, m.Name), append(threads, m.ThreadID)
		types, sources = append(types, m.SourceType), append(sources, m.SourceID)
		texts, times = append(texts, m.Text), append(times, m.At)
	}
	if len(entities) == 0 {
		return nil
	}
	roots, err := collectRows(ctx, r, pgx.RowTo[string], addMentions, r.namespace, entities, names, threads, types, sources, texts, times)
	if err == nil && len(roots) > 0 {
		err = r.count(ctx, roots...)
	}
	return err
}

// count counts the mentions of roots anew.
func (r resolving) count(ctx context.Context, roots ...string) error {
	_, err := r.Exec(ctx, countRoots, r.namespace, roots)
	return err
}

func (r resolving) addRelations(ctx context.Context, relations []store.Relation) error {
	var from, to, types, reasons []string
	var times []time.Time
	for _, l := range relations {
		from, to, types = append(from, l.From), append(to, l.To), append(types, l.Type)
		reasons, times = append(reasons, l.Reason), append(times, l.At)
	}
	if len(from) == 0 {
		return nil
	}
	_, err := r.Exec(ctx, addRelations, r.namespace, from, to, types, reasons, times)
	return err
}

// RootOf implements [store.Merging].
func (r resolving) RootOf(ctx context.Context, id string) (root string, err error) {
	err = r.QueryRow(ctx, entityRoot, r.namespace, id).Scan(&root)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return root, err
}

// Merge implements [store.Merging].
func (r resolving) Merge(ctx context.Context, id string) (store.EntityMerge, error) {
	found, err := collectRows(ctx, r, scanMerge, oneMerge, r.namespace, id)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.EntityMerge{}, err
	}
	return found[0], nil
}

// MergeInto implements [store.Merging].
func (r resolving) MergeInto(ctx context.Context, m store.EntityMerge) error {
	if _, err := r.Exec(ctx, mergeEntity, r.namespace, m.From, m.Into); err != nil {
		return err
	}
	if err := r.count(ctx, m.Into); err != nil {
		return err
	}
	_, err := r.Exec(ctx, addMerge, r.namespace, m.ID, m.From, m.Into, m.Similarity, m.By, m.At)
	return err
}

func (r resolving) undo(ctx context.Context, id, by string) (store.EntityMerge, error) {
	m, err := r.Merge(ctx, id)
	if err != nil || !m.UndoneAt.IsZero() {
		return m, err
	}
	root, err := r.RootOf(ctx, m.From)
	if err != nil {
		return m, err
	}
	if _, err := r.Exec(ctx, splitEntity, r.namespace, m.From); err != nil {
		return m, err
	}
	if err := r.count(ctx, m.From, root); err != nil {
		return m, err
	}
	if _, err := r.Exec(ctx, undoMerge, r.namespace, id, by, r.now); err != nil {
		return m, err
	}
	return r.Merge(ctx, id)
}
