package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/store"
)

const endExtractions = `UPDATE entity_extractions SET ended = true, thread_id = '', event_id = '', content = '', source_type = '', source_id = ''
	WHERE namespace = $1 AND `

var (
	endExtraction = queued(endExtractions + `id = $2 AND QUEUED`)

	addEntity = both(`INSERT INTO entities (namespace, id, root, name, name_key, type, descriptions, mentions, total, created_at, embedder)
		VALUES ($1, $2, $2, $3, $4, $5, $6, 0, 0, $7, '') ON CONFLICT DO NOTHING`)
	addEntityVector = both(`INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
		SELECT namespace, id, $3, type, $4 FROM entities WHERE namespace = $1 AND id = $2 ON CONFLICT DO NOTHING`)
	dropEntityVectors  = both(`DELETE FROM entity_vectors WHERE namespace = $1 AND embedder <> $2`)
	entityDescriptions = both(`SELECT descriptions FROM entities WHERE namespace = $1 AND id = $2`)
	describeEntity     = both(`UPDATE entities SET descriptions = $3 WHERE namespace = $1 AND id = $2`)

	addMention = both(`INSERT INTO entity_mentions (namespace, entity, name, thread_id, source_type, source_id, text, at)
		SELECT namespace, id, $3, $4, $5, $6, $7, $8 FROM entities WHERE namespace = $1 AND id = $2 ON CONFLICT DO NOTHING`)
	countMention = both(`UPDATE entities SET mentions = mentions + 1, mentioned_at = greatest(mentioned_at, $3) WHERE namespace = $1 AND id = $2`)
	countInRoot  = both(`UPDATE entities SET total = total + 1 WHERE namespace = $1 AND id = (SELECT root FROM entities WHERE namespace = $1 AND id = $2)`)
	addRelation  = both(`INSERT INTO entity_relations (namespace, from_entity, to_entity, type, reason, at)
		SELECT $1, f.id, t.id, $4, $5, $6 FROM entities f CROSS JOIN entities t
		WHERE f.namespace = $1 AND f.id = $2 AND t.namespace = $1 AND t.id = $3 AND f.id <> t.id ON CONFLICT DO NOTHING`)

	entityRoot = both(`SELECT root FROM entities WHERE namespace = $1 AND id = $2`)
	addMerge   = both(`INSERT INTO entity_merges (namespace, id, from_entity, into_entity, similarity, decided_by, at, undone_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')`)
	mergeEntity = both(`UPDATE entities SET merged_into = CASE WHEN id = $2 THEN $3 ELSE merged_into END, root = $3 WHERE namespace = $1 AND root = $2`)
	undoMerge   = both(`UPDATE entity_merges SET undone_by = $3, undone_at = $4 WHERE namespace = $1 AND id = $2`)
	splitEntity = &Query{
		SQLite: `UPDATE entities SET merged_into = CASE WHEN id = $2 THEN NULL ELSE merged_into END, root = $2 WHERE namespace = $1 AND id IN (
				WITH RECURSIVE merged (id) AS (VALUES ($2) UNION ALL
					SELECT e.id FROM merged CROSS JOIN entities e ON e.namespace = $1 AND e.merged_into = merged.id)
				SELECT id FROM merged)`,
		Postgres: `WITH RECURSIVE merged AS (
				SELECT $2::text COLLATE "C" AS id
				UNION ALL SELECT e.id FROM merged JOIN entities e ON e.namespace = $1 AND e.merged_into = merged.id
			)
			UPDATE entities SET merged_into = CASE WHEN id = $2 THEN NULL ELSE merged_into END, root = $2
			WHERE namespace = $1 AND id = ANY(ARRAY(SELECT id FROM merged))`,
	}
	countRoot = both(`UPDATE entities SET total = (SELECT sum(mentions) FROM entities WHERE namespace = $1 AND root = $2) WHERE namespace = $1 AND id = $2`)

	// deleteEntity are the statements that delete a root with all that was merged into it.
	deleteEntity = []*Query{
		amongIDs(`DELETE FROM entity_mentions WHERE namespace = $1 AND entity AMONG{` + members + `}`),
		amongIDs(`DELETE FROM entity_relations WHERE namespace = $1 AND from_entity AMONG{` + members + `}`),
		amongIDs(`DELETE FROM entity_relations WHERE namespace = $1 AND to_entity AMONG{` + members + `}`),
		amongIDs(`DELETE FROM entity_merges WHERE namespace = $1 AND from_entity AMONG{` + members + `}`),
		amongIDs(`DELETE FROM entity_merges WHERE namespace = $1 AND into_entity AMONG{` + members + `}`),
		amongIDs(`DELETE FROM entity_vectors WHERE namespace = $1 AND entity AMONG{` + members + `}`),
		both(`DELETE FROM entities WHERE namespace = $1 AND root = $2`),
	}
)

// members are the ids of the root $2 and of all that was merged into it.
const members = `SELECT id FROM entities WHERE namespace = $1 AND root = $2`

// EndExtraction implements [store.Entities].
func (s *Store) EndExtraction(ctx context.Context, namespace, id string, found store.EntitiesFound) (bool, error) {
	return call(ctx, s, "end_extraction", func(ctx context.Context) (ended bool, err error) {
		found, err := normalizeFound(found)
		if err == nil {
			err = s.resolving(ctx, namespace, func(r resolving) error {
				changed, err := r.Exec(ctx, endExtraction, namespace, id)
				if ended = changed > 0; err != nil || !ended {
					return err
				}
				return r.add(ctx, found)
			})
		}
		return ended, err
	}, "ending the extraction %q of %q", id, namespace)
}

// MergeEntities implements [store.Entities].
func (s *Store) MergeEntities(ctx context.Context, namespace string, m store.EntityMerge) (store.EntityMerge, error) {
	return call(ctx, s, "merge_entities", func(ctx context.Context) (done store.EntityMerge, err error) {
		m, err := normalizeMerge(namespace, m)
		if err == nil {
			err = s.resolving(ctx, namespace, func(r resolving) error {
				done, err = r.mergeRoots(ctx, m)
				return err
			})
		}
		return done, err
	}, "merging the entity %q of %q", m.From, namespace)
}

// UndoMerge implements [store.Entities].
func (s *Store) UndoMerge(ctx context.Context, namespace, mergeID, by string) (store.EntityMerge, error) {
	return call(ctx, s, "undo_merge", func(ctx context.Context) (undone store.EntityMerge, err error) {
		err = s.resolving(ctx, namespace, func(r resolving) error {
			undone, err = r.undo(ctx, mergeID, entityName(by))
			return err
		})
		return undone, err
	}, "undoing the merge %q of %q", mergeID, namespace)
}

// DeleteEntity implements [store.Entities].
func (s *Store) DeleteEntity(ctx context.Context, namespace, id string) error {
	return s.do(ctx, "delete_entity", func(ctx context.Context) error {
		return s.resolving(ctx, namespace, func(r resolving) error {
			if err := r.requireRoot(ctx, id); err != nil {
				return err
			}
			return r.each(ctx, id, deleteEntity...)
		})
	}, "deleting the entity %q of %q", id, namespace)
}

// AddEntityVectors implements [store.Entities].
func (s *Store) AddEntityVectors(ctx context.Context, namespace, embedder string, vectors []store.EntityVector) error {
	return s.do(ctx, "add_entity_vectors", func(ctx context.Context) error {
		vectors, err := normalizeEntityVectors(namespace, embedder, vectors)
		if err != nil {
			return err
		}
		return s.resolving(ctx, namespace, func(r resolving) error {
			rows := make([][]any, len(vectors))
			for i, v := range vectors {
				rows[i] = r.vector(v.ID, embedder, v.Vector)
			}
			_, err := r.Run(ctx, addEntityVector, rows)
			return err
		})
	}, "adding vectors of %q to entities of %q", embedder, namespace)
}

// DropEntityVectors implements [store.Entities].
func (s *Store) DropEntityVectors(ctx context.Context, namespace, exceptOf string) error {
	return s.do(ctx, "drop_entity_vectors", func(ctx context.Context) error {
		return s.resolving(ctx, namespace, func(r resolving) error {
			_, err := r.Exec(ctx, dropEntityVectors, namespace, exceptOf)
			return err
		})
	}, "deleting vectors of entities of %q but those of %q", namespace, exceptOf)
}

// resolving is a transaction that changes the entities of a namespace, alone: a merge moves all that was merged before.
type resolving struct {
	Querier
	s         *Store
	namespace string
	now       time.Time
}

func (s *Store) resolving(ctx context.Context, namespace string, do func(resolving) error) error {
	return s.db.Transaction(ctx, "entities "+namespace, func(tx Querier) error {
		return do(resolving{Querier: tx, s: s, namespace: namespace, now: time.Now()})
	})
}

// each runs statements on an entity.
func (r resolving) each(ctx context.Context, id string, queries ...*Query) error {
	for _, q := range queries {
		if _, err := r.Exec(ctx, q, r.namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// add adds what was found in a text.
func (r resolving) add(ctx context.Context, found store.EntitiesFound) error {
	if err := r.addEntities(ctx, found.New); err != nil {
		return fmt.Errorf("entities: %w", err)
	}
	for id, text := range found.Described {
		if err := r.describe(ctx, id, text); err != nil {
			return fmt.Errorf("description of %q: %w", id, err)
		}
	}
	if err := r.addMentions(ctx, found.Mentions); err != nil {
		return fmt.Errorf("mentions: %w", err)
	}
	relations := make([][]any, len(found.Relations))
	for i, l := range found.Relations {
		relations[i] = []any{r.namespace, l.From, l.To, l.Type, l.Reason, l.At}
	}
	if _, err := r.Run(ctx, addRelation, relations); err != nil {
		return fmt.Errorf("relations: %w", err)
	}
	for _, m := range found.Merges {
		if err := r.mergeFound(ctx, m); err != nil {
			return fmt.Errorf("merge of %q: %w", m.From, err)
		}
	}
	return nil
}

func (r resolving) addEntities(ctx context.Context, entities []store.NewEntity) error {
	rows := make([][]any, len(entities))
	for i, e := range entities {
		known, _ := describe([]entityDescription{}, e.Description, r.now)
		descriptions, err := json.Marshal(known)
		if err != nil {
			return err
		}
		rows[i] = []any{r.namespace, e.ID, e.Name, entityKeys(e.Name)[0], e.Type, string(descriptions), r.now}
	}
	added, err := r.Run(ctx, addEntity, rows)
	if err != nil {
		return err
	}
	var vectors [][]any
	for i, e := range entities {
		if added[i] > 0 && e.Embedder != "" {
			vectors = append(vectors, r.vector(e.ID, e.Embedder, e.Vector))
		}
	}
	_, err = r.Run(ctx, addEntityVector, vectors)
	return err
}

// vector returns the arguments of addEntityVector.
func (r resolving) vector(id, embedder string, vector []float32) []any {
	return []any{r.namespace, id, embedder, VectorBytes(vector)}
}

func (r resolving) describe(ctx context.Context, id, text string) error {
	raw, err := one(ctx, r.s, r, entityDescriptions, scanned[[]byte], r.namespace, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	var known []entityDescription
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		return err
	}
	known, changed := describe(known, text, r.now)
	if !changed {
		return nil
	}
	if raw, err = json.Marshal(known); err == nil {
		_, err = r.Exec(ctx, describeEntity, r.namespace, id, string(raw))
	}
	return err
}

func (r resolving) addMentions(ctx context.Context, mentions []store.Mention) error {
	rows := make([][]any, len(mentions))
	for i, m := range mentions {
		rows[i] = []any{r.namespace, m.EntityID, m.Name, m.ThreadID, m.SourceType, m.SourceID, m.Text, m.At}
	}
	added, err := r.Run(ctx, addMention, rows)
	if err != nil {
		return err
	}
	var counts, totals [][]any
	for i, m := range mentions {
		if added[i] > 0 {
			counts, totals = append(counts, []any{r.namespace, m.EntityID, m.At}), append(totals, []any{r.namespace, m.EntityID})
		}
	}
	if _, err := r.Run(ctx, countMention, counts); err != nil {
		return err
	}
	_, err = r.Run(ctx, countInRoot, totals)
	return err
}

// rootOf returns the root of an entity, or ErrNotFound.
func (r resolving) rootOf(ctx context.Context, id string) (string, error) {
	return one(ctx, r.s, r, entityRoot, scanned[string], r.namespace, id)
}

// merge returns a merge, or ErrNotFound.
func (r resolving) merge(ctx context.Context, id string) (store.EntityMerge, error) {
	return one(ctx, r.s, r, oneMerge, (*Store).scanMerge, r.namespace, id)
}

// mergeInto merges a root into another one, and records it.
func (r resolving) mergeInto(ctx context.Context, m store.EntityMerge) error {
	if _, err := r.Exec(ctx, mergeEntity, r.namespace, m.From, m.Into); err != nil {
		return err
	}
	if err := r.each(ctx, m.Into, countRoot); err != nil {
		return err
	}
	_, err := r.Exec(ctx, addMerge, r.namespace, m.ID, m.From, m.Into, m.Similarity, m.By, m.At)
	return err
}

func (r resolving) undo(ctx context.Context, id, by string) (store.EntityMerge, error) {
	m, err := r.merge(ctx, id)
	if err != nil || !m.UndoneAt.IsZero() {
		return m, err
	}
	root, err := r.rootOf(ctx, m.From)
	if err != nil {
		return m, err
	}
	if err := r.each(ctx, m.From, splitEntity, countRoot); err != nil {
		return m, err
	}
	if err := r.each(ctx, root, countRoot); err != nil {
		return m, err
	}
	if _, err := r.Exec(ctx, undoMerge, r.namespace, id, by, r.now); err != nil {
		return m, err
	}
	return r.merge(ctx, id)
}
